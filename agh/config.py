"""Settings: one table of what can be set, with values from config.toml of the home and of the workspace.

A workspace's `.agh/` is read only if the user trusts it (see trust.py). It adds to the user's settings and
can make them stricter, never looser; a command's flags override both. An unknown key or an invalid value is
an error that names the file and suggests the right key.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from typing import Any

from agh import trust
from agh.core.named_tuple import NamedTuple
from agh.core.settings.values import (
    DISPLAY,
    PARKING,
    amount,
    count,
    patterns,
    permission_mode,
    read_hooks,
    read_notify,
    read_rules,
    read_servers,
    request_timeout,
    seconds,
    tables,
    text,
)
from agh.core.settings.values import PERMISSION_MODES as PERMISSION_MODES
from agh.core.suggest import closest
from agh.errors import ConfigInvalid
from agh.home import agent_files, home_path


def directory(value: Any) -> str:
    """Return an absolute path, with ~ expanded."""
    path = os.path.expanduser(text(value))
    if path and not os.path.isabs(path):
        raise ValueError(f"{value!r} is not an absolute path")
    return path


def directories(value: Any) -> list[str]:
    """Return a list of absolute paths, with ~ expanded."""
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is not a list of paths")
    return [directory(path) for path in value]


class Setting(NamedTuple):
    """What can be set: its default as it would be written, how to read a value, and its help text."""

    default: Any
    read: Callable[[Any], Any]
    meaning: str


SETTINGS: Mapping[str, Setting] = {
    "agent": Setting("", text, "agent for new sessions, if none is named"),
    "mcp_servers": Setting([], read_servers, "MCP servers for new sessions"),
    "permissions.mode": Setting("approve-reads", permission_mode, "what an agent may do without asking"),
    "permissions.rules": Setting([], read_rules, "answers to permission requests; the first match wins"),
    "permissions.timeout": Setting(
        "auto", request_timeout, "deny an unanswered permission request after this time"
    ),
    "questions.timeout": Setting("1h", seconds, "decline an unanswered question after this time"),
    "places": Setting({}, tables, "other places where agents can run; choose one with --on"),
    "hooks": Setting([], read_hooks, "commands to run when something happens in a session"),
    "notify": Setting({}, read_notify, "how to notify you; only in your own config.toml"),
    "env.file": Setting("", directory, "private file of environment variables for agents (NAME=VALUE lines)"),
    "redaction.patterns": Setting([], patterns, "regular expressions for more secrets to hide"),
    "session.limits.max_cost": Setting(0.0, amount, "pause a session at this cost; 0 means no limit"),
    "session.limits.max_turns": Setting(0, count, "pause a session after this many turns; 0 means no limit"),
    "session.limits.max_time": Setting(
        0, seconds, "pause a session once it has been live for this long; 0 means no limit"
    ),
    "session.limits.max_bytes": Setting(
        8 << 30, count, "pause a session when its log reaches this many bytes; 0 means no limit"
    ),
    "session.limits.max_turn_bytes": Setting(
        1 << 30, count, "pause a session when its agent sends this many bytes in a turn; 0 means no limit"
    ),
    **{name: Setting(*fields) for name, fields in PARKING.items()},
    "session.reserve_bytes": Setting(
        32 << 20, count, "pause a session when its disk has fewer free bytes than this"
    ),
    "session.supervision.heartbeat": Setting(
        "30s", seconds, "update the session's meta.json this often while a turn is running"
    ),
    "session.supervision.progress_notify_interval": Setting(
        "10m", seconds, "record a runtime_progress event this often while a turn is running"
    ),
    "session.supervision.inactivity_warning_after": Setting(
        "15m", seconds, "warn once when the agent has been silent for this long"
    ),
    "session.supervision.inactivity_timeout": Setting(
        "30m", seconds, "cancel a turn when the agent has been silent for this long"
    ),
    "session.supervision.tool_inactivity_timeout": Setting(
        "2h", seconds, "cancel a turn when the agent has been silent for this long during a tool call"
    ),
    "session.supervision.timeout_cancel_grace": Setting(
        "30s", seconds, "stop the session if a turn that timed out takes longer than this to end"
    ),
    "session.supervision.prompt_deadline": Setting(
        0, seconds, "cancel a turn that takes longer than this; 0 means no limit"
    ),
    "session.worktrees": Setting("", directory, "directory for git worktrees; empty means one in $AGH_HOME"),
    "session.idle_after": Setting("15m", seconds, "stop a session that has been idle for this long"),
    "session.cancel_grace": Setting("30s", seconds, "how long an agent may take to end a cancelled turn"),
    "session.queue_cap": Setting(10, count, "how many prompts a queue may hold"),
    "session.input_bytes": Setting(65536, count, "size of the largest prompt, in bytes"),
    "session.retry_delay": Setting(
        "2s", seconds, "wait this long before the first retry (--retries); doubles each time"
    ),
    "session.history_budget": Setting(
        60000, count, "how many characters of history an agent gets if it lost its memory"
    ),
    "session.transcript_replay_depth": Setting(50, count, "how many messages a checkpoint keeps"),
    "timeouts.initialize": Setting("60s", seconds, "how long to wait for the agent's first answer"),
    "timeouts.new": Setting("60s", seconds, "how long an agent may take to create a session (session/new)"),
    "timeouts.load": Setting("120s", seconds, "how long an agent may take to load or resume a session"),
    "catalog.url": Setting(
        "https://cdn.agentclientprotocol.com/registry/v1/latest/registry.json",
        text,
        "address of the registry of agents; empty means never download it",
    ),
    **{name: Setting(*fields) for name, fields in DISPLAY.items()},
    "trusted_workspaces": Setting(
        [], directories, "workspaces whose .agh/ is always trusted; only in your own config.toml"
    ),
}

TABLES = ("notify", "places")  # tables that are read as a whole; the entries of all files are merged
WORKSPACE_FOLDER = trust.FOLDER
OWN_ONLY = ("trusted_workspaces", "notify", "env.file", "ui.theme")  # what no workspace can set


def load(workspace: str | None = None) -> dict[str, Any]:
    """Return every setting with its value. A workspace's settings only add to the user's, or tighten them."""
    own_path, *others = config_files(workspace)
    own = {name: setting.default for name, setting in SETTINGS.items()} | written(own_path)
    values = own
    for path in others:
        values = layered(own, trust.use_copy(written(path), workspace, os.path.dirname(path)))
    settings = {name: SETTINGS[name].read(value) for name, value in values.items()}
    if settings["permissions.rules"]:
        from agh.core.settings.layers import with_sources

        files = [own_path, *others]
        settings["permissions.rules"] = with_sources(
            settings["permissions.rules"], len(own["permissions.rules"]), files
        )
    return settings


def layered(own: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Return the values, as written, that hold in a workspace with these settings."""
    if not theirs:
        return own
    from agh.core.settings.layers import join

    return own | {name: join(name, own[name], value, SETTINGS[name].read) for name, value in theirs.items()}


def config_files(workspace: str | None) -> list[str]:
    """List the files whose settings are used. A later one overrides an earlier one."""
    folder = trusted_folder(workspace)
    return [own_file(), *([os.path.join(folder, "config.toml")] if folder else [])]


def own_file() -> str:
    """Return the path of the user's own settings."""
    return os.path.join(home_path(), "config.toml")


def workspace_file(workspace: str) -> str:
    """Return the path of a workspace's settings, whether it is trusted or not."""
    return os.path.join(workspace, WORKSPACE_FOLDER, "config.toml")


def trusted_folder(workspace: str | None) -> str | None:
    """Return the folder with a workspace's trusted settings: the stored copy, or a listed `.agh`; or None."""
    if not _may_have_settings(workspace):
        return None
    record = trust.record_of(workspace)
    if record is not None:
        return record.folder
    folder = trust.folder_of(workspace)
    return folder if folder and not os.path.islink(folder) and is_listed(str(workspace)) else None


def _may_have_settings(workspace: str | None) -> bool:
    """Tell whether a workspace has settings, or had some that were trusted; nearly always it has none."""
    if not workspace or os.path.lexists(os.path.join(workspace, WORKSPACE_FOLDER)):
        return bool(workspace)
    return os.path.exists(os.path.join(home_path(), trust.INDEX))


def is_listed(workspace: str) -> bool:
    """Tell whether the user's own settings name this directory in `trusted_workspaces`."""
    listed = directories(written(own_file()).get("trusted_workspaces", []))
    return "\0" not in workspace and os.path.realpath(workspace) in map(os.path.realpath, listed)


def is_trusted(workspace: str) -> bool:
    """Tell whether the user trusts a workspace's settings, by command or in the own settings."""
    return trust.record_of(workspace) is not None or is_listed(workspace)


def trust_state(workspace: str) -> str:
    """Return whether a workspace's settings are trusted, changed since, untrusted, or none."""
    return trust.state(workspace, is_listed=is_listed(workspace))


def untrusted_files(workspace: str | None) -> list[str]:
    """List the files in a workspace's `.agh` that are ignored because the workspace is not trusted."""
    folder = trust.folder_of(workspace)
    if folder is None or (not os.path.islink(folder) and is_trusted(str(workspace))):
        return []
    if os.path.islink(folder):
        return [folder]
    settings = [path] if os.path.lexists(path := os.path.join(folder, "config.toml")) else []
    return settings + agent_files(folder)


def untrusted_note(workspace: str | None) -> str | None:
    """Return a line that says what of a workspace is not used and how to change that, or None."""
    if not _may_have_settings(workspace):
        return None
    record = trust.record_of(workspace)
    if record is not None and trust.is_changed(record, trust.folder_of(workspace)):
        command = f"agh workspace trust {record.path}"
        return f".agh/ has changed since you trusted it; the trusted copy is used; review it again: {command}"
    files = untrusted_files(workspace)
    names = [os.path.relpath(path, workspace) for path in files]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    note = f"ignored {', '.join(names[:3])}{more}: this directory is not trusted; {how_to_trust(workspace)}"
    return note if names else None


def how_to_trust(workspace: str | None) -> str:
    """Say how to trust a workspace."""
    return f"review it and trust it: agh workspace trust {os.path.realpath(str(workspace))}"


def written(path: str) -> dict[str, Any]:
    """Return the settings in one file, as written; none if there is no file. Raise its first problem."""
    values, problems = examine(path)
    if problems:
        raise problems[0]
    return values


def examine(path: str) -> tuple[dict[str, Any], list[ConfigInvalid]]:
    """Return the valid settings in one file, and all problems with it."""
    try:
        with open(path, "rb", opener=_open_regular) as file:
            import tomllib

            from agh.core.settings.toml_text import flatten

            entries = dict(flatten(tomllib.load(file), whole=TABLES))
    except (FileNotFoundError, NotADirectoryError):
        return {}, []
    except (OSError, ValueError) as error:
        return {}, [ConfigInvalid(path, error)]
    values, problems = {}, []
    for name, value in entries.items():
        if name not in SETTINGS:
            problems.append(ConfigInvalid(path, f"unknown key {name!r}", hint=suggest(name)))
            continue
        if name in OWN_ONLY and path != own_file():
            problems.append(ConfigInvalid(path, f"{name} can only be set in your own {own_file()}"))
            continue
        try:
            SETTINGS[name].read(value)
            values[name] = value
        except ValueError as error:
            problems.append(ConfigInvalid(path, f"{name}: {error}"))
    return values, problems


def _open_regular(path: str, flags: int) -> int:
    """Open a regular file: a FIFO would block, a device might act."""
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ValueError("it is not a regular file")
    return fd


def suggest(name: str) -> str:
    """Return a hint for an unknown key: the closest one, or all of them."""
    close = closest(name, SETTINGS, cutoff=0.5)
    return f"did you mean {close}?" if close else f"known keys: {', '.join(SETTINGS)}"
