"""`make pictures`: docs/pictures, screens of agh on light and dark terminals.

The commands really run, in a temporary home, on a pseudo-terminal; the agents play a script (story.py). Only
what differs from one run to another is replaced: ids, and how long ago something was. `make pictures
ARGS=list` makes those whose names begin with one of the words; `page` is that of `agh serve`, in a browser.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import orjson

from tools.pictures import page, story
from tools.pictures.screen import PATIENCE, Screen, on_screen
from tools.pictures.svg import picture

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs/pictures"
SCRATCH, HOME = "/tmp/me-", "/home/me"  # of equal length, for lines that were cut
AGENTS = sorted(story.MODELS)


class Picture(NamedTuple):
    """A command on a screen of a size. `until` waits for what it shows; None waits for its end."""

    command: str
    columns: int
    rows: int
    until: Callable[[Screen], object] | None = None


def _press(screen: Screen, key: str, text: str) -> None:
    """Press a key when the list of `agh top` is there, and wait for a text."""
    screen.shows("q quit")
    screen.type(key)
    screen.shows(text)


def _joined(screen: Screen) -> None:
    """Wait until the chat has shown the last turn and waits for a prompt."""
    screen.shows("All four tests pass.")
    screen.waits(lambda: "joining" not in screen.text and "idle" in screen.text, "the input line")


TABLE = {
    "list": Picture("agh list", 100, 12),
    "list-narrow": Picture("agh list", 40, 12),
    "transcript": Picture("agh transcript spring-tides --no-pager", 90, 80),
    "inbox": Picture("agh inbox", 112, 30),
    "events": Picture(
        "agh events spring-tides --follow --last 30", 90, 40, lambda screen: screen.shows("done")
    ),
    "top": Picture("agh top", 100, 24, lambda screen: screen.shows("q quit")),
    "top-approval": Picture("agh top", 100, 24, lambda screen: _press(screen, "a", "allow this?")),
    # The last two, because they leave events and a session behind.
    "chat": Picture("agh attach spring-tides", 90, 80, _joined),
    "approval": Picture(
        f"agh run --agent claude '{story.STATION}'", 90, 30, lambda screen: screen.shows("allow it?")
    ),
}


class Scene:
    """A home in which the story has happened."""

    def __init__(self) -> None:
        self.directory = f"{SCRATCH}/tidebook"
        self.env = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": SCRATCH,
            "AGH_HOME": f"{SCRATCH}/.agh",
            "AGH_PLUGINS": "",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
        }

    def agh(self, *args: str) -> str:
        """Run a command to its end, whatever that is; return what it printed."""
        return self._run(["agh", *args])

    def _run(self, command: list[str]) -> str:
        run = subprocess.run(
            command,
            env=self.env,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return run.stdout

    def write_files(self) -> None:
        """Write the project, and the agents."""
        for path, text in story.FILES.items():
            file = Path(self.directory, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        agents = Path(self.env["AGH_HOME"], "agents")
        agents.mkdir(parents=True, mode=0o700)
        agents.parent.chmod(0o700)
        script = str(Path(__file__).with_name("agent.py"))
        for name in AGENTS:
            argv = orjson.dumps([sys.executable, script, name]).decode()
            (agents / f"{name}.toml").write_text(f"argv = {argv}\n")

    def play(self) -> None:
        """Let the story happen, up to the point at which the pictures are taken."""
        for name, agent, _, prompt in story.SESSIONS:
            self.new(name, agent)
            self.agh("session", "prompt", name, prompt, "--detach")
        self._wait_until_quiet()
        self.set_ages()

    def new(self, name: str, agent: str) -> None:
        """Start a session whose id follows from its name."""
        code = f"import agh.home; agh.home.new_session_id = lambda: 'sess-{_fixed_id(name)}'\n"
        code += "from agh.__main__ import main; main()"
        self._run([sys.executable, "-c", code, "session", "new", "--name", name, "--agent", agent])

    def set_ages(self) -> None:
        """Make each session as old as the story says."""
        for session in self.sessions():
            age = story.AGES.get(session["name"])
            path = Path(self.env["AGH_HOME"], "sessions", session["id"], "meta.json")
            at = datetime.now(UTC) - timedelta(seconds=age if age is not None else 4)
            metadata = {**orjson.loads(path.read_bytes()), "updated_at": f"{at:%Y-%m-%dT%H:%M:%S}.000Z"}
            path.write_bytes(orjson.dumps(metadata))

    def sessions(self) -> list[dict[str, str]]:
        sessions: list[dict[str, str]] = orjson.loads(self.agh("list", "-o", "json"))["sessions"]
        return sessions

    def stop(self) -> None:
        """End everything that was started."""
        for session in self.sessions():
            self.agh("session", "stop", session["id"])

    def replacements(self) -> dict[str, str]:
        """Return patterns of what differs from one run to another, with what stands for it in a picture."""
        patterns = {SCRATCH: HOME, r"perm-[0-9a-f]{8}": "perm-74d7cc5b", r"(?<=  )\d+s$": "2m"}
        patterns |= {
            r"\b\d\d:\d\d:\d\d\b": "14:02:07",
            r"\b\d+\.\d s\b": "8.4 s",
            r"process_exit-\d+": "process_exit-1773497127304518002",
        }
        named = {session["id"] for session in self.sessions() if session["name"]}
        return patterns | {rf"(?!{'|'.join(sorted(named))})sess-[0-9a-z]{{16}}": f"sess-{_fixed_id('')}"}

    def _wait_until_quiet(self) -> None:
        badges = {"running", "waiting-for-input", "idle", "failed", "completed"}
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            states = {session["name"]: session["badge"] for session in self.sessions()}
            if states.get("bremerhaven") == "waiting-for-input" and set(states.values()) <= badges:
                return
            time.sleep(0.2)
        raise SystemExit(f"the story does not come to its end: {states}")


def _fixed_id(name: str) -> str:
    from hashlib import sha256

    number = int.from_bytes(sha256(name.encode()).digest()[:12])
    return "".join("0123456789abcdefghijklmnopqrstuvwxyz"[number // 36**n % 36] for n in range(16))


@contextmanager
def scene() -> Iterator[Scene]:
    """Yield a home in which the story has happened; end everything afterwards."""
    os.mkdir(SCRATCH, 0o700)  # not a random name: paths are in the pictures
    setting = Scene()
    try:
        setting.write_files()
        setting.play()
        yield setting
    finally:
        setting.stop()
        shutil.rmtree(SCRATCH)


def take(setting: Scene, view: Picture, background: str) -> str:
    """Run a picture's command on a terminal with this background; return the SVG."""
    command = ["sh", "-c", 'printf \'$ %s\\n\' "$1"; eval "$1"', "sh", view.command]
    with on_screen(
        command,
        setting.env,
        columns=view.columns,
        rows=view.rows,
        background=background,
        cwd=setting.directory,
    ) as screen:
        if view.until is None:
            screen.ends()
        else:
            view.until(screen)
    return picture(screen.emulator, background, "tidebook", setting.replacements())


def main(words: list[str]) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with scene() as setting:
        if not words or "page".startswith(tuple(words)):
            setting.set_ages()
            page.take_pictures(setting.env, setting.directory, "bremerhaven", (SCRATCH, HOME), PICTURES)
            print("docs/pictures/page-light.png, page-dark.png")
        for name, view in TABLE.items():
            if words and not name.startswith(tuple(words)):
                continue
            for background in ("light", "dark"):
                setting.set_ages()
                (PICTURES / f"{name}-{background}.svg").write_text(take(setting, view, background))
                print(f"docs/pictures/{name}-{background}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
