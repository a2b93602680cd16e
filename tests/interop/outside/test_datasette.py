"""Datasette from PyPI on a database that `agh db build` made: its pages, its search, its views."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import Home, conversation, user
from tests.support.database import append, rich
from tests.support.program import Agh
from tests.support.wait import PATIENCE

PROGRAM = Path(os.environ.get("DATASETTE", Path(sys.executable).parents[1] / "datasette/bin/datasette"))


class Site:
    """A running Datasette."""

    def __init__(self, directory: Path) -> None:
        argv = [PROGRAM, "agh.db", "--metadata", "agh.json", "--port", "0"]
        self.log = directory / "datasette.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(argv, cwd=directory, stdout=log, stderr=log)
        self.port = self._wait_for_port()

    def page(self, path: str, **parameters: str) -> str:
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}{query}", timeout=30) as answer:
            return str(answer.read().decode())

    def rows(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        return list(json.loads(self.page(f"{path}.json", _shape="array", **parameters)))

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()

    def _wait_for_port(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()
            _, _, after = self.log.read_text().partition("running on http://127.0.0.1:")
            if after.partition(" ")[0].isdecimal():
                return int(after.partition(" ")[0])
            time.sleep(0.05)
        self.process.kill()
        raise AssertionError(self.log.read_text())


@pytest.fixture
def site(home: Home, agh: Agh, tmp_path: Path) -> Iterator[Site]:
    rich(home, name="stop-path", id="sess-00000001")
    home.session(conversation(), name="another")
    agh("db", "build", tmp_path / "agh.db")
    (tmp_path / "agh.json").write_text(agh("db", "metadata", tmp_path / "agh.db").stdout)
    site = Site(tmp_path)
    yield site
    site.end()


def test_pages_of_sessions(site: Site) -> None:
    assert "Sessions of coding agents" in site.page("/")
    page = site.page("/agh/sessions")
    assert "stop-path" in page and "One row per session" in page
    assert "agh_sources" not in site.page("/agh")
    session = site.page("/agh/sessions/sess-00000001")
    assert "Links from other tables" in session and "messages?session_id=sess-00000001" in session
    rows = site.rows("/agh/messages", session_id="sess-00000001", _sort="sequence")
    assert [row["role"] for row in rows] == ["user", "assistant", "assistant", "user", "assistant"]
    # A foreign key is shown as the name of what it points to.
    assert '<a href="/agh/sessions/sess-00000001">stop-path</a>' in site.page(
        "/agh/turns", session_id="sess-00000001"
    )


def test_full_text_search(site: Site) -> None:
    assert [row["content"] for row in site.rows("/agh/messages", _search="zebra")] == ["It is zebra done."]
    assert [row["text"] for row in site.rows("/agh/tool_results", _search="patched")] == ["patched"]
    kinds = [row["found_in"] for row in site.rows("/agh/search", words="zebra OR patched")]
    assert sorted(kinds) == ["message", "tool result"]


@pytest.mark.parametrize(
    "view", ["cost_by_day", "slowest_tools", "failure_kinds", "permission_decisions", "question_answers"]
)
def test_views(site: Site, view: str) -> None:
    assert len(site.rows(f"/agh/{view}")) >= 1
    assert "error" not in site.page(f"/agh/{view}").partition("<title>")[2].partition("</title>")[0]


def test_an_update_shows_while_it_runs(site: Site, home: Home, agh: Agh, tmp_path: Path) -> None:
    append(home.path / "sessions" / "sess-00000001", user("walrus", turn="turn-9"))
    agh("db", "build", tmp_path / "agh.db")
    assert len(site.rows("/agh/messages", _search="walrus")) == 1
