"""docs/design.md: the modules that a command and its keeper visit are those that the walk names.

A command visits them in that order. Where a keeper is when it is asked depends on what it still had to do.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import walk
from tests.support.live import Live, Session
from tests.support.wait import wait_until

DESIGN = Path(__file__).parent.parent / "docs/design.md"
COMMAND_BOUND, KEEPER_BOUND = 25, 35  # of `session new`
ROW = re.compile(r"^\| `([\w.]+)` \| (.+) \|$", re.M)
Rows = dict[str, str]


def written(title: str, process: str) -> Rows:
    """Return the modules that the walk names, each with its phrase."""
    section = DESIGN.read_text().partition(f"\n### {title}\n")[2].partition("\n### ")[0]
    table = section.partition(f"\n| in the {process} |")[2].partition("\n\n")[0]
    return dict(ROW.findall(table))


def as_rows(modules: list[str], phrases: Rows) -> str:
    """Write a table that would be right, with the phrases there are."""
    return "\n".join(f"| `{module}` | {phrases.get(module, '?')} |" for module in modules)


class Walk:
    """Runs commands one after another, each on a page of its own."""

    def __init__(self, live: Live, folder: Path) -> None:
        self.live, self.folder = live, folder
        self.env = walk.environment(folder)

    def run(self, *args: object) -> str:
        return self.live.agh(*args, env=self.env).stdout.strip()

    def check(self, title: str, *processes: str) -> None:
        """Compare what was visited with what is written, and turn the page."""
        for process in processes:
            self._compare(title, process)
        walk.forget(self.folder)

    def _compare(self, title: str, process: str) -> None:
        rows = written(title, process)
        # A keeper may have a little left to do when its command has ended, and when the next one asks it.
        arrange = sorted if process == "keeper" else list
        try:
            wait_until(lambda: arrange(walk.modules(self.folder, process)) == arrange(rows), limit=5)
        except AssertionError:
            visited = walk.modules(self.folder, process)
            pytest.fail(f"{title}, in the {process}, visits:\n{as_rows(visited, rows)}", pytrace=False)


@pytest.fixture
def walking(live: Live, tmp_path: Path) -> Walk:
    return Walk(live, tmp_path / "walk")


def new(walking: Walk) -> Session:
    return walking.live.session(walking.run("session", "new", "--agent", "echo", "--name", "walk"))


def test_new_prompt_and_follow(walking: Walk) -> None:
    session = new(walking)
    walking.check("session new", "command", "keeper")
    walking.run("session", "prompt", "walk", "hello")
    walking.check("session prompt, warm", "command", "keeper")
    follower = walking.live.start("session", "events", "walk", "--follow", env=walking.env)
    walking.live.waits(follower)
    session.stop()
    follower.communicate(timeout=20)
    walking.check("session events --follow", "command")


def test_prompt_to_a_stopped_session_and_resume(walking: Walk) -> None:
    session = new(walking)
    session.stop()
    walk.forget(walking.folder)
    walking.run("session", "prompt", "walk", "hello")
    walking.check("session prompt, cold", "command", "keeper")
    session.stop()
    walk.forget(walking.folder)
    walking.run("session", "resume", "walk")
    walking.check("session resume", "command", "keeper")


def test_repair_after_a_kill(walking: Walk) -> None:
    session = walking.live.new()
    session.send("/tool-open Read\n/sleep 60")
    wait_until(lambda: session.count("tool_call"))
    session.kill_keeper()
    walking.run("session", "repair", "--all")
    walking.check("session repair --all", "command")


def test_a_new_session_visits_few_modules() -> None:
    assert 0 < len(written("session new", "command")) <= COMMAND_BOUND
    assert 0 < len(written("session new", "keeper")) <= KEEPER_BOUND
