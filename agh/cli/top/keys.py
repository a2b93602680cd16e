"""What each key of `agh top` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition, Filter
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from agh.cli.top.state import Mode

if TYPE_CHECKING:
    from agh.cli.top.screen import Screen

PAGE = 10  # lines
Handler = Callable[[], None]


class Keys:
    """Collects key bindings, each for some modes."""

    def __init__(self, screen: Screen) -> None:
        self.bindings = KeyBindings()
        self._screen = screen

    def add(self, keys: str, handler: Handler, *modes: Mode) -> None:
        """Let any of these keys call the handler in these modes; the last message is then gone."""
        for key in keys.split():
            self.bindings.add(key, filter=self._is_in(*modes), eager=True)(self._handler(handler))

    def _handler(self, handler: Handler) -> Callable[[KeyPressEvent], None]:
        def handle(_: KeyPressEvent) -> None:
            self._screen.state.message = ""
            handler()

        return handle

    def _is_in(self, *modes: Mode) -> Filter:
        return Condition(lambda: self._screen.state.mode in modes)


def key_bindings(screen: Screen) -> KeyBindings:
    """Return all key bindings of the screen."""
    keys, state = Keys(screen), screen.state
    _add_list_keys(keys, screen)
    keys.add("/", lambda: screen.set_mode(Mode.FILTER), Mode.LIST)
    keys.add("enter", lambda: screen.set_mode(Mode.LIST), Mode.FILTER)
    keys.add("up", lambda: state.move(-1), Mode.FILTER)
    keys.add("down", lambda: state.move(1), Mode.FILTER)
    keys.add("y", screen.stop, Mode.STOP)
    for key in "yad":
        keys.add(key, lambda key=key: screen.answer(key), Mode.ANSWER)  # type: ignore[misc]
    for names, step in (("up k", -1), ("down j", 1), ("pageup", -PAGE), ("pagedown space", PAGE)):
        keys.add(names, lambda step=step: screen.scroll(step), Mode.ANSWER)  # type: ignore[misc]
    keys.add("n q", screen.back, Mode.ANSWER, Mode.STOP)
    keys.add("escape c-c", screen.back, Mode.FILTER, Mode.ANSWER, Mode.STOP, Mode.FORM, Mode.HELP)
    keys.add("escape", screen.back, Mode.LIST)
    keys.add("<any>", screen.back, Mode.HELP)
    _add_form_keys(keys, screen)
    return keys.bindings


def _add_list_keys(keys: Keys, screen: Screen) -> None:
    state = screen.state
    for names, step in (
        ("up k c-p", -1),
        ("down j c-n", 1),
        ("pageup", -PAGE),
        ("pagedown", PAGE),
        ("home g", -(1 << 30)),
        ("end G", 1 << 30),
    ):
        keys.add(names, lambda step=step: state.move(step), Mode.LIST)  # type: ignore[misc]
    keys.add("enter", screen.attach, Mode.LIST)
    keys.add("a", lambda: screen.ask(allows=True), Mode.LIST)
    keys.add("d", lambda: screen.ask(allows=False), Mode.LIST)
    keys.add("n", screen.open_form, Mode.LIST)
    keys.add("s", screen.ask_to_stop, Mode.LIST)
    keys.add("?", lambda: screen.set_mode(Mode.HELP), Mode.LIST)
    keys.add("q c-c", screen.quit, Mode.LIST)

    @keys.bindings.add("c-z")
    def suspend(event: KeyPressEvent) -> None:
        """Stop the program, as the shell's job control does."""
        event.app.suspend_to_background()


def _add_form_keys(keys: Keys, screen: Screen) -> None:
    form = screen.form

    def focus(event: KeyPressEvent, step: int) -> None:
        event.app.layout.focus(form.next(event.app.layout.current_window, step))

    is_form = Condition(lambda: screen.state.mode is Mode.FORM)
    is_completing = Condition(lambda: get_app().current_buffer.complete_state is not None)

    @keys.bindings.add("enter", filter=is_form & ~is_completing, eager=True)
    def go_on(event: KeyPressEvent) -> None:
        if event.app.layout.has_focus(form.text):
            screen.submit_form()
        else:
            focus(event, 1)

    @keys.bindings.add("enter", filter=is_form & is_completing, eager=True)
    def take_completion(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @keys.bindings.add("tab", filter=is_form, eager=True)
    def complete(event: KeyPressEvent) -> None:
        if event.current_buffer.complete_state:
            event.current_buffer.complete_next()
        elif event.app.layout.has_focus(form.text):
            focus(event, 1)
        else:
            event.current_buffer.start_completion(insert_common_part=True)

    @keys.bindings.add("s-tab", filter=is_form & ~is_completing, eager=True)
    @keys.bindings.add("up", filter=is_form & ~is_completing, eager=True)
    def go_back(event: KeyPressEvent) -> None:
        focus(event, -1)

    @keys.bindings.add("down", filter=is_form & ~is_completing, eager=True)
    def go_down(event: KeyPressEvent) -> None:
        focus(event, 1)
