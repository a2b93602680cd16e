"""The bench must not rot: it runs, at small sizes, and writes what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.__main__ import ROWS
from tests.bench.table import with_table

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS if row != "acpx"])  # it needs an installed peer
def test_every_row_can_be_measured(tmp_path: Path, row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGH_ECHO_HOME", "")  # the row sets it, and it must not outlive the test
    for name in [name for name in os.environ if name.startswith("AGH_")]:
        monkeypatch.delenv(name)
    figures = list(ROWS[row](tmp_path / row / "agh", True))
    assert figures
    # What something costs on top of something else is a difference; on a busy machine it may be negative.
    assert all(figure.value > 0 or "on top of" in figure.name for figure in figures)


def test_the_program_prints_and_writes_the_figures(tmp_path: Path) -> None:
    written = tmp_path / "figures.json"
    result = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick", "--only", "version", "--json", str(written)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert result.returncode == 0, result.stderr
    figures = json.loads(written.read_text())["figures"]
    assert {figure["row"] for figure in figures} == {"version"}
    assert len(result.stdout.splitlines()) == len(figures)


def test_the_page_shows_the_figures_that_were_measured() -> None:
    measured = json.loads((ROOT / "docs" / "bench.json").read_text())
    assert not measured["quick"]
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert with_table(page, measured) == page
