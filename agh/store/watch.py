"""Waiting for a session's directory to change, without burning CPU.

On Linux, inotify wakes the waiter on commits (the WAL is written), on changes of meta.json, and when the
keeper dies (the kernel closes its lock file). It reports a write to the WAL before the commit can be read,
so a waiter that finds nothing must look again a few times: `wait` returns early for that. On other systems,
and when the user has used up the system's inotify instances or watches, it polls: every 10 ms, less often if
nothing has changed for a while or if a look takes long.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable
from contextlib import suppress

_IN_MODIFY, _IN_CLOSE_WRITE, _IN_MOVED_TO, _IN_CREATE = 0x2, 0x8, 0x80, 0x100
_IN_ONLYDIR = 0x01000000
_MASK = _IN_MODIFY | _IN_CLOSE_WRITE | _IN_MOVED_TO | _IN_CREATE | _IN_ONLYDIR
# Seconds between looks: short at first, then longer, as a slow disk may take long to commit.
_LOOKS_AGAIN = (
    0.0002,
    0.0005,
    0.001,
    0.002,
    0.004,
    *(0.008,) * 4,
    *(0.016,) * 8,
    *(0.03,) * 10,
    *(0.06,) * 25,
)
_PAUSE = 0.001  # a commit of many pages wakes the waiter for each of them
_POLL = 0.01
_BRISK_POLLS = 100  # so many without a change, then five times as long: 100 pollers must not fill a processor
_LOOK_SHARE = 4  # times as long as its last look a poller sleeps at least
IDLE = 1.0
_spare: list[int] = []  # an inotify descriptor without watches
os.register_at_fork(after_in_child=_spare.clear)  # it would share the events with its parent
INSTANCES = "no inotify instance is left (sysctl fs.inotify.max_user_instances); polling instead"
WATCHES = "no inotify watch is left (sysctl fs.inotify.max_user_watches); polling instead"


class Watch:
    """Wakes its user when a directory may have changed.

    To use it: look, `wait()`, and look again. Call `note_change()` when a look showed something new. If
    nobody reads the pipe `output` any more, `wait` raises BrokenPipeError. `on_polling` gets the reason if a
    limit of the system makes it poll.
    """

    def __init__(self, output: int | None = None, on_polling: Callable[[str], None] | None = None) -> None:
        self._fd = _inotify_init()
        self._on_polling = on_polling
        self._poll = select.poll()
        self._watches: dict[str, int] = {}
        if self._fd >= 0:
            self._poll.register(self._fd, select.POLLIN)
        self._output = output
        if output is not None:
            self._poll.register(output, 0)
        self._looks = len(_LOOKS_AGAIN)
        self._polls, self._polled_at = 0, time.monotonic()
        if self._fd < 0 and on_polling and hasattr(select, "epoll"):
            on_polling(INSTANCES)

    def add(self, directory: str | os.PathLike[str]) -> None:
        """Watch this directory too."""
        if self._fd < 0:
            return
        watch = _call("inotify_add_watch", self._fd, os.fsencode(directory), _MASK)
        if watch < 0:
            self.close()  # no watches left: poll all directories instead
            if self._on_polling and os.path.isdir(directory):
                self._on_polling(WATCHES)
        else:
            self._watches[os.fspath(directory)] = watch

    def remove(self, directory: str | os.PathLike[str]) -> None:
        """Stop watching this directory."""
        watch = self._watches.pop(os.fspath(directory), None)
        if self._fd >= 0 and watch is not None:
            _call("inotify_rm_watch", self._fd, watch)

    def note_change(self) -> None:
        """Make the next waits short: more changes may have been announced together with this one."""
        self._looks = self._polls = 0

    def wait(self, limit: float = IDLE) -> None:
        """Wait until something may have changed, for at most `limit` seconds and never more than a second."""
        limit = min(limit, IDLE)
        if self._fd < 0:
            self._sleep(limit)
            self._check_output(self._poll.poll(0))
        elif self._looks < len(_LOOKS_AGAIN):
            if self._wait_for_event(min(limit, _LOOKS_AGAIN[self._looks])):
                self._looks = 0
            else:
                self._looks += 1
        elif self._wait_for_event(limit):
            self._looks = 0

    def close(self) -> None:
        if self._fd >= 0:
            self._poll.unregister(self._fd)
            for directory in list(self._watches):
                self.remove(directory)
            _put_back(self._fd)
            self._fd = -1

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _sleep(self, limit: float) -> None:
        """Sleep between two looks of a poller."""
        self._polls += 1
        pause = _POLL if self._polls <= _BRISK_POLLS else 5 * _POLL
        look = time.monotonic() - self._polled_at
        time.sleep(min(limit, max(pause, _LOOK_SHARE * look)))
        self._polled_at = time.monotonic()

    def _wait_for_event(self, limit: float) -> bool:
        """Tell whether inotify reported something within `limit` seconds."""
        started = time.monotonic()
        ready = self._poll.poll(limit * 1000)
        if not ready:
            return False
        self._check_output(ready)
        time.sleep(max(0.0, started + _PAUSE - time.monotonic()))
        os.read(self._fd, 65536)
        return True

    def _check_output(self, ready: list[tuple[int, int]]) -> None:
        """Raise BrokenPipeError if the output is among what `poll` returned: its reader is gone."""
        if any(fd == self._output for fd, _ in ready):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def _inotify_init() -> int:
    try:
        fd = _spare.pop()
    except IndexError:  # there is none, or another thread has just taken it
        try:
            return _call("inotify_init1", os.O_CLOEXEC | os.O_NONBLOCK)
        except (ImportError, AttributeError, OSError):
            return -1
    with suppress(BlockingIOError):
        while os.read(fd, 65536):
            pass  # what its last user did not wait for
    return fd


def _put_back(fd: int) -> None:
    """Keep the descriptor for the next watch, or for the end of the process.

    To close it may take 10 to 20 ms, in which the kernel makes sure that nobody uses it any more. A prompt
    would wait for that before it exits; `agh run` twice.
    """
    if _spare:
        os.close(fd)
    else:
        _spare.append(fd)


def _call(function: str, *arguments: int | bytes) -> int:
    """Call a function of the C library. The module ctypes would take 2 ms of each prompt to import."""
    import _ctypes

    address = _ctypes.dlsym(_ctypes.dlopen(None, 0), function)  # type: ignore[arg-type]
    return int(_ctypes.call_function(address, arguments))
