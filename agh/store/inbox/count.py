"""How much waits for the user, for a shell prompt: `agh inbox --count`, answered before click is imported.

Promises: it reads metadata and never a log, and parses only what may wait. It never writes. Whatever is not
ordinary (no home, a home that is not private, a system without these locks) is left to the command.
"""

from __future__ import annotations

import fcntl
import os

from agh.core.status import LIVE_STATES, effective_meta
from agh.core.waiting import DISMISSIBLE, count_waiting, mark_of
from agh.store import lock

TYPE_CHECKING = False  # typing would double the time of this command
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

STATE_FILE = "inbox/state.json"
READ_SIZE = 1 << 16
RECENT_DAYS = 7  # an older failure is no news; `list` has the same limit
_QUIET_REASONS = (b'"completed"', b'"user_canceled"', b'"idle"', b'"shutdown"')


def count() -> int | None:
    """Return how many things wait for the user; None if the command has to find out."""
    home = _home()
    if home is None or not hasattr(fcntl, "F_OFD_GETLK"):
        return None
    try:
        names = os.listdir(f"{home}/sessions")
    except FileNotFoundError:
        return 0
    seen, since = _Lazy(home), _recent()
    total = 0
    for directory, meta in _candidates(f"{home}/sessions", names):
        is_locked = meta.get("state") in LIVE_STATES and lock.is_held(directory)
        counts = count_waiting(meta, is_locked)
        for kind in DISMISSIBLE:
            if kind in counts and not is_news(effective_meta(meta, is_locked), seen.marks, since):
                del counts[kind]
        total += sum(counts.values())
    return total


def is_news(view: dict[str, Any], marks: dict[str, Any], since: str) -> bool:
    """Tell whether a failure or a limit is recent and was not dismissed. A limit that has not reset is."""
    is_recent = str(view.get("resumes_at") or view.get("updated_at") or "~") >= since
    return is_recent and marks.get(view["id"]) != mark_of(view)


class _Lazy:
    """What was dismissed, read when the first failure or limit is met."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._marks: dict[str, Any] | None = None

    @property
    def marks(self) -> dict[str, Any]:
        if self._marks is None:
            state = _parse(_read(f"{self._home}/{STATE_FILE}"))
            dismissed = state.get("dismissed")
            self._marks = dismissed if isinstance(dismissed, dict) else {}
        return self._marks


def _home() -> str | None:
    """Return the path of the home if it is there and private."""
    path = os.environ.get("AGH_HOME") or os.path.join(os.path.expanduser("~"), ".agh")
    try:
        info = os.stat(path)
    except OSError:
        return None
    is_directory = info.st_mode & 0o170000 == 0o040000  # as stat.S_ISDIR, which is one import more
    is_private = info.st_uid == os.geteuid() and not info.st_mode & 0o022
    return path if is_directory and is_private else None


def _recent() -> str:
    """Return the time since which a failure is news, as agh writes times."""
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - RECENT_DAYS * 86400))


def _candidates(base: str, names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the directory and the metadata of each session in which something may wait."""
    for name in names:
        if name.startswith("sess-"):
            text = _read(f"{base}/{name}/meta.json")
            if text and not _is_quiet(text):
                meta = _parse(text)
                if meta.get("id") == name and isinstance(meta.get("state"), str):
                    yield f"{base}/{name}", meta


def _is_quiet(text: bytes) -> bool:
    """Tell whether nothing waits, by the text alone: only a field of its own begins after two spaces.

    False for text that is not written as agh writes it.
    """
    if b'\n  "state": "stopped"' not in text:
        return False
    _, _, reason = text.partition(b'\n  "stop_reason": ')
    _, _, orphaned = text.partition(b'\n  "orphaned_questions": ')
    if b'\n  "resumes_at": "' in text:
        return False
    return reason.startswith(_QUIET_REASONS) and (not orphaned or orphaned.startswith((b"0", b"null")))


def _read(path: str) -> bytes:
    """Return the contents of a file; nothing if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = rest = os.read(fd, READ_SIZE)
            while len(rest) == READ_SIZE:
                text += (rest := os.read(fd, READ_SIZE))
        finally:
            os.close(fd)
    except OSError:
        return b""
    return text


class _Plain:
    """What the scanner of the standard library needs to know: no conversions."""

    def __init__(self) -> None:
        self.strict, self.object_hook, self.object_pairs_hook = True, None, None
        self.parse_float, self.parse_int, self.parse_constant = float, int, float
        self.memo: dict[str, str] = {}


def _parse(text: bytes) -> dict[str, Any]:
    """Return a JSON object; an empty one if it is none. Importing json or orjson takes longer than this."""
    try:
        from _json import make_scanner

        value, _ = make_scanner(_Plain())(text.decode().lstrip(), 0)  # type: ignore[arg-type]
    except ImportError:
        import json

        try:
            value = json.loads(text)
        except ValueError:
            return {}
    except (ValueError, StopIteration):
        return {}
    return value if isinstance(value, dict) else {}
