"""meta.json: what a session is and the last thing known of its state.

Replaced whole, never edited: temporary file, fsync, rename, fsync of the directory. A reader sees the
old text or the new one. What fsync cannot promise: a disk that lies about it. It changes on state
transitions only, never per event; the pid in it is for people, no decision reads it.
"""

from __future__ import annotations

import os
from typing import Any, TypedDict

import orjson

from agh.errors import MetaInvalid


class Failure(TypedDict, total=False):
    kind: str
    summary: str
    crash_bundle_path: str | None


class Meta(TypedDict, total=False):
    id: str
    kind: str | None
    name: str | None
    title: str | None
    agent_name: str
    command: list[str] | None
    model: str | None
    mode: str | None
    options: dict[str, Any]
    offers: dict[str, Any]
    permissions: str | None
    permission_rules: list[dict[str, str]]
    allowed_tools: list[str]
    system_prompt: dict[str, str] | None
    workspace_id: str | None
    workspace_path: str
    worktree: dict[str, Any] | None
    place: str | None
    cwd: str | None
    state: str
    stop_reason: str | None
    stop_detail: str | None
    failure: Failure | None
    acp_session_id: str | None
    acp_session_ids: list[str]
    acp_caps: dict[str, Any] | None
    auth_methods: list[dict[str, Any]]
    mcp_servers: list[dict[str, Any]]
    forked_from: dict[str, Any] | None
    imported: dict[str, Any] | None
    inject_history: bool
    restore: dict[str, Any] | None
    attach: dict[str, Any] | None
    limits: dict[str, Any] | None
    spent: dict[str, Any] | None
    activity: dict[str, Any] | None
    last_sequence: int
    turns: int
    keeper: dict[str, Any] | None
    launch: dict[str, Any] | None
    archived: bool
    created_at: str
    updated_at: str


FILE, READ_SIZE = "meta.json", 1 << 16
_NONE, _NUMBERS = type(None), (int, float)
# What readers rely on: the types that a field may have, and those of what is in it.
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("agent_name", "workspace_path", "created_at", "updated_at"), (str,)),
    **dict.fromkeys(("kind", "name", "title", "model", "mode", "permissions"), (str, _NONE)),
    **dict.fromkeys(("workspace_id", "place", "cwd"), (str, _NONE)),
    **dict.fromkeys(("stop_reason", "stop_detail", "acp_session_id"), (str, _NONE)),
    **dict.fromkeys(("options", "offers", "system_prompt", "worktree", "failure", "acp_caps"), (dict, _NONE)),
    **dict.fromkeys(("forked_from", "imported", "restore", "attach", "limits", "spent"), (dict, _NONE)),
    **dict.fromkeys(("activity", "keeper", "launch"), (dict, _NONE)),
    **dict.fromkeys(("command", "permission_rules", "allowed_tools", "acp_session_ids"), (list, _NONE)),
    **dict.fromkeys(("auth_methods", "mcp_servers"), (list, _NONE)),
    **dict.fromkeys(("archived", "inject_history"), (bool, _NONE)),
    **dict.fromkeys(("last_sequence", "turns"), (int,)),
}
_ITEMS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("command", "allowed_tools", "acp_session_ids", "system_prompt"), (str,)),
    **dict.fromkeys(("permission_rules", "auth_methods", "mcp_servers"), (dict,)),
    "limits": (*_NUMBERS, _NONE),
    "spent": (*_NUMBERS, str, _NONE),
}
_REQUIRED = ("agent_name", "workspace_path")
_PARTS = {
    "system_prompt": ("mode", "text"),
    "forked_from": ("session_id",),
    "imported": ("path", "size", "mtime_ns"),
    "launch": ("cookie", "boot_id", "ticks"),
}


def read(directory: str) -> Meta:
    """The session's metadata. Anything but a JSON object about this very session is refused."""
    session_id = directory[directory.rfind("/") + 1 :]
    try:
        fd = os.open(f"{directory}/{FILE}", os.O_RDONLY | os.O_CLOEXEC)  # half the price of open()
        try:
            text = os.read(fd, READ_SIZE)
            while piece := os.read(fd, READ_SIZE):
                text += piece
        finally:
            os.close(fd)
        meta = orjson.loads(text)
    except FileNotFoundError:
        raise MetaInvalid(session_id, "the file is missing") from None
    except OSError as error:
        raise MetaInvalid(session_id, error.strerror) from None
    except orjson.JSONDecodeError as error:
        raise MetaInvalid(session_id, f"not JSON: {error}") from None
    if not isinstance(meta, dict) or meta.get("id") != session_id or not isinstance(meta.get("state"), str):
        raise MetaInvalid(session_id, "it does not describe this session")
    if trouble := _trouble(meta):
        raise MetaInvalid(session_id, trouble)
    return meta  # type: ignore[return-value]


def _trouble(meta: dict[str, Any]) -> str | None:
    """What is wrong with the fields, if anything. Those that no reader relies on may be anything."""
    for key in _REQUIRED:
        if key not in meta:
            return f"it has no {key}"
    for key, value in meta.items():
        if key in _KINDS and type(value) not in _KINDS[key]:
            return f"its {key} is of the wrong type"
    for key, kinds in _ITEMS.items():
        if (value := meta.get(key)) and not _fits(value, kinds):
            return f"its {key} holds something of the wrong type"
    for key, parts in _PARTS.items():
        if (value := meta.get(key)) is not None and not all(part in value for part in parts):
            return f"its {key} is incomplete"
    return None


def _fits(value: dict[str, Any] | list[Any], kinds: tuple[type, ...]) -> bool:
    return all(type(item) in kinds for item in (value.values() if isinstance(value, dict) else value))


def write(directory: str, meta: Meta, *, sync: bool = True) -> None:
    """Replace the metadata. Without `sync` a power cut may bring back the older text, never a torn one."""
    data = orjson.dumps(meta, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    replace_file(directory, FILE, data, sync=sync)


def replace_file(directory: str, name: str, data: bytes, *, sync: bool = True) -> None:
    """Put a private file in the place of the one of that name: a reader sees the old or the new."""
    temporary = os.path.join(directory, f".{name}.{os.getpid()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(fd)
        os.replace(temporary, os.path.join(directory, name))
    except BaseException:
        os.unlink(temporary)
        raise
    if sync:
        sync_directory(directory)


def choose(meta: Meta, name: str, value: str) -> None:
    """Note a choice among what the agent offers: its mode, its model, or an option of its own."""
    if name == "mode":
        meta["mode"] = value
    elif name == "model":
        meta["model"] = value
    else:
        meta["options"] = {**(meta.get("options") or {}), name: value}


def sync_directory(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
