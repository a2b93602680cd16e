"""A test is where a newcomer looks for it: tests/unit mirrors agh/, the other folders are few."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.build import ROOT

TESTS = ROOT / "tests"
FOLDERS = {
    "bench": "how fast agh is, with `make bench`",
    "faults": "kills, damage, hostile input, odd surroundings",
    "install": "the wheel and the sdist, installed; every way with `make install-test`",
    "interop": "agh and an agent built on the official SDK",
    "mutants": "deliberate breakages, with `make mutants`",
    "plugins": "one folder for each package of plugins/",
    "real_agents": "agents from npm, with `make real-agents`",
    "real_packages": "what npm and PyPI have, with `make catalog`",
    "real_places": "podman and Slurm, with `make podman` and `make slurm`",
    "sessions": "live sessions, by feature",
    "support": "what tests of more than one folder need",
    "tools": "the scripts of tools/",
    "unit": "the modules of agh/, path for path",
}


def names_a_module(test: Path) -> bool:
    """Tell whether the path of a unit test is that of a module, or of a module and `_` and a topic."""
    folder = ROOT / "agh" / test.parent
    words = test.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
    return any((folder / f"{name}.py").is_file() or (folder / name).is_dir() for name in names)


def test_unit_tests_mirror_the_source() -> None:
    unit = TESTS / "unit"
    tests = [path.relative_to(unit) for path in unit.rglob("test_*.py")]
    assert len(tests) > 60
    assert [str(test) for test in tests if not names_a_module(test)] == []


@pytest.mark.parametrize("path", ["core/test_nothing.py", "nowhere/test_events.py", "cli/test_events.py"])
def test_a_unit_test_of_no_module_is_noticed(path: str) -> None:
    assert not names_a_module(Path(path))


@pytest.mark.parametrize("path", ["core/test_html.py", "cli/session/test_events_follow.py", "test_home.py"])
def test_a_package_or_a_topic_of_a_module_may_be_named(path: str) -> None:
    assert names_a_module(Path(path))


def test_every_folder_has_a_purpose() -> None:
    folders = {path.name for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == FOLDERS.keys()


def test_each_plugin_has_its_folder() -> None:
    plugins = {path.name.removeprefix("agh-") for path in (ROOT / "plugins").glob("agh-*")}
    folders = {path.name for path in (TESTS / "plugins").iterdir() if (path / "__init__.py").exists()}
    assert folders == plugins


def test_only_support_is_imported_from_other_folders() -> None:
    """Helpers that one folder takes from another belong in tests/support."""
    strays = []
    for path in TESTS.rglob("*.py"):
        own = path.relative_to(TESTS).parts[0]
        for line in path.read_text().splitlines():
            if line.startswith(("from tests.", "import tests.")):
                folder = line.split()[1].split(".")[1]
                if folder not in (own, "support"):
                    strays.append(f"{path.relative_to(ROOT)}: {line}")
    assert strays == []
