"""`agh-echo`, or `python -m agh_echo`: one agent on stdin and stdout. Exits 0 when stdin ends."""

from __future__ import annotations

import os
import sys
import time

from agh_echo import options as option_parser


def main() -> int:
    """Run the program and return its exit code."""
    argv = option_parser.words(sys.argv[1:])
    if "--help" in argv:
        print(option_parser.HELP, end="")
        return 0
    try:
        options = option_parser.parse(argv)
    except option_parser.BadOption as error:
        print(f"agh-echo: {error}\nhint: agh-echo --help", file=sys.stderr)
        return 2
    try:
        return wrap(argv) if options.wrapper else serve(options)
    except KeyboardInterrupt:
        return 130


def serve(options: option_parser.Options) -> int:
    """Serve one client until its input ends."""
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


def wrap(argv: list[str]) -> int:
    """Run the agent as a child that inherits our pipes, wait for it, and return its exit code."""
    import subprocess

    options = [option for option in argv if option != "--wrapper"]
    command = [sys.executable, "-P", "-m", "agh_echo", *options]
    code = subprocess.call(command, env=os.environ | {"AGH_ECHO_OPTIONS": ""})
    return code if code >= 0 else 128 - code


def run() -> None:
    """Run the program and end the process."""
    code = main()
    sys.stdout.flush()
    os._exit(code)  # to take the interpreter down would cost 3 ms, for which whoever stops it waits


if __name__ == "__main__":
    run()
