"""`python -m tests.bench`: the figures that agh promises, measured on this machine.

Multiples are of `python -c pass` with the same interpreter in the same run. Everything is made in a
temporary directory and removed at the end. Run it on a machine that has nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.bench import (
    chatting,
    crowd,
    database,
    dumping,
    fleet,
    following,
    growth,
    live,
    peers,
    places,
    searching,
    starting,
    writing,
)
from tests.bench.measure import Figure


def _editor(place: Path, quick: bool) -> Iterator[Figure]:
    """Measure an editor's row; its SDK takes most of a second to import."""
    from tests.bench import editor

    return editor.editor(place, quick)


ROWS: dict[str, Callable[[Path, bool], Iterator[Figure]]] = {
    "version": starting.version,
    "inbox": starting.counting_inbox,
    "list": starting.listing_json,
    "list-human": starting.listing_human,
    "top": starting.first_screen,
    "repair": starting.repairing,
    "search": searching.search,
    "db": database.database,
    "sqlite-utils": writing.writing,
    "complete": starting.completing,
    "dump": dumping.dump,
    "follow": following.latency,
    "idle": following.idle,
    "append": following.append,
    "places": places.noticing,
    "prompt": live.prompts,
    "chat": chatting.first_prompt,
    "chunks": live.chunks,
    "resume": live.resumes,
    "acp": _editor,
    "growth": growth.growth,
    "fleet": fleet.fleet,
    "crowd": crowd.crowd,
    "sqlite3": peers.dumps,
    "acpx": peers.acpx,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=ROWS, metavar="NAME", help=", ".join(ROWS))
    parser.add_argument("--quick", action="store_true", help="small sizes: does the bench work at all?")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the figures to this file")
    args = parser.parse_args()
    for name in [name for name in os.environ if name.startswith("AGH_")]:
        del os.environ[name]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else a program that was changed is compiled every time
    load = os.getloadavg()[0]
    figures: list[tuple[str, Figure]] = []
    with tempfile.TemporaryDirectory(prefix="agh-bench-") as place:
        for name in args.only or ROWS:
            for figure in ROWS[name](Path(place) / name / "agh", args.quick):
                figures.append((name, figure))
                print(line(figure), flush=True)
    if args.json:
        summary = report(figures, args.quick, load)
        if args.only and args.json.exists():
            summary = replaced(json.loads(args.json.read_text()), summary)
        args.json.write_text(json.dumps(summary, indent=2) + "\n")


def line(figure: Figure) -> str:
    limit = "" if figure.limit is None else f"{'>=' if figure.at_least else '<='} {round(figure.limit, 2):g}"
    value = f"{figure.value:,.0f}" if figure.value >= 1000 else f"{figure.value:.2f}"
    head = f"{figure.name:<44} {value:>9} {figure.unit:<10}"
    return f"{head} {limit:>8} {figure.verdict:<6}  {figure.note}".rstrip()


def report(figures: list[tuple[str, Figure]], quick: bool, load: float) -> dict[str, Any]:
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": f"{platform.system()} {platform.release()}, {os.cpu_count()} CPUs",
        "load_before": load,
        "quick": quick,
        "figures": [
            {"row": row, **figure._asdict(), "verdict": figure.verdict or None} for row, figure in figures
        ],
    }


def replaced(whole: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Return a report in which the rows that were measured again are new; the others stay in their places.

    Rows that the report did not have come last.
    """
    fresh = {figure["name"]: figure for figure in part["figures"]}
    figures = [fresh.pop(figure["name"], figure) for figure in whole["figures"]]
    return {**part, "figures": [*figures, *fresh.values()]}


if __name__ == "__main__":
    main()
