"""The client of jupyter-ai-acp-client from PyPI. `make acp-jupyter` installs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.live import Live
from tests.support.wait import PATIENCE

PYTHON = Path(__file__).parents[4] / ".venv" / "jupyter" / "bin" / "python"
SCRIPT = Path(__file__).with_name("jupyter_chat.py")


def test_jupyters_client_prompts_reads_and_loads(live: Live) -> None:
    if not PYTHON.exists():
        pytest.skip("jupyter-ai-acp-client is not installed; make acp-jupyter")
    (live.workspace / "notes.txt").write_text("on disk")
    command = [sys.executable, "-P", "-m", "agh", "acp", "--agent", "echo", "--permissions", "approve-all"]
    result = subprocess.run(
        [PYTHON, SCRIPT, live.workspace, *command],
        env=live._environ(None),
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
    )
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout)
    assert seen["stopReason"] == "end_turn"
    assert seen["said"] == "echo: hello from Jupyter"
    assert "notes.txt: on disk" in seen["read"]
    assert "hello from Jupyter" in seen["recalled"]
    session = live.session(seen["sessionId"])
    assert session.is_live()
    session.check_log()
