"""kill -9 of the keeper at every boundary of queue → dispatch → done, until the whole way is gone unharmed.

Three prompts with idempotency keys: the first asks for a permission, the second waits behind it, the third
waits too, or interrupts. Wherever the keeper dies, each of them is in the log once, was sent to the agent at
most once, and has come to an end; all are in order. What waited is sent after the resume, and to repeat the
prompts is safe.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from agh.errors import AghError
from agh.sessions.new import create
from agh.sessions.start import ensure_live
from tests.support.boundaries import Boundaries
from tests.support.live import Live, Session
from tests.support.permissions import received, requests
from tests.support.wait import wait_until

ACTS = "commit committed meta send sent answer"
ENDS = {"queue": {"sent", "interrupted"}, "interrupt": {"sent", "interrupted", "cancelled"}}
Acknowledged = dict[str, bool]


class Fault:
    """The keeper that starts next dies at its n-th boundary once `arm` was called."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, at: int) -> None:
        self._armed = folder / f"armed-{at}"
        self.boundaries = Boundaries(folder / f"boundaries-{at}", at, ACTS, armed=self._armed)
        for name, value in self.boundaries.environ.items():
            patch.setenv(name, value)

    def arm(self) -> None:
        self._armed.touch()

    def disarm(self) -> None:
        self._armed.unlink()


class Round:
    """The three prompts of one round; `last` is the mode of the third."""

    def __init__(self, session: Session, number: int, last: str) -> None:
        self.session, self.last = session, last
        self.texts = [f"/say {number}a\n/ask path={number}.txt\n/tool Look", f"{number}b", f"/say {number}c"]
        self.acknowledged: Acknowledged = {}

    def play(self) -> None:
        """Queue, dispatch, ask, answer, end; or whatever of it comes about before the keeper dies."""
        self.acknowledged = dict(zip(self.texts, self.send(), strict=True))
        self.finish()

    def send(self) -> list[bool]:
        """Return which of the prompts were acknowledged."""
        first, second, third = self.texts
        told = [self._send(first, "queue")]
        wait_until(lambda: not self.session.is_live() or self._is_waiting(first))
        return [*told, self._send(second, "queue"), self._send(third, self.last)]

    def finish(self) -> None:
        """Allow what is asked for, until everything has ended or the keeper is dead."""

        def is_over() -> bool:
            pending = "SELECT request_id FROM permissions WHERE status = 'pending'"
            for (request_id,) in self.session.fetch(pending):  # an interrupt may withdraw it meanwhile
                with suppress(AghError):
                    self.session.call("decide", request_id=request_id, verdict="allow")
            statuses = {status for status, _ in self.session.inputs()}
            return statuses <= ENDS[self.last] or not self.session.is_live()

        wait_until(is_over)

    def check(self) -> None:
        """After the resume: everything is sent once more with the same keys, and has settled."""
        assert all(self.send())
        self.finish()
        assert self.session.is_live()
        mine = [(text, status) for status, text in self.session.inputs() if text in self.texts]
        assert [text for text, _ in mine] == self.texts, "each once, in order"
        got = [text for text in received(self.session) if text in self.texts]
        assert got == [text for text, _ in mine if text in got], "each at most once, in order"
        for text, status in mine:
            assert status != "sent" or text in got, "said to be sent, and it was not"
            assert status != "cancelled" or (text == self.texts[1] and text not in got)
        assert [status for _, status in mine].count("interrupted") <= 1, "only what was under way"
        self.session.check_log()
        turn_ids = {event.turn_id for event in self.session.events("user_message")}
        assert turn_ids == {event.turn_id for event in self.session.events("done", "error")}
        assert [request for request in requests(self.session) if request.status == "pending"] == []

    def _send(self, text: str, mode: str) -> bool:
        prompt = [{"type": "text", "text": text}]
        try:
            self.session.call("prompt", prompt=prompt, mode=mode, idempotency_key=f"key-{text}")
        except AghError as error:
            assert error.code in ("keeper_gone", "keeper_died"), error.message
            return False
        return True

    def _is_waiting(self, text: str) -> bool:
        """Tell whether the agent has asked for its permission, or the prompt has ended."""
        status = {known: status for status, known in self.session.inputs()}.get(text)
        return status in ENDS[self.last] or [request.status for request in requests(self.session)][-1:] == [
            "pending"
        ]


def answers(session: Session) -> bool:
    """Tell whether the keeper lives; once it answers, it has done what came before."""
    try:
        session.call("hello")
    except AghError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize(("last", "first", "step"), [("queue", 1, 2), ("queue", 2, 2), ("interrupt", 1, 2)])
def test_killed_at_every_boundary(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str, first: int, step: int
) -> None:
    fault = Fault(monkeypatch, tmp_path, first)
    directory, _ = create(agent="echo", workspace=str(live.workspace))
    session = live.session(os.path.basename(directory))
    for at in count(first, step):
        fault.arm()
        now = Round(session, at, last)
        now.play()
        if not fault.boundaries.was_killed():
            fault.disarm()
            if answers(session):  # else it died of what it still had to do
                break
        wait_until(lambda: not session.is_live())
        fault = Fault(monkeypatch, tmp_path, at + step)
        ensure_live(directory)
        now.check()
    assert all(now.acknowledged.values())
    now.check()
    statuses = [status for status, _ in session.inputs()[-3:]]
    assert statuses == ["sent", "sent" if last == "queue" else "cancelled", "sent"]
    assert set(fault.boundaries.names()) == set(ACTS.split()), "not every kind of boundary was met"
    assert at > 20, "the loop ended before it began"
    print(f"{(at - first) // step} deaths")
