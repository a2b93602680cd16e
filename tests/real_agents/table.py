"""`docs/agents.md`: how each behaviour went on each product. `python -m tests.real_agents.table` writes it.

The results are files in `build/agents`, one for each product, which `test_behaviours.py` writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.real_agents.behaviours import BEHAVIOURS, OPTIONS, Result
from tests.real_agents.install import NEWEST, Product

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "build" / "agents"
DOCUMENT = ROOT / "docs" / "agents.md"
INTRODUCTION = """\
# How agents behave with agh

`make real-agents` installs the newest build of each of these products from npm or PyPI and connects it to a
fake model server on this machine. It then uses the product through the `agh` command, checks eighteen
behaviours, and writes this page. No real model is involved, so the results say nothing about the quality of
a product's answers.

**ok** means that agh and the product behave as described. **product** means that the product has a bug or
lacks the feature, which shows in the messages that it sent to agh or to the model. **agh** would mean a bug
in agh; it makes the run fail. Numbers refer to the remarks below the table.
"""


def frames_of(product: Product) -> Path:
    """Return where the frames of a run are noted, for whoever wants to know why; empty them."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{product.name}.frames.jsonl"
    path.unlink(missing_ok=True)
    return path


def write_results(product: Product, version: str, results: dict[str, Result]) -> None:
    _write(product, {"version": version, "results": results})


def write_missing(product: Product, reason: str) -> None:
    """Note that the product could not be installed."""
    _write(product, {"missing": reason})


def _write(product: Product, document: dict[str, Any]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{product.name}.json").write_text(json.dumps(document, indent=1) + "\n")


def render(documents: dict[str, dict[str, Any]]) -> str:
    """Return the page, from what is known of each product by its name."""
    missing = {name: document["missing"] for name, document in documents.items() if "missing" in document}
    tried = {name: document for name, document in documents.items() if name not in missing}
    remarks: list[str] = []
    rows = [["behaviour", *tried], ["---"] * (len(tried) + 1)]
    for behaviour, (sentence, _) in BEHAVIOURS.items():
        row = [f"**{behaviour}**: {sentence}"]
        for name, document in tried.items():
            status, remark = document["results"].get(behaviour, ("not tried", ""))
            if remark:
                remarks.append(f"{name}, {behaviour}: {' '.join(remark.split())}.")
                status += f" ({len(remarks)})"
            row.append(status)
        rows.append(row)
    lines = [
        INTRODUCTION,
        "| agent | package | version | started with |\n|---|---|---|---|",
        *(_describe(name, document) for name, document in documents.items()),
        "",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        "## Remarks\n",
        *(f"{number}. {remark}" for number, remark in enumerate(remarks, 1)),
        *(f"\n{name} was not tried: {reason}." for name, reason in missing.items()),
    ]
    return "\n".join(lines) + "\n"


def _describe(name: str, document: dict[str, Any]) -> str:
    options = " ".join(OPTIONS.get(name, ()))
    columns = (
        name,
        f"`{NEWEST[name].package}`",
        document.get("version", "not tried"),
        f"`{options}`" * bool(options),
    )
    return f"| {' | '.join(columns)} |"


def main() -> None:
    """Write the page from the results of every product."""
    documents = {}
    for name in NEWEST:
        path = RESULTS / f"{name}.json"
        documents[name] = json.loads(path.read_text()) if path.exists() else {"missing": "it was left out"}
    if any("results" in document for document in documents.values()):
        DOCUMENT.write_text(render(documents))


if __name__ == "__main__":
    main()
