"""`docs/agents.md`: each product, its version, and how each behaviour went. `python -m tests.real_agents.table` writes it.

The results are files in `build/agents`, one for each product, which `test_behaviours.py` writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.real_agents.behaviours import BEHAVIOURS, Result
from tests.real_agents.install import NEWEST, Product

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "build" / "agents"
DOCUMENT = ROOT / "docs" / "agents.md"


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
