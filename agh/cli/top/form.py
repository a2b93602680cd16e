"""The form of `agh top` for a new session: three fields at the foot of the screen."""

from __future__ import annotations

import os
from contextlib import redirect_stderr
from io import StringIO

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import PathCompleter, WordCompleter
from prompt_toolkit.layout import AnyContainer, BufferControl, FormattedTextControl, HSplit, VSplit, Window

from agh.cli.handover import installed_agents
from agh.core.named_tuple import NamedTuple
from agh.errors import AghError
from agh.store.sessions import working_directory

LABEL = 11  # columns
TITLE = "new session  (arrows: other field, Tab: complete, Enter: start, Esc: back)"


class NewSession(NamedTuple):
    """What the user wants to start. An empty agent is the default one, an empty text sends no prompt."""

    agent: str
    directory: str
    text: str


class Form:
    """Agent, directory and first prompt. Tab completes the first two."""

    def __init__(self) -> None:
        self.agent = Buffer(multiline=False, completer=WordCompleter(installed_agents))
        self.directory = Buffer(
            multiline=False, completer=PathCompleter(only_directories=True, expanduser=True)
        )
        self.text = Buffer(multiline=False)
        self._fields = {"agent": self.agent, "directory": self.directory, "prompt": self.text}
        self.windows = [Window(BufferControl(field), height=1) for field in self._fields.values()]

    def clear(self) -> None:
        """Empty the form; the agent is the default one, and the directory this one."""
        for field, value in ((self.agent, _default_agent()), (self.directory, working_directory())):
            field.text = value
            field.cursor_position = len(value)
        self.text.text = ""

    def next(self, window: Window, step: int = 1) -> Window:
        """Return the window of the next field, or of one before with a negative step."""
        index = self.windows.index(window) if window in self.windows else 0
        return self.windows[(index + step) % len(self.windows)]

    def value(self) -> NewSession:
        """Return what the fields say."""
        directory = os.path.expanduser(self.directory.text.strip())
        return NewSession(self.agent.text.strip(), directory, self.text.text.strip())

    def container(self) -> HSplit:
        """Return the form for the layout."""
        rows: list[AnyContainer] = [_caption(TITLE)]
        for name, window in zip(self._fields, self.windows, strict=True):
            rows.append(VSplit([_caption(f"{name}:", LABEL), window]))
        return HSplit(rows)


def _caption(text: str, width: int | None = None) -> Window:
    return Window(FormattedTextControl([("class:title", text)]), width=width, height=1)


def _default_agent() -> str:
    from agh import config
    from agh.adapters import registry

    with redirect_stderr(StringIO()):
        try:
            path = working_directory()
            return registry.default_agent(config.load(path)["agent"], path).name
        except AghError:
            return ""
