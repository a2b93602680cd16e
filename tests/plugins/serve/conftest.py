from __future__ import annotations

import pytest

from tests.plugins.serve.server import Server, serve
from tests.support.live import Live


@pytest.fixture
def server(live: Live) -> Server:
    return serve(live)
