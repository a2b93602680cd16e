"""Installing agents from the catalog, updating and uninstalling them.

Promises: an installation is a file `agents/NAME.toml` in the home that pins one version. It is written last,
so a failed or killed installation leaves the agent as it was. A file that the user wrote is never replaced;
what the user added to a file of ours stays. An archive is unpacked only if its checksum is right. Versions
are installed side by side: an update does not touch what a live session runs. Of two commands that install
the same agent, one waits for the other.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from agh.adapters.agents import AgentRecord
from agh.catalog.entries import Entry
from agh.catalog.plan import BIN_FOLDERS, Plan, agent_file, make_plan, programs_path
from agh.core.named_tuple import NamedTuple
from agh.errors import AgentDefined, AgentInvalid, AgentNotPinned, AghError, ChecksumWrong, InstallFailed
from agh.home import agent_files, ensure_home, home_path, make_private_dir, open_private, replace_file
from agh.store.sessions import lock_names

HEADER = "# Written by `agh agent install` and changed by `agh agent update`. Both keep what you add.\n"
MOST_BYTES, MOST_SECONDS = 2 << 30, 1800.0


class Update(NamedTuple):
    """What became of one agent: `status` is updated, current, skipped or failed."""

    name: str
    version: str  # the version before
    new_version: str  # the version in the catalog
    status: str
    reason: str = ""


def install(plan: Plan) -> Plan:
    """Download what the plan says and write the agent's file; return the plan as it was carried out."""
    check_file(plan.name)
    ensure_home()
    with _lock_programs(plan.name):
        if plan.binary:
            _install_archive(plan)
        else:
            plan = _install_package(plan)
        with lock_names():
            _write_file(plan)
    return plan


def check_file(name: str) -> None:
    """Raise if a file that the user wrote defines the agent."""
    path = agent_file(name)
    if os.path.lexists(path) and "pin" not in _read_file(path):
        raise AgentDefined(name, path, hint=f"mv {path} {path}.own, then try again")


def uninstall(name: str) -> str:
    """Delete the file that pins an agent, and the programs unpacked for it; return the file's path."""
    path = agent_file(name)
    if not os.path.lexists(path):
        raise AgentNotPinned(name)
    check_file(name)
    with _lock_programs(name):
        with lock_names():
            os.unlink(path)
        shutil.rmtree(programs_path(name), ignore_errors=True)
    return path


@contextmanager
def _lock_programs(name: str) -> Iterator[None]:
    """Let one command at a time change what is installed for an agent; the others wait."""
    path = programs_path(name)
    make_private_dir(os.path.dirname(path))
    lock = open_private(f"{path}.lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def pins() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the agents that were installed from the catalog, and what their files pin."""
    for path in agent_files(home_path()):
        try:
            pin = _read_file(path).get("pin")
        except AgentInvalid:
            continue  # every command that needs the file names what is wrong with it
        if isinstance(pin, dict) and isinstance(pin.get("id"), str):
            yield os.path.basename(path).removesuffix(".toml"), pin


def update(
    names: tuple[str, ...],
    entries: Mapping[str, Entry],
    records: Mapping[str, AgentRecord],
    say: Callable[[Plan], None],
) -> list[Update]:
    """Bring agents to the catalog's version; all of them if none is named. Call `say` before each download.

    One whose version the user chose is skipped unless it is named.
    """
    installed = dict(pins())
    for name in names:
        if name not in installed:
            raise AgentNotPinned(name, hint=f"agh agent install {name}")
    return [
        _update(name, installed[name], entries, records, say, is_named=bool(names))
        for name in names or installed
    ]


def _update(
    name: str,
    pin: Mapping[str, Any],
    entries: Mapping[str, Entry],
    records: Mapping[str, AgentRecord],
    say: Callable[[Plan], None],
    is_named: bool,
) -> Update:
    version = str(pin.get("version"))
    if pin.get("exact") and not is_named:
        reason = f"you chose this version; to update it anyway: agh agent update {name}"
        return Update(name, version, "", "skipped", reason)
    if pin["id"] not in entries:
        return Update(name, version, "", "skipped", "the registry no longer has it")
    try:
        plan = make_plan(name, entries, records, via=str(pin.get("via", "")))
        new_version = str(plan.pin["version"])
        if new_version == version and plan.pin.get("sha256") == pin.get("sha256"):
            return Update(name, version, new_version, "current")
        say(plan)
        install(plan)
    except AghError as error:
        return Update(name, version, entries[pin["id"]].version, "failed", error.message)
    return Update(name, version, new_version, "updated")


def _install_package(plan: Plan) -> Plan:
    """Install the package into a directory of its own; return the plan with the path of its program.

    Run from there it starts at once: npx and uvx would ask the network each time which version to run.
    """
    package, folder = str(plan.pin["package"]), plan.folder
    if _read_pin(plan.name).get("package") == package and os.path.isfile(plan.pin["path"]):
        return plan  # live sessions may be running it
    shutil.rmtree(folder, ignore_errors=True)  # what an earlier attempt left
    make_private_dir(folder)
    try:
        if plan.pin["via"] == "npx":
            with open(os.path.join(folder, "package.json"), "x", encoding="utf-8") as file:
                file.write('{"private": true}\n')  # else npm looks for one in the directories above
            quiet = ["--no-audit", "--no-fund", "--no-progress", "--loglevel=error"]
            _run(plan, ["npm", "install", "--prefix", folder, *quiet, package])
            program = _find_program(folder, package.rpartition("@")[0], os.path.basename(plan.pin["path"]))
            plan = replace(plan, pin={**plan.pin, "path": os.path.join(folder, BIN_FOLDERS["npx"], program)})
        else:
            places = {"UV_TOOL_DIR": f"{folder}/tools", "UV_TOOL_BIN_DIR": f"{folder}/bin"}
            _run(plan, ["uv", "tool", "install", "--quiet", package], places)
        if not os.path.isfile(plan.pin["path"]):
            name = os.path.basename(plan.pin["path"])
            raise InstallFailed(plan.name, f"{package} does not contain the program {name}")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return plan


def _find_program(folder: str, package: str, wanted: str) -> str:
    """Return the program of a npm package: the one wanted if it has it, else the one that npx would run."""
    try:
        with open(os.path.join(folder, "node_modules", package, "package.json"), "rb") as file:
            programs = json.load(file).get("bin")
    except (OSError, ValueError, AttributeError):
        return wanted
    name = package.rpartition("/")[2]
    if not isinstance(programs, dict):
        return name
    if wanted in programs or not programs:
        return wanted
    return name if name in programs else str(next(iter(programs)))


def _run(plan: Plan, argv: list[str], variables: Mapping[str, str] | None = None) -> None:
    """Run npm or uv; raise with the line that says why if it fails."""
    try:
        outcome = subprocess.run(
            argv,
            cwd=plan.folder,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise InstallFailed(plan.name, f"{argv[0]} took longer than {MOST_SECONDS:g} s") from None
    except OSError as error:
        raise InstallFailed(plan.name, f"{argv[0]}: {error.strerror}") from None
    if outcome.returncode:
        lines = [line.strip() for line in outcome.stderr.splitlines() if line.strip()]
        raise InstallFailed(plan.name, f"{argv[0]}: {_choose_line(lines)}", stderr=lines[-20:])


def _choose_line(lines: list[str]) -> str:
    """Choose the line that says why: the first error that is not only a code or the name of a log."""
    noise = ("error code", "complete log", "npm error A ", "npm warn")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if "error" in line.lower() and not any(word in line for word in noise):
            cause = following.lstrip("×╰├─▶│ ")
            return f"{line}: {cause}" if cause.startswith("Because") else line
    return (lines or ["it failed without a message"])[-1]


def _install_archive(plan: Plan) -> None:
    """Download, check and unpack the archive beside its place, then rename it into it."""
    assert plan.binary
    folder, target = programs_path(plan.name), plan.folder
    if os.path.isfile(plan.pin["path"]):
        return  # this very archive was unpacked before
    from agh.catalog.archive import unpack  # slow to import, and only needed here
    from agh.catalog.download import save

    make_private_dir(folder)
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as scratch:
        archive, content = os.path.join(scratch, "archive"), os.path.join(scratch, "content")
        with open(archive, "xb") as file:
            checksum = save(plan.binary.archive, file, most=MOST_BYTES, seconds=MOST_SECONDS)
        if checksum != plan.binary.sha256:
            raise ChecksumWrong(plan.name, checksum, plan.binary.sha256)
        os.mkdir(content, 0o700)
        unpack(archive, plan.binary.archive, plan.binary.command, content)
        shutil.rmtree(target, ignore_errors=True)  # what an earlier attempt left
        os.rename(content, target)


def _write_file(plan: Plan) -> None:
    """Write or change the agent's file; what the user added to it stays."""
    import tomlkit

    path = agent_file(plan.name)
    make_private_dir(os.path.dirname(path))
    check_file(plan.name)
    document = tomlkit.parse(HEADER)
    if os.path.lexists(path):
        with open(path, encoding="utf-8") as file:
            document = tomlkit.parse(file.read())
    own: dict[str, Any] = (
        {"extends": plan.extends} if plan.extends else {"title": plan.entry.name, "argv": list(plan.argv)}
    )
    for key, value in own.items():
        document[key] = value
    if plan.env:
        env = document.setdefault("env", tomlkit.table())
        for key, value in plan.env.items():
            env.setdefault(key, value)
    document["pin"] = dict(plan.pin)
    replace_file(path, tomlkit.dumps(document).encode())


def _read_pin(name: str) -> Mapping[str, Any]:
    """Return what the agent's file pins now; nothing if there is no file."""
    path = agent_file(name)
    return _read_file(path).get("pin", {}) if os.path.lexists(path) else {}


def _read_file(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError) as error:
        raise AgentInvalid(path, str(error), hint="correct the file, or delete it") from None
