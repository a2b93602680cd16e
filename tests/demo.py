"""`make demo`: the main job, on the embedded agent, in a home of its own.

Starts a session, prompts it, kills its keeper with SIGKILL in the middle of a turn, repairs, resumes,
prompts again and prints the transcript.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

AGH = str(Path(sys.executable).with_name("agh"))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="agh-demo-") as scratch:
        os.environ |= {"AGH_HOME": f"{scratch}/home", "AGH_ECHO_HOME": f"{scratch}/echo"}
        os.chdir(scratch)
        try:
            tell_the_story()
        finally:
            subprocess.run([AGH, "session", "stop", "demo"], capture_output=True)


def tell_the_story() -> None:
    say("Start a session. No agent is installed here, so the built-in echo agent answers.")
    agh("session", "new", "--name", "demo", "--agent", "echo")
    agh(
        "session",
        "prompt",
        "demo",
        "/think The user is polite.\n/tool Read path=notes.md\n/say Good morning!",
    )
    say("A long turn, and in the middle of it its keeper is killed with SIGKILL.")
    turn = subprocess.Popen([AGH, "session", "prompt", "demo", "/stream 40 0.1"])
    kill_keeper_when_talking()
    print(f"\n(the prompt command ended with exit code {turn.wait(timeout=10)}: died, resumable)")
    agh("session", "list")
    say("Repair closes what the crash left open; it only appends.")
    agh("session", "repair", "demo")
    say("Resume restores the agent's own memory of the conversation.")
    agh("session", "resume", "demo")
    agh("session", "prompt", "demo", "what did I say?")
    say("Nothing that was shown is lost:")
    agh("session", "transcript", "demo")
    agh("session", "stop", "demo")


def kill_keeper_when_talking() -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        seen = subprocess.run(
            [AGH, "session", "events", "demo", "--where", "content->>'$.text' LIKE 'chunk 5%'"],
            capture_output=True,
        )
        if seen.stdout:
            break
    result = subprocess.run([AGH, "session", "status", "demo", "-o", "json"], capture_output=True)
    os.kill(json.loads(result.stdout)["session"]["keeper"]["pid"], signal.SIGKILL)


def agh(*args: str) -> None:
    print(f"$ agh {' '.join(arg if ' ' not in arg else repr(arg) for arg in args)}", flush=True)
    subprocess.run([AGH, *args], check=True)


def say(text: str) -> None:
    print(f"\n# {text}", flush=True)


if __name__ == "__main__":
    main()
