"""`agh agent search`, `install`, `update` and `uninstall`, with a registry on loopback."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.files import tree
from tests.support.live import Live
from tests.support.output import error_of
from tests.unit.catalog.loopback import SCRIPT, Shop, binary, entry, fake_tools, serving, tar


@pytest.fixture
def shop(live: Live) -> Iterator[Shop]:
    with serving() as shop:
        live.home.mkdir(mode=0o700, exist_ok=True)
        (live.home / "config.toml").write_text(f'catalog.url = "{shop.url}/registry.json"\n')
        shop.registry(entry("mine"))
        yield shop


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An npm and a uv that only note what they are asked."""
    monkeypatch.setenv("PATH", fake_tools(tmp_path / "bin")["PATH"])
    return tmp_path / "bin"


def read(live: Live, *args: object) -> Any:
    (value,) = json.loads(live.agh(*args, "-o", "json").stdout).values()
    return value


def refused(live: Live, *args: object, code: str, exit: int) -> dict[str, Any]:
    done = live.agh(*args, "-o", "json", code=exit)
    done.stderr = done.stderr.splitlines()[-1]  # remarks come first
    return error_of(done, code, exit)


def pinned(live: Live, name: str) -> dict[str, Any]:
    return tomllib.loads((live.home / "agents" / f"{name}.toml").read_text())


# search


def test_search_lists_what_matches_all_words(live: Live, shop: Shop, tools: Path) -> None:
    assert [row["name"] for row in read(live, "agent", "search", "google", "gemini")] == ["gemini"]
    (row,) = read(live, "agent", "search", "claude")
    assert (row["name"], row["id"], row["via"]) == ("claude", "claude-acp", ["npx"])
    head, *rows = live.agh("agent", "search").stdout.splitlines()
    assert head.split() == ["AGENT", "VERSION", "INSTALLED", "VIA", "ABOUT"]
    assert any(line.startswith("mine ") for line in rows)
    assert not (tools / "calls").exists()


def test_nothing_found_is_said(live: Live, shop: Shop) -> None:
    done = live.agh("agent", "search", "zzz")
    assert (done.stdout, done.stderr) == ("", "no agent matches zzz\n")


def test_search_without_a_network(live: Live, shop: Shop) -> None:
    del shop.pages["/registry.json"]
    done = live.agh("agent", "search")
    assert "gemini" in done.stdout
    assert "could not be refreshed" in done.stderr
    refused(live, "agent", "search", "--refresh", code="download_failed", exit=1)
    count = len(shop.requests)
    assert "gemini" in live.agh("agent", "search", "--offline").stdout
    assert len(shop.requests) == count


def test_text_of_the_registry_is_harmless_on_a_terminal(live: Live, shop: Shop) -> None:
    shop.registry({**entry("mine"), "description": "a \x1b]0;title\x07 trick", "name": "M\x1b[2J"})
    shown = live.agh("agent", "search", "mine").stdout
    assert "\x1b" not in shown
    assert "trick" in shown


# install


def test_install_pins_a_version_and_sessions_run_it(live: Live, shop: Shop, tools: Path) -> None:
    fake_tools(tools, script=f'#!/bin/sh\necho "$@" > {tools}/args\nexec {sys.executable} -P -m agh_echo\n')
    plan = read(live, "agent", "install", "mine")
    assert (plan["name"], plan["version"], plan["via"], plan["installed"]) == ("mine", "1.0.0", "npx", True)
    folder = live.home / "agents" / "bin" / "mine" / "1.0.0"
    (call,) = (tools / "calls").read_text().splitlines()
    assert call.startswith(f"npm install --prefix {folder} ")
    assert call.endswith(" mine-acp@1.0.0")
    program = str(folder / "node_modules" / ".bin" / "mine-acp")
    pin = {"via": "npx", "package": "mine-acp@1.0.0", "version": "1.0.0", "id": "mine", "path": program}
    assert pinned(live, "mine") == {"title": "Mine", "argv": ["mine-acp", "--acp"], "pin": pin}
    rows = {row["name"]: row for row in read(live, "agent", "list")}
    assert (rows["mine"]["state"], rows["mine"]["version"]) == ("installed", "1.0.0")
    assert read(live, "agent", "search", "mine")[0]["installed_version"] == "1.0.0"
    session = live.agh("session", "new", "--agent", "mine").stdout.strip()
    meta = json.loads((live.home / "sessions" / session / "meta.json").read_text())
    assert meta["agent_pin"] == pin
    assert meta["agent_version"]
    assert (tools / "args").read_text() == "--acp\n"
    live.agh("session", "stop", session)


def test_two_commands_install_it_once(live: Live, shop: Shop, tools: Path) -> None:
    live.agh("agent", "search")
    both = [live.start("agent", "install", "mine") for _ in range(2)]
    for process in both:
        process.communicate(timeout=60)
    assert [process.returncode for process in both] == [0, 0]
    assert len((tools / "calls").read_text().splitlines()) == 1


def test_a_python_package_too(live: Live, shop: Shop, tools: Path) -> None:
    shop.registry(entry("mine", uvx={"package": "mine-agent==3.1", "args": ["acp"]}))
    folder = live.home / "agents" / "bin" / "mine" / "3.1"
    assert read(live, "agent", "install", "mine")["command"] == [f"{folder}/bin/mine-agent", "acp"]
    assert (tools / "calls").read_text() == "uv tool install --quiet mine-agent==3.1\n"


def test_an_installed_version_is_left_alone(live: Live, shop: Shop, tools: Path) -> None:
    for _ in range(2):
        live.agh("agent", "install", "mine")
    assert len((tools / "calls").read_text().splitlines()) == 1
    (live.home / "agents" / "bin" / "mine" / "1.0.0" / "node_modules" / ".bin" / "mine-acp").unlink()
    assert {row["name"]: row["state"] for row in read(live, "agent", "list")}["mine"] == "not installed"
    live.agh("agent", "install", "mine")
    assert {row["name"]: row["state"] for row in read(live, "agent", "list")}["mine"] == "installed"


def test_install_of_a_built_in_agent_keeps_what_agh_knows_of_it(live: Live, shop: Shop, tools: Path) -> None:
    (tools / "claude-agent-acp").write_text("#!/bin/sh\n")
    (tools / "claude-agent-acp").chmod(0o755)
    read(live, "agent", "install", "claude@0.98.0")
    assert pinned(live, "claude")["extends"] == "claude"
    row = read(live, "agent", "show", "claude")
    folder = live.home / "agents" / "bin" / "claude" / "0.98.0"
    assert row["command"] == [f"{folder}/node_modules/.bin/claude-agent-acp"], "not what is on PATH"
    assert row["pin"]["package"] == "@agentclientprotocol/claude-agent-acp@0.98.0"
    assert row["drop_env"] == ["CLAUDECODE"]
    assert row["version"] == "0.98.0"


@pytest.mark.parametrize(
    ("programs", "name"),
    [
        ({"other": "b.js", "mine-acp": "a.js"}, "mine-acp"),
        ({"one": "a.js", "alias": "a.js"}, "one"),
        ("a.js", "mine-acp"),
    ],
    ids=["its own name", "another name", "unnamed"],
)
def test_the_program_of_a_package(live: Live, shop: Shop, tools: Path, programs: Any, name: str) -> None:
    fake_tools(tools, programs=programs)
    assert os.path.basename(read(live, "agent", "install", "mine")["command"][0]) == name


def test_a_package_without_a_program(live: Live, shop: Shop, tools: Path) -> None:
    shop.registry(entry("mine", uvx={"package": "mine==1.0", "cmd": "missing"}))
    assert "missing" in refused(live, "agent", "install", "mine", code="install_failed", exit=1)["message"]
    assert not (live.home / "agents" / "bin" / "mine" / "1.0").exists()


def test_a_dry_run_does_nothing(live: Live, shop: Shop, tools: Path) -> None:
    shown = live.agh("agent", "install", "mine", "--dry-run").stdout
    assert "mine-acp@1.0.0 from npm" in shown
    assert "/mine/1.0.0/node_modules/.bin/mine-acp --acp" in shown
    assert not (tools / "calls").exists()
    assert not (live.home / "agents").exists()


def test_a_package_that_npm_does_not_have(live: Live, shop: Shop, tmp_path: Path) -> None:
    env = fake_tools(
        tmp_path / "bad", 1, "npm error code ETARGET\nnpm error notarget No matching version found"
    )
    done = live.agh("agent", "install", "mine", "-o", "json", code=1, env=env)
    error = json.loads(done.stderr.splitlines()[-1])["error"]
    assert (error["code"], "No matching version found" in error["message"]) == ("install_failed", True)
    assert not (live.home / "agents" / "mine.toml").exists()


def test_an_archive_is_checked_unpacked_and_run(live: Live, shop: Shop) -> None:
    data = tar(("pkg/agent", SCRIPT))
    url = shop.put("/agent.tar.gz", data)
    shop.registry(entry("mine", binary=binary(url, data, "./pkg/agent", args=["acp"], env={"QUIET": "1"})))
    plan = read(live, "agent", "install", "mine")
    program = Path(plan["command"][0])
    assert program.is_relative_to(live.home / "agents" / "bin" / "mine")
    assert program.read_bytes() == SCRIPT
    assert plan["command"][1:] == ["acp"]
    assert pinned(live, "mine")["env"] == {"QUIET": "1"}
    assert {path.name for path in (live.home / "agents" / "bin" / "mine").iterdir()} == {
        program.parent.parent.name
    }
    shop.requests.clear()
    read(live, "agent", "install", "mine")
    assert "/agent.tar.gz" not in shop.requests, "it is there already"


@pytest.mark.parametrize(
    ("data", "served", "code"),
    [
        (tar(("agent", SCRIPT)), tar(("agent", b"evil")), "checksum_wrong"),
        (tar(("agent", SCRIPT)), None, "download_failed"),
        (tar(("agent", SCRIPT), ("../../out", b"x")), ..., "archive_refused"),
        (tar(("other", SCRIPT)), ..., "archive_refused"),
    ],
)
def test_a_bad_archive_leaves_nothing(live: Live, shop: Shop, data: bytes, served: Any, code: str) -> None:
    url = f"{shop.url}/agent.tgz"
    if served is not None:
        shop.put("/agent.tgz", data if served is ... else served)
    shop.registry(entry("mine", binary=binary(url, data)))
    refused(live, "agent", "install", "mine", code=code, exit=1)
    left = [path.name for path in (live.home / "agents").rglob("*") if path.is_file()]
    assert left == ["mine.lock"]
    assert not (live.home / "out").exists()


def test_a_file_of_the_user_s_own_is_never_replaced(live: Live, shop: Shop, tools: Path) -> None:
    folder = live.home / "agents"
    folder.mkdir()
    (folder / "mine.toml").write_text('argv = ["own"]\n')
    before = tree(folder)
    for args in (("install", "mine"), ("install", "mine", "--dry-run"), ("uninstall", "mine")):
        refused(live, "agent", *args, code="agent_defined", exit=6)
    assert tree(folder) == before
    assert not (tools / "calls").exists()


def test_what_the_user_added_stays(live: Live, shop: Shop, tools: Path) -> None:
    live.agh("agent", "install", "mine")
    path = live.home / "agents" / "mine.toml"
    path.write_text('# mine\npermissions = "deny-all"\n' + path.read_text() + '\n[env]\nTOKEN = "t"\n')
    shop.registry(
        entry("mine", "2.0.0", npx={"package": "mine-acp@2.0.0", "env": {"TOKEN": "x", "NEW": "y"}})
    )
    live.agh("agent", "search", "--refresh")
    live.agh("agent", "update")
    fields = pinned(live, "mine")
    assert fields["permissions"] == "deny-all"
    assert fields["env"] == {"TOKEN": "t", "NEW": "y"}
    assert fields["pin"]["version"] == "2.0.0"
    assert path.read_text().startswith("# mine\n")


@pytest.mark.parametrize(
    ("args", "code", "exit"),
    [
        (("install", "zzz"), "agent_unlisted", 4),
        (("install", "../etc"), "agent_unlisted", 4),
        (("install", "mine@la test"), "usage", 2),
        (("install", "mine", "--via", "uvx"), "agent_not_installable", 9),
        (("update", "mine"), "agent_not_pinned", 4),
        (("uninstall", "mine"), "agent_not_pinned", 4),
        (("uninstall", "../../etc"), "agent_not_pinned", 4),
    ],
)
def test_what_is_refused(live: Live, shop: Shop, tools: Path, args: Any, code: str, exit: int) -> None:
    assert refused(live, "agent", *args, code=code, exit=exit)["hint"]
    assert not (tools / "calls").exists()


# update, uninstall


def test_update_follows_the_list(live: Live, shop: Shop, tools: Path) -> None:
    shop.registry(entry("mine"), entry("exact"), entry("gone"))
    for name in ("mine", "exact@1.0.0", "gone"):
        live.agh("agent", "install", name)
    shop.registry(entry("mine", "2.0.0"), entry("exact", "2.0.0"))
    live.agh("agent", "search", "--refresh")
    rows = {row["name"]: row for row in read(live, "agent", "update")}
    assert {name: row["status"] for name, row in rows.items()} == {
        "mine": "updated",
        "exact": "skipped",
        "gone": "skipped",
    }
    assert "agh agent update exact" in rows["exact"]["reason"]
    assert pinned(live, "mine")["pin"]["version"] == "2.0.0"
    assert pinned(live, "exact")["pin"]["version"] == "1.0.0"
    assert [row["status"] for row in read(live, "agent", "update", "mine", "exact")] == ["current", "updated"]
    assert pinned(live, "exact")["pin"]["version"] == "2.0.0"


def test_a_failed_update_keeps_the_old_version(live: Live, shop: Shop, tools: Path, tmp_path: Path) -> None:
    live.agh("agent", "install", "mine")
    shop.registry(entry("mine", "2.0.0"))
    live.agh("agent", "search", "--refresh")
    env = fake_tools(tmp_path / "bad", 1, "npm error network")
    done = live.agh("agent", "update", code=1, env=env)
    assert "failed" in done.stdout
    assert "npm error network" in done.stderr
    assert pinned(live, "mine")["pin"]["version"] == "1.0.0"


def test_update_with_nothing_installed_says_so(live: Live, shop: Shop) -> None:
    assert "no agent has been installed with `agh agent install` yet" in live.agh("agent", "update").stderr


def test_uninstall_forgets_the_version(live: Live, shop: Shop) -> None:
    data = tar(("agent", SCRIPT))
    shop.registry(entry("mine", binary=binary(shop.put("/a.tgz", data), data)))
    live.agh("agent", "install", "mine")
    live.agh("agent", "uninstall", "mine")
    assert [path.name for path in (live.home / "agents").rglob("*") if path.is_file()] == ["mine.lock"]
    assert "mine" not in {row["name"] for row in read(live, "agent", "list")}


def test_tab_offers_what_can_be_installed(live: Live, shop: Shop) -> None:
    words = [
        line.split("\t")[0] for line in live.agh("__complete", "agent", "install", "g").stdout.splitlines()
    ]
    assert {"gemini", "goose", "grok-build"} <= set(words)
    assert shop.requests == []
