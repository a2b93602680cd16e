"""The OpenAPI document says what the server does, and the page needs nothing but the server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import agh_serve
import pytest
from agh_serve.fields import COUNT, FLAG, SPAN, TEXT, check_value, enum_schema
from agh_serve.openapi import build_openapi
from agh_serve.operations import OPERATIONS

from agh.errors import Usage
from tests.plugins.serve.server import Server
from tests.support.build import Home, conversation

PAGE = Path(agh_serve.__file__).parent / "page"
CONTRACT = """
GET /sessions, POST /sessions, GET /sessions/{id}, POST /sessions/{id}/resume, POST /sessions/{id}/attach,
POST /sessions/{id}/prompt, POST /sessions/{id}/interrupt, POST /sessions/{id}/approve, DELETE /sessions/{id},
POST /sessions/{id}/answer, GET /sessions/{id}/questions,
GET /sessions/{id}/events, GET /sessions/{id}/history, GET /sessions/{id}/transcript,
GET /sessions/{id}/recap, GET /sessions/{id}/stream
"""


def test_the_document_has_every_route_in_both_families(shared_server: Server) -> None:
    document = shared_server.get("/api/openapi.json")
    assert document == build_openapi(OPERATIONS)
    for line in CONTRACT.split(","):
        method, path = line.split()
        for prefix in ("/api", "/api/workspaces/{workspace}"):
            operation = document["paths"][prefix + path][method.lower()]
            assert operation["summary"] and {"401", "404", "409"} <= set(operation["responses"])
    names = [method["operationId"] for path in document["paths"].values() for method in path.values()]
    assert len(names) == len(set(names))


def test_every_documented_route_is_there(server: Server, home: Home) -> None:
    home.session(conversation(), name="talk")
    document = server.get("/api/openapi.json")
    for path, methods in document["paths"].items():
        url = path.replace("{workspace}", "repo-alpha").replace("{id}", "talk")
        for method in ("get", "post", "put", "patch", "delete"):
            answer = server.ask(method.upper(), f"{url}?nonsense=1")
            expected = (400, "usage") if method in methods else (405, "method_unknown")
            assert (answer.status, answer.code) == expected, (method, path)


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("", TEXT), ("a\0", TEXT), ("a\0b", TEXT), ("x" * 5000, TEXT), (3, TEXT), (True, COUNT), (-1, COUNT),
        (1.5, COUNT), (1 << 63, COUNT), (1, FLAG), ("5m\n", SPAN), ("m", SPAN), ("c", enum_schema("a", "b")),
    ],
)  # fmt: skip
def test_values_that_are_refused(value: object, schema: dict[str, object]) -> None:
    with pytest.raises(Usage, match=r"^field"):
        check_value(value, schema, "field")


@pytest.mark.parametrize(
    ("value", "schema"),
    [("a\nb", TEXT), (0, COUNT), (False, FLAG), ("1.5h", SPAN), ("90", SPAN), ("b", enum_schema("a", "b"))],
)
def test_values_that_are_taken(value: object, schema: dict[str, object]) -> None:
    check_value(value, schema, "field")


def test_the_page_needs_no_network() -> None:
    for path in PAGE.iterdir():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(?i)https?:|//[a-z]+\.|@import|url\(", text), path
        assert not re.search(r"(?i) on[a-z]+=|style=|<script>|javascript:", text) or path.suffix == ".js", (
            path
        )


def test_other_commands_do_not_know_of_it(home: Home) -> None:
    """Neither a command that reads nor a keeper, which loads plugins, pays for the server."""
    home.session(conversation(), name="talk")
    code = "import sys; from agh.cli.main import run; code = run(sys.argv[1:]); print(code, *sys.modules)"
    modules = _modules(code, "session", "list", "--all")
    assert "agh.cli.main" in modules
    assert not {name for name in modules if name.startswith(("agh_serve", "starlette", "uvicorn", "pluggy"))}
    modules = _modules(
        "import sys; from agh.adapters.registry import manager; manager(); print(*sys.modules)"
    )
    assert "agh_serve.plugin" in modules
    assert not {"click", "starlette", "uvicorn", "asyncio", "agh_serve.command"} & modules


def _modules(code: str, *args: str) -> set[str]:
    result = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=30, check=True
    )
    return set(result.stdout.splitlines()[-1].split())
