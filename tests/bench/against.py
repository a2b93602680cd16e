"""`python -m tests.bench.against TREE`: compare this tree's figures with those of another checkout of agh.

Each row is measured in turn by both trees, each with its own tests and its own `.venv`, in `--rounds` rounds.
A machine that is slow for a while is then slow for both. Exits 1 if a figure is worse by more than
`--tolerance`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.__main__ import ROWS

HERE = Path(__file__).parents[2]
USAGE = 2  # argparse's exit number
SKIPPED = "acpx"  # its figures are those of another program as well
HIGHER_IS_BETTER = ("events/s", "of the speed by hand", "of its speed", "x faster", "x smaller")


class Comparison(NamedTuple):
    """A figure of both trees; `ratio` is above 1 where this tree is worse."""

    row: str
    name: str
    before: float
    now: float
    ratio: float


def measure(tree: Path, row: str) -> list[dict[str, Any]]:
    """Return the figures of a row, as a tree measures them by itself; none if it does not know the row."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "figures.json"
        argv = [tree / ".venv/bin/python", "-m", "tests.bench", "--only", row, "--json", path]
        run = subprocess.run(argv, cwd=tree, capture_output=True, text=True, timeout=1800)
        if run.returncode == USAGE and f"invalid choice: '{row}'" in run.stderr:
            return []
        run.check_returncode()
        figures: list[dict[str, Any]] = json.loads(path.read_text())["figures"]
    return figures


def compare(tree: Path, row: str, rounds: int) -> list[Comparison]:
    """Measure a row in turn with the other tree and this one; return the medians of what both have."""
    values: dict[Path, dict[str, list[float]]] = {tree: defaultdict(list), HERE: defaultdict(list)}
    higher_is_better: set[str] = set()
    for _ in range(rounds):
        for side, figures in values.items():
            if not (measured := measure(side, row)):
                return []
            for figure in measured:
                figures[figure["name"]].append(figure["value"])
                if figure["at_least"] or figure["unit"] in HIGHER_IS_BETTER:
                    higher_is_better.add(figure["name"])
    comparisons = []
    for name in values[HERE]:
        if name in values[tree]:
            before, now = (statistics.median(figures[name]) for figures in values.values())
            ratio = before / now if name in higher_is_better else now / before
            comparisons.append(Comparison(row, name, before, now, ratio))
    return comparisons


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.against", description=__doc__)
    parser.add_argument("tree", type=Path, help="the other checkout, with a `.venv` made by `make`")
    parser.add_argument("--only", action="append", choices=ROWS, metavar="NAME", help=", ".join(ROWS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=0.10)
    options = parser.parse_args()
    is_worse = False
    for row in options.only or [row for row in ROWS if row != SKIPPED]:
        for figure in compare(options.tree.resolve(), row, options.rounds):
            note = "WORSE" if figure.ratio > 1 + options.tolerance else ""
            is_worse |= bool(note)
            values = f"{figure.before:>12,.2f} {figure.now:>12,.2f} {figure.ratio:>6.2f}"
            print(f"{figure.name:<44} {values}  {note}", flush=True)
    sys.exit(is_worse)


if __name__ == "__main__":
    main()
