"""kill -9 of anyone, at any moment of a scripted turn, again and again in one session.

A round is one `agh session prompt`, which resumes what the round before has killed. The victim is the
command, the keeper, its leash, the agent, or keeper and leash together. Whatever happens: what was shown is
in the log; the log only grows, without a gap; each turn is a prefix of its script, ends once, and is whole if
it is called done; no prompt reaches the agent twice; there is never a second agent.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.live import Event, Live
from tests.support.processes import Process, kill, look_at
from tests.support.rounds import Rounds
from tests.support.wait import wait_until

KILLS, TESTS = 28, 4  # in the suite; the soak goes on for its share of the time
VICTIMS = ("command", "keeper", "leash", "agent", "keeper and leash")
SCRIPT = "/say round-{n} begins\n/tool Read id=c1\n/stream 15 0.003\n/say round-{n} ends"

Told = tuple[str, str | None, str | None]


def told(event: Event) -> Told:
    """Return the parts of an event that depend only on the script."""
    return event.type, event.content.get("text"), event.content.get("tool_call_id")


def is_ours(event: Event) -> bool:
    """Tell whether it was written by a keeper or a repair, not by the agent."""
    return event.type in ("user_message", "done", "error") or event.content.get("outcome") == "unknown"


def agh_pids() -> list[int]:
    """Processes that may be ours, by their command lines alone: this is asked several times a round."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if b"agh" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
    return sorted(found)


class Stack:
    """The processes of a live session, by the part they play."""

    def __init__(self, live: Live) -> None:
        self.found: dict[str, list[Process]] = {"keeper": [], "leash": [], "agent": []}
        for process in filter(None, map(look_at, agh_pids())):
            if process.environ.get("AGH_HOME") != str(live.home):
                continue
            if "agh.keeper.main" in process.argv:
                self.found["keeper"].append(process)
            elif any("leash.py" in word for word in process.argv):
                self.found["leash"].append(process)
            elif "agh_echo" in process.argv:
                self.found["agent"].append(process)

    def pids(self, victim: str) -> list[int]:
        parts = [self.found[part][:1] for part in victim.split(" and ")]
        return [one.pid for (one,) in parts] if all(parts) else []

    def has_two_agents(self) -> bool:
        """Looked at twice, since the first look takes a while: one may end and the next begin in it."""
        return len([process for process in self.found["agent"] if look_at(process.pid) == process]) > 1


class Story:
    """One session and all that is known of it from outside."""

    def __init__(self, live: Live) -> None:
        self.live, self.session = live, live.new()
        self.fired: Counter[str] = Counter()
        self.shown: list[bytes] = []
        self.log: list[Event] = []
        self.completed: set[int] = set()
        self.session.stop()
        self.spans = [self.time_a_round(), self.time_a_round()]  # from a stopped session, from a live one
        self.script = [told(event) for event in self.session.events(turn=self.turn()) if not is_ours(event)]
        assert [one for one in self.script if one[1]][-1][1] == "ends"

    def time_a_round(self) -> float:
        """Seconds of a round that nobody disturbs."""
        started = time.monotonic()
        self.session.prompt(SCRIPT.format(n=0))
        return time.monotonic() - started

    def turn(self) -> str:
        return self.session.events("user_message")[-1].turn_id

    def play(self, number: int, chance: random.Random) -> None:
        """Send a prompt, and kill someone at a random moment of its start or its turn."""
        missing = [victim for victim in VICTIMS if victim not in self.fired]
        victim, span = chance.choice(missing or VICTIMS), self.spans[self.session.is_live()]
        command = self.session.start_prompt(SCRIPT.format(n=number), "-o", "jsonl")
        lines: list[bytes] = []
        assert command.stdout and command.stderr
        if chance.random() < 0.5:
            time.sleep(chance.random() * span * 0.7)
        else:
            lines = [command.stdout.readline() for _ in range(chance.randrange(1, len(self.script)))]
            time.sleep(chance.random() * 0.002)
        self.strike(victim, command)
        lines += command.stdout.readlines()
        err = command.stderr.read()
        command.wait(60)
        failed_to_restore = b'"restore_failed"' in err and victim in ("leash", "agent")
        assert command.returncode in (0, 7, -9) or failed_to_restore, (
            victim,
            command.returncode,
            err.decode(),
        )
        assert b"Traceback" not in err
        if command.returncode == 0:
            self.completed.add(number)
        whole = [line for line in lines if line.endswith(b"\n")]
        assert whole == lines or command.returncode == -9, "a torn line"
        self.shown += whole
        self.look()

    def strike(self, victim: str, command: subprocess.Popen[bytes]) -> None:
        """Kill the victim, as soon as it is there; too late, when the command has ended."""
        while command.poll() is None:
            stack = Stack(self.live)
            assert not stack.has_two_agents(), stack.found
            if pids := [command.pid] if victim == "command" else stack.pids(victim):
                with suppress(ProcessLookupError):
                    for pid in pids:
                        kill(pid)
                    self.fired[victim] += 1
                return
            time.sleep(0.002)

    def has_settled(self) -> bool:
        """Tell whether the last kill was noticed: all of the session's processes live, or it has ended."""
        return not self.session.is_live() or all(Stack(self.live).found.values())

    def look(self) -> None:
        """Take what is new in the log."""
        columns = "SELECT sequence, turn_id, type, content FROM events WHERE sequence > ? ORDER BY sequence"
        for row in self.session.fetch(columns, len(self.log)):
            self.log.append(Event(*row[:3], json.loads(row[3])))

    def end(self, last: int) -> None:
        """Let the session go on to a good end, and check the whole story."""
        wait_until(self.has_settled, what="the keeper to notice the last kill")
        reply = self.session.say("what did I say?")
        self.look()
        assert self.session.events() == self.log, "what was read while it was made is still there"
        self.session.check_log()
        stored = set(self.session.agh("events", "-o", "jsonl").stdout.encode().splitlines(keepends=True))
        assert len(self.shown) == len(set(self.shown))
        assert set(self.shown) <= stored
        turns: dict[str, list[Event]] = {}
        for event in self.log:
            if event.turn_id:
                turns.setdefault(event.turn_id, []).append(event)
        numbers = [self.check_turn(turn) for turn in list(turns.values())[1:-1]]
        assert numbers == sorted(set(numbers)), "every prompt once, in order"
        assert self.completed <= set(numbers) <= set(range(last + 1))
        for number in range(1, last + 1):
            seen = reply.count(f"/say round-{number} begins")
            assert seen <= 1 if number in numbers else seen == 0, f"prompt {number} was sent {seen} times"
        strategies = {row.content["strategy"] for row in self.log if row.type == "session_resumed"}
        assert strategies == {"native_resume"}
        statuses = Counter(status for status, _ in self.session.inputs())
        assert set(statuses) <= {"sent", "interrupted", "failed"}
        print(f"{sum(self.fired.values())} kills: {dict(self.fired)}; turns: {dict(statuses)}")

    def check_turn(self, turn: list[Event]) -> int:
        """Return the number of the round; its turn is a prefix of the script, whole if it is called done."""
        first, *between, last = turn
        number = int(first.content["text"].split()[1].removeprefix("round-"))
        script = [
            (type, text and text.replace("round-0", f"round-{number}"), call)
            for type, text, call in self.script
        ]
        agents = [told(one) for one in between if not is_ours(one)]
        assert first.type == "user_message"
        assert last.type in ("done", "error"), last
        assert agents == script[: len(agents)], f"turn {number} is no prefix of its script"
        assert last.type == "error" or len(agents) == len(script), f"turn {number} is done, but not whole"
        assert number not in self.completed or last.type == "done"
        return number


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(TESTS))
def test_any_process_killed_at_any_moment(live: Live, rounds: Rounds, part: int) -> None:
    story = Story(live)
    count = KILLS // TESTS
    number = 0
    for number, chance in rounds(5 * count):
        story.play(number, chance)
        if rounds.seconds is None and story.fired.total() >= count and set(story.fired) == set(VICTIMS):
            break
    story.end(number)
    if rounds.seconds is None:
        assert story.fired.total() >= count
        assert set(story.fired) == set(VICTIMS)
