from __future__ import annotations

import pytest

from tests.plugins.serve.server import Server, serve
from tests.support.build import Home
from tests.support.live import Live


@pytest.fixture
def server(live: Live) -> Server:
    return serve(live)


@pytest.fixture(scope="module")
def module_server(module_live: Live) -> Server:
    return serve(module_live)


@pytest.fixture
def shared_server(shared_live: Live, module_server: Server) -> Server:
    """Return a server that the tests of a module share, for those that look at sessions of their own."""
    return module_server


@pytest.fixture
def shared_home(shared_live: Live) -> Home:
    return Home(shared_live.home)
