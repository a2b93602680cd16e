"""The entry point. `--version`, `inbox --count` and Tab completion run before click is imported; the rest is
`agh.cli.main`.

The standard streams are usable before click is imported, however the program was started.

A command that creates a session starts its keeper first, so that both start in parallel.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> None:
    """Run the command in sys.argv."""
    if sys.argv[1:] in (["--version"], ["version"]):
        from agh import __version__

        _print(f"agh {__version__}")
        return
    import gc

    gc.disable()  # a command is short-lived; collecting costs more than it frees
    if sys.argv[1:] == ["inbox", "--count"]:
        _count_inbox()
    if sys.argv[1:2] == ["__complete"]:
        from agh.cli.complete import main as complete

        complete(sys.argv[2:])
    try:
        _open_standard_streams()
        if _creates_session(sys.argv[1:]):
            from agh.keeper.spawn import start_ahead

            start_ahead()
        from agh.cli.main import main
    except (ImportError, OSError) as error:
        _exit_unstarted(error)
    main()


def _print(text: str) -> None:
    try:
        print(text, flush=True)
    except OSError as error:
        _exit_for(error)


def _count_inbox() -> None:
    """Print how much waits for the user and exit, or return if the command has to find out."""
    from agh.store.inbox.count import count

    try:
        number = count()
    except OSError:  # the command says what is wrong
        return
    if number is not None:
        _print(str(number))
        os._exit(0 if number else 1)


def _open_standard_streams() -> None:
    """Open a closed 0, 1 or 2 as /dev/null, so that the next file to be opened does not take its number."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        else:
            stream.reconfigure(errors="replace")


def _creates_session(args: list[str]) -> bool:
    """Tell whether this command, if it is valid, needs a keeper for a new session."""
    creates = args[:1] in (["new"], ["run"]) or args[:2] == ["session", "new"]
    return creates and not {"-h", "--help", "-c", "--continue"} & {*args}


def _exit_unstarted(error: Exception) -> NoReturn:
    """Exit when a module cannot be imported: agh is not installed well, or there are no descriptors left."""
    hint = "raise the limit on open files (ulimit -n 1024), or reinstall agh"
    os.write(2, f"agh: cannot start: {error}\nhint: {hint}\n".encode())
    os._exit(1)


def _exit_for(error: OSError) -> None:
    """Exit as any other command does when its output cannot be written."""
    if isinstance(error, BrokenPipeError):
        os._exit(141)
    os.write(2, f"agh: cannot write the output: {error.strerror}\nhint: df -h .\n".encode())
    os._exit(1)


if __name__ == "__main__":
    main()
