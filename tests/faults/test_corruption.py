"""Damage on disk: each kind has its own words, code and exit number, hides nothing, stays as it is."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from agh.errors import Bug
from agh.store.meta import Meta
from tests.support.build import Home, conversation, says
from tests.support.files import tree
from tests.support.log_writer import LogWriter
from tests.support.output import error_of, message_of
from tests.support.program import Agh, in_process

COLUMNS = ("turn_id", "type", "agent_name", "content", "timestamp")
BAD, GOOD = "sess-bad0000000", "sess-good000000"


@pytest.fixture
def bad(home: Home) -> Path:
    home.session(conversation(), id=GOOD, name="good")
    return home.session([*conversation(), *(says("x" * 200) for _ in range(200))], id=BAD)


@pytest.fixture
def bad_meta(home: Home) -> Path:
    """Make the metadata to damage; its log is short, for it is read again and again."""
    home.session(conversation(), id=GOOD, name="good")
    return home.session(conversation(), id=BAD) / "meta.json"


def remove(path: Path) -> None:
    path.unlink()


def cut(length: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with path.open("r+b") as file:
            file.truncate(length if length >= 0 else path.stat().st_size + length)

    return damage


def text(content: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_text(content)

    return damage


def field(name: str, value: object) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))

    return damage


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def patched(offset: int, data: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(data)

    return damage


def foreign(path: Path) -> None:
    path.unlink()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE events (sequence INTEGER PRIMARY KEY)")
    other.commit()
    other.close()


LOG = [
    ("missing", remove, "events_missing", "events.db is missing"),
    ("empty", cut(0), "events_empty", "events.db is empty"),
    ("1 byte", cut(1), "events_not_a_database", "not an agh event log"),
    ("99 bytes", cut(99), "events_not_a_database", "not an agh event log"),
    ("only the header", cut(100), "events_damaged", "cut short"),
    ("one page", cut(4096), "events_damaged", "cut short"),
    ("half a page more", cut(6000), "events_damaged", "cut short"),
    ("all but a byte", cut(-1), "events_damaged", "cut short by 1 bytes"),
    ("all but a page", cut(-4096), "events_damaged", "cut short by 4096 bytes"),
    ("a text file", text("Dear diary,\n" * 100), "events_not_a_database", "not an agh event log"),
    ("another database", foreign, "events_not_a_database", "not an agh event log"),
    ("a directory", directory, "events_not_a_file", "not a regular file"),
    ("a symlink", link, "events_not_a_file", "not a regular file"),
    ("a pipe", fifo, "events_not_a_file", "not a regular file"),
    ("a newer version", patched(60, (99).to_bytes(4)), "events_newer", "format 99"),
    ("a bad page", patched(4096, b"\xff"), "events_damaged", "malformed"),
]
META = [
    ("missing", remove, "the file is missing"),
    ("empty", cut(0), "not JSON"),
    ("half-written", cut(60), "not JSON"),
    ("an array", text("[1, 2]"), "it does not describe this session"),
    ("a number", text("7"), "it does not describe this session"),
    ("of another session", text('{"id": "sess-other00000", "state": "stopped"}'), "it does not describe"),
    ("without a state", text(json.dumps({"id": BAD})), "it does not describe this session"),
    ("not UTF-8", lambda path: path.write_bytes(b'{"id": "\xff"}'), "not JSON"),
    ("a directory", directory, "Is a directory"),
    ("without a workspace", field("workspace_path", None), "its workspace_path has the wrong type"),
    ("a number for a lease", field("attach", 5), "its attach has the wrong type"),
    ("a text for limits", field("limits", "x"), "its limits has the wrong type"),
    (
        "a text for a limit",
        field("limits", {"max_cost": "x"}),
        "its limits has a value of the wrong type",
    ),
    ("a number for a restore", field("restore", 3), "its restore has the wrong type"),
    ("a number for an id", field("acp_session_ids", [3]), "its acp_session_ids has a value"),
    ("half a system prompt", field("system_prompt", {"mode": "append"}), "its system_prompt is incomplete"),
]


@pytest.mark.parametrize(("damage", "code", "words"), [row[1:] for row in LOG], ids=[row[0] for row in LOG])
def test_a_damaged_log(
    agh: Agh, home: Home, bad: Path, damage: Callable[[Path], None], code: str, words: str
) -> None:
    damage(bad / "events.db")
    before = tree(home.path)
    message = message_of(agh("session", "events", BAD, code=8))
    assert words in message
    assert BAD in message
    for command in ("events", "history", "transcript", "recap"):
        error = error_of(in_process("session", command, BAD, "-o", "json"), code, 8)
        assert error["message"] == message
    assert "good" in agh("session", "list", "--all").stdout
    assert len(in_process("session", "events", GOOD).stdout.splitlines()) == 10
    assert in_process("session", "status", BAD).returncode == 0
    assert tree(home.path) == before


@pytest.mark.parametrize(("damage", "words"), [row[1:] for row in META], ids=[row[0] for row in META])
def test_damaged_metadata(
    agh: Agh, home: Home, bad: Path, damage: Callable[[Path], None], words: str
) -> None:
    damage(bad / "meta.json")
    before = tree(home.path)
    message = message_of(agh("session", "status", BAD, code=8))
    assert words in message
    assert BAD in message
    for command in (["status"], ["events"], ["history"], ["recap"], ["repair", "--dry-run"], ["repair"]):
        error = error_of(in_process("session", *command, BAD, "-o", "json"), "meta_invalid", 8)
        assert error["message"] == message
    listed = json.loads(agh("session", "list", "--all", "-o", "json").stdout)["sessions"]
    assert {row["id"]: row["badge"] for row in listed} == {GOOD: "stopped", BAD: "unknown"}
    human = in_process("session", "list", "--all").stdout
    assert "good" in human and BAD in human
    assert len(in_process("session", "events", GOOD).stdout.splitlines()) == 10
    assert tree(home.path) == before


WRONG: list[object] = [None, True, 5, -1.5, "x", "", [], [5], ["x"], [{}], {}, {"x": 1}, {"x": []}, [[]]]


@pytest.mark.parametrize("name", [name for name in Meta.__annotations__ if name not in ("id", "state")])
def test_no_value_in_the_metadata_is_taken_for_a_bug(bad_meta: Path, name: str) -> None:
    whole = json.loads(bad_meta.read_text())
    without = {key: value for key, value in whole.items() if key != name}
    for stored in (without, *({**whole, name: value} for value in WRONG)):
        bad_meta.write_text(json.dumps(stored))
        for command in (["status", BAD], ["recap", BAD], ["fork", BAD], ["set", BAD, "model", "x"]):
            result = in_process("session", *command)
            assert result.returncode != Bug.exit, (stored.get(name), command, result.stderr)
        assert "good" in in_process("session", "list", "--all").stdout


def test_the_conversation_can_be_read_without_metadata(agh: Agh, bad: Path) -> None:
    (bad / "meta.json").unlink()
    assert "Explain the stop path." in agh("session", "transcript", BAD, "-o", "text").stdout
    assert "Explain the stop path." in agh("session", "events", BAD, "-o", "human").stdout


def test_a_session_that_is_a_file(agh: Agh, home: Home) -> None:
    home.session(id=GOOD, name="good")
    (home.path / "sessions" / BAD).write_text("x")
    assert "good" in agh("session", "list", "--all").stdout
    result = agh("session", "events", BAD, code=None)
    assert result.returncode in (4, 8)


def test_a_log_that_was_cut_while_its_wal_is_there(agh: Agh, bad: Path) -> None:
    (bad / "events.db-wal").write_bytes(b"")
    cut(6000)(bad / "events.db")
    assert agh("session", "events", BAD, code=None).returncode == 8


def test_a_wal_of_garbage(agh: Agh, bad: Path) -> None:
    """SQLite takes a WAL without a valid header for an empty one: the main file is whole."""
    (bad / "events.db-wal").write_bytes(b"garbage" * 1000)
    assert len(agh("session", "events", BAD).stdout.splitlines()) == 210


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("CAST(x'ff41' AS TEXT)", id="not UTF-8"),
        pytest.param("x'ff41'", id="bytes"),
        pytest.param("12", id="a number"),
    ],
)
@pytest.mark.parametrize("column", COLUMNS)
def test_a_value_of_the_wrong_kind(home: Home, bad: Path, column: str, value: str) -> None:
    columns = dict.fromkeys(COLUMNS, "'x'")
    columns[column] = value
    log = sqlite3.connect(bad / "events.db")
    log.execute(
        f"INSERT INTO events (sequence, {', '.join(columns)}) "
        f"SELECT max(sequence) + 1, {', '.join(columns.values())} FROM events"
    )
    log.commit()
    log.close()
    for command in (
        ["events"],
        ["events", "-o", "human"],
        ["events", "--where", "1"],
        ["history"],
        ["transcript"],
    ):
        result = in_process("session", *command, BAD)
        assert result.returncode in (0, 8), (command, result.stderr)


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed) for seed in (0, 1, 3))])
def test_no_flipped_bit_is_a_bug(home: Home, bad: Path, tmp_path: Path, seed: int) -> None:
    log, whole, chance = bad / "events.db", (bad / "events.db").read_bytes(), random.Random(seed)
    for _ in range(100):
        # Most of a log is text; half of the flips go where the structure is.
        page = chance.randrange(len(whole) // 4096) * 4096
        place = page + chance.randrange(64) if chance.random() < 0.5 else chance.randrange(len(whole))
        data = bytearray(whole)
        data[place] ^= 1 << chance.randrange(8)
        log.write_bytes(data)
        for command in ("events", "transcript"):
            result = in_process("session", command, BAD)
            assert result.returncode in (0, 8), (place, data[place] ^ whole[place], result.stderr)
        assert log.read_bytes() == data


@pytest.mark.parametrize("seed", range(2))
def test_no_flipped_bit_in_the_metadata_is_a_bug(home: Home, bad: Path, seed: int) -> None:
    path, whole, chance = bad / "meta.json", (bad / "meta.json").read_bytes(), random.Random(seed)
    for _ in range(150):
        data = bytearray(whole)
        data[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        for command in (["list", "--all"], ["status", BAD]):
            result = in_process("session", *command)
            assert result.returncode in (0, 8), (data, result.stderr)
            assert command[0] != "list" or "good" in result.stdout


def test_what_a_kill_left_is_read_and_left(agh: Agh, home: Home) -> None:
    """A hot WAL is read through SQLite's own -shm index, the one file that a reader may touch."""
    session = home.session(conversation(), state="active", stop_reason=None)
    with LogWriter(session) as log:
        log.append("last words")
        log.kill()
    shm = session / "events.db-shm"
    for missing in (False, True):
        if missing:
            shm.unlink()
        before = {name: entry for name, entry in tree(session).items() if name not in (".", shm.name)}
        assert "last words" in agh("session", "events", session.name).stdout
        for command in ("events", "history", "transcript", "recap"):
            assert "last words" in in_process("session", command, session.name, "-o", "json").stdout
        agh("session", "repair", session.name, "--dry-run")
        after = {name: entry for name, entry in tree(session).items() if name not in (".", shm.name)}
        assert after == before
    assert shm.stat().st_mode & 0o777 == 0o600


def test_a_copy_under_another_id_is_damaged(agh: Agh, home: Home) -> None:
    first = home.session(conversation(), id=GOOD)
    shutil.copytree(first, first.with_name("sess-copy000000"))
    error_of(agh("session", "status", "sess-copy000000", "-o", "json", code=None), "meta_invalid", 8)
