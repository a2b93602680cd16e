"""`agh session import`"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from agh.adapters import registry
from agh.cli.session.adopt import adopt_command
from agh.console import terminal
from agh.console.output import output_option, remark, write_result
from agh.console.progress import progress
from agh.core.exchange import Importer
from agh.errors import AghError, FormatUnknown, ImportInvalid, NothingToImport, Usage, WorkspaceGone
from agh.sessions.import_ import Outcome, import_file, index_home
from agh.store import workspaces

HEAD = 1 << 16


@click.command(
    "import",
    epilog="\b\nExamples:\n  agh session import fix-login.jsonl\n"
    "  agh session import --from claude            # everything in ~/.claude/projects\n"
    "  agh session import --from codex ~/.codex/sessions/2026\n"
    "  agh session import --from-agent opencode --list\n"
    "  agh session import --from-agent opencode    # all of this directory",
)
@click.argument("paths", nargs=-1, metavar="[FILE|ID]...")
@click.option(
    "--from", "source", metavar="KIND", help="Format of the files, e.g. jsonl, db, claude, codex, gemini."
)
@click.option(
    "--from-agent",
    "agent",
    metavar="NAME",
    help="Import this agent's own sessions, or only those named by ID.",
)
@click.option("--cwd", metavar="DIR", help="With --from-agent: sessions of this directory (default: here).")
@click.option("--all", "everywhere", is_flag=True, help="With --from-agent: sessions of all directories.")
@click.option("--list", "only_list", is_flag=True, help="With --from-agent: list the sessions; import none.")
@click.option("--new-id", is_flag=True, help="Import an exported session under a new id.")
@click.option("--workspace", metavar="W", help="Workspace of the new session: a path, a name or an id.")
@click.option(
    "--trust",
    is_flag=True,
    help="Also import settings that decide what runs and where: command, MCP servers, permissions, place.",
)
@output_option()
def import_command(
    paths: tuple[str, ...],
    source: str | None,
    agent: str | None,
    cwd: str | None,
    everywhere: bool,
    only_list: bool,
    new_id: bool,
    workspace: str | None,
    trust: bool,
    output: str,
) -> None:
    """Create sessions from files, or from an agent's own sessions.

    FILES come from agh or another program; the format is detected from their contents. A directory is
    searched for files of the format named by --from. Without FILES, agh searches the directory where that
    program keeps its files. agh only reads them. Importing a conversation again adds only what is new. You
    can read, search and resume imported sessions like any other.

    With --from-agent, agh starts the agent, asks for its sessions in this directory, and records each one
    while the agent replays it. Sessions that agh already has are skipped.
    """
    if agent is not None:
        if source or new_id or workspace or trust:
            raise Usage(
                "--from-agent can be combined only with --cwd, --all and --list",
                hint="agh session import --help",
            )
        adopt_command(agent, paths, cwd, everywhere, only_list, output)
        return
    if cwd or everywhere or only_list:
        raise Usage(
            "--cwd, --all and --list need --from-agent",
            hint="agh session import --from-agent NAME --list",
        )
    if not paths and source is None:
        raise Usage("name a file, or what to look for with --from", hint="agh session import --from claude")
    if workspace is not None:
        workspace = workspaces.find_existing(workspace).path
        if not os.path.isdir(workspace):
            raise WorkspaceGone(workspace, hint="name a directory with --workspace")
    known_kinds = registry.importers()
    if source is not None and source not in known_kinds:
        raise FormatUnknown(source, ", ".join(known_kinds))
    with _spool_stdin(paths) as (named, spool):
        files = _files(named, known_kinds[source] if source else None)
        outcomes, failures = _import_all(
            files, known_kinds, source, new_id=new_id, trust=trust, workspace=workspace
        )
    outcomes = [outcome | {"path": "-"} if outcome["path"] == spool else outcome for outcome in outcomes]
    write_result("imports", outcomes, output, lambda: "".join(map(_line, outcomes)))
    if output == "human":
        _remark(outcomes)
    if failures:
        raise click.exceptions.Exit(failures[0].exit)


def _import_all(
    files: list[str], kinds: dict[str, Importer], source: str | None, **how: Any
) -> tuple[list[Outcome], list[AghError]]:
    """Import each file and return the outcomes. A file that is refused does not stop the others."""
    index, outcomes, failures = index_home(), list[Outcome](), list[AghError]()
    for path in progress(files, "importing", len(files)):
        try:
            outcomes.append(import_file(path, _kind(path, kinds, source), index, **how))
        except AghError as error:
            if len(files) == 1:
                raise
            remark(error.message)
            failures.append(error)
            outcomes.append({"path": path, "session_id": None, "status": "failed", "error": error.as_dict()})
    return outcomes, failures


def _kind(path: str, kinds: dict[str, Importer], source: str | None) -> Importer:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would wait, a device never end
            raise ImportInvalid(path, "it is not a regular file", hint="agh session import - < FILE")
        with open(path, "rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        raise ImportInvalid(path, error.strerror) from None
    if source is not None:
        return kinds[source]
    for kind in kinds.values():
        if kind.recognises(path, head):
            return kind
    raise ImportInvalid(
        path, f"its format is not one of {', '.join(kinds)}", hint="name its format with --from KIND"
    )


def _files(paths: tuple[str, ...], kind: Importer | None) -> list[str]:
    """List the files to import: those named, those of the kind in named directories, or all it finds."""
    if not paths and kind is not None:
        files = sorted(kind.find())
        if not files:
            raise NothingToImport(kind.name, "")
        return files
    files = []
    for path in paths:
        if not os.path.isdir(path):
            files.append(path)
            continue
        if kind is None:
            problem = f"{path} is a directory; name its format with --from"
            raise Usage(problem, hint=f"agh session import --from KIND {path}")
        inside = [file for file in _below(path) if _is_recognised(file, kind)]
        if not inside:
            raise NothingToImport(kind.name, f" below {path}")
        files += inside
    return list(dict.fromkeys(files))


def _below(path: str) -> list[str]:
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)


def _is_recognised(path: str, kind: Importer) -> bool:
    try:
        if not os.path.isfile(path):
            return False  # opening a pipe would wait for its other end
        with open(path, "rb") as file:
            return kind.recognises(path, file.read(HEAD))
    except OSError:
        return False


@contextmanager
def _spool_stdin(paths: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """Copy stdin to a file for `-`; yield the paths with it, and the path of that file."""
    if "-" not in paths:
        yield paths, None
        return
    with tempfile.NamedTemporaryFile(prefix="agh-import-") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        yield tuple(file.name if path == "-" else path for path in paths), file.name


def _line(outcome: Outcome) -> str:
    status = outcome["status"] if outcome["status"] != "grown" else f"{outcome['events']} more events"
    reason = outcome.get("reason") or (f"{outcome['events']} events" if status == "imported" else "")
    words = [outcome["session_id"] or "-", status, reason, outcome["path"]]
    return terminal.clean("  ".join(word for word in words if word)).replace("\n", " ") + "\n"


def _remark(outcomes: list[Outcome]) -> None:
    left_out = sorted({key for outcome in outcomes for key in outcome.get("left_out") or []})
    if left_out:
        remark(f"not imported: {', '.join(left_out)}; to import these too, use --trust")
    if len(outcomes) > 1:
        counts = {status: sum(outcome["status"] == status for outcome in outcomes) for status in _STATUSES}
        remark(", ".join(f"{count} {status}" for status, count in counts.items() if count))


_STATUSES = ("imported", "grown", "unchanged", "skipped", "failed")
