"""Tab in the chat: commands of the chat and of the agent, their values, files after an @, sessions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from agh.cli.chat.files import WorkspaceFiles
from agh.console import terminal

# A command is offered with what it does, a value with nothing.
Offer = tuple[str, str]
_AT = re.compile(r'(?<!\S)@("?)([^"\s]*)$')


class ChatCompleter(Completer):
    """Offers what fits the word before the cursor."""

    def __init__(
        self,
        files: WorkspaceFiles,
        commands: Callable[[], Iterable[Offer]],
        values: Callable[[str], Iterable[str]],
    ) -> None:
        self._files, self._commands, self._values = files, commands, values

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if match := _AT.search(text):
            yield from self._complete_file(match[2], len(match[0]))
        elif text.startswith("/") and "\n" not in text:
            yield from self._complete_command(text)

    def _complete_command(self, text: str) -> Iterator[Completion]:
        name, space, value = text.partition(" ")
        if space:
            for candidate in self._values(name):
                if candidate.casefold().startswith(value.casefold()):
                    yield _completion(candidate, len(value))
            return
        for command, help in self._commands():
            if command.startswith(name):
                yield _completion(command, len(name), help)

    def _complete_file(self, beginning: str, length: int) -> Iterator[Completion]:
        for path in self._files.matching(beginning):
            text = f'@"{path}"' if " " in path else f"@{path}"
            yield _completion(text, length)


def completes_while_typing(document: Document) -> bool:
    """Tell whether the menu opens by itself: for a command, and for a file after an @."""
    text = document.text_before_cursor
    is_command = text.startswith("/") and not re.search(r"\s", text)
    return is_command or bool(_AT.search(text))


def _completion(text: str, length: int, help: str = "") -> Completion:
    """Return a completion. A text that could drive the terminal is not offered as it is."""
    return Completion(
        text if terminal.clean(text) == text else "",
        start_position=-length,
        display=terminal.one_line(text, 60),
        display_meta=terminal.one_line(help, 60),
    )
