from __future__ import annotations

import pytest

from tests.serve.server import Server, serve
from tests.support.live import Live, live

__all__ = ["live"]


@pytest.fixture
def server(live: Live) -> Server:
    return serve(live)
