"""A session that is live without an agent: a process that holds the lock and appends what it is told.

Run as `python -m tests.support.log_writer DIRECTORY`. Each line on its stdin is a JSON list of texts: they
are committed as one batch of agent messages, and then `ok` is printed. End of input ends it cleanly.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tests.support.build import ROOT, Writer, says, take_lock


class LogWriter:
    """The test's side of such a process."""

    def __init__(self, directory: Path, prefix: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "tests.support.log_writer", str(directory)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._prefix = prefix  # a killed wrapper would leave the writer behind; end of input ends both
        self._answered("ready")

    def append(self, *texts: str) -> None:
        """Commit these messages in one transaction; returns when they are on disk."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(texts) + "\n")
        self.process.stdin.flush()
        self._answered("ok")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def _answered(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{word}\n"

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if not self._prefix:
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self.process.wait(10)


def main() -> None:
    owner = take_lock(Path(sys.argv[1]))
    with Writer(owner, "general") as log:
        print("ready", flush=True)
        for line in sys.stdin:
            log.append([says(text) for text in json.loads(line)])
            print("ok", flush=True)
    os.close(owner.fd)


if __name__ == "__main__":
    main()
