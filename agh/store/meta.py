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
# What readers rely on: text or nothing, an object or nothing.
_KINDS: list[tuple[str, tuple[type, ...]]] = [
    *(
        (key, (str, type(None)))
        for key in ("name", "workspace_path", "place", "cwd", "stop_reason", "created_at", "updated_at")
    ),
    *((key, (dict, type(None))) for key in ("failure", "attach", "activity", "keeper", "worktree")),
]


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
    for key, kind in _KINDS:
        if not isinstance(meta.get(key), kind):
            raise MetaInvalid(session_id, f"its {key} is of the wrong type")
    return meta  # type: ignore[return-value]


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
