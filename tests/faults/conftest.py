"""Fixtures of the fault tests. A fault may strike while the program starts, so it is started by exec."""

from __future__ import annotations

import pytest

from tests.support import warm
from tests.support.live import live
from tests.support.rounds import rounds

__all__ = ["live", "rounds"]


@pytest.fixture(autouse=True)
def by_exec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "always_exec", True)
