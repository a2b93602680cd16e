"""Codex's rollouts: `sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl`, lines of timestamp, type, payload.

They hold the conversation twice: as items of the model's API and as events of the program. We use the
items, except for the user's prompts: among the items they are mixed with texts that the program adds. Older
rollouts have only the items, without the frame around them.
"""

from __future__ import annotations

import os
import re
from glob import glob
from typing import Any

import orjson

from agh.core.exchange import Imported
from agh_importers.claude import glob_safe
from agh_importers.conversation import Conversation, join_text, string_or_none, token_count
from agh_importers.lines import normalise_time, parse_first_lines, read_lines

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EXIT_CODE = re.compile(r"(?:Exit code: |Process exited with code )(\d+)")
_STOP_REASONS = {"task_complete": "end_turn", "turn_complete": "end_turn", "turn_aborted": "cancelled"}
# Events that repeat an item, or are not part of the conversation.
_IGNORED_EVENTS = {
    "agent_message",
    "agent_reasoning",
    "agent_reasoning_raw_content",
    "item_completed",
    "task_started",
    "thread_name_updated",
    "thread_settings_applied",
    "turn_started",
}
_USAGE = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "thought_tokens": "reasoning_output_tokens",
    "cached_read_tokens": "cached_input_tokens",
    "total_tokens": "total_tokens",
}
_IGNORED_ITEMS = {"compaction", "context_compaction", "ghost_snapshot", "other"}


def find() -> list[str]:
    """List the rollouts that Codex has written."""
    base = glob_safe(os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex"))
    patterns = (f"{base}/sessions/**/rollout-*.jsonl", f"{base}/archived_sessions/rollout-*.jsonl")
    return [path for pattern in patterns for path in glob(pattern, recursive=True) if os.path.isfile(path)]


def recognises(path: str, head: bytes) -> bool:
    """Tell whether a file with these first bytes is a rollout of Codex."""
    if not path.endswith(".jsonl"):
        return False
    line = next(parse_first_lines(head), None)
    if line is None:
        return head.startswith(b"{") and b'"type":"session_meta"' in head[:200]
    is_framed = line.get("type") == "session_meta" and isinstance(line.get("payload"), dict)
    return is_framed or ({"id", "timestamp"} <= line.keys() and os.path.basename(path).startswith("rollout-"))


def read(path: str) -> Imported:
    """Read a rollout. Raise ValueError if it does not say which session it is."""
    first = next(read_lines(path), None)
    if first is None:
        raise ValueError("it is empty")
    metadata = first.get("payload") if first.get("type") == "session_meta" else first
    ids_in_name = _UUID.findall(os.path.basename(path))
    session_id = metadata.get("id") if isinstance(metadata, dict) else None
    if not isinstance(session_id, str) or not session_id:
        session_id = ids_in_name[-1] if ids_in_name else ""
    if not session_id:
        raise ValueError("it has no Codex session id")
    events = (_payload(line) for line in read_lines(path) if line.get("type") == "event_msg")
    has_prompt_events = any(event.get("type") == "user_message" for event in events)
    converter = _Converter(Conversation("codex", session_id), has_prompt_events)
    for line in read_lines(path):
        converter.add_line(line)
    return converter.conversation.finish()


def _payload(line: dict[str, Any]) -> dict[str, Any]:
    payload = line.get("payload")
    return payload if isinstance(payload, dict) else {}


class _Converter:
    """Turns lines of a rollout into events."""

    def __init__(self, conversation: Conversation, has_prompt_events: bool) -> None:
        self.conversation, self._has_prompt_events = conversation, has_prompt_events
        self._tool_names: dict[str, str] = {}  # by the id of the call
        self._tokens_before_turn: dict[str, int] = {}
        self._tokens: dict[str, int] = {}  # used by the whole session so far
        self._counted_turn = ""

    def add_line(self, line: dict[str, Any]) -> None:
        kind, conversation, payload = line.get("type"), self.conversation, _payload(line)
        conversation.set_time(normalise_time(line.get("timestamp")))
        if kind == "broken":
            conversation.add_note(f"line {line['line']} {line['reason']}", line["text"])
        elif kind is not None and "payload" not in line:
            self._add_item(line)
        elif kind is None:
            self._set_workspace(line)  # the first line of an older rollout, or a record of its state
        elif kind == "session_meta":
            self._set_workspace(payload)
        elif kind == "turn_context":
            self._set_workspace(payload)
            if isinstance(payload.get("model"), str):
                conversation.source["model"] = payload["model"]
        elif kind == "response_item":
            self._add_item(payload)
        elif kind == "event_msg":
            self._add_event(payload)
        elif kind == "compacted":
            text = string_or_none(payload.get("message"))
            conversation.add_note("summary of the earlier conversation", text)
        else:
            conversation.add_note(f"unknown: {kind}", raw=line)

    def _set_workspace(self, payload: dict[str, Any]) -> None:
        if isinstance(payload.get("cwd"), str):
            self.conversation.session.setdefault("workspace_path", payload["cwd"])

    def _add_event(self, payload: dict[str, Any]) -> None:
        kind, conversation = payload.get("type"), self.conversation
        if kind == "user_message":
            images = [*_list(payload.get("images")), *_list(payload.get("local_images"))]
            lines = [str(payload.get("message") or ""), *["[image]"] * len(images)]
            conversation.start_turn("\n".join(lines).strip())
        elif kind in _STOP_REASONS:
            conversation.end_turn(_STOP_REASONS[str(kind)])
        elif kind == "token_count":
            self._add_usage(payload.get("info"))
        elif kind == "error":
            conversation.fail_turn(str(payload.get("message")))
        elif kind not in _IGNORED_EVENTS:
            conversation.add_note(f"event: {kind}", raw=payload)

    def _add_item(self, item: dict[str, Any]) -> None:
        kind, conversation = item.get("type"), self.conversation
        if kind == "message":
            self._add_message(item)
        elif kind == "reasoning":
            parts = [*_list(item.get("summary")), *_list(item.get("content"))]
            if text := join_text(parts, "summary_text") or join_text(parts, "reasoning_text", "text"):
                conversation.add_event("thought", text=text)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._add_result(item)
        elif isinstance(kind, str) and kind.endswith("_call"):
            self._add_call(kind, item)
        elif kind not in _IGNORED_ITEMS:
            conversation.add_note(f"item: {kind}", raw=item)

    def _add_message(self, item: dict[str, Any]) -> None:
        conversation, role = self.conversation, item.get("role")
        text = join_text(item.get("content"), "input_text", "output_text", "text")
        if role == "assistant":
            conversation.add_event("agent_message", text=text, message_id=string_or_none(item.get("id")))
        elif role == "user" and not self._has_prompt_events and not _is_added_by_codex(text):
            conversation.start_turn(text)

    def _add_call(self, kind: str, item: dict[str, Any]) -> None:
        arguments: Any = item.get("arguments") or item.get("input") or item.get("action")
        if isinstance(arguments, str):
            try:
                arguments = orjson.loads(arguments)
            except orjson.JSONDecodeError:
                arguments = {"input": arguments}
        name = str(item.get("name") or kind.removesuffix("_call"))
        next_row = len(self.conversation.rows) + 1
        call_id = str(item.get("call_id") or item.get("id") or f"call-{next_row}")
        self._tool_names[call_id] = name
        self.conversation.add_tool_call(call_id, name, _title(name, arguments), arguments)
        if kind in ("web_search_call", "image_generation_call"):  # their output is not in the rollout
            self.conversation.add_tool_result(call_id, name, {}, False)

    def _add_result(self, item: dict[str, Any]) -> None:
        call_id, output = str(item.get("call_id")), item.get("output")
        failed, text = False, join_text(output, "input_text", "output_text", "text")
        if isinstance(output, dict):  # an older format
            failed, text = output.get("success") is False, join_text(output.get("content"), "text")
        try:
            inner = orjson.loads(text)
        except orjson.JSONDecodeError:
            inner = None
        if isinstance(inner, dict) and isinstance(inner.get("output"), str):
            details = inner.get("metadata")
            failed = isinstance(details, dict) and details.get("exit_code") not in (0, None)
            text = inner["output"]
        elif exit_code := _EXIT_CODE.match(text):
            failed = exit_code[1] != "0"
        result = {"error" if failed else "content": text}
        self.conversation.add_tool_result(call_id, self._tool_names.get(call_id), result, failed)

    def _add_usage(self, info: Any) -> None:
        """Set the usage of the turn: what was added to the session's total since the turn started."""
        total = info.get("total_token_usage") if isinstance(info, dict) else None
        if not isinstance(total, dict):
            return
        if self.conversation.turn_id != self._counted_turn:
            self._counted_turn, self._tokens_before_turn = self.conversation.turn_id, self._tokens
        self._tokens = {ours: token_count(total.get(theirs)) for ours, theirs in _USAGE.items()}
        used = {
            name: max(0, tokens - self._tokens_before_turn.get(name, 0))
            for name, tokens in self._tokens.items()
        }
        window = info.get("model_context_window")
        self.conversation.set_usage(**used, context_size=token_count(window) or None)


def _is_added_by_codex(text: str) -> bool:
    return text.lstrip().startswith(("<", "# AGENTS.md"))


def _title(name: str, arguments: Any) -> str:
    """Return the command or the query of a tool call, else the tool's name."""
    named = arguments if isinstance(arguments, dict) else {}
    command = named.get("command") or named.get("cmd") or named.get("query")
    if isinstance(command, list):
        command = " ".join(map(str, command))
    return str(command)[:300] if command else name


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
