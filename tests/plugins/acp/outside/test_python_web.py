"""The Python SDK's client over WebSocket and over HTTP. `make acp-sdk` installs what that needs."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

import acp
import pytest

from tests.plugins.acp.test_sdk import Editor
from tests.plugins.serve.server import Server, serve
from tests.support.live import Live
from tests.support.wait import PATIENCE


async def connect(server: Server, transport: str) -> tuple[Any, Editor]:
    headers = {"Authorization": f"Bearer {server.token}"}
    address = f"127.0.0.1:{server.port}/acp?agent=echo"
    if transport == "ws":
        from acp.ws import create_websocket_stream

        stream = await create_websocket_stream(f"ws://{address}", headers=headers)
    else:
        from acp.http import create_http_stream

        stream = create_http_stream(f"http://{address}", headers=headers)
    editor = Editor()
    agent = acp.connect_to_agent(editor, stream)
    await agent.initialize(protocol_version=1)
    return agent, editor


async def wait_for(editor: Editor, kind: str, text: str) -> None:
    while "".join(editor.texts(kind)) != text:
        await asyncio.sleep(0.01)


async def walk(live: Live, server: Server, transport: str) -> None:
    here = str(live.workspace)
    agent, editor = await connect(server, transport)
    session_id = (await agent.new_session(cwd=here, mcp_servers=[])).session_id
    await agent.prompt(session_id=session_id, prompt=[acp.text_block("hello")])
    await wait_for(editor, "agent_message_chunk", "echo: hello")
    await agent.close()
    agent, editor = await connect(server, transport)
    await agent.load_session(session_id=session_id, cwd=here, mcp_servers=[])
    await wait_for(editor, "user_message_chunk", "hello")
    await agent.prompt(session_id=session_id, prompt=[acp.text_block("more")])
    await wait_for(editor, "agent_message_chunk", "echo: helloecho: more")
    await agent.close()
    assert live.session(session_id).is_live()


@pytest.mark.parametrize("transport", ["ws", "http"])
def test_the_python_sdk_prompts_and_loads_over_the_web(live: Live, transport: str) -> None:
    if importlib.util.find_spec("httpx") is None or importlib.util.find_spec("h2") is None:
        pytest.skip("agent-client-protocol[http] is not installed; make acp-sdk")
    asyncio.run(asyncio.wait_for(walk(live, serve(live), transport), 4 * PATIENCE))
