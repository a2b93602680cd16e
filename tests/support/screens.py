"""The program on terminals of several sizes and backgrounds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from agh.console.terminal import display_width
from tests.support.program import AGH
from tools.pictures.screen import Screen, on_screen

SIZES = [(40, 24), (80, 24), (200, 50)]


@contextmanager
def agh_on_screen(
    *args: object, columns: int = 80, rows: int = 24, background: str | None = None, **env: str
) -> Iterator[Screen]:
    """Run the program with all its streams on a terminal; yield the terminal."""
    names = ("COLUMNS", "LINES", "COLORFGBG", "NO_COLOR", "COLORTERM", "PAGER", "LESS")
    environ = {name: value for name, value in os.environ.items() if name not in names}
    command = [AGH, *map(str, args)]
    with on_screen(command, {**environ, **env}, columns=columns, rows=rows, background=background) as screen:
        yield screen


def print_on_screen(
    *args: object, columns: int = 80, rows: int = 24, background: str | None = None, **env: str
) -> Screen:
    """Run the program on a terminal to its end, which must be a success."""
    with agh_on_screen(*args, columns=columns, rows=rows, background=background, **env) as screen:
        assert screen.ends() == 0, screen.text
    return screen


def too_wide(screen: Screen) -> list[str]:
    """Return the lines that the terminal had to wrap by itself, anywhere."""
    return [line for line in screen.printed.split("\n") if display_width(line) > screen.emulator.columns]
