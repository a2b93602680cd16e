"""meta.json is replaced whole: a reader sees the old text or the new one, never a torn one."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agh.errors import MetaInvalid
from agh.home import Session
from agh.store import meta
from tests.support.build import Home, child
from tests.support.files import tree

ID = "sess-abcdefgh"
LEAST = {"id": ID, "state": "stopped", "agent_name": "general", "workspace_path": "/work"}

# Writes as fast as it can; the size changes all the time.
WRITER = """
import sys
from agh.home import Session
from agh.store import meta
print("ready", flush=True)
stored = {"id": "sess-abcdefgh", "state": "active", "agent_name": "general", "workspace_path": "/work"}
for number in range(10**9):
    stored |= {"turns": number, "title": "x" * (number * 997 % 9000)}
    meta.write(Session.at(sys.argv[1]), stored, sync=False)
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / ID
    path.mkdir()
    return path


@given(
    # Hypothesis knows the words of our code: a field that readers rely on is not of any type.
    st.dictionaries(
        st.text().filter(lambda key: key not in dict(meta._FIELD_TYPES)),
        st.none() | st.text() | st.integers(-(2**63), 2**63 - 1) | st.lists(st.text()),
    )
)
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, fields: dict[str, Any]) -> None:
    directory = tmp_path_factory.getbasetemp() / ID
    directory.mkdir(exist_ok=True)
    record: Any = {**fields, **LEAST}
    meta.write(Session.at(directory), record, sync=False)
    assert meta.read(Session.at(directory)) == record
    assert [path.name for path in directory.iterdir()] == ["meta.json"]


def test_people_and_jq_can_read_it(directory: Path) -> None:
    meta.write(Session.at(directory), {**LEAST, "name": "é"})  # type: ignore[typeddict-item]
    text = (directory / "meta.json").read_text(encoding="utf-8")
    assert json.loads(text)["name"] == "é"
    assert text.endswith("}\n") and text.count("\n") > 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "the file is missing"),
        ("", "not JSON"),
        ('{"id": "sess-abcdefgh", "sta', "not JSON"),
        ("hello", "not JSON"),
        ("\0" * 100, "not JSON"),
        (b'{"id": "\xff"}', "not JSON"),
        ("[]", "does not describe this session"),
        ("null", "does not describe this session"),
        ("{}", "does not describe this session"),
        ('{"id": "sess-zzzzzzzz", "state": "stopped"}', "does not describe this session"),
        ('{"id": "sess-abcdefgh"}', "does not describe this session"),
        ('{"id": "sess-abcdefgh", "state": 5}', "does not describe this session"),
    ],
)
def test_anything_but_an_object_about_this_session_is_refused(
    directory: Path, text: str | bytes | None, why: str
) -> None:
    if text is not None:
        (directory / "meta.json").write_bytes(text.encode() if isinstance(text, str) else text)
    before = tree(directory)
    with pytest.raises(MetaInvalid, match=why) as refused:
        meta.read(Session.at(directory))
    assert ID in refused.value.message
    assert tree(directory) == before


def test_a_directory_in_its_place_is_refused(directory: Path) -> None:
    (directory / "meta.json").mkdir()
    with pytest.raises(MetaInvalid, match="directory"):
        meta.read(Session.at(directory))


def test_it_is_on_disk_before_it_has_its_name(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def fsync(fd: int) -> None:
        kind = "directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else f"file of {os.fstat(fd).st_size > 0}"
        done.append(f"sync {kind}")

    def replace(old: str, new: str) -> None:
        done.append("rename")
        os.rename(old, new)

    monkeypatch.setattr(meta.os, "fsync", fsync)
    monkeypatch.setattr(meta.os, "replace", replace)
    meta.write(Session.at(directory), {"id": ID, "state": "stopped"})
    assert done == ["sync file of True", "rename", "sync directory"]


def test_a_write_that_fails_leaves_the_old_text_and_nothing_else(directory: Path) -> None:
    meta.write(Session.at(directory), {"id": ID, "state": "stopped"})
    before = tree(directory)
    with pytest.raises(TypeError):
        meta.write(Session.at(directory), {"id": ID, "state": object()})  # type: ignore[typeddict-item]
    assert tree(directory) == before


def test_a_link_in_the_way_is_not_followed(directory: Path) -> None:
    victim = directory.parent / "victim"
    victim.write_text("precious")
    (directory / f".meta.json.{os.getpid()}").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        meta.write(Session.at(directory), {"id": ID, "state": "stopped"})
    assert victim.read_text() == "precious"


def test_a_reader_never_sees_a_torn_text(home: Home) -> None:
    directory = home.directory(id=ID, state="active")
    with child(WRITER, directory) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        turns = []
        deadline = time.monotonic() + 10
        while len(turns) < 2000 or (turns[-1] == turns[0] and time.monotonic() < deadline):
            record = meta.read(Session.at(directory))
            number = record.get("turns", 0)
            assert number == 0 or len(record["title"] or "") == number * 997 % 9000
            turns.append(number)
    assert turns == sorted(turns)
    assert turns[-1] > turns[0], "the writer did not write"
    meta.read(Session.at(directory))
