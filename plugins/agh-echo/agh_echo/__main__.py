"""`agh-echo`, or `python -m agh_echo`: one agent on stdin and stdout. Exits 0 when stdin ends."""

from __future__ import annotations

import os
import sys
import time

from agh_echo import options as option_words


def main() -> int:
    words = option_words.words(sys.argv[1:])
    if "--help" in words:
        print(option_words.HELP, end="")
        return 0
    try:
        options = option_words.parse(words)
    except option_words.BadOption as bad:
        print(f"agh-echo: {bad}\nhint: agh-echo --help", file=sys.stderr)
        return 2
    try:
        return wrap(words) if options.wrapper else serve(options)
    except KeyboardInterrupt:
        return 130


def serve(options: option_words.Options) -> int:
    from agh_echo.agent import Agent
    from agh_echo.wire import Wire

    if options.deaf:
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.chatter:
        os.write(1, b"agh-echo: a stray line that is not JSON\n")
        os.write(2, b"agh-echo: a line on stderr\n")
    try:
        Agent(options, Wire()).serve()
    except BrokenPipeError:
        pass  # the client is gone
    while options.deaf:
        time.sleep(3600)
    return 0


def wrap(words: list[str]) -> int:
    """Be the launcher of an agent: the child has our pipes, we only wait."""
    import subprocess

    argv = [sys.executable, "-m", "agh_echo", *(word for word in words if word != "--wrapper")]
    code = subprocess.call(argv, env=os.environ | {"AGH_ECHO_OPTIONS": ""})
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
