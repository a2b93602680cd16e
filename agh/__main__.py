"""The entry point. `--version` answers before anything is imported; the rest is `agh.cli.main`."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        from agh import __version__

        print(f"agh {__version__}")
        return
    import gc

    gc.disable()  # a command is short; collecting costs more than it frees
    from agh.cli.main import main

    main()


if __name__ == "__main__":
    main()
