"""A plugin that listens to the lifecycle: every call is a row, and its veto stops the session."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import Live, Session
from tests.support.permissions import received
from tests.support.wait import wait_until

PLUGIN = """
import agh
from agh.adapters.hookspecs import Veto

@agh.hookimpl
def agh_lifecycle(event):
    with open({told!r}, "a") as file:
        print(event["event"], event.get("text", ""), file=file)
    if event["event"] == {veto!r} and "forbidden" in event.get("text", "forbidden"):
        raise Veto("not on my watch")
    if "stumble" in event.get("text", ""):
        raise RuntimeError("tripped")
"""

WRAPPER = """
import agh
from agh.adapters.hookspecs import Veto

@agh.hookimpl(wrapper=True)
def agh_lifecycle(event):
    event.pop("event")
    yield
    if "forbidden" in event.get("text", ""):
        raise Veto("not after all")

@agh.hookimpl(specname="agh_lifecycle")
def without_parameters():
    pass

@agh.hookimpl(specname="agh_lifecycle")
def listener(event):
    event["event"]
"""


class Watchman:
    """A plugin that is installed by hand on PYTHONPATH."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.told = folder, folder / "told"
        (folder / "watchman-1.0.dist-info").mkdir(parents=True)
        (folder / "watchman-1.0.dist-info" / "entry_points.txt").write_text(
            "[agh]\nwatchman = watchman_plugin\n"
        )
        paths = [str(folder), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    def vetoes(self, event: str) -> None:
        text = PLUGIN.format(told=str(self.told), veto=event)
        (self.folder / "watchman_plugin.py").write_text(text)

    def heard(self) -> list[str]:
        return [line.strip() for line in self.told.read_text().splitlines()]


@pytest.fixture
def watchman(live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watchman:
    return Watchman(tmp_path / "plugins", monkeypatch)


def runs(session: Session) -> list[tuple[Any, ...]]:
    return session.fetch("SELECT event, hook, source, outcome, output FROM hook_runs ORDER BY id")


def run(event: str, outcome: str = "ok", output: str = "") -> tuple[str, str, str, str, str]:
    return (event, "watchman", "plugin watchman", outcome, output)


def test_a_veto_of_a_prompt_stops_the_session(live: Live, watchman: Watchman) -> None:
    watchman.vetoes("prompt")
    session = live.new()
    assert session.say("/say fine") == "fine"
    result = session.prompt("forbidden", code=None)
    assert result.returncode not in (0, 70)
    assert "not on my watch" in result.stderr
    wait_until(lambda: not session.is_live())
    meta = session.meta()
    assert meta["stop_reason"] == "hook_stopped"
    assert "watchman" in meta["stop_detail"]
    assert "not on my watch" in meta["stop_detail"]
    assert [run for run in runs(session) if run[3] == "veto"] == [run("prompt", "veto", "not on my watch")]
    assert runs(session)[0] == run("session_start")
    assert runs(session)[-1] == run("session_stop")
    assert received(session) == ["/say fine"]
    assert watchman.heard()[:3] == ["session_start", "prompt /say fine", "turn_end"]


def test_a_plugin_that_fails_is_recorded_and_vetoes_nothing(live: Live, watchman: Watchman) -> None:
    watchman.vetoes("nothing")
    session = live.new()
    assert session.say("stumble") == "echo: stumble"
    assert run("prompt", "failed", "RuntimeError: tripped") in runs(session)
    assert session.is_live()


@pytest.mark.parametrize("event", ["session_start", "session_resume"])
def test_a_veto_of_a_start(live: Live, watchman: Watchman, event: str) -> None:
    watchman.vetoes(event)
    if event == "session_start":
        result = live.agh("session", "new", "--agent", "echo", code=1)
        (session,) = live.sessions()
    else:
        session = live.new()
        session.tell("remembered")
        session.stop()
        result = session.agh("resume", code=1)
    assert "not on my watch" in result.stderr
    wait_until(lambda: not session.is_live())
    assert run(event, "veto", "not on my watch") in runs(session)
    assert session.meta()["stop_reason"] == "hook_stopped"
    watchman.vetoes("nothing")
    assert session.say("what did I say?").endswith('"what did I say?"')


def test_without_plugins_nobody_objects(live: Live, watchman: Watchman) -> None:
    watchman.vetoes("prompt")
    env = {"AGH_PLUGINS": "echo"}
    session = live.new(env=env)
    assert session.say("forbidden", env=env) == "echo: forbidden"
    assert runs(session) == []


def test_a_wrapper_is_audited_and_may_veto(live: Live, watchman: Watchman) -> None:
    """So is an implementation that takes no parameters; each has an event of its own to change."""
    (watchman.folder / "watchman_plugin.py").write_text(WRAPPER)
    session = live.new()
    assert session.say("/say fine") == "fine"
    assert runs(session)[:3] == [run("session_start")] * 3
    result = session.prompt("forbidden", code=None)
    assert "plugin watchman refused this: not after all" in result.stderr
    wait_until(lambda: not session.is_live())
    vetoed = [row for row in runs(session) if row[3] != "ok"]
    assert vetoed == [run("prompt", "veto", "not after all")]
    assert received(session) == ["/say fine"]
