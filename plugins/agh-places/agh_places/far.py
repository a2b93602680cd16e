"""The far side of a wire: a shell script that starts the agent there, and sees to it that it ends.

Why it is needed: ssh without a terminal, `docker exec`, `kubectl exec` leave the process they started
running when the wire is cut. All that reaches it then is the end of its stdin; an agent in the middle
of its work may not look at that, and what it started never does. So the script stands between the wire
and the agent's stdin, and ends everything of its launch soon after the stdin has ended.

Why a POSIX shell: there is one on every host, node and image that an agent can run on; Python is not in most.
Why the script comes down the wire, ahead of the first message: an environment with its secrets must not be
in an argv, where everybody on both machines could read it. In the argv is only `shell`, which reads as many
bytes as it is told, one by one so that none of the agent's is taken, and runs them.

Why a heartbeat: a network can go silent without closing anything, and Slurm does not tell a job's stdin that
its srun was killed. So agh sends a space every few seconds, which before a JSON message means nothing, and
the script sees in /proc whether bytes still come. Four looks without one, and the wire counts as cut. While
the agent itself has not taken what came, nothing can be told, and nothing is done.

What belongs to a launch is known by a mark in its environment, as in agh's own `orphans.py`: found in /proc,
however deep, detached or orphaned. All of it is stopped before any is killed: one that saw another's end
might still act on it. The sweep repeats until it finds nothing, because a kill takes effect late and a
process may have forked meanwhile. Where marks cannot be read the process group is ended. Before it starts
the agent the script ends what carries an older mark of the same session: there must never be two agents of
one.

What the script may use: POSIX utilities as busybox has them. Its grep stops at a NUL byte, so `marked` turns
an environment into lines first: `head` names each file in a header line, and three processes read all of
/proc. An environment can contain a line that looks like such a header, so `marked` reads each process that
it is about to report once more. A busybox that prefers its own applets runs them without an exec, and /proc
then shows no mark; through `env` they are executed.

How the wire's end is told from the agent's: the far side says goodbye. `agh-place: ended CODE` on stderr is
the agent's own end; a wire that ends without it broke, whatever exit code its program chose.

Out of its reach: what wiped its environment or took another uid; and, until the session is resumed, an
agent that had stopped reading, with a full pipe, before the wire was cut.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from agh.adapters.launch import Launch
from agh.errors import AgentDied, AgentNotInstalled, AghError, PlaceGone, WorkspaceGone

MARK = "AGH_PLACE_RUN"
WORD = "agh-place: "
HEARTBEAT, PAUSE = 10.0, 15.0  # seconds between two spaces, and between two looks whether one came
ALWAYS = ("AGH_SESSION_ID",)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOADER = 'eval "$(dd bs=1 count=$0 2>/dev/null)"'

_SCRIPT = r"""
say() { printf '\nagh-place: %s\n' "$1" >&2; }
marked() (
  unset AGH_PLACE_RUN; LC_ALL=C; export LC_ALL; exec 2>/dev/null
  head -n 9999999 /proc/[0-9]*/environ | tr '\0' '\n' |
    sed -n -e '/^==> .proc.[0-9]*.environ <==$/{' -e 's/[^0-9]//g' -e h -e '}' -e "/^$1/{" -e g -e p -e '}' |
    while read -r pid; do
      case "
$(tr '\0\n' '\n ' <"/proc/$pid/environ")" in *"
$1"*) echo "$pid" ;; esac
    done
)
sweep() {
  for round in 1 2 3 4 5 6 7 8 9; do
    them=$(marked "$2")
    [ "$them" ] || break
    [ "$1" = TERM ] && { kill -TERM $them 2>/dev/null; return 0; }
    kill -STOP $them 2>/dev/null
    kill -KILL $them 2>/dev/null
    [ $round -lt 6 ] || (unset AGH_PLACE_RUN; sleep 1)
  done
  [ "$1" = KILL ]
}
can_sweep() { [ -r /proc/$$/environ ] && command -v head && command -v tr && command -v sed; } >/dev/null
[ -z "$earlier" ] || sweep KILL "$earlier"
export @environment@
cd -- @directory@ 2>/dev/null || { say no-directory; exit 126; }
set -- @argv@
@instead@
command -v "$1" >/dev/null 2>&1 || { say no-program; exit 127; }
watch() {
  last= calm= count=0
  while env sleep @pause@; do
    got= gave=
    while read -r key value; do
      case $key in rchar:) got=$value ;; wchar:) gave=$value ;; esac
    done <"/proc/$1/io" || return
    [ "$got" ] && [ "$gave" ] || return
    [ "$calm" ] && [ $((got - gave)) -ge "$calm" ] || calm=$((got - gave))
    if [ "$got" = "$last" ] && [ $((got - gave)) -le "$calm" ]; then count=$((count + 1)); else count=0; fi
    last=$got
    [ $count -lt 4 ] || kill "$1"
  done
}
{
  env dd bs=65536 <&3 & wire=$!
  exec >/dev/null
  watch $wire 3<&- &
  wait $wire
  case $? in 0 | 143) env sleep 2 && sweep TERM "$mark" && env sleep 1; sweep KILL "$mark"; @farewell@
  esac
  sweep KILL "$mark"; can_sweep || kill -KILL 0
} 3<&0 2>/dev/null | { "$@"; code=$?; sweep KILL "$mark"; say "ended $code"; exit $code; }
"""


def shell(preamble: bytes) -> list[str]:
    """The command to run on the far side: it reads the preamble from its stdin and becomes it."""
    return ["sh", "-c", _LOADER, str(len(preamble))]


def preamble(launch: Launch, env: Sequence[str], farewell: str = "", pause: float = PAUSE) -> bytes:
    """The script for this launch: environment, directory, program, and the watch over its end.

    `farewell` is what else is to be done there, in shell words, when the wire has ended.
    """
    session = launch.session_id
    run = f"{session or 'none'}:{launch.environ.get('AGH_LAUNCH', '')[:16]}"
    earlier = f"{MARK}={session}:" if session else ""  # probes are of no session, and may run side by side
    values = {**crossing(launch), **settings(env, launch.environ), MARK: run}
    argv = [*launch.agent.argv, *launch.extra]
    package = launch.agent.package
    instead = shlex.join(["npx", "-y", package, *argv[1:]]) if package else ""
    use = 'command -v "$1" >/dev/null 2>&1 || ! command -v npx >/dev/null 2>&1 || set -- '
    parts = {
        "environment": " ".join(
            f"{name}={shlex.quote(value)}" for name, value in values.items() if NAME.fullmatch(name)
        ),
        "directory": shlex.quote(launch.cwd),
        "argv": shlex.join(argv),
        "instead": use + instead if instead else "",
        "farewell": farewell,
        "pause": f"{pause:g}",
    }
    text = re.sub("@([a-z]+)@", lambda match: parts[match[1]], _SCRIPT.strip())
    head = f"mark={shlex.quote(f'{MARK}={run}')} earlier={shlex.quote(earlier)}\n"
    return os.fsencode(head + text + "\n")


def crossing(launch: Launch) -> dict[str, str]:
    """What goes along of the environment: what the agent's record sets, and the names it says it needs."""
    wanted = (*ALWAYS, *launch.agent.crosses)
    found = {
        name: value
        for name, value in launch.environ.items()
        if any(fnmatchcase(name, pattern) for pattern in wanted)
    }
    return {**found, **launch.agent.env}


def settings(env: Iterable[str], here: Mapping[str, str]) -> dict[str, str]:
    """A place's own variables: NAME has its value here, if it has one; NAME=VALUE is said."""
    pairs = (one.partition("=") for one in env)
    said = ((name, value if equals else here.get(name)) for name, equals, value in pairs)
    return {name: value for name, value in said if value is not None}


def explain(place: str, launch: Launch, ended: Mapping[str, Any], said: str) -> AghError:
    """Why a wire ended, from its exit and what came on its stderr."""
    lines = [line for line in said.splitlines() if line.strip()]
    goodbye = next((line.removeprefix(WORD) for line in reversed(lines) if line.startswith(WORD)), None)
    words = [line for line in lines if not line.startswith(WORD)]
    last = f"; its last words: {words[-1][:300]}" if words else ""
    if goodbye is None:
        program, number = os.path.basename(launch.argv[0]), ended.get("signal")
        how = f"was killed by signal {number}" if number is not None else f"exited with {ended.get('exit')}"
        return PlaceGone(place, f"{words[-1][:300]} ({program} {how})" if words else f"{program} {how}")
    if goodbye == "no-directory":
        where = f"make the directory in {place}, or name another: [places.NAME] dir, or ssh:HOST:DIR"
        return WorkspaceGone(launch.session_id or "(new)", f"{launch.cwd} in {place}", hint=where)
    name = launch.agent.name
    if goodbye == "no-program":
        advice = f"install it there: {launch.agent.install}" if launch.agent.install else None
        return AgentNotInstalled(name, f"{launch.agent.argv[0]} is not on PATH in {place}", hint=advice)
    return AgentDied(name, f"exited with code {goodbye.removeprefix('ended ')} in {place}{last}")
