"""The official Python SDK as the client: it checks every message by its own models."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import Any

from tests.support.live import Live, Session
from tests.support.sdk import load_model, load_sdk
from tests.support.wait import PATIENCE


class Editor:
    """Notes the updates, and allows everything."""

    def __init__(self) -> None:
        self.updates: list[Any] = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        outcome = load_model("AllowedOutcome")(outcome="selected", option_id=options[0].option_id)
        return load_model("RequestPermissionResponse")(outcome=outcome)

    def on_connect(self, conn: Any) -> None:
        pass

    def texts(self, kind: str) -> list[str]:
        return [update.content.text for update in self.updates if update.session_update == kind]


@asynccontextmanager
async def connected(live: Live) -> Any:
    acp, editor = load_sdk(), Editor()
    command = (sys.executable, "-P", "-m", "agh", "acp", "--agent", "echo")
    env = live._environ(None)
    async with acp.spawn_agent_process(editor, *command, env=env, cwd=live.workspace) as (agent, _process):
        await agent.initialize(protocol_version=1, client_capabilities=load_model("ClientCapabilities")())
        yield agent, editor


async def walk(live: Live) -> None:
    acp, here = load_sdk(), str(live.workspace)
    async with connected(live) as (agent, editor):
        session_id = (await agent.new_session(cwd=here, mcp_servers=[])).session_id
        answer = await agent.prompt(session_id=session_id, prompt=[acp.text_block("hello from the SDK")])
        assert answer.stop_reason == "end_turn"
        assert "".join(editor.texts("agent_message_chunk")) == "echo: hello from the SDK"
        answer = await agent.prompt(session_id=session_id, prompt=[acp.text_block("/ask Write the file")])
        assert answer.stop_reason == "end_turn"
        listed = await agent.list_sessions(cwd=here)
        assert [info.session_id for info in listed.sessions] == [session_id]
        await agent.set_session_mode(session_id=session_id, mode_id="code")
        slow = asyncio.create_task(
            agent.prompt(session_id=session_id, prompt=[acp.text_block("/stream 1000 0.05")])
        )
        while "chunk 1 " not in editor.texts("agent_message_chunk"):
            await asyncio.sleep(0.01)
        await agent.cancel(session_id=session_id)
        assert (await slow).stop_reason == "cancelled"

    session = Session(live, session_id)
    assert session.is_live()
    async with connected(live) as (agent, editor):
        await agent.load_session(session_id=session_id, cwd=here, mcp_servers=[])
        assert editor.texts("user_message_chunk")[0] == "hello from the SDK"
        assert editor.texts("agent_message_chunk")[0] == "echo: hello from the SDK"
    async with connected(live) as (agent, editor):
        await agent.resume_session(session_id=session_id, cwd=here, mcp_servers=[])
        await agent.prompt(session_id=session_id, prompt=[acp.text_block("what did i say?")])
        assert "hello from the SDK" in "".join(editor.texts("agent_message_chunk"))
        forked = await agent.fork_session(session_id=session_id, cwd=here, mcp_servers=[])
        assert forked.session_id != session_id
        await agent.close_session(session_id=session_id)


def test_the_python_sdk_opens_prompts_lists_loads_resumes_forks_and_cancels(live: Live) -> None:
    asyncio.run(asyncio.wait_for(walk(live), 4 * PATIENCE))
