"""agh as a user has it: the wheel in an environment of its own, with the packages it needs and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agh import __version__
from tests.install.packages import (
    ROOT,
    Environment,
    build,
    serve_index,
    write_plugin,
    write_stranger,
)


@pytest.mark.slow
def test_the_wheel_alone(installed: Environment) -> None:
    assert installed.agh("--version").stdout == f"agh {__version__}\n"
    assert installed.agh("run", "--agent", "echo", "-o", "text", "/say hi there").stdout == "hi there\n"
    rows = json.loads(installed.agh("plugins", "list", "-o", "json").stdout)["plugins"]
    assert {row["name"] for row in rows} == {"acp", "council", "echo", "importers", "places", "serve"}
    assert {row["distribution"] for row in rows} == {f"agh_cli-{__version__}"}
    assert [row["error"] for row in rows if row["error"]] == []
    assert installed.agh("council", "--help").stdout
    assert installed.agh("session", "import", "--from", "codex", code=None).returncode == 4
    assert "No broken requirements" in installed.pip("check").stdout


def test_the_manual_and_the_completions_come_along(installed: Environment) -> None:
    for shell, file in (("bash", "agh.bash"), ("zsh", "_agh"), ("fish", "agh.fish")):
        assert installed.agh("completion", shell).stdout == (ROOT / "completions" / file).read_text()
    no_man = {"PATH": str(installed.bin)}
    assert "agh-session-prompt - " in installed.agh("man", "session", "prompt", env=no_man).stdout
    assert (installed.path / "share/man/man1/agh.1").exists()
    assert "prompt\t" in installed.agh("__complete", "session", "pro").stdout


def test_a_missing_extra_is_one_line_away(installed: Environment) -> None:
    result = installed.agh("serve", "--port", "0", code=9)
    message, hint = result.stderr.splitlines()
    assert (
        message
        == "agh: agh serve needs packages that are not installed: httptools, starlette, uvicorn, websockets"
    )
    assert hint == f"hint: {installed.bin / 'python'} -m pip install 'agh-cli[serve]'"
    assert not (Path(installed.variables["AGH_HOME"]) / "token").exists()


@pytest.mark.slow
def test_a_stranger_with_our_name_stays_out(environment: Environment, wheel: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    write_stranger(index)
    (index / wheel.name).symlink_to(wheel)
    build(write_plugin(tmp_path / "plugin"), index, "wheel")
    with serve_index(index) as url:
        source = {"PIP_INDEX_URL": url}
        environment.pip("install", "-q", "agh", env=source)
        assert environment.agh().stdout == "I am a stranger\n", "the index has the stranger"
        environment.pip("uninstall", "-q", "-y", "agh")
        for line in (["agh-hello"], ["agh-cli"], ["-U", "agh-cli", "agh-hello"]):
            environment.pip("install", "-q", *line, env=source)
            assert environment.agh("--version").stdout == f"agh {__version__}\n"
            assert environment.agh("hello").stdout == "hello\n"
    names = {path.name.partition("-")[0] for path in environment.site.glob("*.dist-info")}
    assert {"agh_cli", "agh_hello"} <= names
    assert "agh" not in names
    assert "No broken requirements" in environment.pip("check").stdout


def test_a_plugin_is_installed_beside_agh(own: Environment, tmp_path: Path) -> None:
    write_plugin(tmp_path / "plugin")
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}  # pip reads the latter as "no isolation"
    result = own.agh("plugins", "install", tmp_path / "plugin", "-o", "json", env=offline)
    (row,) = json.loads(result.stdout)["plugins"]
    assert (row["name"], row["error"]) == ("hello", None)
    assert result.stderr.startswith(f"+ {own.bin / 'python'} -m pip install --constraint ")
    assert own.agh("hello").stdout == "hello\n"
    build(tmp_path / "plugin", tmp_path, "wheel")
    (packed,) = tmp_path.glob("*.whl")
    again = own.agh("plugins", "install", packed, env=offline)
    assert again.stdout.split() == [
        "PLUGIN",
        "FROM",
        "OFFERS",
        "hello",
        "agh_hello-1",
        *again.stdout.split()[5:],
    ]


def test_a_plugin_that_wants_the_stranger_is_refused(own: Environment, tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    write_stranger(index)
    build(write_plugin(tmp_path / "plugin", requirement="agh"), index, "wheel")
    with serve_index(index) as url:
        result = own.agh("plugins", "install", "agh-hello", env={"PIP_INDEX_URL": url}, code=9)
    assert "agh: agh-hello was not installed: " in result.stderr
    assert own.agh("--version").stdout == f"agh {__version__}\n"


def test_a_package_without_a_plugin_is_named(own: Environment, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "plugin")
    text = (folder / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text(
        text.replace("[project.entry-points.agh]", "[project.entry-points.x]")
    )
    build(folder, tmp_path, "wheel")
    (packed,) = tmp_path.glob("*.whl")
    result = own.agh("plugins", "install", packed, env={"PIP_NO_INDEX": "1"}, code=9)
    assert "no entry point in the group agh" in result.stderr


def test_a_plugin_of_ours_installed_again_is_not_loaded_twice(own: Environment) -> None:
    arguments = ["--no-index", "--no-deps", "--no-build-isolation", ROOT / "plugins/agh-echo"]
    own.pip("install", "-q", *arguments)
    result = own.agh("plugins", "list", "-o", "json")
    rows = {row["name"]: row for row in json.loads(result.stdout)["plugins"]}
    assert rows["echo"]["distribution"] == f"agh_cli-{__version__}"
    both = "agh_cli-0.1.0 and agh_echo-0.1.0 both provide the plugin echo"
    assert result.stderr == f"agh: {both}; agh uses the first\n"
    assert own.agh("run", "--agent", "echo", "-o", "text", "/say hi").stdout == "hi\n"
