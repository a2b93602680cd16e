"""What an agent asks permission for, with its paths resolved on this machine.

Promises: every path that the agent names is judged, whatever it calls the field; a path that cannot be
resolved lies outside the workspace and matches no rule.
"""

from __future__ import annotations

import os
from typing import Any

from agh.core.acp.permission import show_edits
from agh.core.acp.tool_calls import ToolCall
from agh.core.named_tuple import NamedTuple
from agh.core.rules import Asking
from agh.core.shell.commands import analyse
from agh.core.shell.patterns import ANY
from agh.home import MAX_PATH, real_path
from agh.keeper.agent.boundary import is_inside

UNRESOLVED = "unresolved:"
MAX_WORDS = 500


class Subject(NamedTuple):
    """What a request for permission is about, and how it is shown."""

    asking: Asking
    title: str | None = None
    tool_call_id: str | None = None
    outside: tuple[str, ...] = ()
    diff: str | None = None
    edited: tuple[str, ...] = ()  # the paths whose change is shown
    unclear: bool = False  # neither the request nor a tool call says what it is about
    partial: bool = False  # it names more than is read

    def fields(self) -> dict[str, Any]:
        """Return the fields of its event, as they are shown and digested."""
        return {
            "action": self.asking.kind,
            "resource": self.asking.resource,
            "command": self.asking.command,
            "paths": list(self.asking.paths) or None,
            "outside": list(self.outside) or None,
            "diff": self.diff,
            "unclear": True if self.unclear or self.partial else None,
            "title": self.title,
            "tool_call_id": self.tool_call_id,
        }


def subject_of(
    call: ToolCall, folders: tuple[str, ...], title: str | None = None, tool_call_id: str | None = None
) -> Subject:
    """Return what a tool call asks for, paths outside the folders first. `folders[0]` is the workspace."""
    workspace = folders[0]
    folder = os.path.join(workspace, os.path.expanduser(call.directory or ""))
    paths = dict.fromkeys(resolve(path, workspace) for path in call.paths)
    ordered = tuple(sorted(paths, key=lambda path: is_inside(folders, path)))
    command = "\n".join(call.commands) if call.commands else None
    asking = Asking(
        call.kind or "other",
        call.name or call.kind or "other",
        ordered,
        command,
        words_of(command, folder) if command else (),
    )
    return Subject(
        asking,
        title,
        tool_call_id,
        outside_of(ordered, folders),
        show_edits(call.edits),
        tuple(resolve(edit.path, workspace) for edit in call.edits if edit.path and edit.new is not None),
        unclear=call.says_nothing,
        partial=bool(call.too_long),
    )


def resolve(path: str, workspace: str) -> str:
    """Return the real path of what an agent names; a text that matches no rule if there is none."""
    absolute = os.path.join(workspace, os.path.expanduser(path) if path.startswith("~") else path)
    real = real_path(absolute)
    if real is None or (not real.isprintable() and _is_broken(real)):
        return UNRESOLVED + absolute[:MAX_PATH]
    return real


def outside_of(paths: tuple[str, ...], folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the paths that are in none of the folders."""
    return tuple(path for path in paths if not is_inside(folders, path))


def words_of(command: str, folder: str) -> tuple[str, ...]:
    """Return the words of a command as the paths that they would be if they were meant as such."""
    analysis = analyse(command)
    folders = [folder]
    for name in analysis.folders:  # it may change there from any directory before
        folders += [os.path.normpath(os.path.join(folders[-1], name)), os.path.join(folder, name)]
    words = analysis.words
    paths = [
        os.path.normpath(os.path.join(start, word)) if ANY in start + word else resolve(word, start)
        for start in dict.fromkeys(folders)
        for word in words[:MAX_WORDS]
    ]
    return (*dict.fromkeys(paths), *([ANY] if len(words) > MAX_WORDS else []))


def _is_broken(text: str) -> bool:
    """Tell whether a name from the file system is not valid text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
