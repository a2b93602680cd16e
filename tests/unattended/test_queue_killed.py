"""kill -9 of the keeper at every boundary of queue → dispatch → done, until the whole way is gone unharmed.

Three prompts with idempotency keys: the first asks for a permission, the others wait behind it. Wherever the
keeper dies, each of them is in the log once, was sent to the agent at most once, is `sent` or `interrupted`
in the end, and all are in order; what waited is sent after the resume, and to repeat the prompts is safe.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from agh.errors import AghError
from agh.keeper import client
from agh.keeper.create import create
from tests.support.live import Live, Session, wait_until
from tests.unattended.asking import received, requests

HERE = str(Path(__file__).with_name("at_boundary"))
SHARES = 2  # the rounds are shared out to this many tests: each takes every second n
Acknowledged = dict[str, bool]


class Fault:
    """The keeper that starts next dies at its n-th boundary once `arm` was called."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, at: int) -> None:
        self.log, self._armed = folder / f"boundaries-{at}", folder / f"armed-{at}"
        patch.setenv("AGH_TEST_KILL_AT", str(at))
        patch.setenv("AGH_TEST_BOUNDARIES", str(self.log))
        patch.setenv("AGH_TEST_ARMED", str(self._armed))

    def arm(self) -> None:
        self._armed.touch()

    def disarm(self) -> None:
        self._armed.unlink()

    def fired_at(self) -> str | None:
        """The boundary at which the keeper died."""
        lines = self.log.read_text().splitlines()
        return lines[-1].removesuffix(" KILLED") if lines and lines[-1].endswith("KILLED") else None


def send(session: Session, text: str, key: str) -> bool:
    """Whether the prompt was acknowledged."""
    try:
        session.call("prompt", prompt=[{"type": "text", "text": text}], idempotency_key=key)
    except AghError as error:
        assert error.code in ("keeper_gone", "keeper_died"), error.message
        return False
    return True


def texts(number: int) -> list[str]:
    return [
        f"/say {number}a\n/ask path={number}.txt\n/tool Look",
        f"{number}b",
        f"/tool Look\n/say {number}c",
    ]


def play(session: Session, number: int) -> Acknowledged:
    """Queue, dispatch, ask, answer, end; or whatever of it comes about before the keeper dies."""
    told = {text: send(session, text, f"key-{text}") for text in texts(number)}
    finish(session)
    return told


def finish(session: Session) -> None:
    """Allow what is asked for, until everything has ended or the keeper is dead."""

    def is_over() -> bool:
        if [one for one in requests(session) if one.status == "pending"] and session.is_live():
            with suppress(AghError):
                session.call("decide", verdict="allow")
        return {status for status, _ in session.inputs()} <= {"sent", "interrupted"} or not session.is_live()

    wait_until(is_over)


def check(session: Session, number: int, acknowledged: Acknowledged) -> None:
    """After the resume, everything repeated, everything settled."""
    for text in texts(number):
        assert send(session, text, f"key-{text}")
    finish(session)
    assert session.is_live()
    mine = [(status, text) for status, text in session.inputs() if text in acknowledged]
    assert sorted(text for _, text in mine) == sorted(acknowledged), "each once"
    got = [text for text in received(session) if text in acknowledged]
    for status, text in mine:
        assert got.count(text) <= 1, "sent twice"
        assert status == "interrupted" or got.count(text) == 1, "said to be sent, and it was not"
    assert got == [text for _, text in mine if text in got], "in order"
    if all(acknowledged.values()):
        assert [text for _, text in mine] == texts(number), "as they were acknowledged"
    assert [status for status, _ in mine].count("interrupted") <= 1, "only what was under way is interrupted"
    session.check_log()
    open_turns = {one.turn_id for one in session.events("user_message")} - {
        one.turn_id for one in session.events("done", "error")
    }
    assert open_turns == set()
    assert [one for one in requests(session) if one.status == "pending"] == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, SHARES + 1))
def test_killed_at_every_boundary(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    paths = [HERE, os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    live.configure("[[permissions.rules]]\ndecision = 'allow'\nkind = 'other'")
    fault = Fault(monkeypatch, tmp_path, first)
    directory, _ = create(agent="echo", workspace=str(live.workspace))
    session = live.session(os.path.basename(directory))
    deaths: list[str] = []
    for at in count(first, SHARES):
        fault.arm()
        acknowledged = play(session, at)
        died_at = fault.fired_at()
        if died_at is None:
            break
        deaths.append(died_at)
        wait_until(lambda: not session.is_live())
        fault = Fault(monkeypatch, tmp_path, at + SHARES)
        client.ensure_live(directory)
        check(session, at, acknowledged)
    fault.disarm()
    assert all(acknowledged.values())
    check(session, at, acknowledged)
    assert [status for status, _ in session.inputs()[-3:]] == ["sent"] * 3
    kinds = {line.split(" ", 1)[1] for line in fault.log.read_text().splitlines()}
    assert len(kinds) == 6, f"not every kind of boundary was met: {kinds}"
    assert deaths
    print(f"{len(deaths)} deaths")
