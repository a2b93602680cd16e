"""The packages are built once, whatever the number of test processes."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from tests.install.packages import ROOT, Environment, build, core_requirements, link_distributions


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all test processes of this run share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "packages"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def dist(shared: Path) -> Path:
    """A folder with the wheel and the sdist of this checkout."""
    folder = shared / "dist"
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            build(ROOT, shared / "new", "wheel", "sdist")
            (shared / "new").rename(folder)
    return folder


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def sdist(dist: Path) -> Path:
    (path,) = dist.glob("*.tar.gz")
    return path


@pytest.fixture(scope="session")
def template(shared: Path, wheel: Path) -> Environment:
    """An environment with the wheel, to be copied; nothing runs in it any more."""
    folder = shared / "template"
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "installed").exists():
            fresh = _prepare(folder)
            fresh.pip("install", "-q", "--no-index", wheel)
            fresh.agh("plugins", "list")  # so that its modules are compiled
            (shared / "installed").touch()
    return Environment(folder)


@pytest.fixture(scope="session")
def installed(shared: Path, template: Environment) -> Environment:
    """An environment with the wheel, which tests only look at."""
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "copied").exists():
            template.copy_to(shared / "fresh")
            (shared / "copied").touch()
    return Environment(shared / "fresh")


def _prepare(folder: Path) -> Environment:
    """Make an environment that has what agh needs, and pip, but not agh."""
    fresh = Environment(folder)
    link_distributions(folder / "linked", *core_requirements(), "pip", "hatchling")
    fresh.add_path(folder / "linked")
    return fresh


@pytest.fixture
def own(tmp_path: Path, template: Environment) -> Environment:
    """An environment with the wheel, which the test may change."""
    return template.copy_to(tmp_path / "fresh")


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """An environment that has what agh needs, and pip, but not agh."""
    return _prepare(tmp_path / "fresh")
