"""The home is private, and no id can point outside it."""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agh import home
from agh.errors import HomeUnknown, HomeUnsafe, SessionNotFound
from agh.home import Session
from agh.store import lock, meta, writer
from agh.store.create import create_log
from tests.support.build import Home, conversation, take_lock
from tests.support.hostile import HOSTILE_IDS

LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def _mode(path: Path | str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("hostile", HOSTILE_IDS)
def test_a_hostile_id_is_refused_before_a_path_exists(hostile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_path() -> str:
        raise AssertionError("a path was built")

    monkeypatch.setattr(home, "sessions_path", no_path)
    with pytest.raises(SessionNotFound):
        home.session_of(hostile)


@given(st.text())
@LAW
def test_what_passes_for_an_id_stays_in_the_sessions_directory(text: str) -> None:
    try:
        path = home.session_of(text)
    except SessionNotFound:
        return
    assert os.path.dirname(os.path.normpath(path)) == home.sessions_path()


@given(st.from_regex(r"sess-[0-9a-z]{8,26}", fullmatch=True))
@LAW
def test_a_session_is_a_directory_of_its_name(session_id: str) -> None:
    path = os.path.join(home.sessions_path(), session_id)
    assert home.session_of(session_id) == home.Session(session_id, path) == home.Session.at(path)


@given(st.text() | st.from_regex(r"s?ess-{0,2}[0-9a-zA-Z.é\n]{6,28}", fullmatch=True))
@LAW
def test_an_id_has_one_form(text: str) -> None:
    assert home.is_session_id(text) == bool(re.fullmatch(r"sess-[0-9a-z]{8,26}", text))


@given(st.lists(st.integers(0, 36**9 - 1), min_size=2, unique=True))
@LAW
def test_ids_sort_by_creation(moments: list[int]) -> None:
    made = []
    with pytest.MonkeyPatch.context() as patch:
        for moment in sorted(moments):
            patch.setattr(home.time, "time_ns", lambda moment=moment: moment * 1_000_000 + 999_999)
            made.append(home.new_session_id())
    assert made == sorted(made)
    assert all(home.is_session_id(draft) for draft in made)


def test_ids_made_at_once_differ() -> None:
    assert len({home.new_session_id() for _ in range(5000)}) == 5000


def test_the_home_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGH_HOME", str(tmp_path / "there"))
    assert home.home_path() == str(tmp_path / "there")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGH_HOME", "here")
    assert home.home_path() == str(tmp_path / "here")
    for unset in ("", None):
        if unset is None:
            monkeypatch.delenv("AGH_HOME")
        else:
            monkeypatch.setenv("AGH_HOME", unset)
        assert home.home_path() == str(tmp_path / "user" / ".agh")


def test_no_home_at_all_has_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.delenv("AGH_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(HomeUnknown):
        home.home_path()
    monkeypatch.setenv("HOME", "relative")
    with pytest.raises(HomeUnknown):
        home.home_path()


def test_asking_for_the_home_does_not_make_it(private_home: Path) -> None:
    assert home.checked_home() is None
    home.sessions_path()
    home.session_of("sess-abcdefgh")
    assert not private_home.exists()


def test_directories_and_files_are_private_whatever_the_umask(private_home: Path, open_umask: None) -> None:
    assert home.ensure_home() == str(private_home)
    assert _mode(private_home) == 0o700
    directory = Home(private_home).directory(state="active")
    with take_lock(directory) as owner:
        create_log(owner)
        with writer.Writer(owner, "general") as log:
            log.append(conversation())
            modes = {path.name: _mode(path) for path in directory.iterdir()}
    assert set(modes) == {"meta.json", "lock", "events.db", "events.db-wal", "events.db-shm"}
    assert set(modes.values()) == {0o600}
    assert _mode(directory) == _mode(directory.parent) == 0o700
    meta.write(Session.at(directory), meta.read(Session.at(directory)))
    assert _mode(directory / "meta.json") == 0o600
    assert not lock.is_held(Session.at(directory))


def test_missing_directories_above_the_home_are_private_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, open_umask: None
) -> None:
    monkeypatch.setenv("AGH_HOME", str(tmp_path / "a" / "b" / "home"))
    home.ensure_home()
    modes = {part: _mode(tmp_path / part) for part in ("a", "a/b", "a/b/home")}
    assert set(modes.values()) == {0o700}, modes


def test_an_existing_private_home_is_kept(private_home: Path) -> None:
    private_home.mkdir(mode=0o750)
    (private_home / "config.toml").write_text("")
    assert home.ensure_home() == home.checked_home() == str(private_home)
    assert _mode(private_home) == 0o750


@pytest.mark.parametrize("mode", [0o770, 0o720, 0o702, 0o777, 0o1777])
def test_a_home_that_others_may_write_to_is_refused(private_home: Path, mode: int) -> None:
    private_home.mkdir()
    private_home.chmod(mode)
    for ask in (home.checked_home, home.ensure_home, home.sessions_path):
        with pytest.raises(HomeUnsafe) as refused:
            ask()
        assert refused.value.hint == f"chmod 700 {private_home}"
    assert _mode(private_home) == mode & 0o7777


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_home_of_another_user_is_refused(private_home: Path) -> None:
    private_home.mkdir(mode=0o700)
    os.chown(private_home, 12345, -1)
    with pytest.raises(HomeUnsafe, match="belongs to user 12345"):
        home.checked_home()


def test_a_home_that_is_a_file_is_refused(private_home: Path) -> None:
    private_home.write_text("")
    with pytest.raises(HomeUnsafe, match="not a directory"):
        home.ensure_home()


@pytest.mark.parametrize("kind", ["below a file", "a loop"])
def test_a_home_that_cannot_be_looked_at_is_refused(
    kind: str, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "a loop":
        private_home.symlink_to(private_home)
    else:
        private_home.write_text("")
        monkeypatch.setenv("AGH_HOME", str(private_home / "below"))
    with pytest.raises(HomeUnsafe):
        home.checked_home()


def test_private_directories_may_be_there_already(tmp_path: Path) -> None:
    home.make_private_dir(str(tmp_path / "new" / "er"))
    home.make_private_dir(str(tmp_path / "new" / "er"))
    assert _mode(tmp_path / "new" / "er") == 0o700


def test_the_cache_of_a_home_is_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGH_HOME", "/somewhere/of mine")
    assert home.cache_path() == f"{tmp_path}/user/.cache/agh/somewhere/of mine"
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert home.cache_path() == "/cache/agh/somewhere/of mine"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert home.cache_path() == f"{tmp_path}/user/.cache/agh/somewhere/of mine"


def test_an_id_of_a_known_time_sorts_by_it() -> None:
    ids = [home.session_id_of(1_700_000_000_000 + step, b"abcdefgh") for step in (0, 1, 36, 10**9)]
    assert ids == sorted(ids) and len(set(ids)) == 4
    assert all(home.is_session_id(draft) for draft in ids)


def test_links_are_resolved_as_the_kernel_does(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x")
    (tmp_path / "absolute").symlink_to(tmp_path / "folder")
    (tmp_path / "relative").symlink_to("folder/../folder")
    (tmp_path / "dangling").symlink_to("none/at/all")
    paths = [
        "absolute/file",
        "relative/./file",
        "relative/../folder",
        "dangling/x",
        "folder/new/../y",
        "../..",
    ]
    for path in paths:
        assert home.real_path(f"{tmp_path}/{path}") == os.path.realpath(tmp_path / path), path
    assert home.real_path("/..//.") == "/"


def test_what_cannot_be_resolved_is_none_and_never_raises(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link0").write_text("end")
    for number in range(1, 1500):
        (tmp_path / f"link{number}").symlink_to(f"link{number - 1}")
    assert home.real_path(f"{tmp_path}/link{home.MAX_LINKS}") == f"{tmp_path}/link0"
    for path in (
        "loop",
        "loop/x",
        f"link{home.MAX_LINKS + 1}",
        "link1499/../x",
        "a\0b",
        "a/" * 5000,
        "a" * 300,
    ):
        assert home.real_path(f"{tmp_path}/{path}") is None, path
    assert home.real_path("relative") is None
    assert home.real_path("") is None
