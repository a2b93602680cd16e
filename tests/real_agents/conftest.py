"""Real agents in a home of the test's own, with a stand-in for their model on loopback.

They get a minimal environment with nothing of the user's in it, and the stand-in as their proxy, so that they
reach nothing else. These tests are not part of `make test`: run `make real-agents`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real_agents.install import CACHE, NEWEST, NODE, PATH, PRODUCTS, need_product, version_of
from tests.real_agents.settings import configure
from tests.real_agents.standin import Standin
from tests.real_agents.tap import install_tap

PASSED_ON = ("HOME", "AGH_HOME", "COLUMNS", "AGH_ECHO_HOME", "PYTEST_CURRENT_TEST")


@pytest.fixture
def standin(tmp_path: Path) -> Iterator[Standin]:
    """Yield a model that says what it was told. Its log is in the test's directory."""
    with Standin(tmp_path / "requests.jsonl") as model:
        yield model


@pytest.fixture(autouse=True)
def surroundings(
    private_home: Path, tmp_path: Path, standin: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment with nothing of the user's in it, and the configuration of every agent."""
    for name in set(os.environ) - set(PASSED_ON):
        monkeypatch.delenv(name)
    home = tmp_path / "user"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    folders = [str(CACHE / name / "node_modules" / ".bin") for name in PRODUCTS]
    node = shutil.which("node", path=PATH)
    if node is not None:
        folders.append(str(Path(node).parent))
    environ = {
        "PATH": os.pathsep.join([*folders, os.defpath]),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "HTTP_PROXY": standin.url,
        "HTTPS_PROXY": standin.url,
        "NO_PROXY": "127.0.0.1",
        **configure(home, standin.url),
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def use_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Path], None]:
    """Return what puts the newest build of an agent on PATH, with a tap that writes this log."""

    def put_on_path(agent: str, log: Path) -> None:
        folder, node = need_product(NEWEST[agent]), need_product(NODE)
        install_tap(tmp_path / "tap", folder / NEWEST[agent].program, log)
        monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "tap"), str(node), os.defpath]))

    return put_on_path


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    products = [product for product in (*PRODUCTS.values(), *NEWEST.values()) if product.place.exists()]
    names = [f"{product.program} {version_of(product)}" for product in products]
    terminalreporter.write_line(f"agents in {CACHE}: {', '.join(names) or 'none'}")
