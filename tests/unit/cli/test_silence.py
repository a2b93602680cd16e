"""Silence in a turn is noted on a terminal, and only there."""

from __future__ import annotations

from agh.cli.silence import Silence
from agh.core.events import draft
from tests.support.build import calls, returns, rows, says


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def watch() -> tuple[Clock, Silence]:
    clock = Clock()
    return clock, Silence(clock)


def test_silence_is_noted_ever_more_rarely() -> None:
    clock, silence = watch()
    notes = []
    for _ in range(100):
        clock.now += 1
        if text := silence.note():
            notes.append(text)
    assert notes == [
        f"nothing from the agent for {seconds} s; it may be retrying" for seconds in (20, 40, 80)
    ]


def test_a_word_of_the_agent_ends_it() -> None:
    clock, silence = watch()
    clock.now += 19
    silence.hear(rows([says("hello")])[0])
    clock.now += 19
    assert silence.note() is None
    clock.now += 1
    assert silence.note() is not None


def test_a_running_tool_is_named() -> None:
    clock, silence = watch()
    call, result = rows([calls("c1", "make"), returns("c1")])
    silence.hear(call)
    clock.now += 21
    assert silence.note() == "make has been running for 21 s"
    silence.hear(result)
    clock.now += 20
    assert silence.note() == "nothing from the agent for 20 s; it may be retrying"


def test_nothing_is_noted_while_a_request_waits() -> None:
    clock, silence = watch()
    asked, decided = rows(
        [draft("permission", request_id="r"), draft("permission", request_id="r", decision="allowed")]
    )
    silence.hear(asked)
    clock.now += 60
    assert silence.note() is None
    silence.hear(decided)
    clock.now += 20
    assert silence.note() is not None
