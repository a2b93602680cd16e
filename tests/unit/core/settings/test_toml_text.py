"""Changing one value in a TOML file: everything else stays, to the byte."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from agh.core.settings.toml_text import CannotEdit, flatten, set_value

FILE = """\
# my settings

agent = "claude"  # the good one

[session]
# how many may wait
queue_cap = 3   # three

# about limits
[session.limits]
max_turns=5

[[permissions.rules]]
decision = "allow"
kind = "read"
"""


def lines_that_differ(before: str, after: str) -> tuple[list[str], list[str]]:
    """Return what is gone, and what is new."""
    old, new = before.splitlines(), after.splitlines()
    return [line for line in old if line not in new], [line for line in new if line not in old]


@pytest.mark.parametrize(
    ("key", "value", "gone", "new"),
    [
        ("agent", "codex", ['agent = "claude"  # the good one'], ['agent = "codex"  # the good one']),
        ("session.queue_cap", 7, ["queue_cap = 3   # three"], ["queue_cap = 7   # three"]),
        ("session.limits.max_turns", 9, ["max_turns=5"], ["max_turns=9"]),
        ("session.idle_after", "1h", [], ['idle_after = "1h"']),
        ("session.limits.max_cost", 2.5, [], ["max_cost = 2.5"]),
        ("permissions.mode", "deny-all", [], ["[permissions]", 'mode = "deny-all"']),
        ("timeouts.new", "5s", [], ["[timeouts]", 'new = "5s"']),
        ("session.queue_cap", None, ["queue_cap = 3   # three"], []),
        ("timeouts.new", None, [], []),
        ("agent", "claude", [], []),
    ],
)
def test_only_what_was_meant_changes(key: str, value: Any, gone: list[str], new: list[str]) -> None:
    after = set_value(FILE, key, value)
    assert lines_that_differ(FILE, after) == (gone, new)
    fields = dict(flatten(tomllib.loads(FILE)))
    fields.pop(key, None)
    assert dict(flatten(tomllib.loads(after))) == fields | ({} if value is None else {key: value})


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        ("", "agent", "codex", 'agent = "codex"\n'),
        ("", "session.limits.max_cost", 2.5, "[session.limits]\nmax_cost = 2.5\n"),
        ("# mine\n\n[session]\ncap = 3\n", "agent", "a", '# mine\nagent = "a"\n\n[session]\ncap = 3\n'),
        ("[session]\nqueue_cap = 3", "agent", "a", 'agent = "a"\n\n[session]\nqueue_cap = 3'),
        ("session.cap = 3\n", "session.idle", "1m", 'session.cap = 3\nsession.idle = "1m"\n'),
        ("[session]\r\nqueue_cap = 3\r\n", "session.queue_cap", 4, "[session]\r\nqueue_cap = 4\r\n"),
        ("agent = 'it''s' # no\n", "agent", "x", None),
        (
            "[ session . limits ] # l\ncost = 1\n",
            "session.limits.cost",
            2,
            "[ session . limits ] # l\ncost = 2\n",
        ),
        ('agent = "a # b" # c\n', "agent", "x", 'agent = "x" # c\n'),
    ],
)
def test_wherever_it_stands(before: str, key: str, value: Any, after: str | None) -> None:
    if after is None:
        with pytest.raises(tomllib.TOMLDecodeError):
            set_value(before, key, value)
    else:
        assert set_value(before, key, value) == after


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        ("session = { queue_cap = 3 } # c\n", "session.queue_cap", 'session = { queue_cap = "new" } # c\n'),
        ("agent = '''\nagent = \"x\"\n''' # c\n", "agent", 'agent = "new" # c\n'),
        ("hooks = [\n1,\n]\n", "hooks", 'hooks = "new"\n'),
    ],
)
def test_however_it_is_written(before: str, key: str, after: str) -> None:
    assert set_value(before, key, "new") == after


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("session = 3\n", "session.queue_cap"),
        ("[[permissions]]\nmode = 1\n", "permissions.mode"),
        ('"permissions.mode" = 1\n', "permissions.mode.x"),
    ],
)
def test_what_has_no_room_for_the_value_is_not_touched(text: str, key: str) -> None:
    if key.endswith(".x"):
        assert tomllib.loads(set_value(text, key, "new"))["permissions.mode"] == 1
        return
    with pytest.raises(CannotEdit):
        set_value(text, key, "new")
