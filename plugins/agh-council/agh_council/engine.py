"""The engine of a council: fold the log, ask what comes next, do it, write it down, until it is over.

Promises: every step is in the log before it is taken, and what came of it before the next; the engine
knows nothing that the log does not say. Killed anywhere, another engine on the same log goes on with the same
rounds, delegations and memo.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from typing import Any

from agh.core.events import timestamp
from agh.errors import AghError
from agh.keeper.live import Live, log
from agh.store.reader import EVERYTHING, Reader
from agh_council import driver, limits, members, pads, threads, words
from agh_council.members import Asks, Costs, Ended, Seat, Sent
from agh_council.profile import Perspective
from agh_council.state import Delegation, Member, Round, State, apply

CANCEL_LIMIT, CANCEL_AGAIN = 15.0, 0.5  # for members to end their turns when the council pauses


class Engine:
    def __init__(self, live: Live) -> None:
        self.live = live
        self.state = State(session_id=live.session_id)
        self.pause_after_round = False
        self.turn_id = ""
        self._box = threads.Box(live.loop)
        self._keepers: list[int] = []
        self.catch_up()

    def run(self) -> None:
        """Until the council is over, or somebody ends it."""
        while self.live.ending is None:
            self.state.elapsed = time.monotonic() - self.live.began
            self.warn()
            action = driver.next_action(self.state)
            log(driver.describe(action))
            self.perform(action)

    def perform(self, action: driver.Action) -> None:
        match action:
            case driver.OpenRound():
                self.open_round(action)
            case driver.Delegate(made):
                self.note(
                    *(("delegation", _words_of(one), {**asdict(one), "status": "pending"}) for one in made)
                )
            case driver.Send(ids):
                self.send([self.state.delegations[id] for id in ids])
            case driver.Settle(ids, gives_up):
                self.note(*(self.settled(self.state.delegations[id], gives_up) for id in ids))
            case driver.CloseRound(number, status):
                self.close_round(number, status)
            case driver.AskGate(number, attempt, prompt):
                given = {"round": number, "attempt": attempt, "status": "waiting", "prompt": prompt}
                self.note(("gate", f"after round {number}: {prompt}", given))
            case driver.WriteMemo(text):
                self.note(("memo", self.state.profile.memo, {"path": self.state.profile.memo, "text": text}))
            case driver.Finish():
                self.write_memo()
                self.live.end("completed")
            case driver.Pause(reason, detail):
                self.live.end(reason, detail)

    # The log.

    def note(self, *events: tuple[str, str, dict[str, Any]]) -> None:
        """Write events of the council down, together, and take them in."""
        with self.live.batch():
            for action, title, given in events:
                self.live.record("system", turn_id=self.turn_id, action=action, title=title, council=given)
        self.catch_up()

    def catch_up(self) -> None:
        """Take in what the log has and the state has not."""
        with Reader(self.live.directory) as reader:
            for row in reader.rows(EVERYTHING, self.state.sequence):
                apply(self.state, row)

    def warn(self, more_cost: float = 0.0) -> None:
        """Say once that a maximum comes close."""
        for constraint, used, bounds in limits.approaching(self.state, more_cost):
            given = {"constraint": constraint, "used": used, "max": bounds.max, "level": "approaching"}
            self.note(("constraint", f"{constraint}: {used:g} of {bounds.max:g} is used", given))

    # Rounds.

    def open_round(self, action: driver.OpenRound) -> None:
        made = Round(
            action.number, action.attempt, action.targets, action.messages,
            list(self.state.steers), self.state.feedback, action.fallback,
        )  # fmt: skip
        self.begin_turn(
            made, self.state.brief if made.number == made.attempt == 1 else f"Round {made.number}"
        )
        given = {key: value for key, value in asdict(made).items() if key != "asked"}
        why = f", by the script: {made.fallback}" if made.fallback else ""
        self.note(("round", f"round {made.number} opens{why}", given))

    def begin_turn(self, now: Round, text: str) -> None:
        """A round is a turn of the council's session; one that is gone on with is a new turn."""
        count = self.state.turns.get(now.number, 0) + 1
        self.turn_id = f"round-{now.number}" + (f".{count}" if count > 1 else "")
        told = "\n\n".join([text, *words.from_operator(now)])
        with self.live.batch():
            self.live.record("user_message", turn_id=self.turn_id, text=told, council={"round": now.number})
        self.catch_up()
        self.show_activity()

    def close_round(self, number: int, status: str) -> None:
        self.note(
            *self.pad_notes(), ("round", f"round {number} is {status}", {"number": number, "status": status})
        )
        self.end_turn("end_turn")
        if self.pause_after_round:
            self.live.end("paused", f"after round {number}")

    def end_turn(self, reason: str) -> None:
        if self.turn_id:
            with self.live.batch():
                self.live.record("done", turn_id=self.turn_id, stop_reason=reason)
            self.turn_id = ""
            self.live.meta["turns"] = self.live.meta.get("turns", 0) + 1
            self.show_activity()

    def show_activity(self) -> None:
        activity = {"turn_id": self.turn_id or None, "last_activity_at": timestamp()}
        self.live.update(sync=False, activity=activity)

    def pad_notes(self) -> list[tuple[str, str, dict[str, Any]]]:
        return [
            ("expertise", f"{id} has written in its scratch pad", {"agent_id": id, "text": text})
            for id, text in pads.changed(self.state).items()
        ]

    # Members.

    def seat(
        self, agent_ids: Iterable[str], roles: dict[str, str] | None = None
    ) -> dict[str, Seat | Exception]:
        """Make members live, all at once, and note what changed: new sessions, and how memory came back."""
        found = threads.gather(self.live.loop, {id: self._seating(id) for id in dict.fromkeys(agent_ids)})
        for agent_id, seat in found.items():
            if not isinstance(seat, Seat):
                continue
            self._keepers += [seat.pid] if seat.pid else []
            known, depth = self.state.members.get(agent_id), agent_id.count("/")
            made = Member(
                agent_id, seat.session_id, seat.acp_session_id, seat.restore,
                agent_id.rpartition("/")[0] or None, depth,
            )  # fmt: skip
            given = {key: getattr(made, key) for key in _SEATED}
            if known is None or given != {key: getattr(known, key) for key in _SEATED}:
                how = (seat.restore or {}).get("strategy") or "new"
                self.note(("member", f"{agent_id} sits in {seat.session_id} ({how})", given))
        self.reap()
        return found

    def _seating(self, agent_id: str) -> Any:
        state, known = self.state, self.state.members.get(agent_id)
        pad = pads.ensure(state, agent_id)
        name = f"{agent_id}.{self.live.session_id.removeprefix('sess-')}"
        given = (self.perspective(agent_id), state.workspace, state.profile.permissions, pads.rules(pad))
        return lambda: members.seat(name, known.session_id if known else None, *given)

    def perspective(self, agent_id: str) -> Perspective:
        """The seat of a member; a member's member runs the same agent."""
        found = self.state.profile.seat(agent_id.partition("/")[0])
        assert found is not None, agent_id
        return found

    def send(self, asked: list[Delegation]) -> None:
        """Put requests to their members, all at once, and wait until each has come to an end."""
        if not self.turn_id and self.state.open_round is not None:
            self.begin_turn(self.state.open_round, f"Round {self.state.open_round.number}, continued")
        seats = self.seat(one.target for one in asked)
        waiting: dict[str, Delegation] = {}
        costs: dict[str, float] = {}
        self.check_limits()
        for one in asked if self.live.ending is None else ():
            seat = seats[one.target]
            if isinstance(seat, Seat):
                waiting[one.id] = one
                self._start(one, members.directory_of(seat.session_id))
            else:
                self.note(_changed(one, "failed", detail=_reason(seat)))
        while waiting and self.live.ending is None:
            self.live.loop.run_until(
                lambda: bool(self._box) or self.live.ending is not None, self._patience()
            )
            self._take(waiting, costs)
            self.check_limits(sum(costs.values()))
        if waiting:
            self._cancel(waiting, costs)

    def check_limits(self, more_cost: float = 0.0) -> None:
        """Warn of a maximum that comes close; end with one that is reached. Rounds end by themselves."""
        self.state.elapsed = time.monotonic() - self.live.began
        self.warn(more_cost)
        hit = limits.reached(self.state, more_cost)
        if hit is not None:
            self.live.end(*hit)

    def _start(self, one: Delegation, directory: str) -> None:
        key = f"{self.live.session_id}:{one.id}:{one.tries}"
        text = words.prompt(self.state, one, pads.path(self.state, one.target))
        threads.start(lambda: members.ask(directory, text, key, lambda report: self._box.put(one.id, report)))

    def _patience(self) -> float | None:
        """How long to wait at most before a look at the clock."""
        most = self.state.profile.constraints.time.max
        if most is None:
            return None
        marks = [mark for mark in (limits.APPROACHING * most, most) if mark > self.state.elapsed]
        return max(0.01, min(marks, default=most) - self.state.elapsed)

    def _take(self, waiting: dict[str, Delegation], costs: dict[str, float]) -> None:
        """Write down what members have reported."""
        while (report := self._box.take()) is not None:
            id, told = report
            one = waiting.get(id)
            if one is None:
                continue
            if isinstance(told, Costs):
                costs[id] = told.cost
            elif isinstance(told, Sent) and one.status != "sent":
                self.note(_changed(one, "sent"))
            elif isinstance(told, Asks):
                session_id = self.state.members[one.target].session_id
                text = f"{one.target} asks for permission: {told.title} (agh session approve {session_id})"
                self.note(("permission", text, {"agent_id": one.target, "session_id": session_id}))
            elif isinstance(told, Ended):
                del waiting[id]
                costs.pop(id, None)
                self._ended(one, told)

    def _ended(self, one: Delegation, told: Ended) -> None:
        if told.status == "answered":
            with self.live.batch():
                self.live.record(
                    "agent_message",
                    turn_id=self.turn_id,
                    text=told.text,
                    agent_id=one.target,
                    message_id=f"{one.id}:{one.tries}",
                    council={"delegation": one.id, "cost": told.cost},
                )
            self.catch_up()
        elif told.status == "cancelled" and self.live.ending is not None:
            self.note(_changed(one, "pending", tries=one.tries + 1, detail=told.text, cost=told.cost))
        else:
            status = "failed" if told.status == "failed" else "unknown"
            self.note(_changed(one, status, detail=told.text, cost=told.cost))

    def _cancel(self, waiting: dict[str, Delegation], costs: dict[str, float]) -> None:
        """The council ends in the middle of a round: what was asked is asked again after a resume."""
        deadline = time.monotonic() + CANCEL_LIMIT
        while waiting and time.monotonic() < deadline:
            for one in waiting.values():  # more than once: one that is only on its way cannot be cancelled
                directory = members.directory_of(self.state.members[one.target].session_id)
                threads.start(partial(members.cancel, directory))
            self.live.loop.run_until(lambda: bool(self._box), CANCEL_AGAIN)
            self._take(waiting, costs)

    def settled(self, one: Delegation, gives_up: bool) -> tuple[str, str, dict[str, Any]]:
        """Another try of what got lost, in the way that the profile wants; or the end of it."""
        if gives_up:
            return _changed(one, "failed", detail=f"lost {one.tries} times: {one.detail}")
        text = None
        if (
            self.state.profile.on_unknown == "ask"
            and one.status == "unknown"
            and not one.message.startswith(LOST)
        ):
            text = f"{LOST}\n\n{one.message}"
        return _changed(one, "pending", tries=one.tries + 1, message=text)

    # The end.

    def write_memo(self) -> None:
        memo = self.state.memo
        assert memo is not None
        path = os.path.join(self.state.workspace, memo["path"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
            file.write(memo["text"])
        os.replace(file.name, path)

    def dismiss(self, reason: str) -> None:
        """End the members' agents, and keep what stands in their scratch pads."""
        places = {id: members.directory_of(one.session_id) for id, one in self.state.members.items()}
        works = {id: partial(members.stop, place, reason) for id, place in places.items()}
        threads.gather(self.live.loop, works)
        self.reap()
        notes = self.pad_notes()
        if notes:
            self.note(*notes)
        self.end_turn("cancelled")

    def reap(self) -> None:
        """Keepers that ended are children of ours."""
        for pid in list(self._keepers):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._keepers.remove(pid)


LOST = (
    "The answer to this request got lost. If you have done what it asks, do not do it again: "
    "give the answer once more. Else do it now."
)
_SEATED = ("agent_id", "session_id", "acp_session_id", "restore", "parent_agent_id", "depth")


def _words_of(one: Delegation) -> str:
    return f"round {one.round}: {one.kind} {one.target}"


def _changed(one: Delegation, status: str, **more: Any) -> tuple[str, str, dict[str, Any]]:
    given = {
        "id": one.id,
        "status": status,
        **{key: value for key, value in more.items() if value is not None},
    }
    why = f": {more['detail']}" if more.get("detail") else ""
    return "delegation", f"{_words_of(one)} is {status}{why}", given


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, AghError) else f"{type(error).__name__}: {error}"
