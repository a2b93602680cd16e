"""`agh config`: what is set, from where, and changing it."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from agh import config as table
from tests.support.files import tree
from tests.support.program import Agh, in_process


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def config(*args: str, code: int = 0) -> Any:
    result = in_process("config", *args, "-o", "json")
    assert result.returncode == code, (result.stdout, result.stderr)
    return json.loads(result.stdout or result.stderr)


def value(key: str, *args: str) -> Any:
    return config("get", key, *args)["setting"]["value"]


def trust(home: Path, workspace: Path) -> None:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.toml").write_text(f'trusted_workspaces = ["{workspace}"]\n')


def refused(*args: str) -> dict[str, str]:
    error: dict[str, str] = config(*args, code=2)["error"]
    return error


def test_show_has_every_setting_and_where_it_comes_from(private_home: Path, work: Path) -> None:
    before = tree(work)
    settings = {setting["key"]: setting for setting in config("show")["settings"]}
    assert set(settings) == set(table.SETTINGS)
    assert {value["source"] for value in settings.values()} == {"default"}
    assert not private_home.exists() and tree(work) == before, "reading makes nothing"
    trust(private_home, work)
    config("set", "session.idle_after", "1h")
    config("set", "agent", "codex")
    config("set", "agent", "claude", "--workspace", ".")
    settings = {setting["key"]: setting for setting in config("show")["settings"]}
    assert settings["session.idle_after"] | {"default": 0, "meaning": 0} == {
        "key": "session.idle_after",
        "value": "1h",
        "source": str(private_home / "config.toml"),
        "default": 0,
        "meaning": 0,
    }
    assert (settings["agent"]["value"], settings["agent"]["source"]) == (
        "claude",
        str(work / ".agh" / "config.toml"),
    )
    assert value("agent", "--workspace", "/") == "codex"


def test_show_a_part_for_people(work: Path) -> None:
    result = in_process("config", "show", "permissions")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["KEY", "VALUE", "FROM", "MEANING"]
    assert [line.split()[0] for line in lines[1:]] == [
        "permissions.mode",
        "permissions.rules",
        "permissions.timeout",
    ]
    assert in_process("config", "get", "permissions.mode").stdout == "approve-reads\n"
    assert refused("show", "permision")["hint"] == "did you mean permissions.mode?"


def test_set_keeps_the_rest_of_the_file(private_home: Path, work: Path) -> None:
    private_home.mkdir(mode=0o700)
    path = private_home / "config.toml"
    path.write_text("# mine\n[session]\nqueue_cap = 3  # three\n")
    path.chmod(0o640)
    config("set", "session.queue_cap", "7")
    config("set", "session.limits.max_cost", "2.5")
    config("set", "permissions.timeout", "90")
    assert path.read_text() == (
        "# mine\n[session]\nqueue_cap = 7  # three\n\n[session.limits]\nmax_cost = 2.5\n\n"
        "[permissions]\ntimeout = 90\n"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    config("set", "session.queue_cap", "--unset")
    assert "queue_cap" not in path.read_text()
    assert value("session.queue_cap") == 10
    assert not [path for path in private_home.iterdir() if path.name.startswith(".config")]


def test_a_value_is_written_as_its_setting_wants_it(work: Path) -> None:
    for key, given, kept in (
        ("agent", "5", "5"),
        ("agent", 'a "b"', 'a "b"'),
        ("session.queue_cap", "5", 5),
        ("session.limits.max_cost", "5", 5),
        ("session.limits.max_cost", "0.5", 0.5),
        ("session.idle_after", "5m", "5m"),
        ("session.idle_after", "300", 300),
        ("session.limits.on_usage_limit", "park", "park"),
        ("session.limits.max_windows", "12", 12),
        ("session.limits.jitter", "0", 0),
        ("session.limits.continue_with", "7", "7"),
        ("env.file", "~/keys", "~/keys"),
        ("notify.bell", "true", True),
        ("notify.osc", "777", 777),
        ("notify.ntfy", "https://ntfy.sh/agh", "https://ntfy.sh/agh"),
        ("notify.ntfy_token", "true", "true"),
        ("notify.command", "wall", "wall"),
        ("notify.command", '["wall", "-n"]', ["wall", "-n"]),
        ("notify.apprise", '["json://localhost"]', ["json://localhost"]),
        ("notify.events", "failed,limited", ["failed", "limited"]),
        ("notify.grace", "5s", "5s"),
        ("notify.timeout", "3", 3),
    ):
        config("set", key, given)
        assert value(key) == kept


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("agnet", "x"), "there is no setting 'agnet'"),
        (("session.queue_cap", "many"), "is not a whole number"),
        (("session.queue_cap", "1.5"), "1.5 is not a whole number"),
        (("session.limits.max_cost", "nan"), "is not a number (0 or greater)"),
        (("permissions.mode", "yes"), "is not one of"),
        (("session.idle_after", "soon"), "is not a time span"),
        (("permissions.rules", "[]"), "is not a single value"),
        (("session.limits.on_usage_limit", "wait"), "fail"),
        (("session.limits.max_windows", "few"), "is not a whole number"),
        (("session.limits.jitter", "often"), "is not a time span"),
        (("env.file", "keys"), "is not an absolute path"),
        (("notify", "x"), "is not a single value"),
        (("notify.bel", "true"), "there is no setting 'notify.bel'"),
        (("notify.bell", "yes"), "neither true nor false"),
        (("notify.osc", "8"), "is not one of 9, 777, 99"),
        (("notify.ntfy", "my-topic"), "must be a URL"),
        (("notify.webhook", "file:///etc/passwd"), "must be a URL"),
        (("notify.command", ""), "a shell command"),
        (("notify.apprise", "nonsense"), "not an Apprise URL"),
        (("notify.events", "failed,limted"), "must be a list of"),
        (("notify.turn_end_after", "long"), "is not a time span"),
        (("notify.bell", "true", "--workspace", "."), "can only be set in your own"),
        (("env.file", "/keys", "--workspace", "."), "can only be set in your own"),
        (("agent",), "give a value"),
        (("agent", "x", "--unset"), "give a value"),
    ],
)
def test_bad_input_changes_nothing(private_home: Path, work: Path, args: tuple[str, ...], words: str) -> None:
    assert words in refused("set", *args)["message"]
    assert not (private_home / "config.toml").exists()


def test_a_file_with_a_fault_is_not_changed(private_home: Path, work: Path) -> None:
    private_home.mkdir(mode=0o700)
    path = private_home / "config.toml"
    for text, words in (
        ("agnet = 1\n", "unknown key"),
        ("agent = ", ""),
    ):
        path.write_text(text)
        error = refused("set", "session.queue_cap", "2")
        assert words in error["message"] + error["hint"]
        assert path.read_text() == text


def test_a_value_is_changed_however_it_is_written(private_home: Path, work: Path) -> None:
    private_home.mkdir(mode=0o700)
    path = private_home / "config.toml"
    path.write_text("session = {queue_cap = 1} # mine\n")
    config("set", "session.queue_cap", "2")
    assert path.read_text() == "session = {queue_cap = 2} # mine\n"


def test_the_same_value_again_writes_nothing(private_home: Path, work: Path) -> None:
    config("set", "agent", "codex")
    before = tree(private_home)
    config("set", "agent", "codex")
    config("set", "session.queue_cap", "--unset")
    assert tree(private_home) == before


def test_a_workspaces_file_is_for_everyone_who_has_the_workspace(private_home: Path, work: Path) -> None:
    trust(private_home, work)
    config("set", "permissions.mode", "deny-all", "--workspace", ".")
    path = work / ".agh" / "config.toml"
    assert path.read_text() == '[permissions]\nmode = "deny-all"\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert config("path", "--workspace", ".")["path"] == {"path": str(path), "exists": True}
    result = in_process("config", "set", "permissions.mode", "approve-all")
    assert f"{path} also sets permissions.mode" in result.stderr, "it has no effect here, and that is told"


def test_path(private_home: Path, work: Path) -> None:
    assert in_process("config", "path").stdout == f"{private_home / 'config.toml'}\n"
    assert config("path")["path"]["exists"] is False


def test_validate_tells_everything_that_is_wrong(private_home: Path, work: Path) -> None:
    files = config("validate")["files"]
    assert [(file["ok"], file["exists"]) for file in files] == [(True, False)] * 2
    private_home.mkdir(mode=0o700)
    (private_home / "config.toml").write_text('agent = "a"\nagnet = "b"\n[timeouts]\nload = "soon"\n')
    found, other = config("validate", code=2)["files"]
    assert (found["settings"], other["ok"]) == (1, True)
    assert [one["message"].split(":")[0] for one in found["problems"]] == [
        "unknown key 'agnet'",
        "timeouts.load",
    ]
    assert found["problems"][0]["hint"] == "did you mean agent?"
    result = in_process("config", "validate")
    assert (result.returncode, result.stdout.count("FAIL"), result.stderr) == (2, 2, "")


def test_show_hides_the_secrets_of_notifiers_and_get_prints_them(work: Path, agh: Agh) -> None:
    url = "tgram://sk-secret/chat"
    config("set", "notify.apprise", url)
    config("set", "notify.ntfy_token", "sk-secret")
    for output in ("human", "json"):
        assert "sk-secret" not in agh("config", "show", "-o", output).stdout
    assert agh("config", "get", "notify.apprise").stdout == f"{url}\n"


def test_validate_looks_at_the_file_with_keys(private_home: Path, work: Path, agh: Agh) -> None:
    keys = work / "keys"
    keys.write_text("KEY=1\n")
    keys.chmod(0o644)
    config("set", "env.file", str(keys))
    for command in (("config", "validate"), ("doctor",)):
        result = agh(*command, code=None)
        assert result.returncode in (2, 8)
        assert f"chmod 600 {keys}" in result.stdout
    keys.chmod(0o600)
    agh("config", "validate")


def test_many_changes_at_once_are_all_kept(private_home: Path, work: Path, agh: Agh) -> None:
    keys = [f"session.supervision.{name}" for name in ("heartbeat", "inactivity_timeout", "prompt_deadline")]
    keys += ["timeouts.new", "timeouts.load", "timeouts.initialize"]
    racers = [agh.start("config", "set", key, f"{number}s") for number, key in enumerate(keys, 1)]
    assert [racer.wait(30) for racer in racers] == [0] * len(keys)
    assert [value(key) for key in keys] == [f"{number}s" for number in range(1, len(keys) + 1)]
