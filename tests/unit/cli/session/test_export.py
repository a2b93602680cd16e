"""`agh session export`: what comes out is whole, private, and takes nobody's place."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from agh.store.writer import Writer
from tests.support.build import Home, conversation, says, take_lock, user
from tests.support.files import tree
from tests.support.output import error_of
from tests.support.program import Agh, in_process
from tests.support.site import HEAD, Site
from tests.support.terminal import run_on_terminal

FORMATS = ("jsonl", "markdown", "html", "db")


def rich(home: Home) -> Path:
    """Return a session with a row in every table."""
    directory = home.session(
        conversation(), name="full", acp_session_id="agent-1", acp_session_ids=["agent-1"]
    )
    with take_lock(directory) as owner, Writer(owner, "general") as log, log.transaction() as db:
        db.execute(
            "INSERT INTO token_usage (turn_id, input_tokens, cost_amount, timestamp) "
            "VALUES ('turn-1', 7, 0.5, 't')"
        )
        db.execute(
            "INSERT INTO hook_runs (event, hook, started_at, outcome, output) "
            "VALUES ('prompt', 'h', 't', 'ok', 'ö')"
        )
        db.execute(
            "INSERT INTO inputs (generation, mode, status, prompt, turn_id, created_at, updated_at) "
            "VALUES (0, 'queue', 'sent', '[]', 'turn-1', 't', 't')"
        )
        db.execute(
            "INSERT INTO permissions (request_id, turn_id, status, action, request, created_at) "
            "VALUES ('r', 'turn-1', 'decided', 'x', '{}', 't')"
        )
    return directory


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_and_stdout_are_the_same_and_the_session_is_not_touched(
    home: Home, agh: Agh, tmp_path: Path, format: str
) -> None:
    directory = rich(home)
    before = tree(directory)
    agh("session", "export", "full", "-o", format, "--to", tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o600
    printed = agh("session", "export", "full", "-o", format, text=False).stdout
    whole = (tmp_path / "out").read_bytes()
    if format == "html":  # it says when it was made
        assert whole.startswith(b"<!") and len(printed) == len(whole)  # type: ignore[arg-type]
    else:
        assert whole == printed
    assert tree(directory) == before
    assert sorted(os.listdir(tmp_path)) == ["agh", "out", "user"]


def test_jsonl_is_the_events_as_they_are_printed_and_the_rest(home: Home, agh: Agh) -> None:
    directory = rich(home)
    first, *lines = agh("session", "export", "full").stdout.splitlines()
    head = json.loads(first)
    assert head["schema"] == "agh.session.export.v1"
    assert head["session"]["id"] == directory.name and head["session"]["acp_session_id"] == "agent-1"
    tables = {"token_usage": 1, "hook_runs": 1, "inputs": 1, "permissions": 1, "questions": 0}
    assert head["counts"] == {"events": 10, **tables}
    assert lines[:10] == agh("session", "events", "full").stdout.splitlines()
    assert [json.loads(line)["table"] for line in lines[10:]] == [
        "token_usage",
        "hook_runs",
        "inputs",
        "permissions",
    ]


def test_the_database_is_one_file_that_anyone_can_read(home: Home, agh: Agh, tmp_path: Path) -> None:
    rich(home)
    agh("session", "export", "full", "--to", tmp_path / "full.db")
    db = sqlite3.connect(f"file:{tmp_path}/full.db?mode=ro", uri=True)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert db.execute("SELECT count(*) FROM events").fetchone() == (10,)
    assert db.execute("SELECT meta ->> '$.name' FROM session").fetchone() == ("full",)
    db.close()
    assert sorted(path.name for path in tmp_path.glob("full*")) == ["full.db"]


def test_the_suffix_says_the_format(home: Home, tmp_path: Path) -> None:
    rich(home)
    begins = {
        "a.md": b"# full\n",
        "a.html": b"<!",
        "a.db": b"SQLite",
        "a.jsonl": b'{"schema"',
        "a.x": b'{"schema"',
    }
    for name, start in begins.items():
        in_process("session", "export", "full", "--to", str(tmp_path / name))
        assert (tmp_path / name).read_bytes()[: len(start)].lower() == start.lower()


def test_a_file_that_exists_is_not_replaced(home: Home, agh: Agh, tmp_path: Path) -> None:
    rich(home)
    target = tmp_path / "mine.jsonl"
    target.write_text("precious")
    result = agh("session", "export", "full", "-o", "jsonl", "--to", target, code=2)
    error_of(result, "file_taken", 2)
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "nowhere")
    agh("session", "export", "full", "--to", link, code=2)
    assert target.read_text() == "precious" and not (tmp_path / "nowhere").exists()
    agh("session", "export", "full", "--to", target, "--force")
    assert target.read_text().startswith('{"schema"')
    assert sorted(path.name for path in tmp_path.glob("*.jsonl*")) == ["link.jsonl", "mine.jsonl"]


def test_what_cannot_be_written_is_told_and_leaves_nothing(home: Home, agh: Agh, tmp_path: Path) -> None:
    rich(home)
    assert "No such file" in agh("session", "export", "full", "--to", tmp_path / "no" / "x.db", code=1).stderr
    agh("session", "export", "full", "-o", "pdf", code=2)
    agh("session", "export", "nope", code=4)
    assert sorted(os.listdir(tmp_path)) == ["agh", "user"]


@pytest.mark.parametrize("format", FORMATS)
def test_redacted(home: Home, tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of this environment, of the agent's own, and tokens in two pieces."""
    token = "ghp_" + "a1B2" * 9
    agents = home.path / "agents"
    agents.mkdir(parents=True, mode=0o700)
    (agents / "general.toml").write_text('argv = ["x"]\nenv = { AGENT_TOKEN = "tok-pineapple-77" }\n')
    home.session([user("swordfish-9000-xyz tok-pineapple-77"), says(token[:9]), says(token[9:])], name="s")
    monkeypatch.setenv("MY_API_KEY", "swordfish-9000-xyz")
    out, how = tmp_path / "out", ("session", "export", "s", "-o", format, "--force", "--to")
    assert in_process(*how, str(out)).returncode == 0
    secrets = (b"swordfish", b"pineapple", token[9:].encode())
    assert all(secret in out.read_bytes() for secret in secrets)
    assert in_process(*how, str(out), "--redact").returncode == 0
    assert not any(secret in out.read_bytes() for secret in secrets)
    assert b"[redacted]" in out.read_bytes()


@pytest.mark.parametrize("format", ["jsonl", "db"])
def test_a_log_that_is_being_written_is_copied_at_one_moment(
    home: Home, agh: Agh, tmp_path: Path, format: str
) -> None:
    """Each transaction writes an event and a row of usage: a copy has as many of one as of the other."""
    directory = home.session([])
    begun, stop = threading.Event(), threading.Event()

    def write() -> None:
        with take_lock(directory) as owner, Writer(owner, "general") as log:
            number = 0
            while not stop.wait(0.0005):
                number += 1
                with log.transaction() as db:
                    log.append([says(f"word {number}")])
                    db.execute("INSERT INTO token_usage (turn_id, timestamp) VALUES (?, 't')", [f"t{number}"])
                begun.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert begun.wait(20)
        for number in range(2):
            out = tmp_path / f"{number}"
            agh("session", "export", directory.name, "-o", format, "--to", out)
            other = Home(tmp_path / f"home-{number}")
            env = {**os.environ, "AGH_HOME": str(other.path)}
            (report,) = json.loads(agh("session", "import", out, "-o", "json", env=env).stdout)["imports"]
            db = sqlite3.connect(other.path / "sessions" / directory.name / "events.db")
            counts = db.execute(
                "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM token_usage)"
            ).fetchone()
            db.close()
            assert counts == (report["events"], report["events"]) and report["events"] > 0
    finally:
        stop.set()
        thread.join(20)


def test_on_a_terminal_nothing_acts(home: Home) -> None:
    home.session([user("x\x1b]0;owned\x07\u202e")], name="s")
    for format in ("jsonl", "markdown"):
        code, printed = run_on_terminal("session", "export", "s", "-o", format)
        assert code == 0 and "\x1b" not in printed and "\x07" not in printed
    code, printed = run_on_terminal("session", "export", "s", "-o", "db")
    assert code == 2 and "--to" in printed


def test_the_old_spelling_works_and_warns(home: Home, agh: Agh, tmp_path: Path) -> None:
    home.session(conversation(), name="full")
    result = agh("session", "export", "full", "--output", tmp_path / "full.html")
    assert result.stderr.startswith("--output FILE is deprecated; use --to FILE\n")
    assert "<html" in (tmp_path / "full.html").read_text()
    assert "not both" in agh("session", "export", "full", "--output", "a", "--to", "b", code=2).stderr
    assert "--output" not in agh("session", "export", "--help").stdout


def test_a_plugin_adds_a_format(home: Home, site: Site, tmp_path: Path) -> None:
    home.session(conversation(), name="s")
    site.add(
        "count",
        HEAD
        + "from agh.core.exchange import Exporter\n"
        + "def write(copy, path):\n    open(path, 'w').write(str(len(list(copy.rows()))))\n"
        + "@hookimpl\ndef agh_register_exporters(register):\n"
        + "    register(Exporter('count', 'a number', write, ('.n',)))\n",
    )
    assert site.agh("session", "export", "s", "-o", "count").stdout == "10"
    site.agh("session", "export", "s", "--to", tmp_path / "x.n")
    assert (tmp_path / "x.n").read_text() == "10"
    assert "agh_register_exporters" in site.plugins()["count"]["hooks"]
