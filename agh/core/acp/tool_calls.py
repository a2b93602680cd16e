"""What a tool call is about, wherever an agent puts it: kind, command, paths, edits. Pure.

Agents have many names for the same field, and may say it in the tool call, in the request for permission, or
in both. Whatever any of them says is part of it. Nothing here is resolved against a file system.
"""

from __future__ import annotations

import re
from shlex import join
from typing import Any

import orjson

from agh.core.acp.long_text import LongText, json_length
from agh.core.acp.tool_result import own_tool_name
from agh.core.named_tuple import NamedTuple

MAX_PATHS, MAX_NODES, MAX_DEPTH = 1000, 20_000, 12
MAX_PATH, MAX_COMMAND, MAX_EDIT = 5_000, 200_000, 100_000  # characters; a longer path resolves to nothing
# From the harmless to the dangerous: of two kinds the later one counts.
_KINDS = ("other", "think", "search", "read", "fetch", "switch_mode", "move", "edit", "delete", "execute")
_PATH_WORDS = {
    *("path", "paths", "file", "files", "filename", "filenames", "filepath", "filepaths", "dir", "dirs"),
    *("directory", "directories", "folder", "folders", "cwd", "workdir", "uri", "uris", "root", "roots"),
}
_PATH_KEYS = {
    *(
        "source",
        "destination",
        "src",
        "dst",
        "dest",
        "from",
        "to",
        "target",
        "notebook",
        "document",
        "output",
    ),
    *("outfile", "infile"),
}
_PATH_STARTS = ("/", "./", "../", "~")
_COMMAND_KEYS = {"command", "cmd", "command_line", "commands", "shell_command", "bash_command", "shell"}
_EDITOR_COMMANDS = {"view", "create", "str_replace", "insert", "undo_edit"}
_DIRECTORY_KEYS = {"cwd", "workdir", "working_directory", "working_dir", "directory", "dir_path"}
_OLD = ("old_string", "old_str", "old_text", "oldtext", "old")
_NEW = ("new_string", "new_str", "new_text", "newtext", "new", "content", "file_text", "contents")
_UNREAD = {"parsed_cmd"}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class Edit(NamedTuple):
    """A change of a file. `old` is None if the agent does not say what was there, `new` if it is too long."""

    path: str | None
    old: str | None
    new: str | None


class ToolCall(NamedTuple):
    """What messages about one tool call have said; None for what no message has said."""

    kind: str | None = None
    name: str | None = None
    input_paths: tuple[str, ...] | None = None
    commands: tuple[str, ...] | None = None
    directory: str | None = None
    input_edits: tuple[Edit, ...] | None = None
    has_input: bool | None = None
    location_paths: tuple[str, ...] | None = None
    content_paths: tuple[str, ...] | None = None
    content_edits: tuple[Edit, ...] | None = None
    too_long: bool | None = None  # it says more than is read

    @property
    def paths(self) -> tuple[str, ...]:
        """Return every path, as the agent writes it."""
        groups = (self.input_paths, self.location_paths, self.content_paths)
        return tuple(dict.fromkeys(path for group in groups for path in group or ()))

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Return the changes of files; those that the agent shows, else those of its arguments."""
        return self.content_edits or self.input_edits or ()

    @property
    def says_nothing(self) -> bool:
        """Tell whether nothing is known about it, not even what kind of action it is."""
        return self.kind in (None, "other") and not (self.paths or self.commands or self.has_input)

    def updated(self, later: ToolCall) -> ToolCall:
        """Return the tool call after another message about it, whose fields replace the earlier ones."""
        return self._replace(**{name: value for name, value in later._asdict().items() if value is not None})

    def joined(self, other: ToolCall) -> ToolCall:
        """Return what both say: every path and command of both, and the more dangerous kind."""
        kinds = [kind for kind in (self.kind, other.kind) if kind is not None]
        return ToolCall(
            kind=max(kinds, key=_danger) if kinds else None,
            name=other.name or self.name,
            input_paths=_union(self.input_paths, other.input_paths),
            commands=_union(self.commands, other.commands),
            directory=other.directory or self.directory,
            input_edits=other.input_edits or self.input_edits,
            has_input=bool(self.has_input or other.has_input),
            location_paths=_union(self.location_paths, other.location_paths),
            content_paths=_union(self.content_paths, other.content_paths),
            content_edits=other.content_edits or self.content_edits,
            too_long=bool(self.too_long or other.too_long),
        )


def read_tool_call(message: dict[str, Any]) -> ToolCall:
    """Return what one message says about its tool call."""
    kind, locations, content = message.get("kind"), message.get("locations"), message.get("content")
    reader = _Reader()
    arguments = message["rawInput"] if "rawInput" in message else _arguments_in_text(message)
    if arguments is not None:
        reader.read_input(arguments)
    in_locations, in_content = _Reader(), _Reader()
    if locations is not None:
        in_locations.read(locations, "", 0)
    if content is not None:
        in_content.read(content, "", 0)
    has_input = "rawInput" in message or arguments is not None
    edits = [
        _edit(block.get("path"), block.get("oldText"), block["newText"])
        for block in (content if isinstance(content, list) else [])
        if isinstance(block, dict) and block.get("type") == "diff" and isinstance(block.get("newText"), str)
    ]
    return ToolCall(
        kind=kind if isinstance(kind, str) and kind else None,
        name=own_tool_name(message),
        input_paths=tuple(reader.paths) if has_input else None,
        commands=tuple(reader.commands) if has_input else None,
        directory=reader.directory,
        input_edits=tuple(reader.edits) if has_input else None,
        has_input=bool(arguments) if has_input else None,
        location_paths=tuple(in_locations.paths) if locations is not None else None,
        content_paths=tuple(in_content.paths) if content is not None else None,
        content_edits=tuple(edits) if content is not None else None,
        too_long=True if reader.too_long or in_locations.too_long or in_content.too_long else None,
    )


def _arguments_in_text(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of a call that has not begun, which some agents send as JSON in its only text."""
    content = message.get("content")
    if message.get("status") != "pending" or message.get("locations") or not isinstance(content, list):
        return None
    block = content[0].get("content") if len(content) == 1 and isinstance(content[0], dict) else None
    value = _parsed(block.get("text")) if isinstance(block, dict) else None
    return value if isinstance(value, dict) else None


class _Reader:
    """Collects paths and commands from arguments, however deep they are nested."""

    def __init__(self) -> None:
        self.paths: dict[str, None] = {}
        self.commands: dict[str, None] = {}
        self.edits: list[Edit] = []
        self.directory: str | None = None
        self.too_long = False
        self._nodes = 0

    def read_input(self, value: Any) -> None:
        """Read a tool call's arguments, which may be JSON in a text."""
        value = _parsed(value)
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            value = {"command": value}
        self.read(value, "", 0)

    def read(self, value: Any, key: str, depth: int) -> None:
        """Read a value that stands under a key."""
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES or len(self.paths) > MAX_PATHS:
            self.too_long = True
        elif isinstance(value, str):
            if key and (text := _path_of(value, key)):
                self.paths[text] = None
            if key in ("arguments", "args", "input", "params", "parameters") and value[:1] == "{":
                self.read(_parsed(value), key, depth + 1)
        elif isinstance(value, list):
            for entry in value:
                self.read(entry, key, depth + 1)
        elif isinstance(value, dict):
            self._read_table(value, depth)

    def _read_table(self, table: dict[str, Any], depth: int) -> None:
        named = {_snake(key): entry for key, entry in table.items()}
        is_editor = str(named.get("command")) in _EDITOR_COMMANDS and "path" in named
        for original, entry in table.items():
            key = _snake(original)
            if key in _COMMAND_KEYS and not is_editor and (command := _command_of(entry, named)):
                self.commands[command[:MAX_COMMAND]] = None
                self.too_long |= len(command) > MAX_COMMAND or _is_cut(entry) or _is_cut(named.get("args"))
            elif key == "changes" and isinstance(entry, dict):  # by path
                self.paths |= dict.fromkeys(filter(None, entry))
                self.read(list(entry.values()), key, depth + 1)
            elif key not in _UNREAD:
                self.read(entry, key, depth + 1)
            if key in _DIRECTORY_KEYS and isinstance(entry, str) and entry:
                self.directory = self.directory or entry
        new = next((named[key] for key in _NEW if isinstance(named.get(key), str)), None)
        if new is not None:
            paths = [named[key] for key in named if isinstance(named[key], str) and _path_of(named[key], key)]
            old = next((named[key] for key in _OLD if isinstance(named.get(key), str)), None)
            self.edits.append(_edit(paths[0] if paths else None, old, new))


def _path_of(text: str, key: str) -> str | None:
    """Return the path that a text under this key is; None if it is something else."""
    is_uri = text[:7].lower() == "file://"
    if not is_uri:
        last = key.rpartition("_")[2]
        is_named = last in _PATH_WORDS or (key in _PATH_KEYS and text.startswith(_PATH_STARTS))
        if not text or not is_named or "\n" in text or _SCHEME.match(text):
            return None
        return text[:MAX_PATH]
    from urllib.parse import unquote

    path = text[7:MAX_PATH].partition("?")[0].partition("#")[0]
    host, slash, rest = path.partition("/")
    return unquote(slash + rest) if slash else unquote(host)


def _is_cut(value: Any) -> bool:
    """Tell whether a text, or a word of a list, is not there as a whole."""
    words = value if isinstance(value, list) else [value]
    return any(isinstance(word, LongText) for word in words)


def _command_of(value: Any, beside: dict[str, Any]) -> str | None:
    """Return a command line, from a text or from a list of words."""
    if isinstance(value, str):
        arguments = beside.get("args")
        if isinstance(arguments, list) and arguments and all(isinstance(word, str) for word in arguments):
            return join([value, *arguments])
        return value or None
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return join(value)
    return None


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def _snake(key: str) -> str:
    """Return a key in small letters, with an underscore between its words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[-\s.]+", "_", key[:100]).lower()


def _danger(kind: str) -> int:
    return _KINDS.index(kind) if kind in _KINDS else 0


def _union(first: tuple[str, ...] | None, second: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if first is None and second is None:
        return None
    return tuple(dict.fromkeys((*(first or ()), *(second or ()))))


def _edit(path: Any, old: Any, new: str) -> Edit:
    path, old = (text if isinstance(text, str) else None for text in (path, old))
    if json_length(new) + json_length(old or "") > MAX_EDIT:
        return Edit(path, None, None)
    return Edit(path, old, new)
