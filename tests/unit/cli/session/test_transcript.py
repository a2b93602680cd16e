from __future__ import annotations

import json
import os
import re

import pytest

from tests.support.build import Home, conversation, finishes, says, thinks, user
from tests.support.output import message_of
from tests.support.program import Agh


def test_the_example_of_the_contract(agh: Agh, home: Home) -> None:
    name = home.session(
        [
            user("Explain the stop path.", at="2026-04-16T01:00:00Z"),
            thinks("Need the lifecycle ", at="2026-04-16T01:00:01Z"),
            thinks("code path.", at="2026-04-16T01:00:01Z"),
            says("AGH first marks ", at="2026-04-16T01:00:02Z"),
            says("", at="2026-04-16T01:00:02Z"),
            says("the session stopping...", at="2026-04-16T01:00:03Z"),
            finishes(at="2026-04-16T01:00:04Z"),
        ]
    ).name
    assert json.loads(agh("session", "transcript", name, "-o", "json").stdout) == {
        "messages": [
            {
                "id": "evt-000001",
                "role": "user",
                "content": "Explain the stop path.",
                "timestamp": "2026-04-16T01:00:00Z",
            },
            {
                "id": "evt-000004",
                "role": "assistant",
                "content": "AGH first marks the session stopping...",
                "thinking": "Need the lifecycle code path.",
                "thinking_complete": True,
                "timestamp": "2026-04-16T01:00:02Z",
            },
        ]
    }


def test_every_role(agh: Agh, home: Home) -> None:
    name = home.session(conversation()).name
    messages = json.loads(agh("session", "transcript", name, "-o", "json").stdout)["messages"]
    assert [message["role"] for message in messages] == [
        "user",
        "assistant",
        "tool_call",
        "tool_result",
        "assistant",
        "marker",
    ]
    assert messages[2]["tool_input"] == {"path": "session.go"}
    assert messages[3]["tool_result"] == {"content": "package session"}
    lines = agh("session", "transcript", name, "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == messages


def test_text(agh: Agh, home: Home) -> None:
    name = home.session([*conversation(), user("two\nlines", turn="turn-2")]).name
    text = agh("session", "transcript", name, "-o", "text").stdout
    assert text == agh("session", "transcript", name).stdout
    assert text.splitlines() == [
        "user: Explain the stop path.",
        "thinking: Need the lifecycle code path.",
        "tool: Read: Read session.go",
        "tool: Read: Read session.go ok",
        "  package session",
        "assistant: AGH first marks the session stopping...",
        "note: context_reset: the agent forgot",
        "user: two",
        "  lines",
    ]


def test_markdown(agh: Agh, home: Home) -> None:
    name = home.session([*conversation(), says("```\ncode\n```", turn="turn-2")]).name
    text = agh("session", "transcript", name, "-o", "markdown").stdout
    for part in (
        "## User\n\nExplain the stop path.",
        "## Assistant",
        "> Need the lifecycle code path.",
        "### Tool call: Read: Read session.go",
        '"path": "session.go"',
        "### Tool result: Read: Read session.go (ok)\n\n```\npackage session\n```",
        "> **context_reset**: the agent forgot",
    ):
        assert part in text


def test_html_is_one_file_that_needs_no_network(agh: Agh, home: Home) -> None:
    hostile = '<script>alert(1)</script> <img src="http://evil/x"> ![p](http://evil/y.png)'
    name = home.session([*conversation(), says(hostile, turn="turn-2")], title="Title & co").name
    text = agh("session", "transcript", name, "-o", "html").stdout
    assert text.lower().startswith("<!doctype html>")
    assert text.rstrip().endswith("</html>")
    assert "AGH first marks the session stopping..." in text
    assert "Title &amp; co" in text
    assert "<script" not in text.lower()
    assert not re.search(r"<(?:img|iframe|object|embed|source)\b|<[^>]*\ssrc=|@import", text)
    assert not re.search(r"""<link\b[^>]*href="(?!data:)|url\(\s*['"]?(?!data:)""", text)
    assert "prefers-color-scheme" in text
    assert "<details" in text


@pytest.mark.parametrize(
    "setting",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX"},
        {"LC_ALL": "C.UTF-8"},
        pytest.param({"PYTHONIOENCODING": "latin-1"}),
    ],
)
def test_html_is_utf8_in_any_locale(agh: Agh, home: Home, setting: dict[str, str]) -> None:
    name = home.session([says("Grüße €")]).name
    page = agh("session", "transcript", name, "-o", "html", env={**os.environ, **setting}, text=False).stdout
    assert "Grüße €".encode() in page


def test_a_session_without_messages(agh: Agh, home: Home) -> None:
    name = home.session().name
    assert json.loads(agh("session", "transcript", name, "-o", "json").stdout) == {"messages": []}
    for output in ("text", "human", "markdown", "jsonl"):
        assert agh("session", "transcript", name, "-o", output).stdout == ""
    assert "<html" in agh("session", "transcript", name, "-o", "html").stdout


def test_wrong_usage(agh: Agh, home: Home) -> None:
    message_of(agh("session", "transcript", home.session().name, "-o", "pdf", code=2))
    message_of(agh("session", "transcript", code=2))
