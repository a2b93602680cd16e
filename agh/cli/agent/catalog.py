"""`agh agent search`, `install`, `update` and `uninstall`: agents from the public registry"""

from __future__ import annotations

import shlex
from typing import Any

import click

from agh.adapters import registry
from agh.catalog import install as installing
from agh.catalog.plan import WAYS, Plan, agent_names, make_plan
from agh.catalog.source import load_catalog, read_bundled
from agh.console import terminal
from agh.console.output import columns, output_option, remark, write_result
from agh.errors import InstallFailed


@click.command("search", epilog="Example:  agh agent search google")
@click.argument("words", nargs=-1)
@click.option("--refresh", is_flag=True, help="Download the registry now, even if the copy is recent.")
@click.option("--offline", is_flag=True, help="Use the local copy; do not use the network.")
@output_option()
def search(words: tuple[str, ...], refresh: bool, offline: bool, output: str) -> None:
    """Search the public registry for agents that match all words.

    agh downloads the registry once a day, and uses the last copy if there is no network. This command
    installs and runs nothing.
    """
    listing = load_catalog(True if refresh else False if offline else None)
    records, pins = registry.offered_agents(), dict(installing.pins())
    names = agent_names(listing.entries, records)
    rows: list[dict[str, Any]] = [
        {
            "name": names[entry.id],
            "id": entry.id,
            "title": entry.name,
            "version": entry.version,
            "via": entry.ways(),
            "installed_version": pins.get(names[entry.id], {}).get("version"),
            "description": entry.description,
            "license": entry.license,
            "website": entry.website,
        }
        for entry in listing.entries.values()
        if entry.id in names
    ]
    rows = sorted((row for row in rows if _matches(row, words)), key=lambda row: str(row["name"]))
    write_result("agents", rows, output, lambda: _table(rows))
    if listing.remark:
        remark(listing.remark)
    if not rows:
        remark(f"no agent matches {' '.join(words)}")


@click.command(
    "install", epilog="\b\nExamples:\n  agh agent install claude\n  agh agent install codex@2.6.0 --dry-run"
)
@click.argument("entry", metavar="NAME[@VERSION]")
@click.option("--via", type=click.Choice(WAYS), help="How to install it, if there is more than one way.")
@click.option(
    "--sha256", metavar="HEX", default="", help="Expected checksum of the archive, instead of the registry's."
)
@click.option("--dry-run", is_flag=True, help="Show what would be downloaded and run; do nothing.")
@click.option("--offline", is_flag=True, help="Use the local copy of the registry.")
@output_option()
def install(entry: str, via: str | None, sha256: str, dry_run: bool, offline: bool, output: str) -> None:
    """Install one version of an agent from the public registry.

    Sessions run exactly that version from then on.

    Packages are installed below ~/.agh/agents/bin with npm or uv. Archives are unpacked there after their
    checksum has been verified. ~/.agh/agents/NAME.toml records the version. If you install NAME@VERSION,
    `agh agent update` skips the agent unless you name it.
    """
    name, _, version = entry.partition("@")
    listing = load_catalog(False if offline else None)
    plan = make_plan(
        name,
        listing.entries,
        registry.offered_agents(),
        version=version,
        via=via or "",
        sha256=sha256,
        bundled=read_bundled().entries,
    )
    installing.check_file(plan.name)
    if listing.remark:
        remark(listing.remark)
    if not dry_run:
        _announce(plan)
        plan = installing.install(plan)
    row = {**plan.describe(), "installed": not dry_run}
    write_result("agent", row, output, lambda: _report(plan, dry_run))


@click.command("update", epilog="Example:  agh agent update")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--offline", is_flag=True, help="Use the local copy of the registry.")
@output_option()
def update(names: tuple[str, ...], offline: bool, output: str) -> None:
    """Update installed agents to the registry's version.

    Without NAME, updates all of them, except those installed with @VERSION. Live sessions keep their version
    until they are stopped and resumed.
    """
    listing = load_catalog(False if offline else None)
    if listing.remark:
        remark(listing.remark)
    updates = installing.update(names, listing.entries, registry.offered_agents(), _announce)
    rows = [row._asdict() for row in updates]
    write_result("updates", rows, output, lambda: _updates_table(updates))
    if failed := [row for row in updates if row.status == "failed"]:
        raise InstallFailed(failed[0].name, failed[0].reason)
    if not updates:
        remark("no agent has been installed with `agh agent install` yet")


@click.command("uninstall", epilog="Example:  agh agent uninstall codex")
@click.argument("name")
@output_option()
def uninstall(name: str, output: str) -> None:
    """Delete an installed agent and its pinned version. Sessions stay."""
    path = installing.uninstall(name)
    row = {"name": name, "file": path, "installed": False}
    write_result("agent", row, output, lambda: f"uninstalled {name}; deleted {path}")


def _matches(row: dict[str, Any], words: tuple[str, ...]) -> bool:
    text = " ".join(str(row[key]) for key in ("name", "id", "title", "description")).lower()
    return all(word.lower() in text for word in words)


def _announce(plan: Plan) -> None:
    """Say what is about to be downloaded, and what sessions will run."""
    remark(f"downloading {plan.download}")


def _report(plan: Plan, dry_run: bool) -> str:
    variables = [f"{key}={value}" for key, value in plan.env.items()]
    lines = {
        "agent": f"{plan.name} {plan.pin['version']}" + ("" if dry_run else " is installed"),
        "download": plan.download if dry_run else "",
        "runs": shlex.join([*variables, *plan.command]),
        "file": plan.describe()["file"],
        "next": f"agh agent {f'install {plan.name}' if dry_run else f'doctor {plan.name}'}",
    }
    return "\n".join(f"{key + ':':<12}{terminal.clean(value)}" for key, value in lines.items() if value)


def _table(rows: list[dict[str, Any]]) -> str:
    cells = [
        (
            row["name"],
            row["version"],
            row["installed_version"] or "-",
            ", ".join(row["via"]),
            row["description"],
        )
        for row in rows
    ]
    header = ("AGENT", "VERSION", "INSTALLED", "VIA", "ABOUT")
    return columns(header, [[terminal.one_line(cell, 60) for cell in row] for row in cells]) if rows else ""


def _updates_table(updates: list[installing.Update]) -> str:
    cells = [(row.name, row.version, row.new_version or "-", row.status, row.reason) for row in updates]
    header = ("AGENT", "WAS", "LIST HAS", "STATUS", "")
    return (
        columns(header, [[terminal.one_line(cell, 80) for cell in row] for row in cells]) if updates else ""
    )
