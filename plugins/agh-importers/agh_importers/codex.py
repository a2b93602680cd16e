"""Codex's rollouts: `sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl`, lines of timestamp, type, payload.

The conversation is told twice in them: as items of the model's interface and as events of the program. The
items are taken, but for what the user typed, which among the items stands between texts of the program.
Older rollouts have only the items, without the frame around them.
"""

from __future__ import annotations

import os
import re
from glob import glob
from typing import Any

import orjson

from agh.core.exchange import Imported
from agh_importers.claude import glob_safe
from agh_importers.lines import first_lines, lines, stamp
from agh_importers.story import Story, number, words

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EXIT = re.compile(r"(?:Exit code: |Process exited with code )(\d+)")
_ENDS = {"task_complete": "end_turn", "turn_complete": "end_turn", "turn_aborted": "cancelled"}
# What the items tell as well, and what is no part of the conversation.
_KNOWN_EVENTS = {
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
_KNOWN_ITEMS = {"compaction", "context_compaction", "ghost_snapshot", "other"}


def find() -> list[str]:
    base = glob_safe(os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex"))
    places = (f"{base}/sessions/**/rollout-*.jsonl", f"{base}/archived_sessions/rollout-*.jsonl")
    return [path for place in places for path in glob(place, recursive=True) if os.path.isfile(path)]


def recognises(path: str, head: bytes) -> bool:
    if not path.endswith(".jsonl"):
        return False
    line = next(first_lines(head), None)
    if line is None:
        return head.startswith(b"{") and b'"type":"session_meta"' in head[:200]
    framed = line.get("type") == "session_meta" and isinstance(line.get("payload"), dict)
    return framed or ({"id", "timestamp"} <= line.keys() and os.path.basename(path).startswith("rollout-"))


def read(path: str) -> Imported:
    first = next(lines(path), None)
    if first is None:
        raise ValueError("it is empty")
    head = first.get("payload") if first.get("type") == "session_meta" else first
    named = _UUID.findall(os.path.basename(path))
    token = head.get("id") if isinstance(head, dict) else None
    token = token if isinstance(token, str) and token else (named[-1] if named else "")
    if not token:
        raise ValueError("no line of it names a session of Codex")
    events = (_payload(line) for line in lines(path) if line.get("type") == "event_msg")
    teller = _Teller(Story("codex", token), any(event.get("type") == "user_message" for event in events))
    for line in lines(path):
        teller.take(line)
    return teller.story.told()


def _payload(line: dict[str, Any]) -> dict[str, Any]:
    payload = line.get("payload")
    return payload if isinstance(payload, dict) else {}


class _Teller:
    def __init__(self, story: Story, typed: bool) -> None:
        self.story, self._typed = story, typed
        self._names: dict[str, str] = {}
        self._before: dict[str, int] = {}  # tokens used up to the turn that is going on
        self._total: dict[str, int] = {}
        self._counted = ""

    def take(self, line: dict[str, Any]) -> None:
        kind, story, payload = line.get("type"), self.story, _payload(line)
        story.clock(stamp(line.get("timestamp")))
        if kind == "broken":
            story.note(f"line {line['line']} {line['reason']}", line["text"])
        elif kind is not None and "payload" not in line:
            self._item(line)
        elif kind is None:
            self._place(line)  # the first line of an older rollout, or a state of it
        elif kind == "session_meta":
            self._place(payload)
        elif kind == "turn_context":
            self._place(payload)
            if isinstance(payload.get("model"), str):
                story.source["model"] = payload["model"]
        elif kind == "response_item":
            self._item(payload)
        elif kind == "event_msg":
            self._event(payload)
        elif kind == "compacted":
            story.note("summary of the conversation before", _text(payload.get("message")))
        else:
            story.note(f"unknown: {kind}", raw=line)

    def _place(self, payload: dict[str, Any]) -> None:
        if isinstance(payload.get("cwd"), str):
            self.story.session.setdefault("workspace_path", payload["cwd"])

    def _event(self, payload: dict[str, Any]) -> None:
        kind, story = payload.get("type"), self.story
        if kind == "user_message":
            pictures = [*_list(payload.get("images")), *_list(payload.get("local_images"))]
            story.prompt("\n".join([str(payload.get("message") or ""), *["[image]"] * len(pictures)]).strip())
        elif kind in _ENDS:
            story.end(_ENDS[str(kind)])
        elif kind == "token_count":
            self._count(payload.get("info"))
        elif kind == "error":
            story.fail(str(payload.get("message")))
        elif kind not in _KNOWN_EVENTS:
            story.note(f"event: {kind}", raw=payload)

    def _item(self, item: dict[str, Any]) -> None:
        kind, story = item.get("type"), self.story
        if kind == "message":
            self._message(item)
        elif kind == "reasoning":
            parts = [*_list(item.get("summary")), *_list(item.get("content"))]
            if text := words(parts, "summary_text") or words(parts, "reasoning_text", "text"):
                story.event("thought", text=text)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._result(item)
        elif isinstance(kind, str) and kind.endswith("_call"):
            self._call(kind, item)
        elif kind not in _KNOWN_ITEMS:
            story.note(f"item: {kind}", raw=item)

    def _message(self, item: dict[str, Any]) -> None:
        story, role = self.story, item.get("role")
        text = words(item.get("content"), "input_text", "output_text", "text")
        if role == "assistant":
            story.event("agent_message", text=text, message_id=_text(item.get("id")))
        elif role == "user" and not self._typed and not text.lstrip().startswith(("<", "# AGENTS.md")):
            story.prompt(text)

    def _call(self, kind: str, item: dict[str, Any]) -> None:
        given: Any = item.get("arguments") or item.get("input") or item.get("action")
        if isinstance(given, str):
            try:
                given = orjson.loads(given)
            except orjson.JSONDecodeError:
                given = {"input": given}
        name = str(item.get("name") or kind.removesuffix("_call"))
        call = str(item.get("call_id") or item.get("id") or f"call-{len(self.story.rows) + 1}")
        self._names[call] = name
        self.story.call(call, name, _title(name, given), given)
        if kind in ("web_search_call", "image_generation_call"):  # no output of it is kept
            self.story.result(call, name, {}, False)

    def _result(self, item: dict[str, Any]) -> None:
        call, output = str(item.get("call_id")), item.get("output")
        failed, text = False, words(output, "input_text", "output_text", "text")
        if isinstance(output, dict):  # an older form
            failed, text = output.get("success") is False, words(output.get("content"), "text")
        try:
            inner = orjson.loads(text)
        except orjson.JSONDecodeError:
            inner = None
        if isinstance(inner, dict) and isinstance(inner.get("output"), str):
            details = inner.get("metadata")
            failed = isinstance(details, dict) and details.get("exit_code") not in (0, None)
            text = inner["output"]
        elif found := _EXIT.match(text):
            failed = found[1] != "0"
        result = {"error" if failed else "content": text}
        self.story.result(call, self._names.get(call), result, failed)

    def _count(self, info: Any) -> None:
        """The program counts over the session; a turn's own is what was added since it began."""
        total = info.get("total_token_usage") if isinstance(info, dict) else None
        if not isinstance(total, dict):
            return
        if self.story.turn != self._counted:
            self._counted, self._before = self.story.turn, self._total
        self._total = {ours: number(total.get(theirs)) for ours, theirs in _USAGE.items()}
        used = {name: max(0, value - self._before.get(name, 0)) for name, value in self._total.items()}
        window = info.get("model_context_window")
        self.story.spend(**used, context_size=number(window) or None)


def _title(name: str, given: Any) -> str:
    known = given if isinstance(given, dict) else {}
    command = known.get("command") or known.get("cmd") or known.get("query")
    if isinstance(command, list):
        command = " ".join(map(str, command))
    return str(command)[:300] if command else name


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
