"""Sessions with the agent whose answers a test writes down: see answering_agent.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.support import answering_agent
from tests.support.live import Live, Session

Frame = dict[str, Any]


class Answering:
    """An agent that is defined in the home, with the answers of a file."""

    def __init__(self, live: Live, answers: dict[str, Any] | None = None, **record: str) -> None:
        self.live, self.file = live, live.workspace.parent / "answers.json"
        self.write(answers or {})
        argv = [sys.executable, "-P", answering_agent.__file__, str(self.file)]
        lines = [f"argv = {json.dumps(argv)}", *(f"{key} = {value}" for key, value in record.items())]
        folder = live.home / "agents"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        live.home.chmod(0o700)
        (folder / "answering.toml").write_text("\n".join(lines) + "\n")

    def write(self, answers: dict[str, Any]) -> None:
        """Change what the agent answers, from its next start on."""
        self.file.write_text(json.dumps(answers))

    def new(self, *args: str) -> Session:
        """Create a live session of it."""
        result = self.live.agh("session", "new", "--agent", "answering", *args)
        return self.live.session(result.stdout.strip())

    def requests(self, method: str) -> list[Frame]:
        """Return the parameters of the requests that the agent got."""
        lines = Path(f"{self.file}.log").read_text().splitlines()
        return [frame.get("params", {}) for frame in map(json.loads, lines) if frame.get("method") == method]
