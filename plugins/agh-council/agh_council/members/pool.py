"""The pool of running members: it starts them, asks them all at once, waits for the answers, and stops them.

Promises: a delegation is in the log before it is sent, and its outcome before anything follows from it. A
turn that a pause cancels is asked again after the resume.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from agh.errors import AghError
from agh.home import Session, session_of
from agh.sessions import start
from agh_council import limits, prompts
from agh_council.members import scratch_pads, session, threads
from agh_council.members.session import (
    Accepted,
    PermissionWanted,
    QuestionAsked,
    RunningCost,
    StartedMember,
    TurnEnded,
)
from agh_council.recorder import Recorder, status_event
from agh_council.state import CouncilEvent, Delegation

# How long members have to end their turns when the council pauses, and how often they are asked to.
CANCEL_TIMEOUT, CANCEL_INTERVAL = 15.0, 0.5


class MemberPool:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder, self.live = recorder, recorder.live
        self._reports = threads.ReportQueue(self.live.loop)
        self._running: dict[str, Delegation] = {}
        self._costs: dict[str, float] = {}  # of the running turns, by delegation

    def start(self, agent_ids: Iterable[str]) -> dict[str, StartedMember | Exception]:
        """Start members at the same time; record new sessions and how restored ones got their memory."""
        tasks = {agent_id: self._start_task(agent_id) for agent_id in dict.fromkeys(agent_ids)}
        results = threads.gather(self.live.loop, tasks)
        for agent_id, result in results.items():
            if isinstance(result, StartedMember):
                self._record_start(agent_id, result)
        self._reap_keepers()
        return results

    def _start_task(self, agent_id: str) -> partial[StartedMember]:
        state = self.recorder.state
        member = state.members.get(agent_id)
        perspective = state.profile.member(agent_id.partition("/")[0])  # a child runs its parent's agent
        assert perspective is not None, agent_id
        return partial(
            session.ensure_started,
            f"{agent_id[-80:]}.{state.session_id.removeprefix('sess-')}",
            member.session_id if member else None,
            perspective,
            state.workspace,
            state.profile.permissions,
            scratch_pads.permission_rules(scratch_pads.ensure(state, agent_id)),
        )

    def _record_start(self, agent_id: str, started: StartedMember) -> None:
        """Record a member's session unless the log already has it as it is."""
        payload: dict[str, Any] = {
            "agent_id": agent_id,
            "session_id": started.session_id,
            "acp_session_id": started.acp_session_id,
            "restore": started.restore,
            "parent_agent_id": agent_id.rpartition("/")[0] or None,
            "depth": agent_id.count("/"),
        }
        member = self.recorder.state.members.get(agent_id)
        if member is None or any(getattr(member, key) != value for key, value in payload.items()):
            strategy = (started.restore or {}).get("strategy") or "new"
            title = f"{agent_id} runs in session {started.session_id} ({strategy})"
            self.recorder.record(CouncilEvent("member", title, payload))

    def ask(self, delegations: list[Delegation]) -> None:
        """Send delegations to their members, all at once, and wait until each has ended."""
        results = self.start(delegation.target for delegation in delegations)
        self._check_limits()
        for delegation in delegations if not self.live.is_ending else ():
            result = results[delegation.target]
            if isinstance(result, StartedMember):
                self._send(delegation, session_of(result.session_id))
            else:
                self.recorder.record(status_event(delegation, "failed", detail=_describe_error(result)))
        while self._running and not self.live.is_ending:
            self.live.loop.run_until(self._has_news, self._time_to_next_check())
            self._handle_reports()
            self._check_limits()
        if self._running:
            self._cancel_running()

    def _send(self, delegation: Delegation, member: Session) -> None:
        state = self.recorder.state
        key = f"{state.session_id}:{delegation.id}:{delegation.tries}"
        text = prompts.compose_prompt(state, delegation, scratch_pads.path_of(state, delegation.target))
        self._running[delegation.id] = delegation
        threads.start(partial(session.ask, member, text, key, partial(self._reports.put, delegation.id)))

    def _has_news(self) -> bool:
        return bool(self._reports) or self.live.is_ending

    def _time_to_next_check(self) -> float | None:
        """Return the seconds until the time limit needs a warning or is reached; None without a limit."""
        state = self.recorder.state
        maximum = state.profile.constraints.time.max
        if maximum is None:
            return None
        marks = [mark for mark in (limits.WARN_FRACTION * maximum, maximum) if mark > state.elapsed]
        return max(0.01, min(marks, default=maximum) - state.elapsed)

    def _check_limits(self) -> None:
        reached = self.recorder.check_limits(sum(self._costs.values()))
        if reached is not None:
            self.live.end(*reached)

    def _handle_reports(self) -> None:
        """Record what the members' threads have reported."""
        while (entry := self._reports.pop()) is not None:
            delegation_id, report = entry
            delegation = self._running.get(delegation_id)
            if delegation is None:
                continue
            if isinstance(report, RunningCost):
                self._costs[delegation_id] = report.cost
            elif isinstance(report, Accepted) and delegation.status != "sent":
                self.recorder.record(status_event(delegation, "sent"))
            elif isinstance(report, PermissionWanted):
                self._record_request(
                    delegation, "permission", f"asks for permission: {report.title}", "approve"
                )
            elif isinstance(report, QuestionAsked):
                self._record_request(delegation, "question", f"asks: {report.message}", "answer")
            elif isinstance(report, TurnEnded):
                del self._running[delegation_id]
                self._costs.pop(delegation_id, None)
                self._record_end(delegation, report)

    def _record_request(self, delegation: Delegation, kind: str, words: str, verb: str) -> None:
        agent_id = delegation.target
        session_id = self.recorder.state.members[agent_id].session_id
        text = f"{agent_id} {words} (agh session {verb} {session_id})"
        payload = {"agent_id": agent_id, "session_id": session_id}
        self.recorder.record(CouncilEvent(kind, text, payload))

    def _record_end(self, delegation: Delegation, end: TurnEnded) -> None:
        if end.status == "answered":
            self.recorder.record_answer(delegation, end.text, end.cost)
        elif end.status == "cancelled" and self.live.is_ending:
            details = {"tries": delegation.tries + 1, "detail": end.text, "cost": end.cost}
            self.recorder.record(status_event(delegation, "pending", **details))
        else:
            status = "failed" if end.status == "failed" else "unknown"
            self.recorder.record(status_event(delegation, status, detail=end.text, cost=end.cost))

    def _cancel_running(self) -> None:
        """Cancel the running turns because the council ends; they are asked again after a resume."""
        members, deadline = self.recorder.state.members, time.monotonic() + CANCEL_TIMEOUT
        while self._running and time.monotonic() < deadline:
            for delegation in self._running.values():  # repeatedly: a prompt in transit cannot be cancelled
                member = session_of(members[delegation.target].session_id)
                threads.start(partial(session.cancel, member))
            self.live.loop.run_until(lambda: bool(self._reports), CANCEL_INTERVAL)
            self._handle_reports()

    def stop_all(self, reason: str) -> None:
        """Stop the members' agents."""
        tasks = {
            agent_id: partial(session.stop, session_of(member.session_id), reason)
            for agent_id, member in self.recorder.state.members.items()
        }
        threads.gather(self.live.loop, tasks)
        self._reap_keepers()

    def _reap_keepers(self) -> None:
        """Reap members' keepers that have exited: they are children of this process."""
        for pid in list(start.children):
            if os.waitpid(pid, os.WNOHANG)[0]:
                start.children.remove(pid)


def _describe_error(error: Exception) -> str:
    return error.message if isinstance(error, AghError) else f"{type(error).__name__}: {error}"
