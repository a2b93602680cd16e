"""`agh doctor`: is this home fit to be trusted with sessions?"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator

import click

from agh import __version__
from agh.adapters import env_file, registry
from agh.config import load
from agh.console import terminal
from agh.console.output import output_option, write_result
from agh.core.named_tuple import NamedTuple
from agh.errors import AghError, EventsDamaged
from agh.home import Session, checked_home, home_path
from agh.keeper.leash.leftovers import find_leftovers
from agh.keeper.pulse import find_stuck
from agh.sessions.repair import count_lost, repair
from agh.store import lock, meta, sessions
from agh.store.reader import Reader

_OLDEST_SQLITE = (3, 38, 0)  # the ->> operator
_NETWORK = ("nfs", "cifs", "smb", "fuse.sshfs", "9p", "afs", "ceph", "glusterfs", "lustre")


REPAIR = "; repair with: agh session repair --all"


class Check(NamedTuple):
    name: str
    ok: bool
    detail: str


@click.command("doctor", epilog="Example (cron):  agh doctor -o json | jq -e '.doctor | all(.ok)'")
@output_option()
def doctor(output: str) -> None:
    """Check the home, SQLite, the file system and every session.

    Exits 8 if something needs manual attention.
    """
    checks = list(examine())
    rows = [check._asdict() for check in checks]
    write_result("doctor", rows, output, lambda: "\n".join(map(_line, checks)))
    if not all(check.ok for check in checks):
        raise click.exceptions.Exit(8)


def examine() -> Iterator[Check]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Check("agh", True, f"{__version__} on Python {python}")
    yield Check("sqlite", sqlite3.sqlite_version_info >= _OLDEST_SQLITE, sqlite3.sqlite_version)
    try:
        home = checked_home()
    except AghError as error:
        yield Check("home", False, f"{error.message}; {error.hint}")
        return
    if home is None:
        yield Check("home", True, f"{home_path()} (does not exist yet)")
        return
    yield Check("home", True, home)
    try:
        env_file.add_variables(load()["env.file"], {})
        yield Check("settings", True, f"{os.path.join(home, 'config.toml')}")
    except AghError as error:
        yield Check("settings", False, f"{error.message}; {error.hint}")
    kind = _file_system(home)
    local = not kind.startswith(_NETWORK)
    elsewhere = "; locks and logs need a local one: export AGH_HOME=/a/local/directory"
    yield Check("file system", local, kind if local else kind + elsewhere)
    free = os.statvfs(home)
    megabytes = free.f_bavail * free.f_frsize >> 20
    yield Check("disk", megabytes >= 100, f"{megabytes} MB free")
    installed = [agent.name for agent in registry.agents().values() if agent.state() == "installed"]
    yield Check(
        "agents", bool(installed), ", ".join(installed) or "no agent is installed; see: agh agent list"
    )
    yield from _sessions()


def _sessions() -> Iterator[Check]:
    count = escaped = 0
    stale: list[str] = []
    live: list[Session] = []
    for session, _ in sessions.scan():
        count += 1
        name = session.id
        if lock.is_held(session):
            live.append(session)
            continue
        try:
            metadata = meta.read(session)
            escaped += len(find_leftovers(metadata))
            with Reader(session) as reader:
                ((verdict,),) = reader.fetch("PRAGMA quick_check(1)")
                if verdict != "ok":
                    raise EventsDamaged(name, verdict)
            if lost := count_lost(session, metadata):
                last = metadata["last_sequence"]
                detail = f"its log ends at event {last - lost} of {last}"
                yield Check(name, False, f"{detail}; mark the lost events with: agh session repair {name}")
            if repair(session, dry_run=True)["actions"]:
                stale.append(name)
        except AghError as error:
            yield Check(name, False, error.message)
    yield Check("sessions", True, f"{count}, {len(live)} live")
    for session in find_stuck(live):
        name = session.id
        detail = f"the keeper of {name} does not respond; end it with: agh session stop {name} --kill"
        yield Check("keeper", False, detail)
    yield Check("orphans", not escaped, f"{escaped} processes left over" + REPAIR * bool(escaped))
    if stale:
        names = ", ".join(stale[:5]) + (", …" if len(stale) > 5 else "")
        yield Check("interrupted", True, f"{len(stale)}: {names}{REPAIR}")


def _file_system(path: str) -> str:
    """Return the file system type of `path` from /proc/mounts, or `unknown` without one."""
    best, kind = "", "unknown"
    try:
        with open("/proc/mounts", encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                _, point, mount_type, *_ = line.split(" ")
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best):
                    best, kind = point, mount_type
    except OSError:
        pass
    return kind


def _line(check: Check) -> str:
    mark = terminal.styled("ok  ", "success") if check.ok else terminal.styled("FAIL", "error")
    return f"{mark}  {check.name:<12} {terminal.clean(check.detail)}"
