"""What installing an agent would do: which version, from npm, PyPI or a checked archive, under which name.

Only computes. agh's own record of an agent is laid over the catalog's entry: the entry says what to install,
the record how the agent is started and what is peculiar about it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agh.adapters.agents import AgentRecord, find_program, pinned_program
from agh.catalog.entries import SHA256, VERSION, Binary, Entry, Package
from agh.core.suggest import closest
from agh.errors import AgentNotInstallable, AgentUnlisted, Usage
from agh.home import home_path

WAYS = ("npx", "uvx", "binary")
BIN_FOLDERS = {"npx": "node_modules/.bin", "uvx": "bin"}  # where npm and uv put the programs of a package
TOOLS = {"npx": ("npm", "install Node.js, which includes npm"), "uvx": ("uv", "pip install uv")}


@dataclass(frozen=True)
class Plan:
    """An installation that can be carried out."""

    name: str  # the agent's name in agh
    entry: Entry
    extends: str  # the record that it adds a version to; empty for an agent that only the catalog knows
    argv: tuple[str, ...]
    env: Mapping[str, str]
    pin: Mapping[str, Any]  # what its file will say
    binary: Binary | None = None

    @property
    def command(self) -> list[str]:
        """Return what a session will run."""
        return [*pinned_program(self.pin), *self.argv[1:]]

    @property
    def download(self) -> str:
        """Say what is downloaded."""
        if self.binary:
            return f"{self.binary.archive} (sha256 {self.binary.sha256})"
        source = "npm" if self.pin["via"] == "npx" else "PyPI"
        return f"{self.pin['package']} from {source}"

    @property
    def folder(self) -> str:
        """Return the directory that this version is installed into."""
        top = programs_path(self.name)
        return os.path.join(top, os.path.relpath(self.pin["path"], top).split(os.sep)[0])

    def describe(self) -> dict[str, Any]:
        """Return the plan as data."""
        return {
            "name": self.name,
            "id": self.entry.id,
            "version": self.pin["version"],
            "via": self.pin["via"],
            "download": self.download,
            "command": self.command,
            "env": dict(self.env),
            "file": agent_file(self.name),
        }


def agent_file(name: str) -> str:
    """Return the path of the file that defines an agent of the user's."""
    return os.path.join(home_path(), "agents", f"{name}.toml")


def programs_path(name: str) -> str:
    """Return the directory with the programs that were installed for an agent, by version."""
    return os.path.join(home_path(), "agents", "bin", name)


def agent_names(entries: Mapping[str, Entry], records: Mapping[str, AgentRecord]) -> dict[str, str]:
    """Map the catalog's ids to agh's names; leave out an id that agh has another agent for."""
    ids = {record.catalog or record.name: record.name for record in records.values()}
    return {id: ids.get(id, id) for id in entries if id in ids or id not in records}


def find_entry(
    name: str, entries: Mapping[str, Entry], records: Mapping[str, AgentRecord]
) -> tuple[Entry, AgentRecord | None]:
    """Return the catalog's entry for an agent, by agh's name or by the catalog's, and agh's own record."""
    record = records.get(name) or next(
        (record for record in records.values() if record.catalog == name), None
    )
    entry = entries.get((record.catalog or record.name) if record else name)
    if entry is None and record and record.install:
        raise AgentUnlisted(name, hint=f"install it: {record.install}")
    if entry is None:
        close = closest(name, [*entries, *records])
        raise AgentUnlisted(name, hint=f"did you mean {close}?" if close and close != name else None)
    return entry, record


def make_plan(
    name: str,
    entries: Mapping[str, Entry],
    records: Mapping[str, AgentRecord],
    *,
    version: str = "",
    via: str = "",
    sha256: str = "",
    bundled: Mapping[str, Entry] | None = None,
) -> Plan:
    """Return how to install an agent; raise if it cannot be installed on this machine.

    If the newer entry cannot be, the one in `bundled` is tried: it may name a package where the other has
    only an archive without a checksum.
    """
    if version and not VERSION.fullmatch(version):
        raise Usage(f"{version!r} is not a version", hint=f"agh agent install {name}")
    if sha256 and not SHA256.fullmatch(sha256):
        raise Usage("--sha256 takes 64 hexadecimal digits", hint=f"agh agent install {name}")
    entry, record = find_entry(name, entries, records)
    agent_name = record.name if record else entry.id
    problems = []
    for candidate in filter(None, (entry, (bundled or {}).get(entry.id))):
        for way in (via,) if via else WAYS:
            try:
                return _plan_way(agent_name, candidate, record, way, version, sha256)
            except AgentNotInstallable as problem:
                problems.append(problem)
    raise problems[0] if via else _most_helpful(problems)


def _plan_way(
    name: str, entry: Entry, record: AgentRecord | None, way: str, version: str, sha256: str
) -> Plan:
    if way == "binary":
        return _plan_binary(name, entry, record, version, sha256)
    package = entry.npx if way == "npx" else entry.uvx
    if package is None:
        others = ", ".join(entry.ways())
        hint = f"agh agent install {name} --via {entry.ways()[0]}"
        raise AgentNotInstallable(name, f"it is not available via {way}, only via {others}", hint=hint)
    tool, advice = TOOLS[way]
    if find_program(tool) is None:
        raise AgentNotInstallable(name, f"{tool} is not on PATH", hint=advice)
    chosen_version = version or package.version or entry.version
    plain_name = package.name.rpartition("/")[2].partition("[")[0]
    program = package.command or (record.argv[0] if record else plain_name)
    pin = {
        "via": way,
        "package": f"{package.name}{'@' if way == 'npx' else '=='}{chosen_version}",
        "version": chosen_version,
        "id": entry.id,
        "path": os.path.join(programs_path(name), chosen_version, BIN_FOLDERS[way], program),
        **({"exact": True} if version else {}),
    }
    return _plan(name, entry, record, package, program, pin)


def _plan_binary(name: str, entry: Entry, record: AgentRecord | None, version: str, sha256: str) -> Plan:
    binary = entry.binaries.get(platform())
    if binary is None:
        others = [way for way in entry.ways() if way != "binary"]
        website = f"see {entry.website}" if entry.website else None
        hint = f"agh agent install {name} --via {others[0]}" if others else website
        only = f", only for {', '.join(entry.binaries)}" if entry.binaries else ""
        raise AgentNotInstallable(name, f"there is no archive for {platform()}{only}", hint=hint)
    if version and version != entry.version:
        why = f"the registry has an archive only for version {entry.version}"
        raise AgentNotInstallable(name, why, hint=f"agh agent install {name}")
    checksum = sha256.lower() or binary.sha256
    if not checksum:
        hint = f"agh agent install {name} --sha256 HEX, if you know it; or its own installer: {entry.website}"
        raise AgentNotInstallable(name, "the registry has no checksum for its archive", hint=hint)
    binary = binary._replace(sha256=checksum)
    folder = os.path.join(programs_path(name), f"{entry.version}-{checksum[:12]}")
    program = os.path.basename(binary.command)
    pin = {
        "via": "binary",
        "path": os.path.join(folder, binary.command),
        "version": entry.version,
        "id": entry.id,
        "archive": binary.archive,
        "sha256": checksum,
        **({"exact": True} if version else {}),
    }
    return _plan(name, entry, record, binary, program, pin, binary)


def _plan(
    name: str,
    entry: Entry,
    record: AgentRecord | None,
    source: Package | Binary,
    program: str,
    pin: Mapping[str, Any],
    binary: Binary | None = None,
) -> Plan:
    """Lay agh's own record, if there is one, over what the catalog says."""
    argv = record.argv if record else (program, *source.args)
    env = {key: value for key, value in source.env.items() if not record or key not in record.env}
    return Plan(name, entry, record.name if record else "", argv, env, pin, binary)


def platform() -> str:
    """Return this machine as the catalog names it, such as linux-x86_64."""
    cpu = {"arm64": "aarch64", "amd64": "x86_64"}.get(os.uname().machine.lower(), os.uname().machine.lower())
    return f"{sys.platform}-{cpu}"


def _most_helpful(problems: list[AgentNotInstallable]) -> AgentNotInstallable:
    """Choose what to tell: a missing tool or checksum rather than a way that the agent does not have."""
    return next((problem for problem in problems if "not available via" not in problem.message), problems[0])
