"""A permission request as users see it: agh's own words, every path, the diff, the agent's options.

The commands in the foreground, the chat and the inbox show what is made here. Nothing here reads or prints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from agh.console import terminal
from agh.console.theme import Role, diff_role
from agh.core.diff import split_lines
from agh.core.named_tuple import NamedTuple

LONGEST = 4000
WORDS = {
    "allow": "allow once",
    "allow_always": "always allow",
    "deny": "deny",
    "deny_always": "always deny",
}
_NO_QUOTES = {ord(quote): "'" for quote in "“”"}  # an agent's name for an option stays inside ours
_KEYS = {"allow": "y", "allow_always": "a", "deny": "n", "deny_always": "d"}
VERDICTS = {key: verdict for verdict, key in _KEYS.items()}
VIEW_KEY = "v"
_WORDS = {"yes": "y", "allow": "y", "always": "a", "no": "n", "deny": "n", "view": VIEW_KEY}
_MOST_OTHERS = 9  # a key is one character


class Line(NamedTuple):
    """A clean line for a terminal, and how it is styled, if it is."""

    text: str
    role: Role | None = None


class Choice(NamedTuple):
    """An answer that a request allows: the key for it, what it means, and the agent's option for it."""

    key: str
    verdict: str
    option_id: str | None
    name: str  # what the agent calls it

    def label(self) -> str:
        """Return the choice in a few words, as in `[y] allow once “Yes”`."""
        words = WORDS[self.verdict]
        name = f" “{self.name}”" if self.name and self.name.casefold() != words else ""
        return f"[{self.key}] {words}{name}"


def key_of(text: str, keys: Collection[str]) -> str | None:
    """Return the key that a line means: the key itself, or its whole word; None if it means none of them.

    A line that only begins with a key is no answer: it may have been meant for something else.
    """
    word = text.strip().lower()
    key = _WORDS.get(word, word)
    return key if key in keys else None


def diff_lines(text: str | None, limit: int | None = None) -> list[Line]:
    """Return a unified diff as lines with their colours, the first `limit` of them and how many follow.

    Only a line feed ends a line: what else ends lines somewhere would let a new line look like an old one.
    With a limit, a very long line is cut, and says so.
    """
    lines = split_lines(text or "")
    bound = len(lines) if limit is None or len(lines) <= limit + 1 else limit
    longest = None if limit is None else LONGEST
    rows = [Line(f"  {cut_line(terminal.clean(line), longest)}", diff_role(line)) for line in lines[:bound]]
    if bound < len(lines):
        rows.append(Line(f"  … {len(lines) - bound} more lines", "muted"))
    return rows


def headline_lines(request: Mapping[str, Any], longest: int | None = LONGEST) -> list[Line]:
    """Return what the agent wants to do, in agh's words, and what the agent calls it."""
    about = f"? the agent wants to {request['about']}"
    lines = [Line(cut_line(terminal.one_line(about, len(about) * 10), longest), "warning")]
    if request["title"]:
        lines.append(Line(f"  the agent calls it: {terminal.one_line(request['title'], 400)}", "muted"))
    return lines


def request_lines(request: Mapping[str, Any]) -> list[Line]:
    """Return all of a request: what the agent wants to do, and the whole change."""
    return [*headline_lines(request, None), *diff_lines(request["diff"])]


def choices(request: Mapping[str, Any]) -> list[Choice]:
    """Return the answers to a request, in the order they are offered; denying it is always one of them.

    A second option of the agent with the same meaning comes last and has a digit for its key, so that none
    hides the first of each kind on a small screen. What digits do not suffice for is left out.
    """
    offers = [option for option in request["options"] if option["verdict"] in _KEYS]
    rows: list[Choice] = []
    others: list[Choice] = []
    for verdict, letter in _KEYS.items():
        matching = [option for option in offers if option["verdict"] == verdict]
        if not matching and verdict == "deny":
            rows.append(Choice(letter, verdict, None, ""))
        for number, option in enumerate(matching[: _MOST_OTHERS + 1]):
            name = terminal.one_line(option["name"].translate(_NO_QUOTES), 60)
            key = str(len(others) + 1) if number else letter
            (others if number else rows).append(Choice(key, verdict, option["option_id"], name))
    return rows + others[:_MOST_OTHERS]


def question_words(rows: Iterable[Choice], has_more: bool) -> str:
    """Return the question with its keys; `has_more` offers to show the rest of a long diff."""
    rows = list(rows)
    labels = [row.label() for row in rows]
    if has_more:  # in front of what may be too much for a small screen
        labels.insert(sum(row.key.isalpha() for row in rows), f"[{VIEW_KEY}] view all")
    return f"allow it? {' · '.join(labels)}: "


def has_more(request: Mapping[str, Any], limit: int) -> bool:
    """Tell whether the request is longer than what is shown at the question."""
    lines = split_lines(str(request["diff"] or ""))
    return len(lines) > limit + 1 or any(len(line) > LONGEST for line in (*lines, request["about"]))


def styled(lines: Iterable[Line]) -> str:
    """Return the lines as text for a terminal with colour, or without if it has none."""
    return "".join(f"{terminal.styled(line.text, line.role) if line.role else line.text}\n" for line in lines)


def describe_decision(request: Mapping[str, Any], verdict: str, decision: str, option_id: str | None) -> str:
    """Say what was decided, by which option of the agent, and about what."""
    rows = [row for row in choices(request) if row.verdict == verdict]
    names = [row.name for row in rows if option_id in (None, row.option_id)]
    by_option = f" with the agent's option “{names[0]}”" if names and names[0] else ""
    always = ", always" if verdict.endswith("_always") and decision != "cancelled" else ""
    return f"{decision}{always}{by_option}: {terminal.one_line(request['about'], LONGEST)}"


def cut_line(text: str, longest: int | None = LONGEST) -> str:
    """Cut a clean line, and say how much of it is missing."""
    if longest is None or len(text) <= longest:
        return text
    return f"{text[:longest]}… {len(text) - longest:,} more characters"
