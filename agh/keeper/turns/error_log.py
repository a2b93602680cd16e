"""An agent's log on stderr, for agents that wait for the reset of a usage limit without a word to us.

Promises: only lines that fit the agent's `error_log` count, and only those of the running turn. A turn that
would wait for minutes is cancelled; its end says that it met the limit.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from agh.core.acp.usage_limit import SOON, reset_in_words
from agh.keeper.session import Live
from agh.keeper.turns.cancel import ask_to_cancel

LONGEST_LINE = 1 << 16


class ErrorLog:
    """Reads the lines as they come."""

    def __init__(self, live: Live) -> None:
        self._live, self._pattern = live, re.compile(live.agent.record.error_log)
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Look at what the agent has written; a line without its end waits for the rest."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-LONGEST_LINE:]
        for line in lines:
            if match := self._pattern.search(line.decode(errors="replace")):
                self._note(match[1])

    def _note(self, error: str) -> None:
        """Cancel the running turn if the error is a usage limit that lasts."""
        turn, now = self._live.turns.current, datetime.fromtimestamp(time.time(), UTC)
        reset = reset_in_words(error, now) if "limit" in error.lower() else None
        if turn is None or turn.cancelled or reset is None or (reset - now).total_seconds() <= SOON:
            return
        turn.limit = (reset, self._live.redactor.text(error))
        summary = "the turn was cancelled: the agent was waiting for a usage limit to reset"
        ask_to_cancel(self._live, summary=summary)
