"""acp-tck, an independent test suite for ACP agents. `make acp-tck ACP_TCK=DIRECTORY` names a checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.acp.outside.program import AGENT
from tests.support.live import Live

PYTHON = Path(__file__).parents[4] / ".venv" / "tck" / "bin" / "python"
ECHO = (sys.executable, "-P", "-m", "agh_echo")

# What does not apply: no login, no logout, and the echo agent takes no audio.
SKIPPED = {"ACP-AUTH-003", "ACP-AUTH-004", "ACP-PROMPTCAP-002"}
# Only advised: the answer to a prompt has `usage`, which the stable schema does not have.
FAILED = {"ACP-SCHEMA-002"}


def run_tck(live: Live, directory: Path, command: tuple[str, ...]) -> dict[str, Any]:
    """Run the tests for version 1 of the protocol; return their report."""
    checkout = os.environ.get("ACP_TCK", "")
    if not checkout or not PYTHON.exists():
        pytest.skip("acp-tck is missing; make acp-tck ACP_TCK=DIRECTORY")
    file = directory / "report.json"
    added = {"PYTHONPATH": f"{checkout}/src", "AGH_ECHO_HOME": str(directory / "echo")}
    options = ["--report-json", file, "--cancel-prompt", "/stream 1000 0.05"]
    result = subprocess.run(
        [PYTHON, "-m", "tck", *options, "--", *command],
        env=live._environ(added),
        cwd=live.workspace,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert file.exists(), result.stdout + result.stderr
    report: dict[str, Any] = json.loads(file.read_text())
    assert report["verdict"]["conformant"], result.stdout
    assert result.returncode == 0, result.stdout
    return report


@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", [AGENT, ECHO], ids=["agh-acp", "agh-echo"])
def test_all_requirements_are_met(live: Live, tmp_path: Path, command: tuple[str, ...]) -> None:
    report = run_tck(live, tmp_path, command)
    outcomes: dict[str, set[str]] = {}
    for requirement in report["requirements"]:
        outcomes.setdefault(requirement["status"], set()).add(requirement["id"])
    assert outcomes.get("FAIL", set()) <= FAILED
    assert outcomes.get("SKIPPED", set()) <= SKIPPED
    assert "NOT_TESTED" not in outcomes
    assert len(outcomes["PASS"]) >= 50
