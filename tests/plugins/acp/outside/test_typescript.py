"""The TypeScript SDK's client, on stdio, over WebSocket and over HTTP. `make acp-sdk` installs it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.serve.server import serve
from tests.support.live import Live
from tests.support.wait import PATIENCE

SDK = Path(__file__).parents[4] / ".venv" / "acp-sdk"
SCRIPT = Path(__file__).with_name("client.mjs")


@pytest.mark.parametrize("transport", ["stdio", "ws", "http"])
def test_the_typescript_sdk_opens_prompts_lists_loads_resumes_and_cancels(live: Live, transport: str) -> None:
    node = shutil.which("node")
    if node is None or not SDK.exists():
        pytest.skip("the TypeScript SDK is not installed; make acp-sdk")
    target = [sys.executable, "-P", "-m", "agh", "acp", "--agent", "echo"]
    if transport != "stdio":
        server = serve(live)
        scheme = "ws" if transport == "ws" else "http"
        target = [f"{scheme}://127.0.0.1:{server.port}/acp?agent=echo", server.token]
    file = live.workspace / "notes.txt"
    file.write_text("on disk")
    result = subprocess.run(
        [node, SCRIPT, SDK, live.workspace, file, transport, *target],
        env=live._environ(None),
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
    )
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout)
    session = live.session(seen["sessionId"])
    prompts = ["hello from the SDK", "/ask Write the file", f"/read {file}", "/stream 1000 0.05"]
    assert seen == {
        "version": 1,
        "sessionId": session.id,
        "stopReason": "end_turn",
        "hello": "echo: hello from the SDK",
        "permissions": 1,
        "read": f"read {file}: not saved",
        "listed": [session.id],
        "cancelled": "cancelled",
        "loaded": prompts,
        "recalled": seen["recalled"],
    }
    assert "hello from the SDK" in seen["recalled"]
    assert "error" not in result.stderr.lower(), result.stderr
    assert session.is_live()
    session.check_log()
