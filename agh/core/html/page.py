"""A transcript as one readable HTML page.

Promises: the same messages give the same bytes; nothing that an agent or a user wrote becomes markup,
loads anything or runs; characters that hide or reorder text are shown by name, so text cannot disguise
itself. The page needs no network and no script. Any JSON in any field gives a page, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from string import Template
from typing import Any

from agh.core.html.text import NEW, OLD, as_text, block, patch, plain, render, short, visible
from agh.core.transcript import Message

_MOST_PARTS = 50  # of one list of contents in a tool card
_STATES = {"ok": "✓", "failed": "✗", "unknown outcome": "?", "no result": "○"}
_SEVERITIES = {"warning": "warning", "error": "error", "critical": "error"}
_MOODS = {"running": "good", "failed": "bad", "hung": "bad", "unhealthy": "bad"}
_COUNTED = {"user": "prompt", "assistant": "answer", "marker": "notice", "tool_call": "tool call"}
_HINTS = ("command", "file_path", "pattern", "query", "url", "path", "description")

_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z", re.ASCII)


def document(
    session: Mapping[str, Any], messages: Sequence[Message], *, generated_at: str, frame: str, style: str
) -> str:
    """Fill in the template `frame` with a session, as returned by `status.view`, and its transcript."""
    badge = as_text(session.get("badge")) or "unknown"
    facts = (f"<div><dt>{key}</dt><dd>{fact}</dd></div>" for key, fact in _list_facts(session, messages))
    fields = {
        "title": escape(
            as_text(session.get("title") or session.get("name") or session.get("id")) or "Session"
        ),
        "badge": escape(badge),
        "mood": _MOODS.get(badge, "calm"),
        "facts": "\n".join(facts),
        "contents": _link_prompts(messages),
        "generated": _format_time(generated_at),
    }
    fields = {key: visible(html) for key, html in fields.items()}
    main = article(messages) or '<p class="empty">Nothing has been said yet.</p>'
    return Template(frame).substitute(fields, style=style, article=main)


def article(messages: Iterable[Message]) -> str:
    """Format all messages in order: a tool call together with its result, and a line at each new day."""
    parts: list[str] = []
    day = ""
    for message, result in _pair_results(messages):
        if stamp := _STAMP.fullmatch(as_text(message.get("timestamp"))):
            if day and stamp[1] != day:
                parts.append(f'<p class="day"><time>{stamp[1]}</time></p>')
            day = stamp[1]
        parts.append(fragment(message, result))
    return "\n".join(parts)


def fragment(message: Message, result: Message | None = None) -> str:
    """Format one message as an element; `result` is the tool_result that belongs to a tool_call."""
    role = message.get("role")
    if role in ("tool_call", "tool_result"):
        kind, body = _format_tool_card(message, message if role == "tool_result" else result)
    elif role == "marker":
        kind, body = _format_notice(message)
    else:
        speaker = escape(as_text(message.get("agent_id")) or "Assistant")
        kind, body = ("user", "<h2>User</h2>\n") if role == "user" else ("assistant", f"<h2>{speaker}</h2>\n")
        if thinking := as_text(message.get("thinking")):
            heading = "Thinking" if message.get("thinking_complete") else "Thinking, not finished"
            body += f'<details class="thinking"><summary>{heading}</summary>\n{render(thinking)}</details>\n'
        if content := as_text(message.get("content")):
            body += plain(content) if role == "user" else render(content)
    return visible(f'<article class="{kind}"{_anchor(message)}>{_link_time(message)}\n{body}</article>')


def _list_facts(session: Mapping[str, Any], messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    worktree, failure = (
        value if isinstance(value := session.get(key), dict) else {} for key in ("worktree", "failure")
    )
    roles = [message.get("role") for message in messages]
    counts = [f"{n} {word}{'s' * (n != 1)}" for role, word in _COUNTED.items() if (n := roles.count(role))]
    failed = sum(
        _tool_state(message) == "failed" for message in messages if message.get("role") == "tool_result"
    )
    counts += [f"{failed} failed"] if failed else []
    facts: dict[str, list[Any]] = {
        "Session": [session.get("id")],
        "Name": [session.get("title") and session.get("name")],
        "Agent": [session.get("agent_name"), session.get("model")],
        "Workspace": [session.get("workspace_path"), worktree.get("branch")],
        "Contents": counts,
        "Ended": [session.get("stop_reason"), failure.get("summary") or session.get("stop_detail")],
    }
    for key, values in facts.items():
        if texts := [f"<bdi>{escape(as_text(value))}</bdi>" for value in values if value]:
            yield key, " · ".join(texts)
    for key in ("Created", "Updated"):
        if stamp := session.get(f"{key.lower()}_at"):
            yield key, _format_time(stamp)


def _link_prompts(messages: Iterable[Message]) -> str:
    """Return links to the prompts, if there are enough of them to get lost."""
    prompts = [message for message in messages if message.get("role") == "user"]
    if len(prompts) < 3:
        return ""
    links = (f'<li><a href="#{_id(m)}">{short(as_text(m.get("content")), 90)}</a></li>' for m in prompts)
    return f"<nav><details><summary>Prompts</summary>\n<ol>{''.join(links)}</ol></details></nav>\n"


def _pair_results(messages: Iterable[Message]) -> list[tuple[Message, Message | None]]:
    """Pair each tool call with the next result of its id; leave all other messages alone."""
    pairs: list[tuple[Message, Message | None]] = []
    open_calls: dict[str, int] = {}
    for message in messages:
        call_id, role = as_text(message.get("tool_call_id")), message.get("role")
        if role == "tool_result" and call_id in open_calls:
            index = open_calls.pop(call_id)
            pairs[index] = (pairs[index][0], message)
            continue
        if role == "tool_call" and call_id:
            open_calls[call_id] = len(pairs)
        pairs.append((message, None))
    return pairs


def _format_tool_card(message: Message, result: Message | None) -> tuple[str, str]:
    merged = {**message, **(result or {})}
    state, tool_input = _tool_state(result), merged.get("tool_input")
    name = as_text(merged.get("tool_name"))
    title = as_text(merged.get("title")).removeprefix(f"{name} ")
    if title in ("", name) and isinstance(tool_input, dict):
        title = next((value for key in _HINTS if isinstance(value := tool_input.get(key), str)), "")
    line = f'<b>{short(name or "tool", 60)}</b> <span class="title">{short(title, 300)}</span>'
    line += f' <span class="state"><span aria-hidden="true">{_STATES[state]}</span> {state}</span>'
    body = "".join(_input_blocks(tool_input))
    if result is not None and result is not message:
        body += f'<p class="result"{_anchor(result)}>Result {_link_time(result)}</p>\n'
    body += "".join(_output_blocks(merged.get("tool_result"))) or '<p class="empty">No output.</p>\n'
    return f"tool {state.split()[0]}", f"<details><summary>{line}</summary>\n{body}</details>"


def _tool_state(result: Message | None) -> str:
    if result is None:
        return "no result"
    if result.get("outcome") == "unknown":
        return "unknown outcome"
    output = result.get("tool_result")
    error = output.get("error") if isinstance(output, dict) else None
    return "failed" if result.get("tool_error", error) else "ok"


def _format_notice(message: Message) -> tuple[str, str]:
    kind, summary, diagnostic = (as_text(message.get(key)) for key in ("kind", "summary", "diagnostic"))
    body = f"<p><b>{short(kind.replace('_', ' '), 60)}</b> <bdi>{escape(summary)}</bdi>"
    body += " <i>redacted</i></p>" if message.get("redacted") else "</p>"
    if diagnostic:
        body += f"\n<details><summary>Diagnostic</summary>\n{block('', diagnostic)}</details>"
    return f"marker {_SEVERITIES.get(as_text(message.get('severity')), 'info')}", body


def _input_blocks(tool_input: Any) -> Iterator[str]:
    """Yield the input as indented JSON, then texts of several lines and replaced texts as separate blocks."""
    separate: dict[str, str] = {}
    if isinstance(tool_input, dict):
        if change := patch(tool_input):
            tool_input = {key: value for key, value in tool_input.items() if key not in (*OLD, *NEW)}
        separate = {
            key: value for key, value in tool_input.items() if isinstance(value, str) and "\n" in value
        }
        tool_input = {key: value for key, value in tool_input.items() if key not in separate}
        separate |= {"change": change} if change else {}
    if tool_input not in (None, "", {}, []):
        yield block("input", as_text(tool_input))
    for key, value in separate.items():
        yield block(key, value)


def _output_blocks(output: Any) -> Iterator[str]:
    remaining = output if isinstance(output, dict) else {"content": output}
    remaining = {key: value for key, value in remaining.items() if value not in (None, "", {}, [])}
    if remaining.keys() & {"structured_patch", "content", "stdout", "stderr"}:
        remaining.pop("raw_output", None)  # it repeats these in the agent's own form
    if path := as_text(remaining.pop("file_path", None)):
        yield f'<p class="path">{short(path, 1_000)}</p>\n'
    yielded: list[Any] = [None]
    for key in ("error", "structured_patch", "content", "stdout", "stderr", "raw_output"):
        if (value := remaining.pop(key, None)) not in yielded:
            yield from _part_blocks(key.replace("_", " "), value)
            yielded.append(value)
    if remaining:
        yield block("more", as_text(remaining))


def _part_blocks(label: str, value: Any, depth: int = 0) -> Iterator[str]:
    """Yield blocks for a tool's output in any shape: text, diffs, lists of contents; JSON for the rest."""
    kind = value.get("type") if isinstance(value, dict) else None
    if value is None:
        return
    if change := patch(value):
        yield block("diff", change)
    elif kind == "content" and depth < 4:
        yield from _part_blocks(label, value.get("content"), depth + 1)
    elif kind == "text":
        yield block(label, as_text(value.get("text")))
    elif isinstance(value, list) and depth < 4 and all(isinstance(item, dict) for item in value):
        for item in value[:_MOST_PARTS]:
            yield from _part_blocks(label, item, depth + 1)
        if len(value) > _MOST_PARTS:
            yield f'<p class="cut">{len(value) - _MOST_PARTS:,} more parts are left out</p>\n'
    else:
        yield block(label, as_text(value))


def _id(message: Message) -> str:
    return escape(as_text(message.get("id")))


def _anchor(message: Message) -> str:
    return f' id="{_id(message)}"' if message.get("id") else ""


def _link_time(message: Message) -> str:
    return f'<a class="when" href="#{_id(message)}">{_format_time(message.get("timestamp"), clock=True)}</a>'


def _format_time(stamp: Any, clock: bool = False) -> str:
    match = _STAMP.fullmatch(text := as_text(stamp))
    if not match:
        return f"<bdi>{escape(text) or '#'}</bdi>"
    return f'<time datetime="{text}" title="{text}">{match[2] if clock else f"{match[1]} {match[2]}"}</time>'
