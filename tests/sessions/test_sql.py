"""SQL on live sessions: the lines of agh-events(7) on a log that is being written, and `agh db build`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.build import ROOT, child
from tests.support.database import contents, select
from tests.support.live import Live, Session
from tests.support.wait import PATIENCE, wait_until

PAGE = (ROOT / "man/man7/agh-events.7").read_text()


def lines() -> list[str]:
    """Return the lines that the page's section on SQL shows, as a user would copy them."""
    section = PAGE.partition(".SH SQL\n")[2].partition(".SH ")[0]
    block = re.findall(r"^\.nf\n(.*?)^\.fi$", section, flags=re.M | re.S)[0]
    return str(block).replace(r"\(aq", "'").replace("\\-", "-").splitlines()


def test_the_page_shows_both_programs() -> None:
    assert {line.partition(" ")[0] for line in lines()} == {"sqlite3", "sqlite-utils", "agh"}


@pytest.mark.parametrize("line", lines(), ids=("sqlite3", "sqlite3-json", "sqlite-utils", "memory"))
def test_a_line_of_the_manual_works_on_a_live_log(shared: Session, line: str) -> None:
    if line.startswith("sqlite3") and shutil.which("sqlite3") is None:
        pytest.skip("sqlite3 is not installed")
    shared.tell("/tool README.md kind=read\n/say hello")
    turn = shared.send("/say going\n/sleep 60")
    wait_until(lambda: shared.text(turn) == "going")
    before = shared.events()
    home = str(shared.directory.parents[1])
    command = line.replace("~/.agh", home).replace("ID", shared.id)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "AGH_HOME": home}
    result = subprocess.run(command, shell=True, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, result.stderr
    assert "user_message" in result.stdout or "README" in result.stdout, result.stdout
    assert shared.events() == before and shared.is_live()
    shared.agh("cancel")
    wait_until(lambda: shared.has_ended(turn), what=turn)
    shared.check_log()


def test_a_database_of_a_session_that_is_working(live: Live, tmp_path: Path) -> None:
    session = live.new()
    session.tell("/edit a.py new\n/tool grep kind=search path=b.py\n/usage 10 2 0.5")
    turn = session.send("/stream 300 0.005\n/say end of it")
    file = tmp_path / "agh.db"
    while not session.has_ended(turn):
        live.agh("db", "build", file)
        assert select(file, "SELECT state FROM sessions") == [("active",)]
        contents(file)
    session.stop()
    live.agh("db", "build", file)
    live.agh("db", "build", tmp_path / "whole.db")
    rows = contents(file)
    assert rows == contents(tmp_path / "whole.db")
    assert select(file, "SELECT state, turns FROM sessions") == [("stopped", 2)]
    assert len(rows["messages"]) == 3, "two prompts, and one answer of many chunks"
    assert "end of it" in select(file, "SELECT content FROM messages ORDER BY id DESC LIMIT 1")[0][0]
    assert select(file, "SELECT cost FROM cost_by_day") == [(0.5,)]
    actions = dict(select(file, "SELECT path, action FROM files"))
    assert {os.path.basename(path): action for path, action in actions.items()} == {
        "a.py": "edit",
        "b.py": "search",
    }


OPEN_AND_CLOSE = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute("SELECT count(*) FROM events").fetchone()[0])
db.close()
"""


def test_a_program_that_opens_a_live_log_to_write_takes_nothing_from_its_keeper(live: Live) -> None:
    """SQLite deletes the WAL when the last program that may write closes the log: that is the keeper."""
    session = live.new()
    for text in ("one", "two"):
        session.tell(f"/say {text}")
    wal = session.directory / "events.db-wal"
    before = wal.stat().st_ino
    with child(OPEN_AND_CLOSE, session.directory / "events.db") as process:
        assert process.wait(PATIENCE) == 0
    assert wal.stat().st_ino == before
    session.tell("/say three")
    session.kill_keeper()
    assert "three" in session.text()
    session.check_log()
