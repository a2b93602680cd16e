"""A transcript as one HTML page that a person likes to read.

Promises: the same messages give the same bytes; nothing that an agent or a user wrote becomes markup,
loads anything or runs; characters that hide or reorder text are shown by name, so that text cannot lie
about itself. The page needs no network and no script. Any JSON in any field gives a page, never an error.
It reads two files, which are part of it: transcript.html (the frame) and transcript.css.

The first half puts messages into elements; the second, from `_pre` on, makes safe HTML of any text.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from agh.core.transcript import Message

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

LONGEST = 20_000  # characters of one text in a tool card
_MOST_PARTS = 50  # of one list of contents in a tool card
_MOST_COMPARED = 4_000  # lines: comparing more takes long, so they are shown as replaced
_MOST_BRACKETS = 2_000  # of a Markdown text: its parser takes time quadratic in them
_DEEPEST = 90  # levels of Markdown blocks: its parser drops what is below 100
_STATES = {"ok": "✓", "failed": "✗", "unknown outcome": "?", "no result": "○"}
_SEVERITIES = {"warning": "warning", "error": "error", "critical": "error"}
_MOODS = {"running": "good", "failed": "bad", "hung": "bad", "unhealthy": "bad"}
_COUNTED = {"user": "prompt", "assistant": "answer", "marker": "notice", "tool_call": "tool call"}
_HINTS = ("command", "file_path", "pattern", "query", "url", "path", "description")
_OLD, _NEW = ("oldText", "old_text", "old_string"), ("newText", "new_text", "new_string")

_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z", re.ASCII)
_HUNK = re.compile(r"^@@ .*@@", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_WEB = re.compile(r"https?://|mailto:", re.IGNORECASE)
# C0, C1, soft hyphen, bidi controls, zero width, fillers, line separators, surrogates, noncharacters, tags.
# The joiners stay between two characters that are not ASCII: emoji and several scripts need them.
_ODD = re.compile(
    r"\r\n|[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    r"|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)


def page(session: Mapping[str, Any], messages: Sequence[Message], *, generated_at: str) -> str:
    """The whole document; `session` is what `status.view` gives, `messages` its transcript."""
    badge = _text(session.get("badge")) or "unknown"
    facts = (f"<div><dt>{key}</dt><dd>{fact}</dd></div>" for key, fact in _facts(session, messages))
    shown = {
        "title": escape(_text(session.get("title") or session.get("name") or session.get("id")) or "Session"),
        "badge": escape(badge),
        "mood": _MOODS.get(badge, "calm"),
        "facts": "\n".join(facts),
        "contents": _contents(messages),
        "generated": _time(generated_at),
    }
    visible = {key: _visible(value) for key, value in shown.items()}
    main = article(messages) or '<p class="empty">Nothing has been said yet.</p>'
    return Template(_asset("transcript.html")).substitute(visible, style=style(), article=main)


def style() -> str:
    return _asset("transcript.css")


@cache
def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def article(messages: Iterable[Message]) -> str:
    """Every message in order, a tool call together with its result, and a line where a new day begins."""
    parts: list[str] = []
    day = ""
    for message, result in _paired(messages):
        if stamp := _STAMP.fullmatch(_text(message.get("timestamp"))):
            if day and stamp[1] != day:
                parts.append(f'<p class="day"><time>{stamp[1]}</time></p>')
            day = stamp[1]
        parts.append(fragment(message, result))
    return "\n".join(parts)


def fragment(message: Message, result: Message | None = None) -> str:
    """One message as an element; `result` is the tool_result that belongs to a tool_call."""
    role = message.get("role")
    if role in ("tool_call", "tool_result"):
        kind, body = _card(message, message if role == "tool_result" else result)
    elif role == "marker":
        kind, body = _notice(message)
    else:
        kind, body = ("user", "<h2>User</h2>\n") if role == "user" else ("assistant", "<h2>Assistant</h2>\n")
        if thinking := _text(message.get("thinking")):
            said = "Thinking" if message.get("thinking_complete") else "Thinking, not finished"
            body += f'<details class="thinking"><summary>{said}</summary>\n{_markdown(thinking)}</details>\n'
        if content := _text(message.get("content")):
            body += _plain(content) if role == "user" else _markdown(content)
    return _visible(f'<article class="{kind}"{_anchor(message)}>{_when(message)}\n{body}</article>')


def _facts(session: Mapping[str, Any], messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    worktree, failure = (
        value if isinstance(value := session.get(key), dict) else {} for key in ("worktree", "failure")
    )
    roles = [message.get("role") for message in messages]
    counts = [f"{n} {word}{'s' * (n != 1)}" for role, word in _COUNTED.items() if (n := roles.count(role))]
    failed = sum(_state(message) == "failed" for message in messages if message.get("role") == "tool_result")
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
        if texts := [f"<bdi>{escape(_text(value))}</bdi>" for value in values if value]:
            yield key, " · ".join(texts)
    for key in ("Created", "Updated"):
        if stamp := session.get(f"{key.lower()}_at"):
            yield key, _time(stamp)


def _contents(messages: Iterable[Message]) -> str:
    """Links to what the user asked, when there is enough of it to lose one's way."""
    asked = [message for message in messages if message.get("role") == "user"]
    if len(asked) < 3:
        return ""
    links = (f'<li><a href="#{_id(m)}">{_short(_text(m.get("content")), 90)}</a></li>' for m in asked)
    return f"<nav><details><summary>Prompts</summary>\n<ol>{''.join(links)}</ol></details></nav>\n"


def _paired(messages: Iterable[Message]) -> list[tuple[Message, Message | None]]:
    """Each tool call with the next result of its id; everything else alone."""
    pairs: list[tuple[Message, Message | None]] = []
    waiting: dict[str, int] = {}
    for message in messages:
        call_id, role = _text(message.get("tool_call_id")), message.get("role")
        if role == "tool_result" and call_id in waiting:
            place = waiting.pop(call_id)
            pairs[place] = (pairs[place][0], message)
            continue
        if role == "tool_call" and call_id:
            waiting[call_id] = len(pairs)
        pairs.append((message, None))
    return pairs


def _card(message: Message, result: Message | None) -> tuple[str, str]:
    both = {**message, **(result or {})}
    state, given = _state(result), both.get("tool_input")
    name = _text(both.get("tool_name"))
    title = _text(both.get("title")).removeprefix(f"{name} ")
    if title in ("", name) and isinstance(given, dict):
        title = next((value for key in _HINTS if isinstance(value := given.get(key), str)), "")
    line = f'<b>{_short(name or "tool", 60)}</b> <span class="title">{_short(title, 300)}</span>'
    line += f' <span class="state"><span aria-hidden="true">{_STATES[state]}</span> {state}</span>'
    body = "".join(_input(given))
    if result is not None and result is not message:
        body += f'<p class="result"{_anchor(result)}>Result {_when(result)}</p>\n'
    body += "".join(_output(both.get("tool_result"))) or '<p class="empty">No output.</p>\n'
    return f"tool {state.split()[0]}", f"<details><summary>{line}</summary>\n{body}</details>"


def _state(result: Message | None) -> str:
    if result is None:
        return "no result"
    if result.get("outcome") == "unknown":
        return "unknown outcome"
    output = result.get("tool_result")
    error = output.get("error") if isinstance(output, dict) else None
    return "failed" if result.get("tool_error", error) else "ok"


def _notice(message: Message) -> tuple[str, str]:
    kind, summary, diagnostic = (_text(message.get(key)) for key in ("kind", "summary", "diagnostic"))
    body = f"<p><b>{_short(kind.replace('_', ' '), 60)}</b> <bdi>{escape(summary)}</bdi>"
    body += " <i>redacted</i></p>" if message.get("redacted") else "</p>"
    if diagnostic:
        body += f"\n<details><summary>Diagnostic</summary>\n{_pre('', diagnostic)}</details>"
    return f"marker {_SEVERITIES.get(_text(message.get('severity')), 'info')}", body


def _input(given: Any) -> Iterator[str]:
    """Pretty JSON; texts of several lines, and the replacement of one text by another, are set apart."""
    apart: dict[str, str] = {}
    if isinstance(given, dict):
        if change := _patch(given):
            given = {key: value for key, value in given.items() if key not in (*_OLD, *_NEW)}
        apart = {key: value for key, value in given.items() if isinstance(value, str) and "\n" in value}
        given = {key: value for key, value in given.items() if key not in apart}
        apart |= {"change": change} if change else {}
    if given not in (None, "", {}, []):
        yield _pre("input", _text(given))
    for key, value in apart.items():
        yield _pre(key, value)


def _output(output: Any) -> Iterator[str]:
    left = output if isinstance(output, dict) else {"content": output}
    left = {key: value for key, value in left.items() if value not in (None, "", {}, [])}
    if left.keys() & {"structured_patch", "content", "stdout", "stderr"}:
        left.pop("raw_output", None)  # the agent's own form of what these say
    if path := _text(left.pop("file_path", None)):
        yield f'<p class="path">{_short(path, 1_000)}</p>\n'
    said: list[Any] = [None]
    for key in ("error", "structured_patch", "content", "stdout", "stderr", "raw_output"):
        if (value := left.pop(key, None)) not in said:
            yield from _parts(key.replace("_", " "), value)
            said.append(value)
    if left:
        yield _pre("more", _text(left))


def _parts(label: str, value: Any, depth: int = 0) -> Iterator[str]:
    """What a tool gave back, in any shape: text, diffs, lists of contents; anything else is JSON."""
    kind = value.get("type") if isinstance(value, dict) else None
    if value is None:
        return
    if change := _patch(value):
        yield _pre("diff", change)
    elif kind == "content" and depth < 4:
        yield from _parts(label, value.get("content"), depth + 1)
    elif kind == "text":
        yield _pre(label, _text(value.get("text")))
    elif isinstance(value, list) and depth < 4 and all(isinstance(item, dict) for item in value):
        for item in value[:_MOST_PARTS]:
            yield from _parts(label, item, depth + 1)
        if len(value) > _MOST_PARTS:
            yield f'<p class="cut">{len(value) - _MOST_PARTS:,} more parts are left out</p>\n'
    else:
        yield _pre(label, _text(value))


def _patch(value: Any) -> str:
    """A unified diff, if the value is a replaced text, a hunk, or a list of these; else nothing."""
    if isinstance(value, list):
        changes = [_patch(item) if isinstance(item, dict) else "" for item in value]
        return "\n".join(changes) if all(changes) else ""
    if not isinstance(value, dict):
        return ""
    if isinstance(lines := value.get("lines"), list):
        starts = [_text(value.get(f"{side}Start", value.get(f"{side}_start"))) for side in ("old", "new")]
        return "\n".join([f"@@ -{starts[0]} +{starts[1]} @@", *map(_text, lines)])
    old, new = (next((value[key] for key in keys if key in value), None) for keys in (_OLD, _NEW))
    if not isinstance(new, str) or not isinstance(old, str | None):
        return ""
    path = _text(value.get("path") or value.get("file_path") or "text").replace("\n", " ")
    before, after = (text.removesuffix("\n").split("\n") if text else [] for text in (old, new))
    if len(before) + len(after) > _MOST_COMPARED:
        replaced = [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]
        return "\n".join([f"--- {path}", f"+++ {path}", "@@ all lines @@", *replaced])
    origin = "/dev/null" if old is None else path
    return "\n".join(difflib.unified_diff(before, after, origin, path, lineterm=""))


def _pre(label: str, text: str) -> str:
    """A labelled text as it is, a long one without its middle."""
    text = _COLOUR.sub("", text).rstrip("\n")
    if len(text) > LONGEST:
        head, tail = text[: LONGEST * 2 // 3], text[-LONGEST // 3 :]
        note = f"{len(text) - len(head) - len(tail):,} characters are left out"
        rest, end, tail = tail.partition("\n")  # of a line whose beginning is left out
        shown = f'{_coloured(head)}</code><i class="cut">{note}</i><code>{escape(rest + end)}'
        shown += _coloured(tail, after=head)
    else:
        shown = _coloured(text)
    caption = f"<figcaption>{escape(label)}</figcaption>" if label else ""
    kind = f' class="{label}"' if label in ("stderr", "error") else ""
    return f'<figure{kind}>{caption}<pre tabindex="0"><code>{shown}</code></pre></figure>\n'


def _coloured(text: str, after: str = "") -> str:
    """Escaped, with the lines of unified diffs marked; `after` is the text that it continues."""
    inside = bool(_HUNK.search(after))
    if not inside and not _HUNK.search(text):
        return escape(text)
    out: list[str] = []
    lines = text.split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        tag = ""
        if _HUNK.match(line):
            inside, tag = True, "b"
        elif line.startswith("--- ") and following.startswith("+++ "):
            inside, tag = False, "b"
        elif line.startswith("+++ ") and not inside:
            tag = "b"
        elif inside and line[:1] in ("+", "-"):
            tag = "ins" if line[0] == "+" else "del"
        else:
            inside = inside and line[:1] in ("", " ", "\\")
        out.append(f"<{tag}>{escape(line)}\n</{tag}>" if tag else f"{escape(line)}\n")
    return "".join(out)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # A link definition shows nothing on the page, so text could hide in it: it stays text.
    return MarkdownIt("js-default", {"html": False, "breaks": True}).disable("reference")


def _markdown(text: str) -> str:
    """Safe HTML; the parser makes no raw HTML tokens, so those that are put in here are the only ones."""
    if text.count("[") > _MOST_BRACKETS:
        return _plain(text)
    tokens = _parser().parse(text)
    for token in tokens:
        if token.level > _DEEPEST:
            return _plain(text)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 2, 6)}"
        elif token.type == "fence":
            lang = f' data-lang="{escape(token.info.strip())}"' if token.info.strip() else ""
            code = _coloured(token.content.removesuffix("\n"))
            token.type, token.content = "html_block", f"<pre{lang}><code>{code}</code></pre>\n"
        token.children = token.children and list(_tamed(token.children))
    return f'<div class="prose">{_parser().renderer.render(tokens, _parser().options, {})}</div>\n'


def _tamed(tokens: Iterable[Token]) -> Iterator[Token]:
    """Links lead to the web or nowhere, and say where; an image is a link, and is never fetched."""
    outer = ""  # the tag of the link that is open
    for token in tokens:
        target = str(token.attrGet("href") or token.attrGet("src") or "")
        tag, where = "span", f'title="{escape(target)}"'
        if _WEB.match(target):
            tag, where = "a", f'{where} href="{escape(target)}" rel="noopener noreferrer"'
        if token.type == "link_open":
            token.type, token.content, outer = "html_inline", f"<{tag} {where}>", tag
        elif token.type == "link_close":
            token.type, token.content, outer = "html_inline", f"</{outer}>", ""
        elif token.type == "image":
            label = f"[image: {escape(token.content or target)}]"
            token.type, token.content = "html_inline", label if outer else f"<{tag} {where}>{label}</{tag}>"
        yield token


def _plain(text: str) -> str:
    return f'<div class="plain">{escape(text)}</div>\n'


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False, indent=2)
    except RecursionError:
        return "(nested too deeply to be shown)"


def _short(text: str, most: int) -> str:
    text = " ".join(text[: most * 4].split())
    return f"<bdi>{escape(text if len(text) <= most else text[: most - 1] + '…')}</bdi>"


def _id(message: Message) -> str:
    return escape(_text(message.get("id")))


def _anchor(message: Message) -> str:
    return f' id="{_id(message)}"' if message.get("id") else ""


def _when(message: Message) -> str:
    return f'<a class="when" href="#{_id(message)}">{_time(message.get("timestamp"), clock=True)}</a>'


def _time(stamp: Any, clock: bool = False) -> str:
    found = _STAMP.fullmatch(text := _text(stamp))
    if not found:
        return f"<bdi>{escape(text) or '#'}</bdi>"
    return f'<time datetime="{text}" title="{text}">{found[2] if clock else f"{found[1]} {found[2]}"}</time>'


def _visible(html: str) -> str:
    """Finished HTML with control, bidi and invisible characters replaced by their names."""
    return _ODD.sub(_named, html)


def _named(odd: re.Match[str]) -> str:
    if odd[0] == "\r\n":
        return "\n"
    code = ord(odd[0])
    return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"
