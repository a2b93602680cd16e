"""The keys of the chat. What they do is in `conversation`."""

from __future__ import annotations

from typing import Protocol

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

HELP = """\
Enter          send; while a turn runs the prompt waits in the queue
Alt-Enter, Ctrl-J   a new line
Ctrl-O, /edit  write in $VISUAL or $EDITOR
Tab            complete a command, @file, a value
Up, Down       earlier prompts of this session
Ctrl-C         cancel the turn; again to detach
Ctrl-D         leave; the agent keeps working
Ctrl-Z         suspend
"""


class Actions(Protocol):
    """What the keys call."""

    def accept(self) -> None: ...

    def interrupt(self) -> None: ...

    def interrupt_by_signal(self) -> None: ...

    def leave(self) -> None: ...

    def edit(self) -> None: ...

    def suspend(self) -> None: ...

    def is_asked(self) -> bool: ...

    def answers(self, key: str) -> bool: ...


def bindings(actions: Actions) -> KeyBindings:
    """Bind the keys to the actions."""
    keys = KeyBindings()
    is_asked = Condition(actions.is_asked)

    @keys.add("enter")
    def accept(event: KeyPressEvent) -> None:
        state = event.current_buffer.complete_state
        if state is not None and state.current_completion is not None:
            event.current_buffer.complete_state = None  # it takes what is selected in the menu
            return
        actions.accept()

    @keys.add("c-j", filter=is_asked)
    def accept_answer(event: KeyPressEvent) -> None:
        actions.accept()

    @keys.add("c-j", filter=~is_asked)
    @keys.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def interrupt(event: KeyPressEvent) -> None:
        actions.interrupt()

    @keys.add(Keys.SIGINT)
    def interrupt_by_signal(event: KeyPressEvent) -> None:
        actions.interrupt_by_signal()

    @keys.add("c-d")
    def leave(event: KeyPressEvent) -> None:
        actions.leave()

    @keys.add("c-o")
    def edit(event: KeyPressEvent) -> None:
        actions.edit()

    @keys.add("c-z")
    def suspend(event: KeyPressEvent) -> None:
        actions.suspend()

    @keys.add("tab")
    def complete(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and len(buffer.complete_state.completions) > 1:
            buffer.complete_next()
            return
        # Not in the background as the menu that opens by itself: what is typed next may be Enter.
        event_type = CompleteEvent(completion_requested=True)
        completions = list(buffer.completer.get_completions(buffer.document, event_type))
        buffer.complete_state = None
        if len(completions) == 1:
            buffer.apply_completion(completions[0])
        else:
            buffer.start_completion(insert_common_part=True)

    @keys.add("escape", filter=has_completions, eager=True)
    def close_menu(event: KeyPressEvent) -> None:
        event.current_buffer.cancel_completion()

    @keys.add(Keys.Any, filter=is_asked)
    def answer(event: KeyPressEvent) -> None:
        if event.current_buffer.text or not actions.answers(event.data):
            event.current_buffer.insert_text(event.data)

    return keys
