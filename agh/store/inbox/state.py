"""What the inbox remembers: the number of each entry, and what was dismissed. `inbox/state.json`.

Promises: a number is given once and never again, so an old list can never lead to another request. Writers
take turns by a lock; readers see the old state or the new one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict

import orjson

from agh.errors import HomeBusy
from agh.home import checked_home, ensure_home, home_path, make_private_dir, replace_private_file
from agh.store import lock as locks
from agh.store.inbox.count import STATE_FILE

LOCK_LIMIT = 10.0
KEPT_NUMBERS = 5000  # of the newest entries; an older number is unknown, and never means another entry


class State(TypedDict):
    next: int
    numbers: dict[str, int]  # by key, in the order in which they were given
    dismissed: dict[str, list[str]]  # what tells a failure or a limit from others, by session
    notified: dict[str, str]  # the failure that the user was last notified of by a command, by session


def read() -> State:
    """Return the state; an empty one if there is none.

    If it cannot be read, the numbers continue at the time in seconds, which is above all that were given.
    """
    try:
        with open(os.path.join(checked_home() or home_path(), STATE_FILE), "rb") as file:
            state = orjson.loads(file.read())
        numbers, dismissed, following = state["numbers"], state["dismissed"], state["next"]
        notified = state.get("notified", {})  # files of earlier versions have none
        if not isinstance(following, int) or not all(
            isinstance(table, dict) for table in (numbers, dismissed, notified)
        ):
            raise TypeError
    except FileNotFoundError:
        return {"next": 1, "numbers": {}, "dismissed": {}, "notified": {}}
    except (OSError, orjson.JSONDecodeError, TypeError, KeyError, AttributeError):
        return {"next": int(time.time()), "numbers": {}, "dismissed": {}, "notified": {}}
    return {"next": following, "numbers": numbers, "dismissed": dismissed, "notified": notified}


def number(keys: Sequence[str]) -> dict[str, int]:
    """Return the number of each key; a key that has none gets the next one."""
    numbers = read()["numbers"]
    if any(key not in numbers for key in keys):
        with _change() as state:
            numbers = state["numbers"]
            for key in keys:
                if key not in numbers:
                    numbers[key] = state["next"]
                    state["next"] += 1
            for key in list(numbers)[: max(0, len(numbers) - KEPT_NUMBERS)]:
                del numbers[key]
    return {key: numbers[key] for key in keys if key in numbers}


def key_of(number: int) -> str | None:
    """Return the key that has a number."""
    return next((key for key, value in read()["numbers"].items() if value == number), None)


def dismiss(marks: dict[str, list[str]]) -> None:
    """Remember these failures and limits, by session, as seen."""
    with _change() as state:
        state["dismissed"] |= marks
        _forget_deleted(state["dismissed"])


def note_notified(failures: dict[str, str]) -> set[str]:
    """Remember that the user is notified of these failures; return the sessions of which that is news."""
    with _change() as state:
        notified = state["notified"]
        new = {session_id for session_id, text in failures.items() if notified.get(session_id) != text}
        notified |= failures
        _forget_deleted(notified)
    return new


def _forget_deleted(table: dict[str, Any]) -> None:
    """Drop the sessions that are gone."""
    for session_id in list(table):
        if not os.path.isdir(os.path.join(home_path(), "sessions", session_id)):
            del table[session_id]


@contextmanager
def _change() -> Iterator[State]:
    """Read the state under its lock, and write it at the end of the block."""
    directory = os.path.dirname(os.path.join(ensure_home(), STATE_FILE))
    make_private_dir(directory)
    deadline = time.monotonic() + LOCK_LIMIT
    while (lock := locks.take_directory(directory)) is None:
        if time.monotonic() > deadline:
            raise HomeBusy("the inbox")
        time.sleep(0.005)
    with lock:
        state = read()
        yield state
        replace_private_file(os.path.join(ensure_home(), STATE_FILE), orjson.dumps(state))
