"""Settings: one table of what can be set, filled from config.toml of the home and of the workspace.

A workspace's `.agh/` counts only when the user's own config.toml lists its path in `trusted_workspaces`;
otherwise nothing in it is even read. A trusted workspace wins over the home; a command's flags win over
both. An unknown key or a value of the wrong kind is an error that names the file, and the key that was
probably meant.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from agh.core.suggest import closest
from agh.errors import ConfigInvalid
from agh.home import home_path

if TYPE_CHECKING:
    from agh.core.rules import Rule

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)")
SECONDS_PER_UNIT = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
PERMISSION_MODES = ("deny-all", "approve-reads", "approve-all")


def seconds(value: Any) -> float:
    """A time span: a number of seconds, or 90s, 5m, 2h, 3d."""
    match = _SPAN.fullmatch(str(value)) if isinstance(value, str | int | float) else None
    if match is None:
        raise ValueError(f"{value!r} is not a time span such as 30s, 5m, 2h")
    return float(match[1]) * SECONDS_PER_UNIT[match[2]]


def count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a whole number")
    return value


def amount(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"{value!r} is not an amount")
    return float(value)


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value


def directory(value: Any) -> str:
    path = os.path.expanduser(text(value))
    if path and not os.path.isabs(path):
        raise ValueError(f"{value!r} is not an absolute path")
    return path


def directories(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is not a list of paths")
    return [directory(path) for path in value]


def permission_mode(value: Any) -> str:
    if value not in PERMISSION_MODES:
        raise ValueError(f"{value!r} is none of {', '.join(PERMISSION_MODES)}")
    return str(value)


def tables(value: Any) -> dict[str, dict[str, Any]]:
    """Named tables; what is in them is read by whoever knows."""
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        raise ValueError("each is a table of its own, as in [places.NAME]")
    return value


def read_servers(value: Any) -> list[dict[str, Any]]:
    if value == []:  # as nearly always: not worth an import
        return []
    from agh.core import mcp

    return mcp.read_servers(value)


def read_rules(value: Any) -> list[Rule]:
    if value == []:  # as nearly always: not worth an import
        return []
    from agh.core import rules

    return rules.read_rules(value)


class Hook(NamedTuple):
    """A command to run on an event. A sync one is waited for; a required one that fails stops the session."""

    event: str
    command: str
    mode: str = "sync"
    required: bool = False
    timeout: float = 30.0


HOOK_EVENTS = ("session_start", "session_resume", "prompt", "permission", "turn_end", "session_stop")


def read_hooks(value: Any) -> list[Hook]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ValueError("hooks are a list of tables: [[hooks]]")
    return [_hook(one, number) for number, one in enumerate(value, 1)]


def _hook(given: dict[str, Any], number: int) -> Hook:
    unknown = set(given) - set(Hook._fields)
    if unknown:
        raise ValueError(
            f"hook {number}: unknown key {sorted(unknown)[0]!r}; known are {', '.join(Hook._fields)}"
        )
    made = Hook(str(given.get("event")), str(given.get("command") or ""))
    made = made._replace(
        mode=str(given.get("mode", made.mode)),
        required=bool(given.get("required", False)),
        timeout=seconds(given.get("timeout", made.timeout)),
    )
    if made.event not in HOOK_EVENTS or made.mode not in ("sync", "async") or not made.command:
        raise ValueError(
            f"hook {number} needs a command, an event of {', '.join(HOOK_EVENTS)}, mode sync or async"
        )
    return made


class Setting(NamedTuple):
    default: Any
    read: Callable[[Any], Any]
    meaning: str


SETTINGS: Mapping[str, Setting] = {
    "agent": Setting("", text, "the agent of a new session when none is named"),
    "mcp_servers": Setting([], read_servers, "MCP servers for new sessions"),
    "permissions.mode": Setting("approve-reads", permission_mode, "what an agent may do without asking"),
    "permissions.rules": Setting([], read_rules, "decisions made beforehand; the first that matches counts"),
    "permissions.timeout": Setting("5m", seconds, "an unanswered request is rejected after this"),
    "places": Setting({}, tables, "where agents run, by the names that --on takes"),
    "hooks": Setting([], read_hooks, "commands to run on what happens in a session"),
    "session.limits.max_cost": Setting(
        0.0, amount, "a session pauses when it has cost this much; 0 is no limit"
    ),
    "session.limits.max_turns": Setting(0, count, "a session pauses after this many turns; 0 is no limit"),
    "session.limits.max_time": Setting(
        0, seconds, "a session pauses after being live for this long; 0 is no limit"
    ),
    "session.supervision.heartbeat": Setting(
        "30s", seconds, "how often the metadata of a running turn is refreshed"
    ),
    "session.supervision.progress_notify_interval": Setting(
        "10m", seconds, "a runtime_progress event this often"
    ),
    "session.supervision.inactivity_warning_after": Setting(
        "15m", seconds, "one warning after this much silence"
    ),
    "session.supervision.inactivity_timeout": Setting(
        "30m", seconds, "a silent turn is cancelled after this"
    ),
    "session.supervision.tool_inactivity_timeout": Setting(
        "2h", seconds, "the same while a tool call is running"
    ),
    "session.supervision.timeout_cancel_grace": Setting(
        "30s", seconds, "then the session is stopped after this"
    ),
    "session.supervision.prompt_deadline": Setting(
        0, seconds, "a turn may take this long at most; 0 is no limit"
    ),
    "session.worktrees": Setting("", directory, "where git worktrees are made; by default in the home"),
    "session.idle_after": Setting("15m", seconds, "a live session without a turn ends its agent after this"),
    "session.cancel_grace": Setting("30s", seconds, "how long an agent may take to end a cancelled turn"),
    "session.queue_cap": Setting(10, count, "how many prompts may wait"),
    "session.input_bytes": Setting(65536, count, "the largest prompt, in bytes of text"),
    "session.retry_delay": Setting(
        "2s", seconds, "the pause before a failed prompt is sent again (--retries); doubled each time"
    ),
    "session.history_budget": Setting(
        60000, count, "characters of history given to an agent that lost its own"
    ),
    "session.transcript_replay_depth": Setting(
        50, count, "messages of the conversation that a checkpoint keeps"
    ),
    "timeouts.initialize": Setting("60s", seconds, "the agent's first answer"),
    "timeouts.new": Setting("60s", seconds, "session/new"),
    "timeouts.load": Setting("120s", seconds, "session/load and session/resume"),
    "trusted_workspaces": Setting(
        [], directories, "workspaces whose .agh/ is used; counts only in your own config.toml"
    ),
}


TABLES = ("places",)  # tables whose entries have names of the user's own; those of all files count
WORKSPACE_FOLDER = ".agh"
OWN_ONLY = ("trusted_workspaces",)  # settings that a workspace cannot have


def load(workspace: str | None = None) -> dict[str, Any]:
    """Return every setting with its value."""
    values = {name: setting.default for name, setting in SETTINGS.items()}
    for path in config_files(workspace):
        settings = written(path)
        for name in TABLES:
            settings[name] = values[name] | settings.get(name, {})
        values |= settings
    return {name: SETTINGS[name].read(value) for name, value in values.items()}


def config_files(workspace: str | None) -> list[str]:
    """List the files whose settings count, the strongest last."""
    folder = trusted_folder(workspace)
    return [own_file(), *([os.path.join(folder, "config.toml")] if folder else [])]


def own_file() -> str:
    """Return the path of the user's own settings."""
    return os.path.join(home_path(), "config.toml")


def workspace_file(workspace: str) -> str:
    """Return the path of a workspace's settings, whether they count or not."""
    return os.path.join(workspace, WORKSPACE_FOLDER, "config.toml")


def trusted_folder(workspace: str | None) -> str | None:
    """Return the workspace's `.agh` if the user trusts it, else None. A link is never trusted."""
    folder = _workspace_folder(workspace)
    return folder if folder and not os.path.islink(folder) and is_trusted(str(workspace)) else None


def is_trusted(workspace: str) -> bool:
    """Tell whether the user's own settings name this directory in `trusted_workspaces`."""
    trusted = directories(written(own_file()).get("trusted_workspaces", []))
    return os.path.realpath(workspace) in map(os.path.realpath, trusted)


def untrusted_files(workspace: str | None) -> list[str]:
    """List what a workspace's `.agh` holds that is not used, because nobody has trusted it."""
    folder = _workspace_folder(workspace)
    if folder is None or (not os.path.islink(folder) and is_trusted(str(workspace))):
        return []
    if os.path.islink(folder):
        return [folder]
    settings = [path] if os.path.lexists(path := os.path.join(folder, "config.toml")) else []
    return settings + agent_files(folder)


def agent_files(folder: str) -> list[str]:
    """List the files that define agents, in the home or in a workspace's `.agh`."""
    try:
        names = sorted(os.listdir(os.path.join(folder, "agents")))
    except OSError:
        return []
    return [os.path.join(folder, "agents", name) for name in names if name.endswith(".toml")]


def untrusted_note(workspace: str | None) -> str | None:
    """Say in one line what of a workspace is ignored, and how to use it; None if nothing is ignored."""
    files = untrusted_files(workspace)
    if not files:
        return None
    names = [os.path.relpath(path, workspace) for path in files]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"ignored {', '.join(names[:3])}{more}: this directory is not trusted; {how_to_trust(workspace)}"


def how_to_trust(workspace: str | None) -> str:
    """Say what makes a workspace's `.agh` count."""
    return f'to use it, add "{os.path.realpath(str(workspace))}" to trusted_workspaces in {own_file()}'


def _workspace_folder(workspace: str | None) -> str | None:
    """Return the workspace's `.agh` if it has one; the home itself, which always counts, is not one."""
    if not workspace:
        return None
    folder = os.path.join(workspace, WORKSPACE_FOLDER)
    if not os.path.isdir(folder) or os.path.realpath(folder) == os.path.realpath(home_path()):
        return None
    return folder


def written(path: str) -> dict[str, Any]:
    """Return the settings in one file, as they are written; none when there is no file."""
    values, problems = examine(path)
    if problems:
        raise problems[0]
    return values


def examine(path: str) -> tuple[dict[str, Any], list[ConfigInvalid]]:
    """Return the settings in one file that are right, and everything that is wrong with it."""
    try:
        with open(path, "rb", opener=_open_regular) as file:
            import tomllib

            from agh.core.toml_text import flat

            given = dict(flat(tomllib.load(file), whole=TABLES))
    except (FileNotFoundError, NotADirectoryError):
        return {}, []
    except (OSError, ValueError) as error:
        return {}, [ConfigInvalid(path, error)]
    values, problems = {}, []
    for name, value in given.items():
        if name not in SETTINGS:
            problems.append(ConfigInvalid(path, f"unknown key {name!r}", hint=suggest(name)))
            continue
        if name in OWN_ONLY and path != own_file():
            problems.append(ConfigInvalid(path, f"{name} counts only in your own {own_file()}"))
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
    """What was probably meant by a key that is none."""
    close = closest(name, SETTINGS, alike=0.5)
    return f"did you mean {close}?" if close else f"known keys: {', '.join(SETTINGS)}"
