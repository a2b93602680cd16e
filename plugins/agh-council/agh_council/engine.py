"""The engine of a council: ask what comes next, write it down, do it, write down what came of it, ask again.

Promises: every step is in the log before it is taken, and what came of it before the next; the engine
knows nothing that the log does not say. Killed anywhere, another engine on the same log goes on with the same
rounds, delegations and memo.
"""

from __future__ import annotations

import os
from dataclasses import asdict

from agh.keeper.process import log
from agh.keeper.session import Live
from agh_council import actions
from agh_council.driver import next_action
from agh_council.minutes import Minutes, about, changed
from agh_council.state import Delegation, Note, Round
from agh_council.table import Table

LOST = (
    "The answer to this request got lost. If you have done what it asks, do not do it again: "
    "give the answer once more. Else do it now."
)


class Engine:
    def __init__(self, live: Live) -> None:
        self.live = live
        self.minutes = Minutes(live)
        self.state = self.minutes.state
        self.table = Table(self.minutes)
        self.pause_after_round = False

    def run(self) -> None:
        """Until the council is over, or somebody ends it."""
        while not self.live.is_ending:
            self.minutes.look_at_limits()  # the driver heeds them
            action = next_action(self.state)
            log(actions.describe(action))
            self.perform(action)

    def perform(self, action: actions.Action) -> None:
        note = self.minutes.note
        match action:
            case actions.OpenRound():
                self.open_round(action)
            case actions.Delegate(made):
                note(*(("delegation", about(one), {**asdict(one), "status": "pending"}) for one in made))
            case actions.Send(ids):
                self.send([self.state.delegations[id] for id in ids])
            case actions.Settle(ids, gives_up):
                note(*(self.settle(self.state.delegations[id], gives_up) for id in ids))
            case actions.CloseRound(number, status):
                self.close_round(number, status)
            case actions.AskGate(number, attempt, prompt):
                given = {"round": number, "attempt": attempt, "status": "waiting", "prompt": prompt}
                note(("gate", f"after round {number}: {prompt}", given))
            case actions.WriteMemo(text):
                path = self.state.profile.memo
                note(("memo", f"the memo is {path}", {"path": path, "text": text}))
            case actions.Finish():
                self.write_memo()
                self.live.end("completed")
            case actions.Pause(reason, detail):
                self.live.end(reason, detail)

    def open_round(self, action: actions.OpenRound) -> None:
        steers, feedback = list(self.state.steers), self.state.feedback
        made = Round(**action._asdict(), steers=steers, feedback=feedback)
        first = made.number == made.attempt == 1
        self.minutes.begin_turn(made, self.state.brief if first else f"Round {made.number}")
        why = f", by the script: {made.fallback}" if made.fallback else ""
        self.minutes.note(("round", f"round {made.number} opens{why}", asdict(made)))

    def send(self, asked: list[Delegation]) -> None:
        now = self.state.open_round
        if now is not None and not self.minutes.turn_id:
            self.minutes.begin_turn(now, f"Round {now.number}, continued")
        self.table.ask(asked)

    def settle(self, one: Delegation, gives_up: bool) -> Note:
        """Another try of what got lost, in the way that the profile wants; or the end of it."""
        if gives_up:
            return changed(one, "failed", detail=f"lost {one.tries} times: {one.detail}")
        asks = self.state.profile.on_unknown == "ask" and one.status == "unknown"
        text = f"{LOST}\n\n{one.message}" if asks and not one.message.startswith(LOST) else None
        return changed(one, "pending", tries=one.tries + 1, message=text)

    def close_round(self, number: int, status: str) -> None:
        self.minutes.note_pads()
        self.minutes.note(("round", f"round {number} is {status}", {"number": number, "status": status}))
        self.minutes.end_turn("end_turn")
        if self.pause_after_round:
            self.live.end("paused", f"after round {number}")

    def write_memo(self) -> None:
        memo = self.state.memo
        assert memo is not None
        path = os.path.join(self.state.workspace, memo["path"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
            file.write(memo["text"])
        os.replace(file.name, path)

    def close(self, reason: str) -> None:
        """Dismiss the members, and keep what stands in their scratch pads."""
        self.table.dismiss(reason)
        self.minutes.note_pads()
        self.minutes.end_turn("cancelled")
