"""`inbox --count` counts what the inbox lists, without the imports that cost time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from agh.core.events import timestamp
from agh.sessions.requests.inbox import dismiss, list_entries
from agh.store.inbox.count import count
from tests.support.build import Home, conversation
from tests.support.files import tree
from tests.support.program import Agh

HEAVY = {"click", "orjson", "json", "re", "typing", "sqlite3", "agh.home", "agh.errors"}


def fail(home: Home, name: str, **fields: object) -> Path:
    metadata = {"stop_reason": "agent_crashed", "updated_at": timestamp(), **fields}
    return home.session(conversation(), id=f"sess-{name:a<12}", **metadata)


def test_it_counts_what_the_inbox_lists(home: Home) -> None:
    home.session(conversation())
    fail(home, "first")
    fail(home, "second")
    fail(home, "archived", archived=True)
    fail(home, "old", updated_at="2020-01-01T00:00:00.000Z")
    assert count() == 2 == len(list_entries())
    dismiss(list_entries()[:1])
    assert count() == 1 == len(list_entries())


def test_it_does_not_write(home: Home) -> None:
    fail(home, "first")
    before = tree(home.path)
    assert count() == 1
    assert tree(home.path) == before


@pytest.mark.parametrize("text", [b"{", b"", b"[]", b"\xff", b'{"id": 3}'])
def test_metadata_that_cannot_be_read_waits_for_nobody(home: Home, text: bytes) -> None:
    directory = fail(home, "first")
    (directory / "meta.json").write_bytes(text)
    assert count() == 0
    assert list_entries() == []


def test_metadata_in_another_format_is_counted_too(home: Home) -> None:
    directory = fail(home, "first")
    metadata = orjson.loads((directory / "meta.json").read_bytes())
    (directory / "meta.json").write_bytes(orjson.dumps(metadata))
    assert count() == 1


def test_a_text_that_looks_like_a_field_hides_nothing(home: Home) -> None:
    fail(home, "first", title='\n  "state": "stopped"\n  "stop_reason": "completed"')
    assert count() == 1


def test_a_home_that_is_not_private_is_left_to_the_command(home: Home, agh: Agh) -> None:
    fail(home, "first")
    home.path.chmod(0o777)
    assert count() is None
    assert "not private" in agh("inbox", "--count", code=5).stderr


def test_it_imports_nothing_that_is_slow() -> None:
    code = "import sys; from agh.store.inbox.count import count; count(); print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path = {sys.path!r}; {code}"]
    modules = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.split()
    assert "agh.core.waiting" in modules
    assert HEAVY.isdisjoint(modules), HEAVY.intersection(modules)
