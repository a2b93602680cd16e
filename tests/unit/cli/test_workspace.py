"""`agh workspace`, and `--workspace` wherever it is taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import Home
from tests.support.program import in_process


def workspace(*args: object, code: int = 0) -> Any:
    result = in_process("workspace", *map(str, args), "-o", "json")
    assert result.returncode == code, (result.stdout, result.stderr)
    return json.loads(result.stdout or result.stderr)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    return folder


def test_add_list_show_remove(home: Home, shop: Path) -> None:
    added = workspace("add", shop)["workspace"]
    assert (added["name"], added["path"]) == ("shop", str(shop))
    home.session(workspace_path=str(shop), workspace_id=added["id"])
    home.session(workspace_path=str(shop), workspace_id=None)
    home.session(workspace_path=str(shop / "sub"), workspace_id=None)
    (listed,) = workspace("list")["workspaces"]
    assert (listed["sessions"], listed["live"], listed["exists"]) == (2, 0, True)
    for reference in ("shop", added["id"], shop):
        assert workspace("show", reference)["workspace"] == listed
    assert in_process("workspace", "list").stdout.split()[:5] == ["NAME", "ID", "SESSIONS", "PATH", "shop"]
    assert workspace("remove", "shop")["workspace"] == added
    assert workspace("list") == {"workspaces": []}
    assert len(list((home.path / "sessions").iterdir())) == 3
    view = workspace("show", shop)["workspace"]
    assert (view["id"], view["name"], view["sessions"]) == (None, None, 2), "every directory is a workspace"


def test_errors_have_their_own_codes(shop: Path, tmp_path: Path) -> None:
    workspace("add", shop)
    (tmp_path / "other").mkdir()
    assert (
        workspace("add", tmp_path / "other", "--name", "shop", code=6)["error"]["code"]
        == "workspace_name_taken"
    )
    assert workspace("add", tmp_path / "none", code=4)["error"]["code"] == "workspace_not_found"
    assert workspace("remove", "shpo", code=4)["error"]["hint"] == "did you mean shop?"
    assert workspace("add", shop, "--name", "../x", code=2)["error"]["code"] == "usage"


def test_a_list_of_the_sessions_of_a_workspace(home: Home, shop: Path, tmp_path: Path) -> None:
    added = workspace("add", shop, "--name", "store")["workspace"]
    inside = home.session(workspace_path=str(shop)).name
    home.session(workspace_path=str(tmp_path))
    for reference in ("store", added["id"], str(shop)):
        result = in_process("session", "list", "--all", "--workspace", reference, "-o", "json")
        assert [session["id"] for session in json.loads(result.stdout)["sessions"]] == [inside]
    result = in_process("session", "list", "--all", "--workspace", "stroe")
    assert (result.returncode, result.stderr.splitlines()[-1]) == (4, "hint: did you mean store?")
    result = in_process("session", "resume", "--latest", "--workspace", "stroe")
    assert result.returncode == 4


def test_the_agents_and_settings_of_a_workspace_by_its_name(private_home: Path, shop: Path) -> None:
    workspace("add", shop)
    (private_home / "config.toml").write_text(f'trusted_workspaces = ["{shop}"]\n')
    (shop / ".agh" / "agents").mkdir(parents=True)
    (shop / ".agh" / "agents" / "ours.toml").write_text('argv = ["ours"]\n')
    assert in_process("agent", "show", "ours", "--workspace", "shop").returncode == 0
    assert in_process("agent", "show", "ours", "--workspace", "/").returncode == 4
    in_process("config", "set", "agent", "ours", "--workspace", "shop")
    assert (shop / ".agh" / "config.toml").read_text() == 'agent = "ours"\n'
