"""A program between agh and an agent that passes every line on and notes it: evidence of who did what.

`install_tap` writes a script with the name of the agent's program, for the front of PATH. Each line of the
log is [sender, frame].
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

_SCRIPT = """#!{python} -IS
import json, os, subprocess, sys, threading

log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
agent = subprocess.Popen([{program!r}, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

def copy(sender, source, target):
    for line in iter(source.readline, b""):
        os.write(log, json.dumps([sender, line.decode(errors="replace")]).encode() + b"\\n")
        try:
            target.write(line)
            target.flush()
        except OSError:
            break
    target.close()

threading.Thread(target=copy, args=("agh", sys.stdin.buffer, agent.stdin), daemon=True).start()
answers = threading.Thread(target=copy, args=("agent", agent.stdout, sys.stdout.buffer), daemon=True)
answers.start()
status = agent.wait()
answers.join(0.5)  # no longer: a child that the agent has left behind may have its pipe open
os._exit(status if status >= 0 else 128 - status)
"""


class Frame(NamedTuple):
    sender: str
    message: dict[str, Any]

    @property
    def method(self) -> str:
        return str(self.message.get("method", ""))

    @property
    def update(self) -> str:
        """Return which update of a session it is; empty for anything else."""
        params = self.message.get("params")
        update = params.get("update") if isinstance(params, dict) else None
        return str(update.get("sessionUpdate", "")) if isinstance(update, dict) else ""


def install_tap(folder: Path, program: Path, log: Path) -> None:
    """Put a program of the same name into the folder that runs the agent and notes what passes."""
    folder.mkdir(exist_ok=True)
    path = folder / program.name
    path.write_text(_SCRIPT.format(python=sys.executable, program=str(program), log=str(log)))
    path.chmod(0o755)


def read_frames(log: Path) -> list[Frame]:
    """Return every JSON message so far, without a line that is still being written."""
    frames = []
    for line in log.read_bytes().split(b"\n")[:-1] if log.exists() else []:
        sender, text = json.loads(line)
        try:
            message = json.loads(text)
        except ValueError:
            continue
        if isinstance(message, dict):
            frames.append(Frame(sender, message))
    return frames
