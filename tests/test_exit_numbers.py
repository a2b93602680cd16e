"""Every documented exit number is what a real command exits with."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.support.build import Home
from tests.support.live import Live, Session
from tests.support.permissions import raw_request
from tests.support.site import Site, command
from tools.facts import EXITS

ECHO = ("run", "--agent", "echo")
LIMIT = "/limit 1 You've hit your usage limit. Try again in 2 hours."
REQUEST = raw_request({"kind": "execute", "rawInput": {"command": "make"}})


def exit_of(live: Live, *args: object) -> int:
    return live.agh(*args, code=None).returncode


def damaged(live: Live) -> int:
    directory = Home(live.home).session()
    (directory / "meta.json").write_text("{")
    return exit_of(live, "session", "status", directory.name)


def crashed(live: Live) -> int:
    site = Site(live.home.parent / "site", live.workspace)
    site.add("mine", command("crash", "raise ValueError('oh')"))
    return site.agh("crash", code=None).returncode


def interrupted(live: Live) -> int:
    with live.start("run", "--agent", "echo", "/say ready\n/sleep 30", "-o", "jsonl") as process:
        assert process.stdout
        while b"ready" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    return process.returncode


def unread(live: Live) -> int:
    Home(live.home).session()
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with live.start(
            "session", "list", "-o", "json", stdout=writing, stderr=subprocess.DEVNULL
        ) as process:
            return process.wait(20)
    finally:
        os.close(writing)


PRODUCED: dict[int, Callable[[Live], int]] = {
    0: lambda live: exit_of(live, *ECHO, "hello"),
    1: lambda live: exit_of(live, *ECHO, "/error -32603 no"),
    2: lambda live: exit_of(live, *ECHO, ""),
    3: lambda live: exit_of(live, *ECHO, "/sleep 30", "--timeout", "0.2s"),
    4: lambda live: exit_of(live, "session", "status", "nobody"),
    5: lambda live: exit_of(live, *ECHO, "--permissions", "deny-all", REQUEST),
    6: lambda live: exit_of(live, "session", "cancel", live.new().id),
    7: lambda live: exit_of(live, *ECHO, "/crash"),
    8: damaged,
    9: lambda live: exit_of(live, *ECHO, "--command", "no-such-agent", "hello"),
    10: lambda live: exit_of(live, *ECHO, "--park", LIMIT),
    70: crashed,
    130: interrupted,
    141: unread,
}


@pytest.mark.parametrize("number", EXITS)
def test_a_command_exits_with(live: Live, number: int) -> None:
    assert PRODUCED[number](live) == number


def test_a_search_without_a_hit_exits_with_1(talked: Session) -> None:
    assert exit_of(talked.live, "search", "remember") == 0
    assert exit_of(talked.live, "search", "goodbye") == 1


def test_an_empty_inbox_exits_with_1(live: Live) -> None:
    assert exit_of(live, "inbox") == 1
    assert exit_of(live, "inbox", "--count") == 1
    live.agh(*ECHO, "/crash", code=7)
    assert exit_of(live, "inbox") == 0
    assert exit_of(live, "inbox", "--count") == 0
