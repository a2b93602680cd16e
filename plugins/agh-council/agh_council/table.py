"""The table that members sit at: they are seated, asked all at once, waited for, and dismissed.

Promises: a delegation is in the minutes before it is sent, and its end before anything follows from it; what
is cut short by a pause is asked again after it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from agh.errors import AghError
from agh.sessions import start
from agh_council import limits, members, pads, threads, words
from agh_council.members import Asks, Costs, Ended, Seat, Sent
from agh_council.minutes import Minutes, changed
from agh_council.state import Delegation

CANCEL_LIMIT, CANCEL_AGAIN = 15.0, 0.5  # for members to end their turns when the council pauses


class Table:
    def __init__(self, minutes: Minutes) -> None:
        self.minutes, self.live = minutes, minutes.live
        self._box = threads.Box(self.live.loop)
        self._waiting: dict[str, Delegation] = {}
        self._costs: dict[str, float] = {}  # of the turns that run

    def seat(self, agent_ids: Iterable[str]) -> dict[str, Seat | Exception]:
        """Make members live, all at once, and note what is new: a session, or how memory came back."""
        found = threads.gather(self.live.loop, {id: self._seating(id) for id in dict.fromkeys(agent_ids)})
        for agent_id, seat in found.items():
            if isinstance(seat, Seat):
                self._note_seat(agent_id, seat)
        self._reap()
        return found

    def _seating(self, agent_id: str) -> partial[Seat]:
        state, known = self.minutes.state, self.minutes.state.members.get(agent_id)
        perspective = state.profile.seat(agent_id.partition("/")[0])  # a member's member runs its agent
        assert perspective is not None, agent_id
        return partial(
            members.seat,
            f"{agent_id[-80:]}.{state.session_id.removeprefix('sess-')}",
            known.session_id if known else None,
            perspective,
            state.workspace,
            state.profile.permissions,
            pads.rules(pads.ensure(state, agent_id)),
        )

    def _note_seat(self, agent_id: str, seat: Seat) -> None:
        given: dict[str, Any] = {
            "agent_id": agent_id,
            "session_id": seat.session_id,
            "acp_session_id": seat.acp_session_id,
            "restore": seat.restore,
            "parent_agent_id": agent_id.rpartition("/")[0] or None,
            "depth": agent_id.count("/"),
        }
        known = self.minutes.state.members.get(agent_id)
        if known is None or any(getattr(known, key) != value for key, value in given.items()):
            how = (seat.restore or {}).get("strategy") or "new"
            self.minutes.note(("member", f"{agent_id} sits in {seat.session_id} ({how})", given))

    def ask(self, asked: list[Delegation]) -> None:
        """Put requests to their members, all at once, and wait until each has come to an end."""
        seats = self.seat(one.target for one in asked)
        self._check_limits()
        for one in asked if not self.live.is_ending else ():
            seat = seats[one.target]
            if isinstance(seat, Seat):
                self._send(one, members.directory_of(seat.session_id))
            else:
                self.minutes.note(changed(one, "failed", detail=_reason(seat)))
        while self._waiting and not self.live.is_ending:
            self.live.loop.run_until(self._is_news, self._patience())
            self._take()
            self._check_limits()
        if self._waiting:
            self._cancel()

    def _send(self, one: Delegation, directory: str) -> None:
        state = self.minutes.state
        key = f"{state.session_id}:{one.id}:{one.tries}"
        text = words.prompt(state, one, pads.path(state, one.target))
        self._waiting[one.id] = one
        threads.start(partial(members.ask, directory, text, key, partial(self._box.put, one.id)))

    def _is_news(self) -> bool:
        return bool(self._box) or self.live.is_ending

    def _patience(self) -> float | None:
        """How long to wait at most before a look at the clock."""
        state = self.minutes.state
        most = state.profile.constraints.time.max
        if most is None:
            return None
        marks = [mark for mark in (limits.APPROACHING * most, most) if mark > state.elapsed]
        return max(0.01, min(marks, default=most) - state.elapsed)

    def _check_limits(self) -> None:
        hit = self.minutes.look_at_limits(sum(self._costs.values()))
        if hit is not None:
            self.live.end(*hit)

    def _take(self) -> None:
        """Write down what members have reported."""
        while (report := self._box.take()) is not None:
            id, told = report
            one = self._waiting.get(id)
            if one is None:
                continue
            if isinstance(told, Costs):
                self._costs[id] = told.cost
            elif isinstance(told, Sent) and one.status != "sent":
                self.minutes.note(changed(one, "sent"))
            elif isinstance(told, Asks):
                self._note_asking(one, told.title)
            elif isinstance(told, Ended):
                del self._waiting[id]
                self._costs.pop(id, None)
                self._note_end(one, told)

    def _note_asking(self, one: Delegation, title: str) -> None:
        session_id = self.minutes.state.members[one.target].session_id
        text = f"{one.target} asks for permission: {title} (agh session approve {session_id})"
        self.minutes.note(("permission", text, {"agent_id": one.target, "session_id": session_id}))

    def _note_end(self, one: Delegation, told: Ended) -> None:
        if told.status == "answered":
            self.minutes.note_answer(one, told.text, told.cost)
        elif told.status == "cancelled" and self.live.is_ending:
            again = {"tries": one.tries + 1, "detail": told.text, "cost": told.cost}
            self.minutes.note(changed(one, "pending", **again))
        else:
            status = "failed" if told.status == "failed" else "unknown"
            self.minutes.note(changed(one, status, detail=told.text, cost=told.cost))

    def _cancel(self) -> None:
        """The council ends in the middle of a round: what was asked is asked again after a resume."""
        seated, deadline = self.minutes.state.members, time.monotonic() + CANCEL_LIMIT
        while self._waiting and time.monotonic() < deadline:
            for one in self._waiting.values():  # again and again: what is on its way cannot be cancelled yet
                directory = members.directory_of(seated[one.target].session_id)
                threads.start(partial(members.cancel, directory))
            self.live.loop.run_until(lambda: bool(self._box), CANCEL_AGAIN)
            self._take()

    def dismiss(self, reason: str) -> None:
        """End the members' agents."""
        seated = self.minutes.state.members.items()
        places = {id: members.directory_of(one.session_id) for id, one in seated}
        threads.gather(
            self.live.loop, {id: partial(members.stop, place, reason) for id, place in places.items()}
        )
        self._reap()

    def _reap(self) -> None:
        """Keepers that ended are children of ours."""
        for pid in list(start.children):
            if os.waitpid(pid, os.WNOHANG)[0]:
                start.children.remove(pid)


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, AghError) else f"{type(error).__name__}: {error}"
