"""A recording tap between agh and an agent: `python tap.py DIRECTORY ARGV...`

Starts ARGV and passes bytes both ways, each first appended to a file of DIRECTORY: `to_agent` is what agh
sends, `from_agent` what the agent does. Ends as the agent ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path


def copy(source: int, sink: int, record: Path) -> None:
    with record.open("ab", buffering=0) as file:
        while data := os.read(source, 1 << 16):
            file.write(data)
            try:
                os.write(sink, data)
            except BrokenPipeError:
                break
    os.close(sink)


def main() -> int:
    directory, argv = Path(sys.argv[1]), sys.argv[2:]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        forth = (0, os.dup(agent.stdin.fileno()), directory / "to_agent")
        agent.stdin.close()
        threading.Thread(target=copy, args=forth, daemon=True).start()
        copy(agent.stdout.fileno(), 1, directory / "from_agent")
    return agent.returncode


if __name__ == "__main__":
    sys.exit(main())
