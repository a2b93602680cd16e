"""The entry point. `--version` and Tab answer before click is imported; the rest is `agh.cli.main`."""

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
    from agh.cli.main import main

    main()


def _leave(error: OSError) -> None:
    """Stdout is closed, full or gone: end as any other command would."""
    import os

    if isinstance(error, BrokenPipeError):
        os._exit(141)
    os.write(2, f"agh: the output cannot be written: {error.strerror}\n".encode())
    os._exit(1)


if __name__ == "__main__":
    main()
