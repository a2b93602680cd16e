"""Any text as safe HTML: Markdown, diffs, blocks of code. Pure.

Promises: nothing in a text becomes markup, loads anything or runs; characters that hide or reorder text
are shown by name (`visible`, applied last, to finished HTML); long texts are cut, with a note that says so.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

LONGEST = 20_000  # characters of one text in a tool card
_MOST_COMPARED = 4_000  # lines; comparing more is slow, so all lines are shown as replaced
_MOST_BRACKETS = 2_000  # in a Markdown text: the parser's time is quadratic in them
_DEEPEST = 90  # levels of Markdown blocks: the parser drops those below 100
_DEEPEST_JSON = 300  # levels of lists and objects
_HUNK = re.compile(r"^@@ .*@@", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_WEB = re.compile(r"https?://|mailto:", re.IGNORECASE)
OLD, NEW = ("oldText", "old_text", "old_string"), ("newText", "new_text", "new_string")
# C0, C1, soft hyphen, bidi controls, zero width, fillers, line separators, surrogates, noncharacters, tags.
# Joiners between two non-ASCII characters stay: emoji and several scripts need them.
_ODD = re.compile(
    r"\r\n|[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    r"|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)


def patch(value: Any) -> str:
    """Return a unified diff if the value is a replaced text, a hunk, or a list of these; else nothing."""
    if isinstance(value, list):
        changes = [patch(item) if isinstance(item, dict) else "" for item in value]
        return "\n".join(changes) if all(changes) else ""
    if not isinstance(value, dict):
        return ""
    if isinstance(lines := value.get("lines"), list):
        starts = [as_text(value.get(f"{side}Start", value.get(f"{side}_start"))) for side in ("old", "new")]
        return "\n".join([f"@@ -{starts[0]} +{starts[1]} @@", *map(as_text, lines)])
    old, new = (next((value[key] for key in keys if key in value), None) for keys in (OLD, NEW))
    if not isinstance(new, str) or not isinstance(old, str | None):
        return ""
    path = as_text(value.get("path") or value.get("file_path") or "text").replace("\n", " ")
    before, after = (text.removesuffix("\n").split("\n") if text else [] for text in (old, new))
    if len(before) + len(after) > _MOST_COMPARED:
        replaced = [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]
        return "\n".join([f"--- {path}", f"+++ {path}", "@@ all lines @@", *replaced])
    origin = "/dev/null" if old is None else path
    return "\n".join(difflib.unified_diff(before, after, origin, path, lineterm=""))


def block(label: str, text: str) -> str:
    """Format a labelled text verbatim, without its middle if it is long."""
    text = _COLOUR.sub("", text).rstrip("\n")
    if len(text) > LONGEST:
        head, tail = text[: LONGEST * 2 // 3], text[-LONGEST // 3 :]
        note = f"{len(text) - len(head) - len(tail):,} characters are left out"
        rest, end, tail = tail.partition("\n")  # the rest of a line whose beginning is left out
        html = f'{_mark_diffs(head)}</code><i class="cut">{note}</i><code>{escape(rest + end)}'
        html += _mark_diffs(tail, after=head)
    else:
        html = _mark_diffs(text)
    caption = f"<figcaption>{escape(label)}</figcaption>" if label else ""
    kind = f' class="{label}"' if label in ("stderr", "error") else ""
    return f'<figure{kind}>{caption}<pre tabindex="0"><code>{html}</code></pre></figure>\n'


def _mark_diffs(text: str, after: str = "") -> str:
    """Escape the text and mark the lines of unified diffs; `after` is the text that it continues."""
    in_hunk = bool(_HUNK.search(after))
    if not in_hunk and not _HUNK.search(text):
        return escape(text)
    html_lines: list[str] = []
    lines = text.split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        tag = ""
        if _HUNK.match(line):
            in_hunk, tag = True, "b"
        elif line.startswith("--- ") and following.startswith("+++ "):
            in_hunk, tag = False, "b"
        elif line.startswith("+++ ") and not in_hunk:
            tag = "b"
        elif in_hunk and line[:1] in ("+", "-"):
            tag = "ins" if line[0] == "+" else "del"
        else:
            in_hunk = in_hunk and line[:1] in ("", " ", "\\")
        html_lines.append(f"<{tag}>{escape(line)}\n</{tag}>" if tag else f"{escape(line)}\n")
    return "".join(html_lines)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # A link definition is invisible on the page, so text could hide in it: leave it as text.
    return MarkdownIt("js-default", {"html": False, "breaks": True}).disable("reference")


def render(text: str) -> str:
    """Render Markdown as safe HTML; the parser makes no raw HTML tokens, so the only ones are added here."""
    if text.count("[") > _MOST_BRACKETS:
        return plain(text)
    tokens = _parser().parse(text)
    for token in tokens:
        if token.level > _DEEPEST:
            return plain(text)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 2, 6)}"
        elif token.type == "fence":
            lang = f' data-lang="{escape(token.info.strip())}"' if token.info.strip() else ""
            code = _mark_diffs(token.content.removesuffix("\n"))
            token.type, token.content = "html_block", f"<pre{lang}><code>{code}</code></pre>\n"
        token.children = token.children and list(_tame_links(token.children))
    return f'<div class="prose">{_parser().renderer.render(tokens, _parser().options, {})}</div>\n'


def _tame_links(tokens: Iterable[Token]) -> Iterator[Token]:
    """Make links lead to the web or nowhere, and show their target; turn images into links."""
    outer = ""  # the tag of the open link
    for token in tokens:
        target = str(token.attrGet("href") or token.attrGet("src") or "")
        tag, attributes = "span", f'title="{escape(target)}"'
        if _WEB.match(target):
            tag, attributes = "a", f'{attributes} href="{escape(target)}" rel="noopener noreferrer"'
        if token.type == "link_open":
            token.type, token.content, outer = "html_inline", f"<{tag} {attributes}>", tag
        elif token.type == "link_close":
            token.type, token.content, outer = "html_inline", f"</{outer}>", ""
        elif token.type == "image":
            label = f"[image: {escape(token.content or target)}]"
            token.type = "html_inline"
            token.content = label if outer else f"<{tag} {attributes}>{label}</{tag}>"
        yield token


def plain(text: str) -> str:
    """Escape the text and keep its line breaks."""
    return f'<div class="plain">{escape(text)}</div>\n'


def as_text(value: Any) -> str:
    """Return a string unchanged, nothing for None, and any other value as indented JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if _is_deeper_than(_DEEPEST_JSON, value):
        return "(nested too deeply to be shown)"
    return json.dumps(value, ensure_ascii=False, indent=2)


def _is_deeper_than(limit: int, value: Any) -> bool:
    """Tell whether lists and objects are nested deeper: Python 3.14 would write them at any cost."""
    level = [value]
    for _ in range(limit):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return False
    return True


def short(text: str, most: int) -> str:
    """Escape the text on one line, cut to `most` characters."""
    text = " ".join(text[: most * 4].split())
    return f"<bdi>{escape(text if len(text) <= most else text[: most - 1] + '…')}</bdi>"


def visible(html: str) -> str:
    """Replace control, bidi and invisible characters in finished HTML by their names."""
    return _ODD.sub(_name_character, html)


def _name_character(match: re.Match[str]) -> str:
    if match[0] == "\r\n":
        return "\n"
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"
