"""Settings: defaults, files, who wins, and errors that name the file and what was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from agh import config
from agh.errors import ConfigInvalid
from tests.support.program import Agh


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / ".agh").mkdir(parents=True)
    return folder


def write_home(home: Path, toml: str) -> Path:
    home.mkdir(mode=0o700, exist_ok=True)
    path = home / "config.toml"
    path.write_text(toml)
    return path


def write_workspace(workspace: Path, toml: str) -> Path:
    path = workspace / ".agh" / "config.toml"
    path.write_text(toml)
    return path


def problem(home: Path, toml: str) -> ConfigInvalid:
    path = write_home(home, toml)
    with pytest.raises(ConfigInvalid) as caught:
        config.load()
    assert caught.value.message.startswith(f"{path}: ")
    assert caught.value.exit == 2
    return caught.value


def test_without_files_everything_has_its_default(workspace: Path) -> None:
    settings = config.load(str(workspace))
    assert settings == config.load()
    assert set(settings) == set(config.SETTINGS)
    expected = {
        "agent": "",
        "permissions.mode": "approve-reads",
        "permissions.timeout": None,
        "session.idle_after": 900.0,
        "session.queue_cap": 10,
        "session.input_bytes": 64 << 10,
        "session.history_budget": 60_000,
        "timeouts.initialize": 60.0,
        "timeouts.new": 60.0,
        "timeouts.load": 120.0,
    }
    assert {key: settings[key] for key in expected} == expected


def test_every_setting_has_a_meaning_and_a_default_that_fits() -> None:
    for name, setting in config.SETTINGS.items():
        assert setting.meaning, name
        setting.read(setting.default)


def test_the_workspace_wins_over_the_home(private_home: Path, workspace: Path) -> None:
    trusted = f'trusted_workspaces = ["{workspace}"]\n'
    write_home(private_home, trusted + 'agent = "codex"\n[timeouts]\nload = "1s"\nnew = 7\n')
    write_workspace(workspace, '[timeouts]\nload = "2m"\n')
    settings = config.load(str(workspace))
    assert (settings["agent"], settings["timeouts.load"], settings["timeouts.new"]) == ("codex", 120.0, 7.0)
    assert config.load()["timeouts.load"] == 1.0
    assert config.load(str(workspace / "nowhere"))["timeouts.load"] == 1.0


def test_dotted_keys_and_tables_are_the_same(private_home: Path) -> None:
    write_home(private_home, "session.queue_cap = 3\n")
    assert config.load()["session.queue_cap"] == 3
    write_home(private_home, "[session]\nqueue_cap = 3\n")
    assert config.load()["session.queue_cap"] == 3


@pytest.mark.parametrize(
    ("toml", "key", "hint"),
    [
        ('agnet = "codex"', "agnet", "did you mean agent?"),
        ("[timeouts]\nlod = 1", "timeouts.lod", "did you mean timeouts.load?"),
        ("[sesion]\nqueue_cap = 1", "sesion.queue_cap", "did you mean session.queue_cap?"),
        ("[permissions]\nmodes = 1", "permissions.modes", "did you mean permissions.mode?"),
    ],
)
def test_an_unknown_key_is_named_with_what_was_meant(
    private_home: Path, toml: str, key: str, hint: str
) -> None:
    error = problem(private_home, toml)
    assert f"unknown key '{key}'" in error.message
    assert error.hint == hint


def test_a_key_like_no_other_gets_the_whole_list(private_home: Path) -> None:
    hint = problem(private_home, "zzzzzzzz = 1").hint
    assert all(name in hint for name in ("agent", "timeouts.load", "session.queue_cap"))


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("agent = 5", "agent: 5 is not a string"),
        ("agent = []", "agent: [] is not a string"),
        ("[session]\nqueue_cap = 1.5", "session.queue_cap: 1.5 is not a whole number"),
        ("[session]\nqueue_cap = true", "session.queue_cap: True is not a whole number"),
        ("[session]\nqueue_cap = -1", "session.queue_cap: -1 is not a whole number"),
        ('[session]\nqueue_cap = "3"', "is not a whole number"),
        ('[timeouts]\nload = "soon"', "timeouts.load: 'soon' is not a time span"),
        ("[timeouts]\nload = -1", "timeouts.load: -1 is not a time span"),
        ("[timeouts]\nload = true", "timeouts.load: True is not a time span"),
        ("[timeouts]\nload = []", "timeouts.load: [] is not a time span"),
        ("[timeouts]\nload = nan", "is not a time span"),
        ("[timeouts]\nload = 2026-01-01", "is not a time span"),
        ('[permissions]\nmode = "approve"', "'approve' is not one of deny-all, approve-reads, approve-all"),
        ("[permissions]\nmode = []", "is not one of deny-all"),
        ("timeouts = 5", "unknown key 'timeouts'"),
        ("agent = { name = 1 }", "unknown key 'agent.name'"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(private_home: Path, toml: str, words: str) -> None:
    assert words in problem(private_home, toml).message


@pytest.mark.parametrize("toml", ["agent = ", "[timeouts", "agent = 'a'\nagent = 'b'", "\x00"])
def test_what_is_not_toml_is_refused(private_home: Path, toml: str) -> None:
    problem(private_home, toml)


def test_bytes_that_are_not_text_are_refused(private_home: Path) -> None:
    write_home(private_home, "").write_bytes(b"agent = '\xff'")
    with pytest.raises(ConfigInvalid):
        config.load()


def test_a_directory_in_place_of_the_file_is_refused(private_home: Path) -> None:
    (private_home / "config.toml").mkdir(parents=True)
    with pytest.raises(ConfigInvalid):
        config.load()


def test_a_fault_in_the_workspace_names_its_file(private_home: Path, workspace: Path) -> None:
    write_home(private_home, f'agent = "codex"\ntrusted_workspaces = ["{workspace}"]')
    path = write_workspace(workspace, "agent = 5")
    with pytest.raises(ConfigInvalid) as caught:
        config.load(str(workspace))
    assert str(path) in caught.value.message


def test_a_session_is_not_started_on_settings_that_are_wrong(private_home: Path, agh: Agh) -> None:
    write_home(private_home, "[timeouts]\nlod = 1\n")
    result = agh("session", "new", "--agent", "echo", code=2)
    assert result.stderr.splitlines()[-1] == "hint: did you mean timeouts.load?"
    assert list(private_home.glob("sessions/*")) == []
    assert agh("session", "list").returncode == 0, "reading needs no settings"
