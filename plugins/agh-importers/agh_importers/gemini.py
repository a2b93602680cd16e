"""Gemini CLI's chats: `tmp/<project>/chats/session-*.jsonl`, a line per message or change.

Old versions wrote one JSON object, into a file whose name ends in `.json`.
A message is written again, with the same id, whenever something is added to it: the last line counts. Gemini
does not list its sessions over ACP, and may delete one that was loaded, so its files are read instead. Chats
of subagents are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from glob import glob
from typing import Any

import orjson

from agh.core.exchange import Imported
from agh_importers.claude import glob_safe
from agh_importers.conversation import Conversation, string_or_none, token_count
from agh_importers.lines import LONGEST, normalise_time, parse_line, read_lines

# How the texts start that the program wrote in the user's name, and its own commands.
_NOT_TYPED = ("<session_context>", "<hook_context>", "/", "?")
_NOTES = ("info", "warning", "error")
_USAGE = {
    "input_tokens": "input",
    "output_tokens": "output",
    "thought_tokens": "thoughts",
    "cached_read_tokens": "cached",
    "total_tokens": "total",
}
LONGEST_TITLE = 1 << 20  # characters; the call's input has all of it

Fields = dict[str, Any]


def find() -> list[str]:
    """List the chats that Gemini CLI has written."""
    home = os.environ.get("GEMINI_CLI_HOME") or os.path.expanduser("~")
    paths = glob(f"{glob_safe(os.path.join(home, '.gemini'))}/tmp/*/chats/session-*.json*")
    return [path for path in paths if path.endswith((".json", ".jsonl")) and f"{path}l" not in paths]


def recognises(path: str, head: bytes) -> bool:
    """Tell whether a file with these first bytes is a chat of Gemini CLI."""
    name = os.path.basename(path)
    is_chat = name.startswith("session-") and name.endswith((".json", ".jsonl"))
    return is_chat and head.lstrip().startswith(b"{") and b'"projectHash"' in head and b'"sessionId"' in head


def read(path: str) -> Imported:
    """Read a chat. Raise ValueError if it does not say which session it is."""
    chat = _Chat()
    for record in _records(path):
        chat.add(record)
    session_id = chat.metadata.get("sessionId")
    if not isinstance(session_id, str) or not session_id:
        raise ValueError("it has no Gemini CLI session id")
    if chat.metadata.get("kind") == "subagent":
        raise ValueError("it is the chat of a subagent, which cannot be resumed")
    conversation = Conversation("gemini", session_id)
    if (workspace := _workspace(path)) is not None:
        conversation.session["workspace_path"] = workspace
    if isinstance(summary := chat.metadata.get("summary"), str) and summary.strip():
        conversation.session["title"] = " ".join(summary.split())[:200]
    conversation.set_time(normalise_time(chat.metadata.get("startTime")))
    for message in chat.messages.values():
        _add_message(conversation, message)
    return conversation.finish()


def _records(path: str) -> Iterable[Fields]:
    """Yield the records of a chat; an old one is a single JSON object over many lines."""
    if path.endswith(".jsonl"):
        yield from read_lines(path)
        return
    with open(path, "rb") as file:
        data = file.read(LONGEST + 1)
    record = parse_line(data) if len(data) <= LONGEST else None
    if record is None:
        raise ValueError(f"it is not a JSON object, or is larger than {LONGEST >> 20} MB")
    yield record


class _Chat:
    """The state of a chat after some of its records: its metadata, and its messages by id."""

    def __init__(self) -> None:
        self.metadata: Fields = {}
        self.messages: dict[str, Fields] = {}

    def add(self, record: Fields) -> None:
        """Take the next record."""
        changes = record.get("$set")
        if isinstance(record.get("$rewindTo"), str):
            self._rewind(record["$rewindTo"])
        elif record.get("type") == "broken":
            self.messages[f"line {record['line']}"] = record
        elif isinstance(record.get("id"), str):
            self.messages[record["id"]] = record
        elif isinstance(changes, dict):
            if isinstance(changes.get("messages"), list):
                self.messages.clear()
            self._describe(changes)
        elif isinstance(record.get("sessionId"), str):
            self._describe(record)

    def _describe(self, fields: Fields) -> None:
        self.metadata |= {key: value for key, value in fields.items() if key != "messages"}
        messages = fields.get("messages")
        for message in messages if isinstance(messages, list) else []:
            if isinstance(message, dict) and isinstance(message.get("id"), str):
                self.messages[message["id"]] = message

    def _rewind(self, message_id: str) -> None:
        """Forget a message and all after it; everything if there is no such message."""
        ids = list(self.messages)
        for name in ids[ids.index(message_id) if message_id in ids else 0 :]:
            del self.messages[name]


def _add_message(conversation: Conversation, message: Fields) -> None:
    kind, text = message.get("type"), _text(message.get("displayContent") or message.get("content"))
    conversation.set_time(normalise_time(message.get("timestamp")))
    if kind == "user":
        if text.strip().startswith(_NOT_TYPED):
            conversation.add_note("note", text)
        elif text.strip():
            conversation.start_turn(text)
    elif kind == "gemini":
        if isinstance(message.get("model"), str):
            conversation.source["model"] = message["model"]
        for thought in _dicts(message.get("thoughts")):
            words = [thought.get(key) for key in ("subject", "description")]
            conversation.add_event("thought", text="\n".join(word for word in words if isinstance(word, str)))
        if text:
            conversation.add_event("agent_message", text=text, message_id=string_or_none(message.get("id")))
        for call in _dicts(message.get("toolCalls")):
            _add_call(conversation, call)
        _add_usage(conversation, message.get("tokens"))
    elif kind == "broken":
        conversation.add_note(f"line {message['line']} {message['reason']}", message["text"])
    elif kind in _NOTES:
        conversation.add_note(str(kind), text)
    else:
        conversation.add_note(f"unknown: {kind}", raw=message)


def _add_call(conversation: Conversation, call: Fields) -> None:
    call_id, name = str(call.get("id")), str(call.get("name"))
    title = next(
        (call[key] for key in ("description", "displayName") if isinstance(call.get(key), str)), name
    )
    conversation.add_tool_call(call_id, name, (title or name)[:LONGEST_TITLE], call.get("args"))
    status = call.get("status")
    if status not in ("success", "error", "cancelled"):
        return
    failed = status != "success"
    text = "\n".join(_outputs(call.get("result"))) or string_or_none(call.get("resultDisplay")) or ""
    result: Fields = {"error" if failed else "content": text or (str(status) if failed else "")}
    shown = call.get("resultDisplay")
    if isinstance(shown, dict) and isinstance(shown.get("filePath"), str):
        result["file_path"] = shown["filePath"]
    conversation.add_tool_result(call_id, name, result, failed)


def _outputs(result: Any) -> Iterator[str]:
    """Yield the texts of a tool's result, which is a text, a part or a list of parts."""
    for part in result if isinstance(result, list) else [result]:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            answer = part.get("functionResponse")
            answer = answer.get("response") if isinstance(answer, dict) else None
            values = [answer.get(key) for key in ("output", "error")] if isinstance(answer, dict) else []
            yield from (value for value in [*values, part.get("text")] if isinstance(value, str))


def _add_usage(conversation: Conversation, tokens: Any) -> None:
    """Add the tokens of one request to those of the turn."""
    if not isinstance(tokens, dict) or not conversation.turn_id:
        return
    earlier = conversation.usage.get(conversation.turn_id, {})
    conversation.set_usage(
        **{ours: earlier.get(ours, 0) + token_count(tokens.get(theirs)) for ours, theirs in _USAGE.items()}
    )


def _text(content: Any) -> str:
    """Return the text of a message, which is a text, a part or a list of them."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


def _dicts(value: Any) -> list[Fields]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _workspace(path: str) -> str | None:
    """Return the directory of a chat's project, from what Gemini CLI notes beside it; None if it does not."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    try:
        with open(os.path.join(folder, ".project_root"), encoding="utf-8") as file:
            root = file.read(10_000).strip()
    except (OSError, UnicodeError):
        root = _registered(folder)
    return root if root.startswith("/") else None


def _registered(folder: str) -> str:
    """Return the directory that `projects.json` has for a project's folder; empty if there is none."""
    try:
        with open(os.path.join(os.path.dirname(os.path.dirname(folder)), "projects.json"), "rb") as file:
            projects = orjson.loads(file.read(LONGEST)).get("projects")
    except (OSError, ValueError, AttributeError):
        return ""
    projects = projects if isinstance(projects, dict) else {}
    return next((root for root, name in projects.items() if name == os.path.basename(folder)), "")
