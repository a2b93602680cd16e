"""A keeper that dies at a boundary: what its environment must have, and what it has written."""

from __future__ import annotations

import os
from pathlib import Path

HOOK = str(Path(__file__).with_name("at_boundary"))


class Boundaries:
    """The boundaries of the keepers that get `environ`; one of these keepers is killed at `at`."""

    def __init__(
        self, log: Path, at: object, acts: str, victim: str | None = None, armed: Path | None = None
    ) -> None:
        self.log = log
        self.environ = {
            "PYTHONPATH": os.pathsep.join(filter(None, [HOOK, os.environ.get("PYTHONPATH")])),
            "AGH_TEST_KILL_AT": str(at),
            "AGH_TEST_BOUNDARIES": str(log),
            "AGH_TEST_ACTS": acts,
        }
        if victim is not None:
            self.environ["AGH_TEST_VICTIM"] = victim
        if armed is not None:
            self.environ["AGH_TEST_ARMED"] = str(armed)

    def lines(self) -> list[str]:
        """Return a line for each boundary that was passed."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def names(self) -> list[str]:
        """Return the name of each act."""
        return [line.split()[1] for line in self.lines()]

    def was_killed(self) -> bool:
        return any(line.endswith("KILLED") for line in self.lines())
