from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

from agh.console import background, terminal, theme
from tests.support.build import Home

ROOT = Path(__file__).parents[3]
BACKGROUNDS = {"dark": ["#000000", "#1e1e1e", "#002b36"], "light": ["#ffffff", "#fafafa", "#fdf6e3"]}
COLOUR_NAMES = {"black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"}
LEVELS = (0, 95, 135, 175, 215, 255)


@pytest.fixture(autouse=True)
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    monkeypatch.setattr(theme, "_answer", None)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "COLORTERM", "COLORFGBG"):
        monkeypatch.delenv(name, raising=False)


def rgb(number: int) -> tuple[int, int, int]:
    """Return a fixed colour of the 256."""
    if number >= 232:
        return ((number - 232) * 10 + 8,) * 3
    number -= 16
    return LEVELS[number // 36], LEVELS[number // 6 % 6], LEVELS[number % 6]


def luminance(colour: tuple[int, int, int]) -> float:
    parts = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (part / 255 for part in colour)
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(first: tuple[int, int, int], second: tuple[int, int, int]) -> float:
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("palette", ["dark", "light"])
def test_every_colour_can_be_read_on_its_background(palette: str) -> None:
    weak = {}
    for role, styles in theme.palettes().items():
        assert styles.keys() == {"basic", "dark", "light"}
        for number in [int(word) for word in styles[palette].split() if word.isdecimal()]:
            assert number >= 16, "the terminal's own colours may be anything"
            for value in BACKGROUNDS[palette]:
                back = tuple(bytes.fromhex(value[1:]))
                if (ratio := contrast(rgb(number), back)) < 4:  # type: ignore[arg-type]
                    weak[role, value] = round(ratio, 2)
    assert weak == {}


@pytest.mark.parametrize(
    ("setting", "environ", "answer", "name"),
    [
        ("auto", {}, None, "basic"),
        ("auto", {}, "light", "light"),
        ("auto", {"COLORFGBG": "0;15"}, "dark", "light"),
        ("auto", {"COLORFGBG": "15;default;0"}, None, "dark"),
        ("auto", {"COLORFGBG": "nonsense"}, None, "basic"),
        ("dark", {"COLORFGBG": "0;15"}, "light", "dark"),
        ("light", {"TERM": "xterm"}, None, "basic"),
        ("light", {"TERM": "xterm", "COLORTERM": "truecolor"}, None, "light"),
        ("none", {}, "dark", "none"),
        ("dark", {"NO_COLOR": "1"}, "dark", "none"),
    ],
)
def test_who_decides(
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    environ: dict[str, str],
    answer: str | None,
    name: str,
) -> None:
    home.path.mkdir(mode=0o700)
    (home.path / "config.toml").write_text(f'[ui]\ntheme = "{setting}"\n')
    monkeypatch.setattr(theme, "_answer", answer)
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    assert theme.name() == name
    assert terminal.has_colour() == (name != "none")
    assert ("\x1b" in terminal.styled("text", "error")) == (name != "none")


def test_settings_that_are_wrong_are_no_matter_here(home: Home) -> None:
    home.path.mkdir(mode=0o700)
    (home.path / "config.toml").write_text('[ui]\ntheme = "pink"\n')
    assert theme.name() == "basic"
    os.unlink(home.path / "config.toml")
    os.mkfifo(home.path / "config.toml")
    assert theme.name() == "basic"


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62c", "light"),
        (b"\x1b]11;rgb:00/2b/36\x07", "dark"),
        (b"\x1b]11;rgba:fdfd/f6f6/e3e3/ffff\x1b\\", "light"),
        (b"\x1b[?62;22c", None),
        (b"", None),
    ],
)
def test_what_a_terminal_says_of_its_background(answer: bytes, word: str | None) -> None:
    assert background.judge(answer) == word


def test_nothing_else_names_a_colour() -> None:
    """Look at every text in the command line's code: only the theme may hold the name of a colour."""
    culprits = []
    for path in [*(ROOT / "agh/cli").rglob("*.py"), *(ROOT / "agh/console").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if path.name != "theme.py" and isinstance(node, ast.Constant) and isinstance(node.value, str):
                words = re.findall(r"[a-z]+", node.value) if len(node.value) < 40 else []
                culprits += [(path.name, node.lineno, node.value)] if COLOUR_NAMES & {*words} else []
    assert culprits == []
