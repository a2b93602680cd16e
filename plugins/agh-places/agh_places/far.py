"""The far side of a wire: what is sent there to start the agent, and what its end means.

`far.sh` runs between the wire and the agent's stdin. It is needed because ssh without a terminal, `docker
exec` and `kubectl exec` leave the process they started running when the wire is cut. All that process notices
is the end of its stdin; a busy agent may not look at that, and the agent's own children never do. So the
script ends everything that belongs to its launch soon after the wire has ended.

It is a POSIX shell script because every host, node and image that can run an agent has a shell; most have no
Python. It is sent down the wire, ahead of the first message, because it brings the agent's environment:
secrets must not be in an argv, which everybody on both machines can read. Only a loader is in the argv. It
reads as many bytes as its argument says, one by one so that it takes none of the agent's, and runs them.

It needs a heartbeat because a network can go silent without closing anything, and because Slurm does not end
a job's stdin when its srun is killed. agh sends a space every few seconds, which means nothing ahead of a
JSON message, and the script looks in /proc whether bytes still arrive. After four looks without one it treats
the wire as cut. While the agent is not reading its stdin the script cannot tell, and does nothing.

The processes of a launch are found by a mark in their environment, as in agh's own `orphans.py`, however
deep, detached or orphaned they are. Where /proc cannot be read the script ends its process group instead.
Before it starts the agent it ends whatever carries an older mark of the same session: a session must never
have two agents.

The agent's end differs from the wire's end by a notice: the script writes `agh-place: ended CODE` to stderr
when the agent has exited. A wire that ends without a notice broke, whatever exit code its program returned.
Then it ends the process that reads the wire, so an exit is noticed at once and not with the next heartbeat.

podman runs a container's processes below its own, so with `podman exec` the leash on this machine kills the
script along with the wire; what had left the agent's tree would stay. For such a place the script starts a
guard that the leash cannot see.

Out of reach are processes that wiped their environment or changed their uid; and, until the session is
resumed, an agent that had stopped reading, with a full pipe, before the wire was cut.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from agh.adapters.launch import Launch
from agh.core.acp.reasons import cause_in
from agh.errors import AgentDied, AgentNotInstalled, AghError, PlaceGone, WorkspaceGone

MARK = "AGH_PLACE_RUN"  # far.sh has the same name
NOTICE = "agh-place: "
STARTED = f"{NOTICE}started"
# What srun prints of a job that waits, and of one that need not wait any longer.
_PROGRESS = re.compile(r"srun: job \d+ (queued and waiting for|has been allocated) resources")
HEARTBEAT, PAUSE = 10.0, 15.0  # seconds between two spaces, and between two looks whether one came
ALWAYS_FORWARDED = ("AGH_SESSION_ID",)
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOADER = 'eval "$(dd bs=1 count=$0 2>/dev/null)"'


def build_shell_argv(preamble: bytes) -> list[str]:
    """Return the command for the far side. It reads the preamble from its stdin and runs it."""
    return ["sh", "-c", _LOADER, str(len(preamble))]


def build_preamble(
    launch: Launch,
    place_env: Sequence[str],
    on_disconnect: str = "",
    pause: float = PAUSE,
    guard: bool = False,
) -> bytes:
    """Return what goes down the wire ahead of the first message: this launch's values, then `far.sh`.

    The values are quoted for the shell and the script is never edited, so no value can become part of it.
    `on_disconnect` is a shell command to run in the place after the wire has ended. With a `guard` the agent
    ends even if the script is killed.
    """
    session = launch.session_id
    run = f"{session or 'none'}:{launch.environ.get('AGH_LAUNCH', '')[:16]}"
    variables = {
        **select_forwarded(launch),
        **resolve_place_env(place_env, launch.environ),
        MARK: run,
    }
    assignments = [
        f"{name}={shlex.quote(value)}" for name, value in variables.items() if VARIABLE_NAME.fullmatch(name)
    ]
    values = {
        "agh_mark": f"{MARK}={run}",
        # Probes belong to no session, and may run side by side.
        "agh_session_mark": f"{MARK}={session}:" if session else "",
        "agh_directory": launch.cwd,
        "agh_package": launch.agent.npm_package(),
        "agh_pause": f"{pause:g}",
        "agh_guard": "yes" if guard else "",
    }
    header = [
        *(f"{name}={shlex.quote(value)}" for name, value in values.items()),
        f"export_environment() {{ export {' '.join(assignments)}; }}",
        f"on_disconnect() {{ {on_disconnect or ':'}; }}",
        f"set -- {shlex.join([*launch.agent.argv, *launch.extra])}",
        *([f"echo {shlex.quote(STARTED)} >&2"] if launch.started_notice else []),
    ]
    return os.fsencode("\n".join(header) + "\n") + _read_script()


# Users have programs in ~/.local/bin, which is not on the PATH that ssh gives a command. The command's end
# differs from the wire's end by the notice.
_COMMAND = """
send_notice() { printf '\\nagh-place: %s\\n' "$1" >&2; }
PATH=$PATH:$HOME/.local/bin
[ -z "$agh_directory" ] || cd -- "$agh_directory" 2>/dev/null || { send_notice no-directory; exit 126; }
command -v agh >/dev/null 2>&1 || { send_notice no-program; exit 127; }
agh "$@"
send_notice "ended $?"
"""


def build_command_preamble(
    arguments: Sequence[str], place_env: Sequence[str], directory: str, environ: Mapping[str, str]
) -> bytes:
    """Return what runs a command of the agh that is installed there, in the directory if there is one."""
    variables = resolve_place_env(place_env, environ)
    header = [
        f"agh_directory={shlex.quote(directory)}",
        *(f"export {name}={shlex.quote(value)}" for name, value in variables.items()),
        f"set -- {shlex.join(arguments)}",
    ]
    return os.fsencode("\n".join(header) + _COMMAND)


@cache
def _read_script() -> bytes:
    return Path(__file__).with_name("far.sh").read_bytes()


def select_forwarded(launch: Launch) -> dict[str, str]:
    """Return the variables to forward: those that the agent's record sets, and those that it names."""
    patterns = (*ALWAYS_FORWARDED, *launch.agent.crosses)
    forwarded = {
        name: value
        for name, value in launch.environ.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }
    return {**forwarded, **launch.agent.env}


def resolve_place_env(place_env: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return a place's own variables: NAME has its value in `environ`, if any; NAME=VALUE brings its own."""
    parts = (entry.partition("=") for entry in place_env)
    pairs = ((name, value if equals else environ.get(name)) for name, equals, value in parts)
    return {name: value for name, value in pairs if value is not None}


def explain_end(place: str, launch: Launch, exit_status: Mapping[str, Any], stderr: str) -> AghError:
    """Return the error that says why a wire ended, from its program's exit status and its stderr."""
    lines = [
        line
        for line in stderr.splitlines()
        if line.strip() and line != STARTED and not _PROGRESS.fullmatch(line.strip())
    ]
    notice = next((line.removeprefix(NOTICE) for line in reversed(lines) if line.startswith(NOTICE)), None)
    output = [line for line in lines if not line.startswith(NOTICE)]
    cause = cause_in([line[:300] for line in output])
    last_words = f"; its last output: {cause}" if cause else ""
    if notice is None:
        program, code, number = (
            os.path.basename(launch.argv[0]),
            exit_status.get("exit"),
            exit_status.get("signal"),
        )
        how = f"exited with {code}" if number is None else f"was killed by signal {number}"
        return PlaceGone(place, f"{output[-1][:300]} ({program} {how})" if output else f"{program} {how}")
    if notice == "no-directory":
        advice = (
            f"create it in {place}, or choose another: dir in [places.NAME] of config.toml, or ssh:HOST:DIR"
        )
        owner = f"session {launch.session_id}: its workspace " if launch.session_id else ""
        return WorkspaceGone(f"{owner}{launch.cwd} in {place}", hint=advice)
    agent = launch.agent
    if notice == "no-program":
        install = f"install it there: {agent.install}" if agent.install else None
        return AgentNotInstalled(agent.name, f"{agent.argv[0]} is not on PATH in {place}", hint=install)
    how = f"exited with code {notice.removeprefix('ended ')} in {place}{last_words}"
    return AgentDied(agent.name, how, hint=f"agh agent doctor {agent.name} --on {place}")
