"""What `agh acp` costs an editor, next to the same agent without it. The client is that of the Python SDK."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp

from tests.bench import data
from tests.bench.live import ECHO
from tests.bench.measure import AGH, Figure
from tests.bench.starting import agh

CHUNKS, MESSAGES = 10_000, 5_000
ACP = (AGH, "acp", "--agent", "echo")


class Editor(acp.Client):
    """Counts the updates that reach it."""

    def __init__(self) -> None:
        self.count = 0
        self.wanted = 0
        self.enough = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.count += 1
        if self.count == self.wanted:
            self.enough.set()

    async def updates(self, wanted: int) -> None:
        """Wait for so many updates since the last time."""
        self.wanted = wanted
        if self.count < wanted:
            await self.enough.wait()
        self.count = self.wanted = 0
        self.enough.clear()


class Thread:
    """A thread of the editor with an agent."""

    def __init__(self, agent: Any, editor: Editor, place: Path) -> None:
        self.agent, self.editor, self.place, self.id = agent, editor, str(place), ""

    async def start(self) -> None:
        self.id = (await self.agent.new_session(cwd=self.place, mcp_servers=[])).session_id

    async def prompt(self, text: str, updates: int) -> float:
        """Return how long a prompt takes, until its answer and so many updates are there."""
        start = time.perf_counter()
        await self.agent.prompt(session_id=self.id, prompt=[acp.text_block(text)])
        await self.editor.updates(updates)
        return time.perf_counter() - start


@asynccontextmanager
async def thread(place: Path, *argv: str) -> AsyncIterator[Thread]:
    editor = Editor()
    async with acp.spawn_agent_process(editor, *argv, env=dict(os.environ), cwd=place) as (agent, _process):
        await agent.initialize(protocol_version=1)
        yield Thread(agent, editor, place)


def editor(place: Path, quick: bool) -> Iterator[Figure]:
    place.mkdir(parents=True)
    data.use(place)
    os.environ["AGH_ECHO_HOME"] = str(place.parent / "echo")
    yield from asyncio.run(_measure(place.parent, quick))


async def _measure(place: Path, quick: bool) -> list[Figure]:
    rounds, count, messages = (1, 50, 20) if quick else (9, CHUNKS, MESSAGES)
    async with thread(place, *ECHO) as bare, thread(place, *ACP) as ours:
        await bare.start()
        await ours.start()
        try:
            prompts = [(await bare.prompt("hi", 2), await ours.prompt("hi", 2)) for _ in range(5 * rounds)]
            text = f"/stream {count}"
            streams = [
                (await bare.prompt(text, count), await ours.prompt(text, count)) for _ in range(rounds)
            ]
            for number in range(messages // 2):
                await ours.prompt(f"word {number}", 1)
            replay = await _replay(place, ours.id)
        finally:
            agh("session", "stop", ours.id)
    alone, through = (statistics.median(times) * 1000 for times in zip(*prompts, strict=True))
    direct, passed = (statistics.median(times) for times in zip(*streams, strict=True))
    return [
        Figure(
            "agh acp, on top of a prompt",
            through - alone,
            "ms",
            30,
            note=f"{through:.1f} ms / {alone:.1f} ms",
        ),
        Figure(
            f"agh acp, {count} chunks to the Python SDK",
            direct / passed,
            "of the agent's own speed",
            0.5,
            at_least=True,
            note=f"{passed * 1000:.0f} ms / {direct * 1000:.0f} ms",
        ),
        Figure(f"agh acp, load of {messages} messages", replay, "s", 2),
    ]


async def _replay(place: Path, session_id: str) -> float:
    async with thread(place, *ACP) as later:
        start = time.perf_counter()
        await later.agent.load_session(session_id=session_id, cwd=later.place, mcp_servers=[])
        return time.perf_counter() - start
