"""A keeper that is killed around a parked prompt: the log decides, and the prompt is sent once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.boundaries import Boundaries
from tests.support.clock import Clock
from tests.support.live import Live, Session
from tests.support.wait import wait_until

LIMIT = "/limit 1 You've hit your usage limit. Upgrade to Pro or try again in 2 hours.\n/say done"


class Killed:
    """A session whose keeper is killed at the first boundary after `arm` that is called `at`."""

    def __init__(self, live: Live, folder: Path, at: str) -> None:
        self.live, self.clock, self._armed = live, Clock(folder / "clock"), folder / "armed"
        self.boundaries = Boundaries(folder / "boundaries", at, at.split()[0], armed=self._armed)
        live.configure("[session.limits]\non_usage_limit = 'park'\njitter = 0")
        self.session: Session = live.new(env=self.boundaries.environ)

    def arm(self) -> None:
        self._armed.touch()

    def is_gone(self) -> None:
        wait_until(lambda: not self.session.is_live())
        assert self.boundaries.was_killed()
        self._armed.unlink()

    def due(self, *args: str) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = json.loads(
            self.live.agh("session", "due", "-o", "json", *args, env=self.clock.env).stdout
        )["due"]
        return rows

    def is_sent_once(self, prompt: str = LIMIT) -> None:
        """Let the limit reset: exactly one continuation follows."""
        self.clock.set(7300)
        assert [row["status"] for row in self.due("--run")] == ["started"]
        self.session.wait_for_text("done")
        self.live.agh("session", "wait", self.session.id, env=self.clock.env)
        assert [event.content["text"] for event in self.session.events("user_message")] == [prompt] * 2
        assert [status for status, _ in self.session.inputs()] == ["sent"]
        self.session.check_log()


@pytest.mark.parametrize("repairs", [False, True])
def test_killed_after_the_log_and_before_the_metadata(live: Live, tmp_path: Path, repairs: bool) -> None:
    killed = Killed(live, tmp_path, "committed 2")
    killed.arm()
    killed.session.prompt(LIMIT, code=None)
    killed.is_gone()
    session = killed.session
    assert "prompt_parked" in session.markers()
    assert session.meta().get("resumes_at") is None, "the fault came between log and metadata"
    if repairs:
        session.agh("repair")
        assert session.meta()["limited"]["windows"] == 1
        assert session.status()["badge"] == "limited"
    (row,) = killed.due()
    assert (row["status"], row["resumes_at"]) == ("waiting", session.events("error")[0].content["resumes_at"])
    assert killed.due("--run") == []
    killed.is_sent_once()


def test_killed_after_the_reset_and_before_the_prompt(live: Live, tmp_path: Path) -> None:
    killed = Killed(live, tmp_path, "commit 3")
    killed.arm()
    prompt = LIMIT.replace("2 hours", "1 second")
    killed.session.prompt(prompt, code=None)
    killed.is_gone()
    assert killed.session.meta().get("resumes_at") is None
    killed.is_sent_once(prompt)


def test_killed_after_a_cancel_and_before_the_metadata(live: Live, tmp_path: Path) -> None:
    killed = Killed(live, tmp_path, "committed 1")
    killed.session.prompt(LIMIT, code=10)
    killed.arm()
    killed.session.agh("cancel", code=None)
    killed.is_gone()
    assert killed.session.meta()["resumes_at"]
    killed.clock.set(7300)
    assert killed.due("--run") == []
    killed.session.agh("repair")
    assert killed.session.meta()["resumes_at"] is None
    assert len(killed.session.events("user_message")) == 1
