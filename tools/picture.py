"""`make picture`: docs/terminal.svg, the terminal after these commands have really run.

It uses a temporary home and the embedded echo agent, so that the picture can be made anywhere. It is recorded
from a pseudo-terminal; nothing in it is drawn by hand.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs/terminal.svg"
WIDTH = 100
STORY = (
    "agh session new --name fix-login --agent echo",
    "agh session prompt fix-login 'why does the login test fail?'",
    "kill -9 $(agh session status fix-login -o json | jq .session.keeper.pid)   # anything may die",
    "agh session list",
    "agh session prompt fix-login 'what did I say?'",
    "agh session history fix-login",
    "agh session events fix-login --where \"type LIKE 'session_%'\" | jq -r '.type, .content.strategy'",
)
_PIECE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(.)", re.S)


class Screen:
    """The part of a terminal that commands use: styles, line feeds, carriage returns, erasing, moving up."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = [[]]
        self._row = self._column = 0
        self._style = ""

    def feed(self, text: str) -> None:
        for argument, command, character in _PIECE.findall(text):
            if command == "m":
                self._style = "" if argument in ("", "0") else f"{self._style}\x1b[{argument}m"
            elif command == "K":
                self.lines[self._row] = []
            elif command == "A":
                self._row = max(0, self._row - int(argument or 1))
            elif character == "\n":
                self._row += 1
                self.lines += [[] for _ in range(self._row + 1 - len(self.lines))]
            elif character == "\r":
                self._column = 0
            elif character:
                line = self.lines[self._row]
                line += [" "] * (self._column - len(line))
                line[self._column : self._column + 1] = [f"{self._style}{character}\x1b[0m"]
                self._column += 1

    def text(self) -> Text:
        return Text.from_ansi("\n".join("".join(line) for line in self.lines).rstrip())


def record(commands: tuple[str, ...], env: dict[str, str], cwd: str) -> Text:
    """Run the commands and return the screen after the last one."""
    screen = Screen()
    for command in commands:
        screen.feed(f"\x1b[32m$\x1b[0m \x1b[1m{command}\x1b[0m\r\n")
        screen.feed(_run(command, env, cwd))
    return screen.text()


def _run(command: str, env: dict[str, str], cwd: str) -> str:
    ours, theirs = pty.openpty()
    out = b""
    with subprocess.Popen(
        ["bash", "-c", command], stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cwd
    ):
        os.close(theirs)
        try:
            while data := os.read(ours, 65536):
                out += data
        except OSError:  # the other end is closed
            pass
        os.close(ours)
    return out.decode()


def picture(text: Text) -> str:
    """Render the text as a self-contained SVG that fetches no fonts."""
    with open(os.devnull, "w") as nowhere:
        console = Console(
            record=True, width=WIDTH, file=nowhere, force_terminal=True, color_system="truecolor"
        )
        console.print(text)
        template = re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.S)
        svg = console.export_svg(title="agh", code_format=template, unique_id="agh")
    return re.sub(r"[ \t]+$", "", svg, flags=re.M).strip() + "\n"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="agh-picture-") as scratch:
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AGH_")},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "AGH_HOME": f"{scratch}/agh",
            "AGH_ECHO_HOME": f"{scratch}/echo",
            "TERM": "xterm-256color",
            "COLUMNS": str(WIDTH),
        }
        try:
            screen = record(STORY, env, scratch)
        finally:
            subprocess.run(["agh", "session", "stop", "fix-login"], env=env, capture_output=True)
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(screen))
    print(screen.plain)


if __name__ == "__main__":
    main()
