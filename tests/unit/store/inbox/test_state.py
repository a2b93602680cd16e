"""The numbers of the inbox are given once, whoever asks."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agh.store.inbox import state
from tests.support.build import Home


def test_a_number_is_never_given_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "KEPT_NUMBERS", 3)
    assert state.number(["a", "b"]) == {"a": 1, "b": 2}
    assert state.number(["b", "c", "d"]) == {"b": 2, "c": 3, "d": 4}
    assert state.key_of(1) is None, "the oldest is forgotten"
    assert state.number(["a"]) == {"a": 5}
    assert (state.key_of(3), state.key_of(9)) == ("c", None)


def test_writers_take_turns(home: Home) -> None:
    keys = [f"key-{number}" for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: state.number(keys), range(8)))
        single = list(pool.map(lambda key: state.number([key])[key], [*keys, "more", "still"]))
    assert all(answer == answers[0] for answer in answers)
    assert sorted(single) == list(range(1, 43))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"numbers": 3, "next": "x", "dismissed": []}'])
def test_a_damaged_state_gives_no_number_again(home: Home, text: str) -> None:
    assert state.number(["a"]) == {"a": 1}
    Path(home.path / "inbox" / "state.json").write_text(text)
    number = state.number(["b"])["b"]
    assert number > 1_000_000
    assert state.number(["b", "a"]) == {"b": number, "a": number + 1}


def test_the_state_is_private(home: Home) -> None:
    state.number(["a"])
    modes = [os.stat(home.path / name).st_mode & 0o777 for name in ("inbox", "inbox/state.json")]
    assert modes == [0o700, 0o600]
