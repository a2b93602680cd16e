"""What `agh top` and the picker need of prompt_toolkit.

Promises: it uses the colours of the theme, and the terminal's own background.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import Layout, UIContent, UIControl
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import ANSI_COLOR_NAMES, Style

from agh.cli.top.draw import Line
from agh.console import theme

ESCAPE_WAIT = 0.05  # seconds after which Esc is a key, and not the beginning of another
MENU = {
    "completion-menu.completion": "noreverse bg:default fg:default",
    "completion-menu.completion.current": "reverse bg:default fg:default",
}
_STEPS = (0, 95, 135, 175, 215, 255)  # of red, green and blue in the 256 colours
_DEPTHS = {"none": ColorDepth.DEPTH_1_BIT, "basic": ColorDepth.DEPTH_4_BIT}


class Lines(UIControl):
    """A part of the screen that a function draws for its width and height."""

    def __init__(self, draw: Callable[[int, int], list[Line]]) -> None:
        self._draw = draw

    def create_content(self, width: int, height: int) -> UIContent:
        lines: list[Any] = self._draw(width, height)
        return UIContent(lines.__getitem__, line_count=len(lines), show_cursor=False)

    def is_focusable(self) -> bool:
        return True


class FullScreenApplication(Application[Any]):
    """Starts on an empty screen whenever the size has changed.

    prompt_toolkit moves from where the cursor was, but a terminal moves it when its size changes.
    """

    _size: Size | None = None  # for which it drew last

    def _redraw(self, render_as_done: bool = False) -> None:
        if self._is_running and not self._running_in_terminal:
            before, self._size = self._size, self.output.get_size()
            if before not in (None, self._size):
                self._clear()
        super()._redraw(render_as_done)

    def _on_resize(self) -> None:
        self._clear()
        self._redraw()

    def _clear(self) -> None:
        self.renderer.erase(leave_alternate_screen=False)
        self.output.erase_screen()
        self.output.cursor_goto(0, 0)


def make_application(layout: Layout, bindings: KeyBindings) -> Application[Any]:
    """Return an application on the whole screen."""
    app = FullScreenApplication(
        layout=layout,
        key_bindings=bindings,
        style=_style(),
        full_screen=True,
        color_depth=_DEPTHS.get(theme.name(), ColorDepth.DEPTH_8_BIT),
        terminal_size_polling_interval=None,
    )
    app.ttimeoutlen = app.timeoutlen = ESCAPE_WAIT
    return app


def _style() -> Style:
    """Return the roles of the theme as classes of prompt_toolkit."""
    roles: dict[str, str] = {
        role: " ".join(map(_word, theme.style(role).split())) for role in theme.palettes()
    }
    return Style.from_dict({**roles, "selected": "reverse", **MENU})


def _word(word: str) -> str:
    """Return a word of a style as prompt_toolkit spells it: an attribute, or the number of a colour."""
    if not word.isdecimal():
        return word
    number = int(word)
    if number < 16:
        return ANSI_COLOR_NAMES[number + 1]  # the first is the default
    if number >= 232:
        parts = [8 + 10 * (number - 232)] * 3
    else:
        parts = [_STEPS[(number - 16) // step % 6] for step in (36, 6, 1)]
    return "#" + "".join(f"{part:02x}" for part in parts)
