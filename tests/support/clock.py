"""The clock of the programs of a test, which the test sets ahead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.live import Live, Session

SHIFTED = str(Path(__file__).with_name("shifted"))


class Clock:
    """Sets the clocks of every process ahead that has `env` in its environment."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.set(0)
        paths = os.pathsep.join(filter(None, [SHIFTED, os.environ.get("PYTHONPATH")]))
        self.env = {"PYTHONPATH": paths, "AGH_TEST_CLOCK": str(path)}

    def new(self, live: Live, *args: object) -> Session:
        """Create a live session whose keeper and agent have this clock, without a process of its own."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.env.items():
                patch.setenv(name, value)
            return live.new(args=args)

    def set(self, seconds: float) -> None:
        """Set the clocks so far ahead of the true one."""
        self.path.write_text(str(seconds))
