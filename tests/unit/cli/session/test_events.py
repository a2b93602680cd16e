from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agh.core.events import TYPES, timestamp
from tests.support.build import (
    Home,
    Writer,
    conversation,
    draft,
    finishes,
    says,
    shared_home,
    take_lock,
    user,
)
from tests.support.output import error_of, message_of, sequences
from tests.support.program import Agh

MANY = 2500


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Home:
    with shared_home(tmp_path_factory) as home:
        talk = home.session(conversation(), id="sess-talk000000", name="talk")
        with take_lock(talk) as owner, Writer(owner, "codex") as log:
            log.append([user("again", turn="turn-2"), says("Ja: äöü €", turn="turn-2"), finishes("turn-2")])
        home.session([says(f"chunk {n}") for n in range(MANY)], id="sess-many000000")
        home.session(id="sess-empty00000")
    return home


@pytest.fixture(autouse=True)
def in_shared(shared: Home, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGH_HOME", str(shared.path))


def events(agh: Agh, *args: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in agh("session", "events", *args).stdout.splitlines()]


def test_the_envelope(agh: Agh) -> None:
    first = events(agh, "talk")[0]
    assert list(first) == [
        "id",
        "session_id",
        "sequence",
        "turn_id",
        "type",
        "agent_name",
        "workspace_id",
        "workspace_path",
        "content",
        "timestamp",
    ]
    assert first["id"] == "evt-000001"
    assert first["session_id"] == "sess-talk000000"
    assert first["workspace_id"] == "repo-alpha"
    assert first["content"]["schema"] == "agh.session.event.v1"
    assert first["content"]["text"] == "Explain the stop path."


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        ([], range(1, 14)),
        (["--type", "done"], [10, 13]),
        (["--type", "thought", "--type", "usage"], [2, 3, 5]),
        (["--type", "plan"], []),
        (["--agent", "codex"], [11, 12, 13]),
        (["--agent", "nobody"], []),
        (["--turn", "turn-2"], [11, 12, 13]),
        (["--turn", "turn-1", "--type", "done"], [10]),
        (["--after", "11"], [12, 13]),
        (["--last-event-id", "11"], [12, 13]),
        (["--after", "13"], []),
        (["--after", "1000000"], []),
        (["--last", "3"], [11, 12, 13]),
        (["--limit", "3"], [11, 12, 13]),
        (["--last", "1", "--type", "thought"], [3]),
        (["--last", "0"], []),
        (["--last", "1000"], range(1, 14)),
        (["--last", "5", "--after", "11"], [12, 13]),
        (["--since", "1h"], range(1, 14)),
        (["--since", "2999-01-01T00:00:00Z"], []),
        (["--since", "2999-01-01T00:00:00+02:00"], []),
        (["--since", "2000-01-01T00:00:00.5Z"], range(1, 14)),
        (["--where", "sequence % 5 = 0"], [5, 10]),
        (["--where", "id = 'evt-000002'"], [2]),
        (["--where", "content->>'$.tool_name' = 'Read'"], [4]),
        (["--where", "type = 'done' OR type = 'usage'", "--turn", "turn-1"], [5, 10]),
        (["--where", "type = 'done' -- the ends", "--last", "1"], [13]),
        (["--where", "content LIKE '%äöü €%'"], [12]),
        (["--where", "0"], []),
    ],
)
def test_queries(agh: Agh, args: list[str], wanted: Any) -> None:
    assert sequences(agh("session", "events", "talk", *args).stdout) == list(wanted)


def test_since_a_moment(agh: Agh, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGH_HOME", str(home.path))
    now = datetime.now(UTC)
    ages = {"3d": 3 * 86400 - 60, "2h": 2 * 3600 - 60, "5m": 5 * 60 - 30}
    directory = home.session(
        [says("old", at="2020-01-01T00:00:00.000Z")]
        + [says(name, at=timestamp(now - timedelta(seconds=age))) for name, age in ages.items()]
    )
    for count, name in enumerate(["5m", "2h", "3d"], 1):
        assert len(events(agh, directory.name, "--since", name)) == count
    exact = timestamp(now - timedelta(seconds=ages["2h"]))
    assert [event["content"]["text"] for event in events(agh, directory.name, "--since", exact)] == [
        "2h",
        "5m",
    ]


def test_more_than_a_page(agh: Agh) -> None:
    assert sequences(agh("session", "events", "sess-many000000").stdout) == list(range(1, MANY + 1))
    after = agh("session", "events", "sess-many000000", "--after", "999", "--where", "sequence % 2").stdout
    assert sequences(after) == list(range(1001, MANY + 1, 2))
    last = agh("session", "events", "sess-many000000", "--last", "1500").stdout
    assert sequences(last) == list(range(MANY - 1499, MANY + 1))


@pytest.mark.parametrize(
    ("reference", "args", "count"),
    [
        ("sess-empty00000", [], 0),
        ("talk", ["--type", "plan"], 0),
        ("talk", ["--last", "0"], 0),
        ("talk", ["--last", "1"], 1),
        ("talk", [], 13),
        ("sess-many000000", [], MANY),
        ("sess-many000000", ["--last", "1001"], 1001),
    ],
)
def test_json_is_one_document(agh: Agh, reference: str, args: list[str], count: int) -> None:
    document = json.loads(agh("session", "events", reference, *args, "-o", "json").stdout)
    assert list(document) == ["events"]
    assert len(document["events"]) == count
    assert document["events"] == events(agh, reference, *args, "-o", "jsonl")


def test_several_sessions_in_order_of_time(agh: Agh, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGH_HOME", str(home.path))

    def at(second: int) -> str:
        return f"2026-04-16T01:00:{second:02d}.000Z"

    home.session([says(f"a{n}", at=at(n)) for n in (1, 4, 5, 9)], id="sess-aaaaaaaaaa")
    home.session([says(f"b{n}", at=at(n)) for n in (2, 3, 6)], id="sess-bbbbbbbbbb")
    home.session([says("c8", at=at(8)), says("c7", at=at(7))], id="sess-cccccccccc")  # a clock that went back
    home.session(id="sess-dddddddddd")

    def texts(*args: object) -> list[str]:
        return [event["content"]["text"] for event in events(agh, *args)]

    assert texts("sess-aaaaaaaaaa", "sess-bbbbbbbbbb") == ["a1", "b2", "b3", "a4", "a5", "b6", "a9"]
    assert texts("aaaa", "aaaa") == ["a1", "a4", "a5", "a9"]
    assert texts("--all") == ["a1", "b2", "b3", "a4", "a5", "b6", "c8", "c7", "a9"]
    assert texts("--all", "--last", "3") == ["c8", "c7", "a9"]
    assert texts("--all", "--last", "0") == []
    assert texts("--all", "--after", "2") == ["a5", "b6", "a9"]
    assert texts("--all", "--where", "sequence = 1") == ["a1", "b2", "c8"]
    document = json.loads(agh("session", "events", "--all", "-o", "json").stdout)["events"]
    assert [one["session_id"][5] for one in document] == list("abbaabcca")
    human = agh("session", "events", "--all", "-o", "human").stdout.splitlines()
    assert [line.split()[0][5] for line in human] == list("abbaabcca")


def test_many_sessions_of_many_pages(agh: Agh, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGH_HOME", str(home.path))
    stamps = [f"2026-04-16T01:{n // 60 % 60:02d}:{n % 60:02d}.{n // 3600:03d}Z" for n in range(1200)]
    for name, odd in (("even", 0), ("odd0", 1)):
        home.session([says(str(n), at=stamps[n]) for n in range(1200) if n % 2 == odd], id=f"sess-{name}0000")
    assert [event["content"]["text"] for event in events(agh, "--all")] == [str(n) for n in range(1200)]


def test_all_of_nothing(agh: Agh, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGH_HOME", str(home.path))
    assert agh("session", "events", "--all").stdout == ""
    assert json.loads(agh("session", "events", "--all", "-o", "json").stdout) == {"events": []}
    assert not home.path.exists()


def test_sse_frames(agh: Agh) -> None:
    text = agh("session", "events", "talk", "-o", "sse", "--after", "11").stdout
    assert text.endswith("\n\n")
    frames = [frame.split("\n") for frame in text.removesuffix("\n\n").split("\n\n")]
    lines = agh("session", "events", "talk", "--after", "11").stdout.splitlines()
    assert frames == [
        ["id: 12", "event: agent_message", f"data: {lines[0]}"],
        ["id: 13", "event: done", f"data: {lines[1]}"],
    ]
    assert agh("session", "events", "sess-empty00000", "-o", "sse").stdout == ""


def test_sse_over_several_pages(agh: Agh) -> None:
    text = agh("session", "events", "sess-many000000", "-o", "sse").stdout
    assert [frame.split("\n")[0] for frame in text.split("\n\n")[:-1]] == [
        f"id: {n}" for n in range(1, MANY + 1)
    ]


def test_for_people(agh: Agh) -> None:
    lines = agh("session", "events", "talk", "-o", "human").stdout.splitlines()
    assert len(lines) == 13
    assert lines[0].split()[0] == "1"
    assert lines[0].endswith("user_message       Explain the stop path.")
    assert lines[3].endswith("Read Read session.go")
    assert lines[5].endswith("Read ok: package session") or lines[5].endswith("call-1 ok: package session")
    assert lines[8].endswith("context_reset: the agent forgot")
    assert all(len(line) <= 120 for line in lines)


def test_content_comes_out_as_it_was_stored(agh: Agh, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGH_HOME", str(home.path))
    directory = home.session()
    raw = '{"b" : 1.0,"a":1e2,"text":"\\u00e9\\n","big":12345678901234567890123,"b":2}'
    pretty = '{\n  "text": "x",\r\n  "y": [1,\n 2]\n}'
    with take_lock(directory), sqlite3.connect(directory / "events.db") as log:
        for number, content in enumerate((raw, pretty), 1):
            log.execute(
                "INSERT INTO events (sequence, turn_id, type, agent_name, content, timestamp) "
                "VALUES (?, 't', 'system', 'x', ?, '2026-04-16T01:00:00.000Z')",
                (number, content),
            )
    log.close()
    first, second = agh("session", "events", directory.name).stdout.splitlines()
    assert f'"content":{raw},' in first
    assert json.loads(second)["content"] == {"text": "x", "y": [1, 2]}


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["talk", "--after", "x"], "'x'"),
        (["talk", "--after", "-1"], "'-1'"),
        (["talk", "--after", ""], "''"),
        (["talk", "--after", "1.5"], "'1.5'"),
        (["talk", "--last-event-id", "evt-000001"], "evt-000001"),
        (["talk", "--last", "-1"], "-1"),
        (["talk", "--last", "x"], "x"),
        (["talk", "--type", "gossip"], "gossip"),
        (["talk", "--since", "yesterday"], "yesterday"),
        (["talk", "--since", "2026-04-16T01:00:00"], "2026-04-16T01:00:00"),
        (["talk", "--where", "no_such_column = 1"], "no_such_column"),
        (["talk", "--where", ""], "--where"),
        (["talk", "--where", "1 FROM events"], "--where"),
        (["talk", "--where", "1; DELETE FROM events"], "--where"),
        (["talk", "--where", "sequence = ?"], "--where"),
        (["talk", "--where", "content->>'$x' = 1"], "--where"),
        (["talk", "--where", "load_extension('x')"], "--where"),
        (["talk", "--follow", "-o", "json"], "--follow"),
        (["talk", "--all"], "--all"),
        ([], "needs a session"),
    ],
)
def test_wrong_usage(agh: Agh, args: list[str], word: str) -> None:
    finished = agh("session", "events", *args, code=2)
    assert finished.stdout == ""
    if "json" in args:
        assert word in error_of(finished, "usage", 2)["message"]
    else:
        assert word in message_of(finished)


@pytest.mark.parametrize("where", ["1) OR (1", "1) /*", "1) UNION SELECT 1,2,3,4,5,6 --"])
def test_an_expression_cannot_leave_its_place(agh: Agh, where: str) -> None:
    message_of(agh("session", "events", "talk", "--after", "12", "--where", where, code=2, timeout=3))


@pytest.mark.parametrize("option", ["--after", "--last"])
def test_numbers_larger_than_any_sequence(agh: Agh, option: str) -> None:
    result = agh("session", "events", "talk", option, "9" * 25, code=None)
    assert result.returncode in (0, 2), result.stderr


@pytest.mark.parametrize(
    "option", [*(pytest.param(one) for one in ("--agent", "--turn", "--where")), "--since"]
)
def test_arguments_that_are_not_text(agh: Agh, option: str) -> None:
    result = agh("session", "events", "talk", option, "\udcff", code=None)
    assert result.returncode in (0, 2), result.stderr


def test_a_where_cannot_write(agh: Agh, shared: Home) -> None:
    log = shared.path / "sessions" / "sess-talk000000" / "events.db"
    before = log.read_bytes()
    for where in ("(DELETE FROM events)", "writefile('x', 'y')", "randomblob(8) IS NOT NULL"):
        agh("session", "events", "talk", "--where", where, code=None)
    assert log.read_bytes() == before


def test_a_damaged_session_does_not_hide_the_events_of_others(
    agh: Agh, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGH_HOME", str(home.path))
    home.session([says("fine")], id="sess-good000000")
    broken = home.session([says("lost")], id="sess-broken0000")
    (broken / "events.db").write_text("not a database")
    half = home.session([says("half")], id="sess-half000000")
    (half / "meta.json").write_text("{")
    result = agh("session", "events", "--all", code=8)
    assert '"fine"' in result.stdout
    assert "sess-broken0000" in result.stderr


SHAPES: list[Any] = ["text", 7, ["a", {"b": None}], {"c": ["d"]}, True]
FIELDS = """
text title tool_name tool_call_id tool_input tool_result tool_error outcome stop_reason failure action
resource decision error usage runtime raw kind severity summary occurred_at strategy message_id
"""


@pytest.mark.parametrize(
    "command", ["history", *(pytest.param(one) for one in ("events", "transcript", "recap"))]
)
def test_content_of_any_shape_can_be_shown(
    agh: Agh, home: Home, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("AGH_HOME", str(home.path))
    directory = home.session(
        draft(kind, turn_id="turn-1", **dict.fromkeys(FIELDS.split(), shape))
        for kind in TYPES
        for shape in SHAPES
    )
    agh("session", command, directory.name, "-o", "human")
    if command == "transcript":
        for output in ("markdown", "html", "json"):
            agh("session", command, directory.name, "-o", output)
