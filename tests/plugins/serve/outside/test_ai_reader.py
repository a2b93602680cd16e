"""The prompt stream, read by the AI SDK's own reader in the two versions that people have."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.serve.server import Server
from tests.support.live import Live

PACKAGES = Path(sys.executable).parents[1] / "ai/node_modules"
STEPS = """hello
/think about it
/tool Read path=a.txt all of it
/tool-fail Bash no such command
/plan first;second
/ask kind=read path=a.txt May I?
/usage 10 5 0.25
/say bye"""


@pytest.fixture(params=["ai5", "ai6"])
def package(request: pytest.FixtureRequest) -> str:
    path = PACKAGES / request.param / "dist/index.mjs"
    assert path.exists(), "run `make serve-ai`"
    return str(path.as_uri())


def read(package: str, server: Server, session_id: str, prompt: str) -> Any:
    node = shutil.which("node")
    assert node
    api = f"http://127.0.0.1:{server.port}/api/sessions/{session_id}/prompt"
    script = Path(__file__).with_name("reader.mjs")
    result = subprocess.run(
        [node, script, package, api, server.token, prompt], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_turn_is_read(package: str, live: Live, server: Server) -> None:
    session = live.new()
    got = read(package, server, session.id, STEPS)
    assert got["errors"] == [] and got["count"] > 5
    message = got["message"]
    assert message["role"] == "assistant"
    assert message["metadata"]["stop_reason"] == "end_turn"
    parts: dict[str, list[Any]] = {}
    for part in message["parts"]:
        parts.setdefault(part["type"], []).append(part)
    assert "".join(part["text"] for part in parts["text"]) == session.text()
    assert all(part["state"] == "done" for part in (*parts["text"], *parts["reasoning"]))
    assert parts["reasoning"][0]["text"] == "about it"
    tools = {part["toolName"]: part for part in parts["dynamic-tool"]}
    assert tools["Read"]["state"] == "output-available"
    assert tools["Read"]["output"]["content"] == "all of it"
    assert tools["Bash"]["state"] == "output-error"
    assert tools["Bash"]["errorText"] == "no such command"
    assert parts["data-permission"][0]["data"]["decision"] == "allowed"
    assert parts["data-plan"] and parts["data-usage"]


def test_a_failed_turn_is_an_error(package: str, live: Live, server: Server) -> None:
    got = read(package, server, live.new().id, "so far\n/error -32603 overloaded")
    assert any("overloaded" in error for error in got["errors"])
    assert got["message"]["parts"][-1]["text"].startswith("echo: so far")
