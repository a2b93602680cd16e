"""The register of workspaces: names and ids for directories."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from agh.errors import ConfigInvalid, Usage, WorkspaceNameTaken, WorkspaceNotFound
from agh.store import workspaces
from agh.store.workspaces import Workspace, add, find, find_existing, read_registered, remove
from tests.support.files import tree
from tests.support.program import Agh


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "src" / "shop"
    folder.mkdir(parents=True)
    return folder


def test_a_directory_gets_an_id_and_its_own_name(private_home: Path, shop: Path) -> None:
    assert read_registered() == []
    workspace, is_new = add(str(shop), None)
    assert is_new
    assert (workspace.path, workspace.name) == (str(shop), "shop")
    assert re.fullmatch("ws-[0-9a-z]{13}", str(workspace.id))
    assert read_registered() == [workspace]
    text = (private_home / "workspaces.toml").read_text()
    assert text == f'[[workspaces]]\nid = "{workspace.id}"\nname = "shop"\npath = "{shop}"\n'
    assert (private_home / "workspaces.toml").stat().st_mode & 0o777 == 0o600


def test_however_it_is_meant(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, _ = add(str(shop), "store")
    link = shop.parent / "link"
    link.symlink_to(shop)
    monkeypatch.chdir(shop)
    for reference in ("store", str(workspace.id), str(shop), f"{shop}/", str(link), ".", "../shop", None):
        assert find(reference) == workspace
    monkeypatch.chdir(shop.parent)
    (shop.parent / "store").mkdir()
    assert find("store") == workspace, "a registered name wins"
    assert find("./store") == Workspace(str(shop.parent / "store"))
    monkeypatch.setenv("HOME", str(shop.parent))
    assert find("~/shop") == workspace


def test_what_is_not_there(shop: Path) -> None:
    add(str(shop), None)
    with pytest.raises(WorkspaceNotFound) as caught:
        find_existing("shoop")
    assert (caught.value.exit, caught.value.hint) == (4, "did you mean shop?")
    with pytest.raises(WorkspaceNotFound):
        add(str(shop / "none"), None)
    shop.rmdir()
    assert find_existing("shop").path == str(shop), "one that is registered is known, also when it is gone"


def test_again_is_the_same_and_another_name_renames(shop: Path) -> None:
    workspace, _ = add(str(shop), None)
    assert add(str(shop), None) == (workspace, False)
    renamed, is_new = add(str(shop), "store")
    assert is_new
    assert renamed == workspace._replace(name="store")
    assert read_registered() == [renamed]
    assert add(str(shop), None) == (renamed, False), "a name once given stays"


def test_a_name_belongs_to_one(private_home: Path, shop: Path) -> None:
    workspace, _ = add(str(shop), None)
    other = shop.parent / "other"
    other.mkdir()
    before = tree(private_home)
    for name, error in (
        ("shop", WorkspaceNameTaken),
        ("ws-x", Usage),
        ("a/b", Usage),
        ("-x", Usage),
        (".", Usage),
    ):
        with pytest.raises(error):
            add(str(other), name)
    assert str(workspace.id).startswith("ws-")
    assert tree(private_home) == before


def test_removing_touches_nothing_else(shop: Path) -> None:
    (shop / "file").write_text("x")
    workspace, _ = add(str(shop), None)
    before = tree(shop)
    assert remove("shop") == workspace
    assert (read_registered(), tree(shop)) == ([], before)
    with pytest.raises(WorkspaceNotFound):
        remove("shop")
    with pytest.raises(WorkspaceNotFound):
        remove(str(shop))


@pytest.mark.parametrize(
    "text", ["[[workspaces]]\nid = 'x'\n", "workspaces = 5\n", "[[workspaces", "workspaces=['x']"]
)
def test_a_file_that_is_wrong_is_named(private_home: Path, text: str, shop: Path) -> None:
    private_home.mkdir(mode=0o700)
    (private_home / "workspaces.toml").write_text(text)
    for act in (read_registered, lambda: find("x"), lambda: add(str(shop), None)):
        with pytest.raises(ConfigInvalid) as caught:
            act()
        assert str(private_home / "workspaces.toml") in caught.value.message
    assert (private_home / "workspaces.toml").read_text() == text


def test_odd_names_survive(tmp_path: Path) -> None:
    odd = tmp_path / 'a "b" \\ c ☃'
    odd.mkdir()
    workspace, _ = add(str(odd), None)
    assert read_registered() == [workspace]
    assert workspaces.find(str(workspace.name)).path == str(odd)


def test_many_at_once_are_all_kept(tmp_path: Path, agh: Agh) -> None:
    folders = [tmp_path / f"w{number}" for number in range(8)]
    for folder in folders:
        folder.mkdir()
    racers = [agh.start("workspace", "add", folder, stdout=-3) for folder in folders]
    assert [racer.wait(30) for racer in racers] == [0] * 8
    assert [one.path for one in read_registered()] == [str(folder) for folder in folders]
    assert len({one.id for one in read_registered()}) == 8
    assert not [name for name in os.listdir(os.environ["AGH_HOME"]) if name.startswith(".workspaces")]
