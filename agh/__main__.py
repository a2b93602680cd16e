"""The entry point. `--version` and Tab answer before click is imported; the rest is `agh.cli.main`.

A command that makes a session starts its keeper first, so that both start side by side.
"""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        from agh import __version__

        try:
            print(f"agh {__version__}", flush=True)
        except OSError as error:
            _leave(error)
        return
    import gc

    gc.disable()  # a command is short; collecting costs more than it frees
    if sys.argv[1:2] == ["__complete"]:
        from agh.cli.complete import main as complete

        complete(sys.argv[2:])
    if _makes_a_session(sys.argv[1:]):
        from agh.console.streams import ensure_standard_streams
        from agh.keeper.spawn import start_ahead

        ensure_standard_streams()
        start_ahead()
    from agh.cli.main import main

    main()


def _makes_a_session(args: list[str]) -> bool:
    """Whether this command, if nothing is wrong with it, needs a keeper for a new session."""
    return (args[:1] == ["run"] or args[:2] == ["session", "new"]) and not {"-h", "--help"} & {*args}


def _leave(error: OSError) -> None:
    """Stdout is closed, full or gone: end as any other command would."""
    import os

    if isinstance(error, BrokenPipeError):
        os._exit(141)
    os.write(2, f"agh: the output cannot be written: {error.strerror}\n".encode())
    os._exit(1)


if __name__ == "__main__":
    main()
