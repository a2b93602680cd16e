"""Tests of the conversation on a terminal that can only print lines."""

from __future__ import annotations

import signal
import time
from types import SimpleNamespace
from typing import Any

import pytest

from agh.cli.chat import lines
from agh.core.events import Row
from agh.errors import SessionNotAttachable
from agh.home import Session
from tests.support.wait import PATIENCE


def test_an_input_that_misses_the_first_interrupt_is_interrupted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal that comes between the prompt and the wait for a key is not seen by `input`."""
    signals: list[int] = []

    def miss_the_first(number: int, _: Any) -> None:
        signals.append(number)
        if len(signals) > 1:
            raise KeyboardInterrupt

    loss = SessionNotAttachable("work", "was taken over by somebody", hint="")

    def see(row: Row, view: Any) -> bool:
        raise loss

    row = Row(1, "", "session_attached", "", "{}", "")
    monkeypatch.setattr(lines, "follow", lambda *_, **__: iter([(None, [row])]))
    conversation: Any = SimpleNamespace(session=Session("sess-1", "/none"), position=0, see=see, loss=None)
    previous = signal.signal(signal.SIGINT, miss_the_first)
    try:
        with pytest.raises(KeyboardInterrupt), lines._Onlooker(conversation):
            time.sleep(PATIENCE)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert len(signals) >= 2
    assert conversation.loss is loss
