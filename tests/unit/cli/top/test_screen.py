"""The screen of `agh top` on terminals of several sizes, with sessions that do not change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pyte.graphics as g
import pytest

from agh.console import theme
from tests.support.build import Home, take_lock
from tests.support.live import Live
from tests.support.screen import Screen, open_screen

SIZES = [(80, 24), (200, 50), (40, 24), (40, 8)]
LONG = "a name that is much longer than any column for names should be"
SESSIONS: dict[str, dict[str, Any]] = {
    "sess-aaaa000001": {"name": "fix-login", "model": "large", "last_message": "I have mended it. " * 30},
    "sess-aaaa000002": {"name": LONG, "spent": {"cost_amount": 1.25, "cost_currency": "USD"}},
    "sess-bbbb000003": {"name": "日本語のとても長いタイトル" * 4, "last_message": "はい" * 200},
    "sess-bbbb000004": {"name": "evil\x1b[2J", "last_message": "\x1b]0;title\x07 and \u202e more"},
    "sess-bbbb000005": {
        "name": "asks",
        "state": "active",
        "activity": {"turn_id": "t", "pending_permissions": 1, "question": "edit: src/login.py"},
    },
}


@pytest.fixture
def filled(home: Home, live: Live) -> Iterator[Live]:
    with ExitStack() as stack:
        for number, (session_id, fields) in enumerate(SESSIONS.items()):
            directory = home.directory(
                id=session_id, updated_at=f"2099-01-01T00:00:{30 - number:02}.000Z", **fields
            )
            if fields.get("state") == "active":
                stack.enter_context(take_lock(directory))
        yield live


def check(screen: Screen) -> None:
    """Wait for the list; check that each session has one line, and that the last line has the keys."""
    head = "agh top  5 sessions, 1 needs you"
    starts = ["NAME", "asks", "fix-login", "a name tha", "日", "evil"]

    def is_drawn() -> bool:
        first, *rows, last = screen.lines
        begun = [row.startswith(start) for start, row in zip(starts, rows, strict=False)]
        return first == head and last.endswith("q quit") and len(begun) == len(starts) and all(begun)

    screen.awaits(is_drawn, what=[head, *starts])


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_nothing_wraps(filled: Live, columns: int, lines: int) -> None:
    with open_screen(filled, "top", columns=columns, lines=lines) as screen:
        check(screen)
        if lines > 12:
            screen.shows("── asks ─", "waiting-for-input 0s")
        screen.type("jj")
        screen.awaits(lambda: screen.selected().startswith("a name tha"))
        screen.type("?")
        screen.shows("any key: back to the list", "select a session")
        screen.type("x/LOGIN")
        screen.shows("2 sessions", "/LOGIN")
        screen.type("\r")
        screen.hides("/LOGIN")
        screen.type("\x1b")
        check(screen)
        screen.type("q")
        assert screen.ends() == 0


def test_a_size_that_changes_again_and_again_leaves_nothing_behind(filled: Live) -> None:
    """The terminal has each size before the program knows of it, and what it draws meanwhile is misplaced."""
    with open_screen(filled, "top") as screen:
        check(screen)
        for number in range(20):
            screen.resize(40 + 37 * number % 160, 12 + 17 * number % 38)
            screen.type("jk"[number % 2])
            screen.collect(0.01)
        screen.type("kk")
        screen.resize(80, 24)
        check(screen)
        with open_screen(filled, "top") as fresh:
            check(fresh)
            screen.awaits(lambda: screen.lines == fresh.lines, what=fresh.text)


def test_a_screen_that_changes_its_size_looks_like_a_fresh_one(filled: Live) -> None:
    with open_screen(filled, "top") as screen:
        check(screen)
        for columns, lines in [(40, 12), (200, 50), (80, 24)]:
            screen.resize(columns, lines)
            check(screen)
            with open_screen(filled, "top", columns=columns, lines=lines) as fresh:
                check(fresh)
                screen.awaits(lambda fresh=fresh: screen.lines == fresh.lines, what=fresh.text)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("palette", "env"),
    [
        ("light", {"COLORFGBG": "0;15"}),
        ("dark", {"COLORFGBG": "15;0"}),
        ("basic", {"TERM": "xterm"}),
        ("none", {"NO_COLOR": "1"}),
    ],
)
def test_it_is_right_on_light_and_dark_terminals(filled: Live, palette: str, env: dict[str, str]) -> None:
    """It never paints the background, and takes only colours of the palette for it."""
    words = {word for styles in theme.palettes().values() for word in styles.get(palette, "").split()}
    numbers = [int(word) for word in words if word.isdecimal()]
    allowed = {g.FG_BG_256[number] if number >= 16 else g.FG[30 + number] for number in numbers}
    with open_screen(filled, "top", **env) as screen:
        check(screen)
        colours = {cell.fg for cell in screen.cells} - {"default"}
        assert colours <= allowed
        assert bool(colours) is bool(allowed)
        screen.type("n")
        screen.shows("prompt:")
        assert {cell.bg for cell in screen.cells} == {"default"}


def test_only_the_sessions_of_a_workspace(filled: Live) -> None:
    with open_screen(filled, "top", "--workspace", ".") as screen:
        screen.shows("no sessions yet")
