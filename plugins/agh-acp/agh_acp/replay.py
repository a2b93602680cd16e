"""A session's log as the updates that show it once more. Pure.

Promises: a message is one update for each of its blocks, however many chunks it came in; a tool call is one
update with its final state; a plan shows as it last was in its turn. The order is that of the beginnings.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agh.core.events import MARKER_CREATED, Row
from agh_acp.capabilities import Client
from agh_acp.updates import (
    CHUNKS,
    Update,
    marker_updates,
    prompt_updates,
    stored_update,
    tool_update,
    updates_of,
    written_tool,
)

# What an update says about the session as it is now: only the last one counts.
_STATES = (
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
    "session_info_update",
    "usage_update",
)


def replay(rows: Iterable[Row], client: Client) -> list[Update]:
    """Return the updates that show what these rows say."""
    shown = Replay(client)
    for row in rows:
        shown.add(row)
    return shown.updates()


class Replay:
    """Takes rows in order, and makes updates of them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._updates: list[Update] = []
        self._tools: dict[tuple[str, str], Update] = {}
        self._plans: dict[tuple[str, Any], Update] = {}
        self._states: dict[str, Update] = {}
        self._open: tuple[Any, ...] | None = None  # of the message that the next chunk may belong to
        self._message = 0  # where its update is
        self._texts: list[str] = []

    def add(self, row: Row) -> None:
        """Take the next row."""
        content = row.parsed()
        if row.type in CHUNKS:
            self._add_chunk(row, content)
        elif row.type == "user_message":
            self._close_message()
            self._updates += prompt_updates(content)
        elif row.type in ("tool_call", "tool_result"):
            self._close_message()
            self._add_tool(row, content)
        elif row.type == "plan":
            self._add_plan(row, content)
        elif row.type == MARKER_CREATED:
            self._updates += marker_updates(self._client, row, content, live=False)
        elif row.type in ("system", "usage"):
            self._add_other(row)

    def updates(self) -> list[Update]:
        """Return everything so far; what describes the session as it is now comes last."""
        self._close_message()
        return [*self._updates, *self._states.values()]

    def _add_chunk(self, row: Row, content: dict[str, Any]) -> None:
        (update,) = updates_of(row, self._client)
        block = update.get("content")
        text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
        key = (row.type, row.turn_id, content.get("message_id"))
        if not isinstance(text, str):
            self._close_message()
            self._updates.append(update)
            return
        if not text:
            return  # some agents send empty chunks for what is in `_meta`
        if key != self._open:
            self._close_message()
            self._open, self._message = key, len(self._updates)
            self._updates.append(update)
        self._texts.append(text)

    def _close_message(self) -> None:
        """Put the joined text into the message's update."""
        if self._open is not None:
            update = self._updates[self._message]
            block = {**update["content"], "text": "".join(self._texts)}
            self._updates[self._message] = {**update, "content": block}
            self._open = None
        self._texts.clear()

    def _add_tool(self, row: Row, content: dict[str, Any]) -> None:
        update = tool_update(stored_update(content) or written_tool(row.type, content), content)
        key = (row.turn_id, str(update.get("toolCallId")))
        news = {name: value for name, value in update.items() if value is not None}
        if content.get("outcome") == "unknown":
            news["status"] = "failed"
        call = self._tools.get(key)
        if call is None:
            call = self._tools[key] = {"title": str(content.get("title") or "tool")}
            self._updates.append(call)
        call |= news
        call["sessionUpdate"] = "tool_call"

    def _add_plan(self, row: Row, content: dict[str, Any]) -> None:
        for update in updates_of(row, self._client):
            key = (row.turn_id, content.get("plan_id"))
            plan = self._plans.get(key)
            if plan is None:
                self._close_message()
                plan = self._plans[key] = {}
                self._updates.append(plan)
            plan.clear()
            plan |= update

    def _add_other(self, row: Row) -> None:
        for update in updates_of(row, self._client):
            if update["sessionUpdate"] in _STATES:
                self._states[update["sessionUpdate"]] = update
            else:
                self._close_message()
                self._updates.append(update)
