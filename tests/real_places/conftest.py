from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real_places import engines
from tests.real_places.engines import Engine
from tests.support.live import Live


@pytest.fixture(scope="session", params=["podman", "docker"])
def any_engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with engines.running(request.param, tmp_path_factory.mktemp("engine") / "own") as engine:
        yield engine


@pytest.fixture(scope="session", params=engines.USERLANDS)
def image(
    request: pytest.FixtureRequest, any_engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """Yield the engine with the image of a userland."""
    engine = Engine(any_engine.name, any_engine.command, request.param, any_engine.environ)
    tree = tmp_path_factory.mktemp("tree")
    engines.plant_tree(tree, request.param)
    engine.import_tree(tree)
    yield engine
    engine("rmi", "-f", engine.image)


@pytest.fixture
def engine(image: Engine, live: Live, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Let sessions use the engine. What their agent remembers is where its next container finds it."""
    monkeypatch.setenv("AGH_ECHO_HOME", str(live.workspace / ".echo"))
    for name, value in image.environ.items():
        monkeypatch.setenv(name, value)
    return image
