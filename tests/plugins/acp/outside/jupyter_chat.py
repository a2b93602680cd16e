"""The client of jupyter-ai-acp-client with a stand-in for the chat that it writes to.

Run by the Python that has the package: jupyter_chat.py CWD COMMAND…; prints what it saw as JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from typing import Any
from unittest.mock import MagicMock

from jupyter_ai_acp_client.default_acp_client import JaiAcpClient  # type: ignore[import-not-found]

LIMIT = 60


def stand_in(directory: str) -> Any:
    """Return a persona that takes everything, and notes the messages of its chat."""
    persona = MagicMock()
    persona.log = logging.getLogger("persona")
    persona.get_chat_dir.return_value = directory
    persona.get_mcp_settings.return_value = None
    return persona


def text_of(persona: Any) -> str:
    """Return what was added to the messages of the chat."""
    calls = persona.chat.update_message.call_args_list
    return "".join(call.args[0].body for call in calls if call.kwargs.get("append"))


async def wait_for(persona: Any, text: str) -> str:
    """Wait until the chat shows a text: the client handles updates beside the answer."""
    while text not in text_of(persona):
        await asyncio.sleep(0.02)
    return text_of(persona)


async def connect(directory: str, command: list[str]) -> Any:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=directory)
    return JaiAcpClient(agent_subprocess=process, event_loop=asyncio.get_running_loop()), process


async def main(directory: str, command: list[str]) -> None:
    client, process = await connect(directory, command)
    persona = stand_in(directory)
    session_id = (await client.create_session(persona)).session_id
    answer = await client.prompt_and_reply(session_id, "hello from Jupyter")
    said = await wait_for(persona, "Jupyter")
    await client.prompt_and_reply(session_id, "/read notes.txt")
    read = await wait_for(persona, "on disk")
    process.stdin.close()
    await process.wait()
    client, process = await connect(directory, command)
    later = stand_in(directory)
    await client.load_session(later, session_id)
    await client.prompt_and_reply(session_id, "what did i say?")
    recalled = await wait_for(later, "SEEN")
    process.stdin.close()
    await process.wait()
    seen = {"sessionId": session_id, "stopReason": answer.stop_reason, "said": said}
    print(json.dumps({**seen, "read": read, "recalled": recalled}), flush=True)
    os._exit(0)  # its background tasks do not end by themselves


asyncio.run(asyncio.wait_for(main(sys.argv[1], sys.argv[2:]), LIMIT))
