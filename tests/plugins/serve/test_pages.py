"""The list comes in pages, newest first, and long answers are compressed for clients that understand it."""

from __future__ import annotations

import gzip
import json
from typing import Any
from urllib.parse import urlencode

import pytest
from agh_serve.responses import accepts_gzip

from tests.plugins.serve.server import Server
from tests.support.build import Home
from tests.support.live import Live

COUNT = 130


def at(minute: int) -> str:
    return f"2026-04-16T{10 + minute // 60:02d}:{minute % 60:02d}:00.000Z"


@pytest.fixture(scope="module")
def many(module_live: Live) -> list[str]:
    return create_many(Home(module_live.home))


def create_many(home: Home) -> list[str]:
    """Return the ids of many sessions, newest activity first; some of them at the same time."""
    for number in range(COUNT):
        home.directory(
            id=f"sess-{number:08d}",
            name=f"task {number}",
            agent_name="claude" if number % 2 else "codex",
            updated_at=at(number // 2),
        )
    return [f"sess-{number:08d}" for number in reversed(range(COUNT))]


def get_page(server: Server, **query: Any) -> dict[str, Any]:
    page: dict[str, Any] = server.get(f"/api/sessions?{urlencode({'all': 'true', **query})}")
    return page


def ids(page: dict[str, Any]) -> list[str]:
    return [session["id"] for session in page["sessions"]]


def test_all_pages_together_are_the_list(shared_server: Server, many: list[str], shared_live: Live) -> None:
    first = get_page(shared_server)
    assert ids(first) == many[:100]
    second = get_page(shared_server, cursor=first["next"])
    assert ids(second) == many[100:]
    assert "next" not in second
    listed = json.loads(shared_live.agh("session", "list", "--all", "-o", "json").stdout)["sessions"]
    assert first["sessions"] + second["sessions"] == listed
    assert "next" not in get_page(shared_server, limit=COUNT)
    walked, page = [], get_page(shared_server, limit=7)
    while "next" in page:
        walked += ids(page)
        page = get_page(shared_server, limit=7, cursor=page["next"])
    assert walked + ids(page) == many


def test_a_session_that_moves_up_leaves_no_gap(server: Server, home: Home) -> None:
    many = create_many(home)
    first = get_page(server, limit=10)
    home.directory(id=many[50], name="task", updated_at=at(900))
    second = get_page(server, limit=10, cursor=first["next"])
    assert ids(second) == many[10:20]


def test_filters_and_words(shared_server: Server, many: list[str]) -> None:
    codex = get_page(shared_server, agent="codex", limit=COUNT)
    assert len(ids(codex)) == COUNT // 2
    assert ids(get_page(shared_server, search="TASK 12 codex")) == [
        name for name in many if int(name[5:]) in (12, 112, 120, 122, 124, 126, 128)
    ]
    assert ids(get_page(shared_server, search="nothing like it")) == []
    assert ids(get_page(shared_server, status="stopped", limit=3)) == ids(
        get_page(shared_server, badge="stopped", limit=3)
    )
    resumable = get_page(shared_server, resumable="true", why="true", limit=2)
    assert [session["why_not"]["code"] for session in resumable["sessions"]] == ["workspace_gone"] * 2
    assert ids(get_page(shared_server, resumable="true")) == []


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "cursor=x", "cursor=", "cursor=a/b/sess-1", "why=true", "status=a&badge=a"],
)
def test_bad_words_are_refused(shared_server: Server, query: str) -> None:
    assert shared_server.get(f"/api/sessions?{query}", 400)["error"]["code"] == "usage"


def test_long_answers_are_compressed(shared_server: Server, many: list[str]) -> None:
    plain = shared_server.ask("GET", "/api/sessions?all=true")
    packed = shared_server.ask("GET", "/api/sessions?all=true", accept_encoding="br, gzip;q=0.8")
    assert "content-encoding" not in plain.headers and packed.headers["content-encoding"] == "gzip"
    assert plain.headers["vary"] == packed.headers["vary"] == "accept-encoding"
    assert gzip.decompress(packed.body) == plain.body
    assert int(packed.headers["content-length"]) == len(packed.body) < len(plain.body) / 8
    # A client that has the list has it in either form.
    assert packed.headers["etag"] == plain.headers["etag"]
    again = shared_server.ask("GET", "/api/sessions?all=true", if_none_match=packed.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    for path in ("/page.js", "/api/openapi.json"):
        assert shared_server.ask("GET", path, accept_encoding="gzip").headers["content-encoding"] == "gzip"
    assert "content-encoding" not in shared_server.ask("GET", "/api/sessions", accept_encoding="gzip").headers


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True), ("GZIP", True), ("deflate, gzip;q=1.0", True), ("gzip;q=0.001", True),
        ("", False), ("identity", False), ("gzip;q=0", False), ("gzip; q=0.000", False), ("x-gzip", False),
    ],
)  # fmt: skip
def test_what_a_client_accepts(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted
