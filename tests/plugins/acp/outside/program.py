"""An editor of others that runs a script of ours, and the report that the script writes.

The script appends a JSON object to the report for each step: {"step": NAME, …}. It waits for files that the
test creates in the same directory, so that test and script can take turns.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.live import Live
from tests.support.wait import PATIENCE, wait_until

AGENT = (sys.executable, "-P", "-m", "agh", "acp", "--agent", "echo")


class Program:
    """A started editor: what its script reports, and how it ends."""

    def __init__(self, live: Live, directory: Path, argv: Sequence[object], env: Mapping[str, str]) -> None:
        directory.mkdir()
        self._directory = directory
        self._report, self._output = directory / "report", directory / "output"
        user = {"HOME": str(directory), "XDG_STATE_HOME": str(directory / "state")}
        paths = {"REPORT": str(self._report), "WORKSPACE": str(live.workspace)}
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [str(word) for word in argv],
                env={**live._environ(None), **user, **paths, **env},
                cwd=live.workspace,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._process.poll() is None:
            self.kill()

    def steps(self) -> dict[str, dict[str, Any]]:
        """Return the steps that the script has reported."""
        text = self._report.read_text() if self._report.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return {line["step"]: line for line in lines}

    def wait_for(self, step: str) -> dict[str, Any]:
        """Return what the script reports of a step; fail with the editor's output if it ends before."""
        wait_until(lambda: step in self.steps() or self._process.poll() is not None, 3 * PATIENCE, step)
        assert step in self.steps(), f"{self._output.read_text()}\n{list(self.steps())}"
        return self.steps()[step]

    def allow(self, name: str) -> None:
        """Let the script go on that waits for this."""
        (self._directory / name).touch()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE)

    def finish(self) -> dict[str, dict[str, Any]]:
        """Wait for the end of the script; return all its steps."""
        code = self._process.wait(3 * PATIENCE)
        assert code == 0, self._output.read_text()
        return self.steps()
