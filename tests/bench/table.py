"""The figures as a table. `python -m tests.bench.table docs/bench.json docs/benchmarks.md`"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- bench -->", "<!-- /bench -->"


def table(report: dict[str, Any]) -> str:
    where = f"Python {report['python']}, SQLite {report['sqlite']}, {report['system']}"
    lines = [
        f"Measured by `make bench` on {report['at'][:10]}: {where}; `x` is the time of `python -c pass`.",
        "",
        "| what | figure | limit | details |",
        "|---|--:|--:|---|",
    ]
    for figure in report["figures"]:
        value = f"{figure['value']:,.0f}" if figure["value"] >= 1000 else f"{figure['value']:.2f}"
        asked = ""
        if figure["limit"] is not None:
            asked = f"{'≥' if figure['at_least'] else '≤'} {round(figure['limit'], 2):g}"
            asked += "" if figure["verdict"] == "ok" else " missed"
        lines.append(f"| {figure['name']} | {value} {figure['unit']} | {asked} | {figure['note']} |")
    return "\n".join(lines) + "\n"


def with_table(text: str, report: dict[str, Any]) -> str:
    """Return the text with the table between its markers."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"no {BEGIN} … {END} to fill"
    return f"{before}{BEGIN}\n{table(report)}{END}{after}"


if __name__ == "__main__":
    figures, page = map(Path, sys.argv[1:3])
    page.write_text(with_table(page.read_text(), json.loads(figures.read_text())))
