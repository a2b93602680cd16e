"""The engine of a council: it asks the planner for the next action, carries it out, and repeats.

Promises: every action is in the log before it is carried out, and its outcome before the next action. The
engine knows nothing that the log does not say: if it is killed at any point, another engine on the same log
continues with the same rounds, delegations and memo.
"""

from __future__ import annotations

import os
from dataclasses import asdict

from agh.keeper.process import log
from agh.keeper.session import Live
from agh_council import actions
from agh_council.members.pool import MemberPool
from agh_council.planner import next_action
from agh_council.recorder import Recorder, status_event, title_of
from agh_council.state import CouncilEvent, Delegation, Round

ANSWER_LOST = (
    "The answer to this request got lost. If you have done what it asks, do not do it again: "
    "give the answer once more. Otherwise do it now."
)


class Engine:
    def __init__(self, live: Live) -> None:
        self.live = live
        self.recorder = Recorder(live)
        self.state = self.recorder.state
        self.pool = MemberPool(self.recorder)
        self.pause_after_round = False

    def run(self) -> None:
        """Carry out actions until the council is over or its session ends."""
        while not self.live.is_ending:
            self.recorder.check_limits()  # records the warnings; the planner pauses at a maximum
            action = next_action(self.state)
            log(actions.describe(action))
            self.perform(action)

    def perform(self, action: actions.Action) -> None:
        record, delegations = self.recorder.record, self.state.delegations
        match action:
            case actions.OpenRound():
                self.open_round(action)
            case actions.Delegate(new_delegations):
                record(*map(_pending_event, new_delegations))
            case actions.Send(ids):
                self.send([delegations[id] for id in ids])
            case actions.Retry(ids):
                record(*(self._retry_event(delegations[id]) for id in ids))
            case actions.GiveUp(ids):
                record(*(_give_up_event(delegations[id]) for id in ids))
            case actions.CloseRound(number, status):
                self.close_round(number, status)
            case actions.AskGate(number, attempt, prompt):
                payload = {"round": number, "attempt": attempt, "status": "waiting", "prompt": prompt}
                record(CouncilEvent("gate", f"after round {number}: {prompt}", payload))
            case actions.WriteMemo(text):
                path = self.state.profile.memo
                record(CouncilEvent("memo", f"the memo is in {path}", {"path": path, "text": text}))
            case actions.Finish():
                self.write_memo()
                self.live.end("completed")
            case actions.Pause(reason, detail):
                self.live.end(reason, detail)

    def open_round(self, action: actions.OpenRound) -> None:
        steers, feedback = list(self.state.steers), self.state.feedback
        round_ = Round(**action._asdict(), steers=steers, feedback=feedback)
        is_first = round_.number == round_.attempt == 1
        self.recorder.start_turn(round_, self.state.brief if is_first else f"Round {round_.number}")
        reason = f" as scripted, because {round_.fallback}" if round_.fallback else ""
        title = f"round {round_.number} opens{reason}"
        self.recorder.record(CouncilEvent("round", title, asdict(round_)))

    def send(self, delegations: list[Delegation]) -> None:
        round_ = self.state.open_round
        if round_ is not None and not self.recorder.turn_id:
            self.recorder.start_turn(round_, f"Round {round_.number}, continued")
        self.pool.ask(delegations)

    def _retry_event(self, delegation: Delegation) -> CouncilEvent:
        """Return the event that sends a delegation again.

        With `on_unknown = "ask"` the new message tells the member that its answer got lost.
        """
        explains = self.state.profile.on_unknown == "ask" and delegation.status == "unknown"
        is_explained = delegation.message.startswith(ANSWER_LOST)
        message = f"{ANSWER_LOST}\n\n{delegation.message}" if explains and not is_explained else None
        return status_event(delegation, "pending", tries=delegation.tries + 1, message=message)

    def close_round(self, number: int, status: str) -> None:
        self.recorder.record_scratch_pads()
        payload = {"number": number, "status": status}
        self.recorder.record(CouncilEvent("round", f"round {number} is {status}", payload))
        self.recorder.end_turn("end_turn")
        if self.pause_after_round:
            self.live.end("paused", f"after round {number}")

    def write_memo(self) -> None:
        """Write the recorded memo to its file in the workspace."""
        memo = self.state.memo
        assert memo is not None
        path = os.path.join(self.state.workspace, memo["path"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
            file.write(memo["text"])
        os.replace(file.name, path)

    def close(self, reason: str) -> None:
        """Stop the members and record their scratch pads."""
        self.pool.stop_all(reason)
        self.recorder.record_scratch_pads()
        self.recorder.end_turn("cancelled")


def _pending_event(delegation: Delegation) -> CouncilEvent:
    return CouncilEvent("delegation", title_of(delegation), {**asdict(delegation), "status": "pending"})


def _give_up_event(delegation: Delegation) -> CouncilEvent:
    return status_event(
        delegation, "failed", detail=f"its answer was lost {delegation.tries} times: {delegation.detail}"
    )
