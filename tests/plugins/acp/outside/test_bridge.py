"""stdio-to-ws from npm, which marimo's page needs in front of `agh acp`. `make acp-sdk` installs it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from tests.support.live import Live
from tests.support.wait import PATIENCE, wait_until

BRIDGE = Path(__file__).parents[4] / ".venv" / "acp-sdk" / "node_modules" / ".bin" / "stdio-to-ws"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def open_socket(port: int) -> ClientConnection | None:
    try:
        return connect(f"ws://localhost:{port}/message")
    except (OSError, WebSocketException):
        return None


def test_the_bridge_of_marimos_settings_passes_a_session(live: Live) -> None:
    if not BRIDGE.exists():
        pytest.skip("stdio-to-ws is not installed; make acp-sdk")
    port = free_port()
    line = f"{sys.executable} -P -m agh acp --agent echo"
    process = subprocess.Popen(
        [BRIDGE, line, "--port", str(port)],
        env=live._environ(None),
        cwd=live.workspace,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        client = wait_until(lambda: open_socket(port), what="the bridge")
        with client:

            def call(number: int, method: str, **params: object) -> dict[str, object]:
                message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                client.send(json.dumps(message))
                while True:
                    answer: dict[str, object] = json.loads(client.recv(PATIENCE))
                    if answer.get("id") == number:
                        return answer

            call(1, "initialize", protocolVersion=1)
            created = call(2, "session/new", cwd=str(live.workspace), mcpServers=[])
            session_id = created["result"]["sessionId"]  # type: ignore[index]
            prompt = [{"type": "text", "text": "hello from marimo"}]
            call(3, "session/prompt", sessionId=session_id, prompt=prompt)
        assert live.session(session_id).text() == "echo: hello from marimo"
    finally:
        process.terminate()
        process.wait(PATIENCE)
