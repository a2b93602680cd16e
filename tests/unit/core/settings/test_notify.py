"""`[notify]`: what can be set, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from agh.core.settings.notify import EVENTS, Notify, read_notify


def test_everything_can_be_set() -> None:
    table = {
        "bell": True,
        "osc": 777,
        "desktop": True,
        "ntfy": "https://ntfy.sh/topic",
        "ntfy_token": "tk_1",
        "webhook": "http://127.0.0.1:8/hook",
        "command": ["say", "hello"],
        "apprise": ["json://localhost", "tgram://token/chat"],
        "events": ["failed"],
        "turn_end_after": "2m",
        "grace": "5s",
        "timeout": 3,
    }
    assert set(table) == set(Notify._fields)
    notify = read_notify(table)
    assert (notify.osc, notify.command, notify.events) == ("777", ("say", "hello"), ("failed",))
    assert (notify.turn_end_after, notify.grace, notify.timeout) == (120, 5, 3)
    assert notify.senders == ["desktop", "ntfy", "webhook", "command", "apprise"]


def test_only_what_is_set_notifies() -> None:
    notify = read_notify({"bell": True, "command": "wall"})
    assert (notify.senders, notify.events) == (["command"], EVENTS)
    assert notify.command == ("/bin/sh", "-c", "wall")


@pytest.mark.parametrize(
    "table",
    [
        [],
        {"bel": True},
        {"bell": "yes"},
        {"osc": "8"},
        {"ntfy": "https://ntfy.sh"},
        {"ntfy": "my-topic"},
        {"ntfy_token": "two\nlines"},
        {"webhook": "file:///etc/passwd"},
        {"command": []},
        {"events": ["everything"]},
        {"events": "failed"},
        {"grace": "soon"},
        {"apprise": []},
        {"apprise": ["nonsense"]},
        {"apprise": [3]},
    ],
)
def test_what_is_wrong_is_refused(table: Any) -> None:
    with pytest.raises(ValueError, match=r"must be|Apprise URL|unknown key|neither|not one of|time span"):
        read_notify(table)


def test_an_error_about_apprise_quotes_no_url() -> None:
    with pytest.raises(ValueError, match="number 2") as error:
        read_notify({"apprise": ["json://localhost", "user:sk-secret@host"]})
    assert "sk-secret" not in str(error.value)
