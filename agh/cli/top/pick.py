"""The picker: a list of sessions on the terminal, of which the user picks one with arrows or by typing."""

from __future__ import annotations

import os

import click
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import HSplit, Layout, Window

from agh.cli.top.draw import Line, draw_table
from agh.cli.top.reader import SessionReader, Snapshot
from agh.cli.top.state import State
from agh.cli.top.terminal import Lines, make_application
from agh.console import terminal, theme
from agh.errors import AghError
from agh.store import sessions
from agh.store.views import View

PAGE = 10  # lines
HINT = "Enter picks  Esc cancels  type to filter"


def pick_session(context: click.Context | None) -> str | None:
    """Let the user pick the session that a command lacks, those of this workspace first; return its id.

    Return None if the terminal cannot show a list, or there is nothing to pick from. Raise KeyboardInterrupt
    if the user gives up.
    """
    if context is None or not terminal.is_fancy():
        return None
    try:
        here = os.path.realpath(sessions.working_directory())
        views = SessionReader().read().views
    except (AghError, OSError):  # the home is the next command's to complain about
        return None
    views = [view for view in views if "error" not in view]
    if not views:
        return None
    views.sort(key=lambda view: not sessions.in_workspace(view, here))
    return pick(f"{context.command_path}: which session?", views)


def pick(question: str, views: list[View]) -> str:
    """Return the id of the session that the user picks; raise KeyboardInterrupt if it is none."""
    theme.ask_terminal()
    state = State()
    state.update(Snapshot(views, {}, []))

    def head(width: int, _: int) -> list[Line]:
        return [[("class:title", terminal.cut(f"{question} {terminal.clean(state.filter)}", width))]]

    def foot(width: int, _: int) -> list[Line]:
        return [[("class:hint", terminal.cut(HINT, width))]]

    rows = Window(Lines(lambda width, height: draw_table(state, width, height)))
    layout = Layout(HSplit([Window(Lines(head), height=1), rows, Window(Lines(foot), height=1)]), rows)
    try:
        session_id: str | None = make_application(layout, _key_bindings(state)).run()
    except EOFError:  # the terminal is gone
        session_id = None
    if session_id is None:
        raise KeyboardInterrupt
    return session_id


def _key_bindings(state: State) -> KeyBindings:
    bindings = KeyBindings()

    for keys, step in (
        (("up", "c-p"), -1),
        (("down", "c-n"), 1),
        (("pageup",), -PAGE),
        (("pagedown",), PAGE),
        (("home",), -(1 << 30)),
        (("end",), 1 << 30),
    ):
        for key in keys:
            bindings.add(key)(lambda _, step=step: state.move(step))

    @bindings.add("enter")
    def take(event: KeyPressEvent) -> None:
        if state.view:
            event.app.exit(result=state.selected)

    @bindings.add("escape", eager=True)
    @bindings.add("c-c")
    @bindings.add("c-d")
    def give_up(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    @bindings.add("backspace")
    def shorten(_: KeyPressEvent) -> None:
        state.set_filter(state.filter[:-1])

    @bindings.add("c-u")
    @bindings.add("c-w")
    def clear(_: KeyPressEvent) -> None:
        state.set_filter("")

    @bindings.add("<any>")
    def type_key(event: KeyPressEvent) -> None:
        if event.data.isprintable():
            state.set_filter(state.filter + event.data)

    return bindings
