"""Fixtures for the tests of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.build import Home
from tests.support.live import live as live


@contextmanager
def shared_home(factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home to be filled once and read by many tests."""
    path = factory.mktemp("shared") / "agh"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGH_HOME", str(path))
        yield Home(path)
