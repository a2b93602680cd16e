"""docs/spec.md: it names exactly the keys, types, codes and commands that the code has."""

from __future__ import annotations

import json
import re
import sqlite3
from itertools import product
from pathlib import Path
from typing import Any

from agh_serve.operations import OPERATIONS

from agh import config, errors
from agh.adapters import builtin
from agh.adapters.restore import Strategy
from agh.cli.main import COMMANDS, SHORT
from agh.cli.session import group
from agh.core import checkpoint, events, rules, status
from agh.core.settings.hooks import HOOK_EVENTS, HOOK_KEYS
from agh.keeper.turns import prompts
from agh.sessions.database import schema as database
from agh.store import schema
from agh.store.meta import Meta
from tests.support.live import Live
from tests.support.wait import wait_until
from tools.facts import EXITS, EXITS_OF

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs/spec.md").read_text()
CODE = {path: path.read_text() for folder in ("agh", "plugins") for path in (ROOT / folder).rglob("*.py")}
SOURCE = "\n".join(CODE.values())


def section(title: str) -> str:
    """Return the text below a heading, down to the next one of any level."""
    assert TEXT.count(f"# {title}\n") == 1, title
    return re.split(r"^#+ ", TEXT.partition(f"# {title}\n")[2], maxsplit=1, flags=re.M)[0]


def tables(title: str) -> list[list[list[str]]]:
    """Return the tables of a section as cells, without their headings."""
    blocks = re.findall(r"(?:^\|.*\n)+", section(title), flags=re.M)
    return [[line.strip("| ").split(" | ") for line in block.splitlines()[2:]] for block in blocks]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def keys(title: str, table: int = 0) -> list[str]:
    """Return what the first column of a table names."""
    return [name for cells in tables(title)[table] for name in names(cells[0])]


def used(pattern: str) -> set[str]:
    """Return what a pattern captures in the code."""
    return set(re.findall(pattern, SOURCE))


def test_no_row_is_written_twice() -> None:
    for title in re.findall(r"^#+ (.+)$", TEXT, flags=re.M):
        for table in tables(title):
            first = [cells[0] for cells in table]
            assert len(first) == len(set(first)), title


def test_meta_json() -> None:
    assert keys("meta.json") == list(Meta.__annotations__)


def sessions() -> list[dict[str, Any]]:
    """Return metadata of every kind that phases and badges are derived from."""
    activities = [
        {},
        {"turn_id": "t"},
        {"pending_permissions": 1},
        {"pending_questions": 1},
        {"health": "hung"},
        {"health": "unhealthy"},
        {"waiting_for_auth": True},
    ]
    found = [
        {"state": state, "activity": activity, "stop_reason": reason, "stop_detail": detail}
        for state, activity, reason, detail in product(
            [*status.LIVE_STATES, "stopped"], activities, keys("Stop reasons"), (None, "max_time")
        )
    ]
    limited = {"state": "active", "resumes_at": "2026-01-01T00:00:00.000Z"}
    return [*found, limited, {"state": "nonsense"}]


def test_phases_and_badges() -> None:
    assert set(keys("Phases")) == {status.phase(session) for session in sessions()}
    badges = {status.badge(session) for session in sessions()} | {status.NOT_RESPONDING["badge"]}
    assert set(keys("Badges")) == badges


def test_database() -> None:
    assert keys("Database") == list(database.TABLES)
    assert set(database.VIEWS) <= set(names(section("Database")))


def test_states() -> None:
    first = section("States").partition(".")[0]
    assert set(names(first)) - {"state"} == {*status.LIVE_STATES, "stopped"}


def test_stop_reasons() -> None:
    ends = used(r'\blive\.(?:end|fail)\(\s*"(\w+)"') | used(r'"stop_reason": "(\w+)"')
    ends |= used(r'"stop_reason": "\w+" if \w+ else "(\w+)"') | {*status.PAUSE_REASONS}
    written = set(keys("Stop reasons"))
    assert ends - {"end_turn"} <= written  # how a turn ends
    assert {reason for reason in written if f'"{reason}"' not in SOURCE} == set()


def test_failure_kinds() -> None:
    kinds = used(r'\bfail\(\s*"\w+",\s*"(\w+)"') | used(r'\bkind = "(\w+)"') | used(r'"(\w+_failure)"')
    kinds |= {
        status.effective_meta({"state": state}, False)["failure"]["kind"] for state in status.LIVE_STATES
    }
    written = set(keys("Failure kinds"))
    assert kinds - {"provider_failure", "on_agent_failure"} <= written  # a marker, a key of a profile
    assert {kind for kind in written if f'"{kind}"' not in SOURCE} == set()


def test_resume_fields() -> None:
    assert keys("Resume fields") == list(status.recovery({}, False, False))
    derived = status.view({"state": "active"}, True, "").keys() - {"state"}
    assert derived <= set(names(section("Resume fields")))


def test_restore_strategies() -> None:
    strategies: list[Strategy] = []
    builtin.agh_restore_strategies(strategies.append)
    ranked = sorted(strategies, key=lambda strategy: strategy.rank)
    assert keys("Resume and attach") == [strategy.name for strategy in ranked]


def test_the_envelope_and_what_every_content_has() -> None:
    row = events.Row(1, "t", "done", "echo", events.draft("done").content, events.timestamp())
    (line,) = events.envelopes([row], "sess-12345678", None, None)
    assert keys("Events", 0) == list(json.loads(line))
    assert keys("Events", 1) == list(json.loads(line)["content"])


def test_event_types() -> None:
    assert keys("Event types") == list(events.TYPES)


def content_keys() -> dict[str, set[str]]:
    shared = set(keys("Events", 1))
    return {names(cells[0])[0]: shared | set(names(cells[1])) for cells in tables("Event types")[0]}


def test_the_content_of_events_has_no_other_keys(live: Live) -> None:
    """The events of a session that does a little of everything have the keys that are written down."""
    session = live.new()
    steps = [
        "/think hm",
        "/say hello",
        "/plan a;b",
        "/usage 1 2 0.5",
        "/tool Read path=a ok",
        "/tool-fail Run",
    ]
    session.tell("\n".join([*steps, "/mode plan", "/ask kind=read path=a", "/tool-open Read"]))
    session.tell("/error")
    session.call("attach", holder="me", ttl=60.0)
    session.call("detach", holder="me")
    session.stop()
    session.revive()
    session.send("/sleep 60")
    session.send("next")
    session.call("queue")
    session.call("stop", reason="paused")
    wait_until(lambda: not session.is_live())
    written = content_keys()
    seen = {event.type for event in session.events()}
    assert len(seen) >= 14, seen
    odd = {event.type: event.content.keys() - written[event.type] for event in session.events()}
    assert {type: keys for type, keys in odd.items() if keys} == {}


def test_markers() -> None:
    kinds = used(r'\b_?marker\(\s*"(\w+)"') | used(r'^\s+"(?:queue|steer|interrupt)": \("(prompt_\w+)"')
    kinds |= {kind for kind in used(r'"(prompt_\w+)"') if f'("{kind}", "' in SOURCE}
    assert kinds - {"prompt_deadline"} == set(keys("Markers"))


def test_tables_and_columns() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.create(connection)
    (rows,) = connection.execute("SELECT json_group_array(name) FROM sqlite_master WHERE type = 'table'")
    columns = {
        name: [row[1] for row in connection.execute(f"PRAGMA table_xinfo({name})")]
        for name in json.loads(rows[0])
    }
    connection.close()
    written = {names(table)[0]: names(cells) for table, cells in tables("Tables of events.db")[0]}
    assert written == columns


def test_the_queue() -> None:
    assert keys("Queue", 0) == list(prompts.MODES)
    statuses = used(r"status (?:=|IN|!=) \(?'(\w+)'") | used(r'set_status\([^()"]*"(\w+)"')
    written = set(keys("Queue", 1))
    assert {name for name in written if not re.search(rf"['\"]{name}['\"]", SOURCE)} == set()
    assert statuses - {"pending", "decided", "expired", "orphaned"} <= written


def test_permissions() -> None:
    assert names(section("Permissions").partition(".")[0]) == list(config.PERMISSION_MODES)
    _, rule_keys = tables("Permissions")
    assert keys("Permissions", 1) == ["decision", *rules.PATTERNS]
    kinds = dict(rule_keys)["`kind`"].partition(": ")[2]
    assert kinds.split(", ") == list(rules.KINDS)


def test_the_checkpoint() -> None:
    agent = checkpoint.agent("echo", [], acp_session_id=None, restore=None)
    document = checkpoint.checkpoint(
        "sess-12345678",
        budget_spent=0.0,
        rounds_completed=0,
        elapsed_seconds=0.0,
        active_agents=[agent],
        pending_delegations=[],
        transcript_replay_depth=50,
        last_sequence=0,
        created_at="",
    )
    assert keys("Checkpoint") == list(json.loads(checkpoint.seal(document)))
    assert names(section("Checkpoint").partition("An agent has ")[2].partition(".")[0]) == list(agent)


def test_commands() -> None:
    assert set(keys("Commands")) == {f"agh {name}" for name in COMMANDS}
    listed = section("Commands").partition("`agh session`: ")[2]
    assert names(listed) == sorted([*group.NAMES, *group.ELSEWHERE])
    long_forms = {name: names(long) for short, long in tables("Short forms")[0] for name in names(short)}
    assert long_forms == {f"agh {name}": [f"agh session {command}"] for name, command in SHORT.items()}


def test_nouns_of_json_documents() -> None:
    commands = "\n".join(text for path, text in CODE.items() if "agh/cli" in path.as_posix())
    nouns = set(re.findall(r'write_result\(\s*"(\w+)"', commands))
    nouns |= set(re.findall(r'write_json\(\s*\{\s*"(\w+)"', commands)) - {"resumed"}
    written = set(keys("Output"))
    assert nouns <= written
    assert {noun for noun in written if f'"{noun}"' not in commands} == set()


def exit_codes(kind: type[errors.AghError] = errors.AghError) -> set[int]:
    return {kind.exit}.union(*(exit_codes(below) for below in kind.__subclasses__()))


def test_exit_codes() -> None:
    written = [int(cells[0].partition(",")[0]) for cells in tables("Exit codes")[0]]
    assert list(dict.fromkeys(written)) == list(EXITS)
    assert len(written) == len(EXITS) + len(EXITS_OF)
    assert exit_codes() <= set(written)


def test_settings() -> None:
    rows = {names(key)[0]: default for key, default, _ in tables("Settings")[0]}
    assert list(rows) == list(config.SETTINGS)
    for key, default in rows.items():
        value = config.SETTINGS[key].default
        assert default.strip() == ("empty" if value == "" else f"`{value}`"), key


def test_hooks() -> None:
    assert keys("Hooks", 0) == list(HOOK_KEYS)
    assert keys("Hooks", 1) == list(HOOK_EVENTS)


def test_routes() -> None:
    routes = [f"{operation.method} /api{operation.path}" for operation in OPERATIONS]
    assert sorted(keys("HTTP")) == sorted(routes)
