from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.places.wire import Wire, serving
from tests.support.userland import NAMES, Userland, install


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    with serving(tmp_path / "sshd") as wire:
        yield wire


@pytest.fixture(scope="module")
def module_wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """Yield a server that the tests of a module share."""
    with serving(tmp_path_factory.mktemp("wire") / "sshd") as wire:
        yield wire


@pytest.fixture(params=NAMES)
def userland(request: pytest.FixtureRequest, tmp_path: Path) -> Userland:
    return install(request.param, tmp_path / "bin of the place")
