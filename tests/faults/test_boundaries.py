"""kill -9 of the keeper before its n-th act, for every n until a whole life (new, prompt, stop) gets through.

Whatever n is: a prompt that was acknowledged is in the log, no event is there twice, the session can be
resumed, and the next prompt works. A prompt whose acknowledgement was lost is not sent a second time.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest

from agh.errors import AghError
from tests.support.boundaries import Boundaries
from tests.support.live import Live, Session
from tests.support.processes import children_of
from tests.support.wait import wait_until

ACTS = "commit meta replace write answer"
TEXT = "/say hello\n/tool Read id=c1\n/ask kind=read path=a.txt\n/say bye"
STEP = 3  # the loop is cut into this many tests: each takes every third n


class Life:
    """One life of a session, with the keeper killed at a boundary."""

    def __init__(self, live: Live, at: object, log: Path) -> None:
        self.live, self.boundaries = live, Boundaries(log, at, ACTS)
        self.env, self.lines, self.was_killed = (
            self.boundaries.environ,
            self.boundaries.lines,
            self.boundaries.was_killed,
        )

    def start(self) -> bool:
        """Create the session without a command's process, which is not killed; tell whether it started."""
        before = {*children_of(os.getpid())}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.env.items():
                patch.setenv(name, value)
            try:
                self.live.new()
            except AghError:
                assert self.was_killed()
                self.live.children += {*children_of(os.getpid())} - before
                return False
        return True

    def run(self) -> tuple[Session, bool]:
        """Return the session, and whether its prompt was acknowledged."""
        has_started = self.start()
        (session,) = self.live.sessions()
        acknowledged = False
        try:
            if has_started:
                session.send(TEXT)
                acknowledged = True
                wait_until(lambda: session.count("done") or not session.is_live())
            session.call("stop")
        except AghError:
            assert self.was_killed()
        wait_until(lambda: not session.is_live())
        return session, acknowledged


def check_life(session: Session, acknowledged: bool) -> None:
    """Check what must hold after a death at any moment."""
    session.check_log()
    before = session.events()
    sent = [text for _, text in session.inputs()]
    assert sent in ([TEXT], [] if not acknowledged else [TEXT])
    assert [event.content["text"] for event in session.events("user_message")] == sent
    session.revive()
    reply = session.tell("what did I say?")
    assert session.events()[: len(before)] == before, "history was changed"
    assert '"what did I say?"' in reply
    if session.count("done") == 2:
        assert f'"{TEXT}"' in reply
    session.check_log()
    turn_ids = {event.turn_id for event in session.events("user_message")}
    assert turn_ids == {event.turn_id for event in session.events("done", "error")}, "every turn has an end"
    assert session.meta()["failure"] is None


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, STEP + 1))
def test_killed_before_its_nth_act(live: Live, tmp_path: Path, first: int) -> None:
    deaths = []
    for at in count(first, STEP):
        life = Life(live, at, tmp_path / f"boundaries-{at}")
        session, acknowledged = life.run()
        assert life.lines(), "the keeper is not watched"
        check_life(session, acknowledged)
        if not life.was_killed():
            break
        deaths.append(life.lines()[-1])
        session.stop()
        for path in session.directory.iterdir():
            path.unlink()
        session.directory.rmdir()
    assert len(deaths) >= 5, "the loop ended before it began"
    assert acknowledged, "a life without a death goes through"
    print(f"{len(deaths)} deaths; a whole life has {len(life.lines())} boundaries")


def test_a_prompt_is_seen_to_run_before_it_is_acknowledged(live: Live, tmp_path: Path) -> None:
    """Else `prompt --detach` and then `wait --until idle` may find the session idle before it began."""
    life = Life(live, "never", tmp_path / "boundaries")
    session = live.new(env=life.env)
    before = len(life.lines())
    session.tell("/say hello")
    acts = life.boundaries.names()[before:]
    assert "answer" in acts, acts
    assert "replace" in acts[: acts.index("answer")], acts


def test_a_prompt_whose_acknowledgement_was_lost_is_not_sent_again(live: Live, tmp_path: Path) -> None:
    """It is in the log as interrupted: the command says so, and does not send it a second time by itself."""
    life = Life(live, "answer 1", tmp_path / "boundaries")  # the receipt
    session = live.new(env=life.env)
    result = session.prompt("/say hello", code=None)
    assert life.was_killed()
    assert [text for _, text in session.inputs()] == ["/say hello"]
    assert session.count("user_message") == 1
    assert result.returncode == 7
