"""Prompts on their way to the session's queue, sent one after the other in the order they were typed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from agh.cli.chat.files import blocks_of
from agh.cli.chat.threads import in_thread
from agh.core.named_tuple import NamedTuple
from agh.errors import AghError
from agh.home import Session
from agh.keeper import client

_GONE = ("keeper_gone", "keeper_died", "session_stopping", "session_starting")


class Prompt(NamedTuple):
    """A prompt, and the key that keeps it from being queued twice."""

    blocks: list[dict[str, Any]]
    key: str


class Outbox:
    """Sends what is posted. A prompt that is refused goes to `refused`, with the reason."""

    def __init__(
        self,
        session: Session,
        *,
        sent: Callable[[dict[str, Any]], None],
        refused: Callable[[str, AghError], None],
    ) -> None:
        self._session, self._sent, self._refused = session, sent, refused
        self._texts: asyncio.Queue[str] = asyncio.Queue()
        self._unsent = 0

    @property
    def is_empty(self) -> bool:
        """Tell whether every prompt is queued or refused."""
        return not self._unsent

    def post(self, text: str) -> None:
        """Send a prompt after all before it."""
        self._unsent += 1
        self._texts.put_nowait(text)

    async def wait_empty(self) -> None:
        """Wait until every prompt is queued or refused."""
        await self._texts.join()

    async def send_all(self) -> Prompt:
        """Send until the session turns out not to be live; return the prompt that could not be sent."""
        while True:
            text = await self._texts.get()
            prompt: Prompt | None = None
            try:
                blocks = await in_thread(partial(blocks_of, text, self._session))
                prompt = Prompt(blocks, os.urandom(8).hex())
                self._sent(await in_thread(partial(self._send, prompt)))
            except AghError as error:
                if error.code in _GONE and prompt is not None:
                    return prompt
                self._refused(text, error)
            finally:
                self._unsent -= 1
                self._texts.task_done()

    def _send(self, prompt: Prompt) -> dict[str, Any]:
        """In a thread: queue a prompt."""
        return client.call(
            self._session, "prompt", prompt=prompt.blocks, idempotency_key=prompt.key, attended=True
        )
