"""Claude Code's transcripts: `projects/<directory>/<session>.jsonl`, a line per message or event.

A message of the model comes as several lines, one per block, under one id. The transcripts of subagents
are files of their own, which cannot be resumed, and are left out; so are lines of side chains.
"""

from __future__ import annotations

import os
import re
from glob import glob
from typing import Any

from agh.core.exchange import Imported
from agh_importers.lines import first_lines, lines, stamp
from agh_importers.story import Story, number, words

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Bookkeeping of the program, which says nothing of the conversation.
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
# What the program wrote in the user's name.
_NOT_TYPED = ("<command-", "<local-command-", "<bash-", "<system-reminder>", "<task-notification>")
_TELLING = {"sessionId", "leafUuid"}
_INTERRUPTED = "[Request interrupted by user"
_USAGE = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_read_tokens": "cache_read_input_tokens",
    "cached_write_tokens": "cache_creation_input_tokens",
}
LONGEST_TITLE = 1 << 20  # characters; the whole is in the call's input
_HINTS = ("command", "file_path", "path", "pattern", "query", "url", "description")


def find() -> list[str]:
    base = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    return [path for path in glob(f"{glob_safe(base)}/projects/*/*.jsonl") if _is_main(path)]


def glob_safe(path: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", path)


def recognises(path: str, head: bytes) -> bool:
    if not path.endswith(".jsonl") or not _is_main(path):
        return False
    if any(_TELLING & line.keys() or line.get("type") in _BOOKKEEPING for line in first_lines(head)):
        return True
    return head.startswith(b"{") and b'"sessionId":' in head and b'"parentUuid":' in head


def _is_main(path: str) -> bool:
    return not os.path.basename(path).startswith("agent-") and os.path.isfile(path)


def read(path: str) -> Imported:
    token = os.path.basename(path).removesuffix(".jsonl")
    if not _UUID.fullmatch(token):
        ids = (line.get("sessionId") for line in lines(path))
        token = next((session_id for session_id in ids if isinstance(session_id, str)), "")
    if not token:
        raise ValueError("no line of it names a session of Claude Code")
    teller = _Teller(Story("claude", token))
    for line in lines(path):
        teller.take(line)
    return teller.story.told()


class _Teller:
    def __init__(self, story: Story) -> None:
        self.story = story
        self._names: dict[str, str] = {}
        self._ends: str | None = None  # how the message that is being told ends its turn
        self._message: Any = None
        self._spent: dict[str, dict[str, dict[str, Any]]] = {}

    def take(self, line: dict[str, Any]) -> None:
        kind, story = line.get("type"), self.story
        if line.get("isSidechain") is True or kind in _BOOKKEEPING:
            return
        if kind in _TITLES:
            if isinstance(title := line.get(_TITLES[str(kind)]), str):
                story.session["title"] = " ".join(title.split())[:200]
            return
        story.clock(stamp(line.get("timestamp")))
        if isinstance(line.get("cwd"), str):
            story.session.setdefault("workspace_path", line["cwd"])
        said = line.get("message")
        message: dict[str, Any] = said if isinstance(said, dict) else {}
        if kind != "assistant" or message.get("id") != self._message:
            self._settle()
        if kind == "user":
            self._user(line, message)
        elif kind == "assistant":
            self._assistant(line, message)
        elif kind == "system":
            story.note(f"system: {line.get('subtype')}", _text(line.get("content")))
        elif kind == "broken":
            story.note(f"line {line['line']} {line['reason']}", line["text"])
        else:
            story.note(f"unknown: {kind}", raw=line)

    def _settle(self) -> None:
        ends, self._ends, self._message = self._ends, None, None
        if ends is not None:
            self.story.end(ends)

    def _user(self, line: dict[str, Any], message: dict[str, Any]) -> None:
        content, story = message.get("content"), self.story
        for part in content if isinstance(content, list) else []:
            if isinstance(part, dict) and part.get("type") == "tool_result":
                self._result(part, line.get("toolUseResult"))
        text = words(content, "text")
        if not text.strip():
            return
        if line.get("isCompactSummary") is True:
            story.note("summary of the conversation before", text)
        elif text.startswith(_INTERRUPTED):
            story.end("cancelled")
        elif line.get("isMeta") is True or text.startswith(_NOT_TYPED):
            story.note("note", text)
        else:
            story.prompt(text)

    def _result(self, part: dict[str, Any], details: Any) -> None:
        failed, said = part.get("is_error") is True, words(part.get("content"), "text")
        result: dict[str, Any] = {"error" if failed else "content": said}
        if isinstance(details, dict):
            file = details.get("file")
            path = file.get("filePath") if isinstance(file, dict) else details.get("filePath")
            if isinstance(path, str):
                result["file_path"] = path
        call = str(part.get("tool_use_id"))
        self.story.result(call, self._names.get(call), result, failed)

    def _assistant(self, line: dict[str, Any], message: dict[str, Any]) -> None:
        story, content = self.story, message.get("content")
        if line.get("isApiErrorMessage") is True:
            story.fail(words(content, "text"))
            return
        model = message.get("model")
        if isinstance(model, str) and not model.startswith("<"):
            story.source["model"] = model
        self._message = message.get("id")
        for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            if isinstance(part, dict):
                self._part(part)
        self._use(message)
        if message.get("stop_reason") in ("end_turn", "stop_sequence", "max_tokens", "refusal"):
            self._ends = {"stop_sequence": "end_turn"}.get(message["stop_reason"], message["stop_reason"])

    def _part(self, part: dict[str, Any]) -> None:
        kind, story = part.get("type"), self.story
        if kind == "text" and isinstance(part.get("text"), str):
            story.event("agent_message", text=part["text"], message_id=_text(self._message))
        elif kind == "thinking" and part.get("thinking"):
            story.event("thought", text=str(part["thinking"]), message_id=_text(self._message))
        elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            call, name, given = str(part.get("id")), str(part.get("name")), part.get("input")
            self._names[call] = name
            known = given if isinstance(given, dict) else {}
            title = next((known[key] for key in _HINTS if isinstance(known.get(key), str)), name)
            story.call(call, name, title[:LONGEST_TITLE], given)

    def _use(self, message: dict[str, Any]) -> None:
        """Every line of a message repeats what the message has used: it counts once."""
        usage, turn = message.get("usage"), self.story.turn
        if not isinstance(usage, dict) or not turn:
            return
        messages = self._spent.setdefault(turn, {})
        messages[str(message.get("id"))] = usage
        sums = {
            ours: sum(number(one.get(theirs)) for one in messages.values()) for ours, theirs in _USAGE.items()
        }
        self.story.spend(**sums, total_tokens=sum(sums.values()))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
