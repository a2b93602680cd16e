"""The wheel and the sdist: complete, with the same contents, and described as they are."""

from __future__ import annotations

import re
import tarfile
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

import pytest

from tests.install.packages import PLUGINS, ROOT, build

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGES = sorted(page.relative_to(ROOT / "man") for page in ROOT.glob("man/*/*"))
SCRIPTS = {
    "agh.bash": "share/bash-completion/completions/agh",
    "_agh": "share/zsh/site-functions/_agh",
    "agh.fish": "share/fish/vendor_completions.d/agh.fish",
}


def project(plugin: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((plugin / "pyproject.toml").read_text())["project"]
    return table


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def modules(folder: Path) -> set[str]:
    """The files of a package in the tree, as the wheel should have them."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder.parent)) for path in files}


def test_the_wheel_has_agh_and_every_plugin(wheel: Path) -> None:
    names = contents(wheel).keys()
    expected = modules(ROOT / "agh")
    for plugin in PLUGINS:
        expected |= modules(plugin / plugin.name.replace("-", "_"))
    assert expected <= names
    rest = {name for name in names - expected if ".dist-info/" not in name and ".data/" not in name}
    shipped = {f"agh/share/man/{page}" for page in PAGES} | {
        f"agh/share/completions/{name}" for name in SCRIPTS
    }
    assert rest == shipped
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_man_and_the_shells_find_their_files(wheel: Path) -> None:
    data = {
        name.partition(".data/data/")[2]: text for name, text in contents(wheel).items() if ".data/" in name
    }
    assert data.keys() == {f"share/man/{page}" for page in PAGES} | set(SCRIPTS.values())
    for script, place in SCRIPTS.items():
        assert data[place] == (ROOT / "completions" / script).read_bytes()


def test_nothing_else_is_there_twice(wheel: Path) -> None:
    files: dict[bytes, list[str]] = {}
    for name, text in contents(wheel).items():
        if text and not name.startswith("agh/share/"):
            files.setdefault(text, []).append(name)
    assert [names for names in files.values() if len(names) > 1] == []


def test_the_entry_points_are_those_of_the_plugins() -> None:
    points: dict[str, str] = {}
    scripts: dict[str, str] = {}
    for plugin in PLUGINS:
        points |= project(plugin)["entry-points"]["agh"]
        scripts |= project(plugin).get("scripts", {})
    assert PROJECT["entry-points"]["agh"] == points
    assert PROJECT["scripts"] == {"agh": "agh.__main__:main", **scripts}


def test_an_extra_adds_what_a_plugin_needs_from_others() -> None:
    extras = {"apprise": ["apprise>=1.8,<3"]}  # for a notifier of agh itself
    for plugin in PLUGINS:
        others = [line for line in project(plugin)["dependencies"] if not line.startswith("agh-cli")]
        if others:
            extras[plugin.name.removeprefix("agh-")] = others
    assert PROJECT["optional-dependencies"] == {"all": [f"agh-cli[{','.join(sorted(extras))}]"], **extras}


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_a_plugin_depends_on_agh_by_its_own_name_with_a_bound(plugin: Path) -> None:
    bounds = [line for line in project(plugin)["dependencies"] if line.startswith("agh")]
    assert bounds == ([] if plugin.name == "agh-echo" else ["agh-cli>=0.1,<1"])
    assert project(plugin)["version"] == "0.1.0"


@pytest.mark.parametrize("folder", [ROOT, *PLUGINS], ids=lambda folder: folder.name)
def test_every_package_has_the_license(folder: Path) -> None:
    table = project(folder)
    assert (table["license"], table["license-files"]) == ("MIT", ["LICENSE"])
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert not (folder / "LICENSE").is_symlink()
    assert table["authors"]
    assert "Operating System :: POSIX" in table["classifiers"]


def test_what_the_index_will_say(wheel: Path) -> None:
    (name,) = [name for name in contents(wheel) if name.endswith("/METADATA")]
    said = HeaderParser().parsestr(contents(wheel)[name].decode())
    assert (said["Name"], said["License-Expression"], said["License-File"]) == ("agh-cli", "MIT", "LICENSE")
    versions = {line.rpartition(" ")[2] for line in said.get_all("Classifier", []) if ":: 3." in line}
    assert versions == {"3.11", "3.12", "3.13", "3.14"}
    requirements = said.get_all("Requires-Dist", [])
    assert not [line for line in requirements if re.match(r"agh\b(?!-cli)", line)]


def test_the_sdist_has_what_the_wheel_is_built_from(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        assert [entry.name for entry in archive if entry.issym() or entry.islnk()] == []
        archive.extractall(tmp_path / "sdist", filter="data")
    (tree,) = (tmp_path / "sdist").iterdir()
    for name in (
        "completions/_agh",
        "completions/agh.bash",
        "completions/agh.fish",
        "LICENSE",
        "CHANGELOG.md",
    ):
        assert (tree / name).read_bytes() == (ROOT / name).read_bytes()
    build(tree, tmp_path / "again", "wheel")
    (again,) = (tmp_path / "again").glob("*.whl")
    assert contents(again) == contents(wheel)


def test_the_tree_needs_no_links() -> None:
    """A zip of it, or a checkout without links, is complete."""
    folders = ("agh", "completions", "docs", "man", "plugins", "tools")
    links = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_symlink()]
    assert not (ROOT / "completions").is_symlink()
    assert links == []
