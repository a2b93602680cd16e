"""Finding the session that a user means."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agh.errors import AmbiguousSession, HomeUnsafe, MetaInvalid, NamesBusy, SessionNotFound
from agh.home import Session
from agh.store import sessions
from tests.support.build import Home
from tests.support.files import tree
from tests.support.hostile import HOSTILE_IDS

FIRST, SECOND, THIRD = "sess-0aaaaaaa1", "sess-0aaaaaab2", "sess-0bbbbbbb3"


@pytest.fixture
def three(home: Home) -> Home:
    """Three sessions, made out of order."""
    home.directory(id=THIRD, name="deploy", workspace_path="/work/b")
    home.directory(id=FIRST, name="review", workspace_path="/work/a")
    home.directory(id=SECOND, name=None, workspace_path="/work/a")
    return home


def _found(reference: str, workspace: str | None = None) -> str:
    return os.path.basename(sessions.resolve(reference, workspace))


def test_different_names_can_be_locked_at_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of commands name sessions at once; only those of the same name wait for each other."""
    monkeypatch.setattr(sessions, "NAMING_LIMIT", 0.05)
    with sessions.lock_names("review"):
        with sessions.lock_names("deploy"):
            pass
        for name in ("review", None):
            with pytest.raises(NamesBusy, match=r"timed out after 0\.05 s"), sessions.lock_names(name):
                pass
    with sessions.lock_names(), pytest.raises(NamesBusy), sessions.lock_names("review"):
        pass


@pytest.mark.parametrize("name", ["plain", "Grüße", 'with "quotes"', "back\\slash", "🦊"])
@pytest.mark.parametrize("is_ascii", [False, True])
def test_a_name_is_found_however_it_is_written(home: Home, name: str, is_ascii: bool) -> None:
    directory = home.directory(id=FIRST, name=name)
    home.directory(id=SECOND, name=f"{name} 2", title=name)
    metadata = json.loads((directory / "meta.json").read_bytes())
    (directory / "meta.json").write_text(json.dumps(metadata, ensure_ascii=is_ascii))
    assert _found(name) == FIRST


def test_no_home_is_no_session(private_home: Path) -> None:
    assert sessions.session_ids() == []
    assert list(sessions.scan()) == []
    for reference in ("@last", "sess-abcdefgh", "x"):
        with pytest.raises(SessionNotFound):
            sessions.resolve(reference)
    assert not private_home.exists()


def test_ids_are_listed_oldest_first_and_strangers_are_not(three: Home) -> None:
    for stranger in ("sess-UPPERCASE", ".hidden", "notes.txt", "sess-short"):
        (three.path / "sessions" / stranger).mkdir()
    assert sessions.session_ids() == [FIRST, SECOND, THIRD]
    assert [os.path.basename(path) for path, _ in sessions.scan()] == [FIRST, SECOND, THIRD]


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (FIRST, FIRST),
        ("sess-0aaaaaaa", FIRST),
        ("sess-0b", THIRD),
        ("0aaaaaaa", FIRST),
        ("0b", THIRD),
        ("review", FIRST),
        ("deploy", THIRD),
    ],
)
def test_an_id_a_prefix_or_a_name(three: Home, reference: str, expected: str) -> None:
    before = tree(three.path)
    assert sessions.resolve(reference) == Session.at(three.path / "sessions" / expected)
    assert tree(three.path) == before


@pytest.mark.parametrize("reference", ["sess-0", "0", "0aaaaaa", "sess-0aaaaaa"])
def test_a_prefix_of_several_is_ambiguous_and_names_them(three: Home, reference: str) -> None:
    with pytest.raises(AmbiguousSession) as refused:
        sessions.resolve(reference)
    assert FIRST in refused.value.message and SECOND in refused.value.message
    assert refused.value.exit == 2


def test_an_ambiguous_prefix_of_very_many_names_a_few(home: Home) -> None:
    for number in range(10, 40):
        home.directory(id=f"sess-0aaaaaaa{number}")
    with pytest.raises(AmbiguousSession) as refused:
        sessions.resolve("0a")
    assert refused.value.message.count("sess-0") == 5 and "…" in refused.value.message


@pytest.mark.parametrize(
    "reference", ["", "sess-", "-", "sess-9", "nobody", "sess-0aaaaaaa11", "revie", "@first", *HOSTILE_IDS]
)
def test_nothing_matches(three: Home, reference: str) -> None:
    with pytest.raises(SessionNotFound):
        sessions.resolve(reference)


def test_a_whole_id_is_never_ambiguous(home: Home) -> None:
    home.directory(id="sess-abcdefgh")
    home.directory(id="sess-abcdefghi")
    assert _found("sess-abcdefgh") == "sess-abcdefgh"
    with pytest.raises(AmbiguousSession):
        sessions.resolve("sess-abcdefg")


def test_two_sessions_of_one_name_are_ambiguous(three: Home) -> None:
    three.directory(id="sess-0ccccccc4", name="review")
    with pytest.raises(AmbiguousSession):
        sessions.resolve("review")


def test_a_name_comes_before_a_prefix(three: Home) -> None:
    three.directory(id="sess-zzzzzzzz", name="0b")
    assert _found("0b") == "sess-zzzzzzzz"


@pytest.mark.parametrize(
    ("workspace", "expected"),
    [
        ("/work/a", SECOND),
        ("/work/a/src/deep", SECOND),
        ("/work/b", THIRD),
        ("/work/ab", None),
        ("/work", None),
        ("/", None),
    ],
)
def test_last_is_the_newest_of_the_workspace(three: Home, workspace: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(SessionNotFound):
            sessions.resolve("@last", workspace)
    else:
        assert _found("@last", workspace) == expected


def test_last_starts_from_the_working_directory(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "repo" / "src").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "repo")
    home.directory(id=FIRST, workspace_path=str(tmp_path / "repo"))
    home.directory(id=THIRD, workspace_path=str(tmp_path / "other"))
    for place in ("repo", "repo/src", "link", "link/src"):
        monkeypatch.chdir(tmp_path / place)
        assert _found("@last") == FIRST


def test_damaged_metadata_hides_no_other_session(three: Home) -> None:
    broken = three.path / "sessions" / "sess-0zzzzzzz9"
    broken.mkdir()
    (broken / "meta.json").write_text('{"id": "sess-0zz')
    (three.path / "sessions" / "sess-0zzzzzzza").mkdir()
    (three.path / "sessions" / "sess-0zzzzzzzb").write_text("a file")
    found = {os.path.basename(path): record for path, record in sessions.scan()}
    assert {name for name, one in found.items() if isinstance(one, MetaInvalid)} == {
        "sess-0zzzzzzz9",
        "sess-0zzzzzzza",
        "sess-0zzzzzzzb",
    }
    assert found[FIRST]["id"] == FIRST  # type: ignore[index]
    assert _found("review") == FIRST
    assert _found("@last", "/work/b") == THIRD
    assert _found("sess-0zzzzzzz9") == "sess-0zzzzzzz9", "a damaged session can still be named"


def test_an_unsafe_home_is_not_read(three: Home) -> None:
    three.path.chmod(0o770)
    for ask in (sessions.session_ids, lambda: list(sessions.scan()), lambda: sessions.resolve("review")):
        with pytest.raises(HomeUnsafe):
            ask()
