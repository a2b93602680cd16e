"""meta.json: what a session is, and its last recorded state.

Promises: the file is replaced whole, never edited, so a reader sees the old text or the new one. It
changes on state transitions only, never per event. The pid in it is informational: no decision relies
on it.

Its annotations are not strings, as everywhere else: compiling those of the classes takes 0.6 ms. orjson is
imported when something is read: a list that is all in the cache reads no metadata (3 ms).
"""

import errno
import os
from typing import Any, TypedDict

from agh.errors import MetaInvalid
from agh.home import Session, replace_private_file


class Failure(TypedDict, total=False):
    kind: str
    summary: str
    crash_bundle_path: str | None


class Meta(TypedDict, total=False):
    id: str
    kind: str | None
    name: str | None
    title: str | None
    last_message: str | None
    agent_name: str
    agent_version: str | None
    agent_pin: dict[str, Any] | None
    command: list[str] | None
    model: str | None
    mode: str | None
    options: dict[str, Any]
    offers: dict[str, Any]
    current: dict[str, str] | None
    commands: list[dict[str, str]] | None
    agent_updated_at: str | None
    permissions: str | None
    permission_rules: list[dict[str, str]]
    allow_self_answers: bool
    unanswered_permissions: int
    orphaned_questions: int
    allowed_tools: list[str]
    additional_directories: list[str]
    system_prompt: dict[str, str] | None
    workspace_id: str | None
    workspace_path: str
    worktree: dict[str, Any] | None
    place: str | None
    cwd: str | None
    mirror: dict[str, str] | None  # the place and the id of the session that this one is a copy of
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
    resumes_at: str | None
    limited: dict[str, Any] | None
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
# The types that readers rely on: of each field, and of the values inside lists and objects.
_FIELD_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("agent_name", "workspace_path", "created_at", "updated_at"), (str,)),
    **dict.fromkeys(
        ("kind", "name", "title", "last_message", "agent_version", "model", "mode"), (str, _NONE)
    ),
    **dict.fromkeys(("permissions", "workspace_id", "place", "cwd"), (str, _NONE)),
    **dict.fromkeys(("stop_reason", "stop_detail", "acp_session_id", "resumes_at"), (str, _NONE)),
    **dict.fromkeys(("options", "offers", "system_prompt", "worktree", "failure", "acp_caps"), (dict, _NONE)),
    **dict.fromkeys(("forked_from", "imported", "restore", "attach", "limits", "spent"), (dict, _NONE)),
    **dict.fromkeys(("agent_pin", "activity", "keeper", "launch", "current", "limited"), (dict, _NONE)),
    "mirror": (dict, _NONE),
    **dict.fromkeys(("command", "permission_rules", "allowed_tools", "acp_session_ids"), (list, _NONE)),
    **dict.fromkeys(("auth_methods", "mcp_servers", "additional_directories", "commands"), (list, _NONE)),
    **dict.fromkeys(("archived", "inject_history", "allow_self_answers"), (bool, _NONE)),
    **dict.fromkeys(("last_sequence", "turns", "unanswered_permissions", "orphaned_questions"), (int,)),
}
_INNER_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("command", "allowed_tools", "acp_session_ids", "system_prompt"), (str,)),
    "additional_directories": (str,),
    **dict.fromkeys(("permission_rules", "auth_methods", "mcp_servers", "commands"), (dict,)),
    "current": (str,),
    "limits": (*_NUMBERS, _NONE),
    "spent": (*_NUMBERS, str, _NONE),
}
_REQUIRED = ("agent_name", "workspace_path")
_REQUIRED_KEYS = {
    "system_prompt": ("mode", "text"),
    "forked_from": ("session_id",),
    "imported": ("from",),
    "launch": ("cookie", "boot_id", "ticks"),
}


def read(session: Session) -> Meta:
    """Read a session's metadata. Raise MetaInvalid unless it is a JSON object about this very session."""
    return _parse(session, _read_text(session))


def read_if_named(session: Session, name: str) -> Meta | None:
    """Read a session's metadata if that is its name; return None if it is not, or if nothing can be read.

    Text without the name is not parsed, which takes half the time when there are thousands of sessions.
    """
    import orjson

    try:
        text = _read_text(session)
        if orjson.dumps(name)[1:-1] not in text and b"\\u" not in text:
            return None
        meta = _parse(session, text)
    except (MetaInvalid, orjson.JSONEncodeError):  # no session has a name that is not UTF-8
        return None
    return meta if meta.get("name") == name else None


def _read_text(session: Session) -> bytes:
    try:
        fd = os.open(f"{session.directory}/{FILE}", os.O_RDONLY | os.O_CLOEXEC)  # twice as fast as open()
        try:
            text = os.read(fd, READ_SIZE)
            while rest := os.read(fd, READ_SIZE):
                text += rest
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise MetaInvalid(session.id, "the file is missing") from None
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        raise MetaInvalid(session.id, error.strerror) from None
    return text


def _parse(session: Session, text: bytes) -> Meta:
    import orjson

    session_id = session.id
    try:
        meta = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise MetaInvalid(session_id, f"not JSON: {error}") from None
    if not isinstance(meta, dict) or meta.get("id") != session_id or not isinstance(meta.get("state"), str):
        raise MetaInvalid(session_id, "it does not describe this session")
    if problem := find_problem(meta):
        raise MetaInvalid(session_id, problem)
    return meta  # type: ignore[return-value]


def find_problem(meta: dict[str, Any]) -> str | None:
    """Describe the first invalid field, or return None. Fields that no reader relies on are not checked."""
    for key in _REQUIRED:
        if key not in meta:
            return f"it has no {key}"
    for key, value in meta.items():
        if key in _FIELD_TYPES and type(value) not in _FIELD_TYPES[key]:
            return f"its {key} has the wrong type"
    for key, types in _INNER_TYPES.items():
        if (value := meta.get(key)) and not _contains_only(value, types):
            return f"its {key} has a value of the wrong type"
    for key, required in _REQUIRED_KEYS.items():
        if (value := meta.get(key)) is not None and not all(inner_key in value for inner_key in required):
            return f"its {key} is incomplete"
    return None


def _contains_only(container: dict[str, Any] | list[Any], types: tuple[type, ...]) -> bool:
    values = container.values() if isinstance(container, dict) else container
    return all(type(value) in types for value in values)


def write(session: Session, meta: Meta, *, sync: bool = True) -> None:
    """Replace the metadata. Without `sync` a power cut may bring back the old text, but never half of it."""
    import orjson

    data = orjson.dumps(meta, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    replace_private_file(os.path.join(session, FILE), data, sync=sync)


def choose(meta: Meta, name: str, value: str) -> None:
    """Record a choice among what the agent offers: a mode, a model, or one of its own options."""
    if name == "mode":
        meta["mode"] = value
    elif name == "model":
        meta["model"] = value
    else:
        meta["options"] = {**(meta.get("options") or {}), name: value}
