"""The bench must not rot: it runs, at small sizes, and writes what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.__main__ import ROWS
from tests.bench.table import with_table

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS if row != "acpx"])  # it needs an installed peer
def test_every_row_can_be_measured(tmp_path: Path, row: str) -> None:
    written = tmp_path / "figures.json"
    result = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick", "--only", row, "--json", str(written)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert result.returncode == 0, result.stderr
    figures = json.loads(written.read_text())["figures"]
    assert {figure["row"] for figure in figures} == {row}
    assert all(figure["value"] > 0 for figure in figures)
    assert len(result.stdout.splitlines()) == len(figures)


def test_the_readme_shows_the_figures_that_were_measured() -> None:
    measured = json.loads((ROOT / "docs" / "bench.json").read_text())
    assert not measured["quick"]
    readme = (ROOT / "README.md").read_text()
    assert with_table(readme, measured) == readme
