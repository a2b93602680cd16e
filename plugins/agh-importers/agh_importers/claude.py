"""Claude Code's transcripts: `projects/<directory>/<session>.jsonl`, a line per message or event.

The model's message is written as several lines, one per block, with the same id. Transcripts of subagents
are separate files that cannot be resumed, so they are skipped, and so are the lines of side chains.
"""

from __future__ import annotations

import os
import re
from glob import glob
from typing import Any

from agh.core.exchange import Imported
from agh_importers.conversation import Conversation, join_text, string_or_none, token_count
from agh_importers.lines import normalise_time, parse_first_lines, read_lines

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Types of lines that are not part of the conversation.
_BOOKKEEPING = {
    "agent-name",
    "attachment",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "tag",
    "worktree-state",
}
_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
# How the texts start that the program wrote in the user's name.
_NOT_TYPED = ("<command-", "<local-command-", "<bash-", "<system-reminder>", "<task-notification>")
_SESSION_KEYS = {"sessionId", "leafUuid"}
_INTERRUPTED = "[Request interrupted by user"
_USAGE = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_read_tokens": "cache_read_input_tokens",
    "cached_write_tokens": "cache_creation_input_tokens",
}
LONGEST_TITLE = 1 << 20  # characters; the call's input has all of it
# Arguments of a tool call that make a good title.
_TITLE_KEYS = ("command", "file_path", "path", "pattern", "query", "url", "description")


def find() -> list[str]:
    """List the transcripts that Claude Code has written."""
    base = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    return [path for path in glob(f"{glob_safe(base)}/projects/*/*.jsonl") if _is_main_transcript(path)]


def glob_safe(path: str) -> str:
    """Escape a path for use in a glob pattern."""
    return re.sub(r"([*?[])", r"[\1]", path)


def recognises(path: str, head: bytes) -> bool:
    """Tell whether a file with these first bytes is a transcript of Claude Code."""
    if not path.endswith(".jsonl") or not _is_main_transcript(path):
        return False
    for line in parse_first_lines(head):
        if _SESSION_KEYS & line.keys() or line.get("type") in _BOOKKEEPING:
            return True
    return head.startswith(b"{") and b'"sessionId":' in head and b'"parentUuid":' in head


def _is_main_transcript(path: str) -> bool:
    return not os.path.basename(path).startswith("agent-") and os.path.isfile(path)


def read(path: str) -> Imported:
    """Read a transcript. Raise ValueError if it does not say which session it is."""
    session_id = os.path.basename(path).removesuffix(".jsonl")
    if not _UUID.fullmatch(session_id):
        ids = (line.get("sessionId") for line in read_lines(path))
        session_id = next((value for value in ids if isinstance(value, str)), "")
    if not session_id:
        raise ValueError("it has no Claude Code session id")
    converter = _Converter(Conversation("claude", session_id))
    for line in read_lines(path):
        converter.add_line(line)
    return converter.conversation.finish()


class _Converter:
    """Turns lines of a transcript into events."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._tool_names: dict[str, str] = {}  # by the id of the call
        self._message_id: Any = None  # of the message whose lines are being read
        self._stop_reason: str | None = None  # set if that message ends its turn
        self._usage: dict[str, dict[str, dict[str, Any]]] = {}  # by turn and message

    def add_line(self, line: dict[str, Any]) -> None:
        kind, conversation = line.get("type"), self.conversation
        if line.get("isSidechain") is True or kind in _BOOKKEEPING:
            return
        if kind in _TITLES:
            if isinstance(title := line.get(_TITLES[str(kind)]), str):
                conversation.session["title"] = " ".join(title.split())[:200]
            return
        conversation.set_time(normalise_time(line.get("timestamp")))
        if isinstance(line.get("cwd"), str):
            conversation.session.setdefault("workspace_path", line["cwd"])
        value = line.get("message")
        message: dict[str, Any] = value if isinstance(value, dict) else {}
        if kind != "assistant" or message.get("id") != self._message_id:
            self._finish_message()
        if kind == "user":
            self._add_user_line(line, message)
        elif kind == "assistant":
            self._add_assistant_line(line, message)
        elif kind == "system":
            conversation.add_note(f"system: {line.get('subtype')}", string_or_none(line.get("content")))
        elif kind == "broken":
            conversation.add_note(f"line {line['line']} {line['reason']}", line["text"])
        else:
            conversation.add_note(f"unknown: {kind}", raw=line)

    def _finish_message(self) -> None:
        """End the turn if the message that has been read ends it."""
        reason, self._stop_reason, self._message_id = self._stop_reason, None, None
        if reason is not None:
            self.conversation.end_turn(reason)

    def _add_user_line(self, line: dict[str, Any], message: dict[str, Any]) -> None:
        content, conversation = message.get("content"), self.conversation
        for part in content if isinstance(content, list) else []:
            if isinstance(part, dict) and part.get("type") == "tool_result":
                self._add_result(part, line.get("toolUseResult"))
        text = join_text(content, "text")
        if not text.strip():
            return
        if line.get("isCompactSummary") is True:
            conversation.add_note("summary of the earlier conversation", text)
        elif text.startswith(_INTERRUPTED):
            conversation.end_turn("cancelled")
        elif line.get("isMeta") is True or text.startswith(_NOT_TYPED):
            conversation.add_note("note", text)
        else:
            conversation.start_turn(text)

    def _add_result(self, part: dict[str, Any], details: Any) -> None:
        failed, text = part.get("is_error") is True, join_text(part.get("content"), "text")
        result: dict[str, Any] = {"error" if failed else "content": text}
        if isinstance(details, dict):
            file = details.get("file")
            path = file.get("filePath") if isinstance(file, dict) else details.get("filePath")
            if isinstance(path, str):
                result["file_path"] = path
        call_id = str(part.get("tool_use_id"))
        self.conversation.add_tool_result(call_id, self._tool_names.get(call_id), result, failed)

    def _add_assistant_line(self, line: dict[str, Any], message: dict[str, Any]) -> None:
        conversation, content = self.conversation, message.get("content")
        if line.get("isApiErrorMessage") is True:
            conversation.fail_turn(join_text(content, "text"))
            return
        model = message.get("model")
        if isinstance(model, str) and not model.startswith("<"):
            conversation.source["model"] = model
        self._message_id = message.get("id")
        for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            if isinstance(part, dict):
                self._add_part(part)
        self._add_usage(message)
        reason = message.get("stop_reason")
        if reason in ("end_turn", "stop_sequence", "max_tokens", "refusal"):
            self._stop_reason = "end_turn" if reason == "stop_sequence" else reason

    def _add_part(self, part: dict[str, Any]) -> None:
        kind, conversation, message_id = part.get("type"), self.conversation, string_or_none(self._message_id)
        if kind == "text" and isinstance(part.get("text"), str):
            conversation.add_event("agent_message", text=part["text"], message_id=message_id)
        elif kind == "thinking" and part.get("thinking"):
            conversation.add_event("thought", text=str(part["thinking"]), message_id=message_id)
        elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            call_id, name, arguments = str(part.get("id")), str(part.get("name")), part.get("input")
            self._tool_names[call_id] = name
            named = arguments if isinstance(arguments, dict) else {}
            title = next((named[key] for key in _TITLE_KEYS if isinstance(named.get(key), str)), name)
            conversation.add_tool_call(call_id, name, title[:LONGEST_TITLE], arguments)

    def _add_usage(self, message: dict[str, Any]) -> None:
        """Add up the tokens of the turn. Every line of a message repeats its usage, which counts once."""
        usage, turn_id = message.get("usage"), self.conversation.turn_id
        if not isinstance(usage, dict) or not turn_id:
            return
        usages = self._usage.setdefault(turn_id, {})
        usages[str(message.get("id"))] = usage
        sums = {
            ours: sum(token_count(usage.get(theirs)) for usage in usages.values())
            for ours, theirs in _USAGE.items()
        }
        self.conversation.set_usage(**sums, total_tokens=sum(sums.values()))
