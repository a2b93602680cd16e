"""Live sessions, made without a command of their own: that saves a process and half of the time.

What `agh session new` does around it is shown in tests/live.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agh.sessions.new import create
from tests.support.live import ECHO, Live, Session

LIMITS = ("max_cost", "max_turns", "max_time")


class Quick(Live):
    def new(
        self, *options: str, args: tuple[object, ...] = (), env: Mapping[str, str] | None = None
    ) -> Session:
        if env is not None:
            return super().new(*options, args=args, env=env)
        given = {
            str(key)[2:].replace("-", "_"): value for key, value in zip(args[::2], args[1::2], strict=True)
        }
        chosen: dict[str, Any] = {"agent": "echo", "command": [*ECHO, *options] if options else None}
        chosen["limits"] = {name: _number(given.pop(name)) for name in LIMITS if name in given}
        chosen["options"] = {"model": given.pop("model")} if "model" in given else {}
        directory, _ = create(**{"workspace": str(self.workspace), **chosen, **given})
        return self.session(os.path.basename(directory))


def _number(value: object) -> float:
    return float(str(value).removesuffix("s"))


@pytest.fixture
def live(private_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    monkeypatch.setenv("AGH_ECHO_HOME", str(tmp_path / "echo"))
    workspace = tmp_path / "work"
    workspace.mkdir()
    made = Quick(private_home, workspace)
    try:
        yield made
    finally:
        made.end()
