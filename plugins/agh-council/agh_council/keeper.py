"""The keeper of a council: `python -m agh_council.keeper DIR SOCKET_FD`, as any keeper.

It holds the lock of the council's session, is the only writer of its log, answers on its socket, and lets
the engine run. The members have keepers of their own, which go on when this one is killed.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from agh import config
from agh.adapters.agents import AgentRecord
from agh.core.events import timestamp
from agh.core.status import phase
from agh.errors import HookStopped, SessionStopping, Usage
from agh.keeper import ending, hooks, verbs
from agh.keeper.process import Ready, log, run
from agh.keeper.server import Answer, Control, Handler
from agh.keeper.session import Live
from agh.store import meta
from agh.store.lock import Lock
from agh.store.writer import Writer
from agh_council import limits, preload
from agh_council.actions import Finish, Pause, WriteMemo
from agh_council.driver import next_action
from agh_council.engine import Engine
from agh_council.errors import CouncilLimit, GateWaits
from agh_council.plugin import KIND
from agh_council.record import read_state, steering

SHARED = ("hello", "attach", "detach", "update")


def keep(held: Lock, ready: Ready, intent: dict[str, Any]) -> None:
    """The story."""
    resuming = not intent.get("new")
    stored = meta.read(held.directory)
    refuse(held.directory, stored, intent.get("maximums") or {})
    settings = config.load(stored["workspace_path"])
    writer = Writer(held, KIND)
    live = Live(held.directory, stored, writer, settings, AgentRecord(KIND, ()))
    live.agent.environ = dict(os.environ)
    engine = Engine(live)
    if intent.get("maximums"):
        engine.minutes.note(("limits", "new limits", {"maximums": intent["maximums"]}))
    control = Control(live.loop, held.directory, council_verbs(live, engine))
    live.update(
        state="active",
        stop_reason=None,
        stop_detail=None,
        failure=None,
        attach=None,
        activity=None,
        keeper={"pid": os.getpid(), "started_at": timestamp()},
    )
    preload.load_plugins()
    live.ready = True
    live.loop.on_signal((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), lambda: live.end("paused", "signal"))
    ready.succeeded(verbs.describe(live) | {"strategy": KIND, "reason": "", "context_lost": False})
    try:
        deliberate(live, engine, resuming)
    except Exception as error:
        log(f"{type(error).__name__}: {error}")
        live.fail("error", "unknown_failure", f"{type(error).__name__}: {error}")
        raise
    finally:
        end(live, engine)
        control.close()
    writer.close()
    held.release()


def deliberate(live: Live, engine: Engine, resuming: bool) -> None:
    """Bring every member back, say that the council goes on, and let the engine run."""
    objection = hooks.fire(live, "session_resume" if resuming else "session_start")
    if objection is not None:
        live.end("hook_stopped", objection)
        raise HookStopped(objection)
    if not isinstance(next_action(engine.state), Pause | Finish):
        engine.table.seat([*(one.id for one in engine.state.profile.seats), *engine.state.members])
    if resuming:
        known = {id: (one.restore or {}).get("strategy") for id, one in engine.state.members.items()}
        with live.log.batch():
            live.log.record("session_resumed", strategy=KIND, reason="the log is the truth", members=known)
        engine.minutes.catch_up()
    engine.run()


def end(live: Live, engine: Engine) -> None:
    """Dismiss the members, then write the checkpoint (of a pause) and the end."""
    reason, _ = live.ending.decision or ("error", None)
    engine.close("completed" if reason == "completed" else "paused")
    hooks.fire(live, "session_stop", stop_reason=reason)
    hooks.await_all(live)
    live.meta["spent"] = {"cost_amount": engine.state.spent, "cost_currency": None}
    ending.write_end(live)


def refuse(directory: str, stored: meta.Meta, maximums: dict[str, float]) -> None:
    """A council that waits for a decision, or has used up a limit, does not go on without one."""
    state = read_state(directory)
    if phase(stored) != "paused":
        return
    if state.waiting_gate is not None:
        raise GateWaits(state.session_id, state.waiting_gate["prompt"])
    _, budget, _ = limits.usage(state)
    most = maximums.get("budget", budget.bounds.max)
    over = isinstance(next_action(state), WriteMemo | Finish)
    if most is not None and budget.used >= most and not over:
        raise CouncilLimit(state.session_id, f"{budget.used:g} of {most:g} is spent", "--max-budget")


def council_verbs(live: Live, engine: Engine) -> dict[str, Handler]:
    known = verbs.verbs(live)

    def steer(request: dict[str, Any], answer: Answer) -> None:
        if live.is_ending:
            raise SessionStopping(live.session_id)
        given = steering(engine.state, str(request["text"]), request.get("to"))
        engine.minutes.note(given)
        answer(given[2])

    def pause(request: dict[str, Any], answer: Answer) -> None:
        engine.pause_after_round = True
        answer({"after_round": True})

    def end(request: dict[str, Any], answer: Answer) -> None:
        ending.stop(live, {"reason": "user_canceled", **{k: v for k, v in request.items() if v}}, answer)

    def refuse_prompt(request: dict[str, Any], answer: Answer) -> None:
        raise Usage("a council takes no prompts", hint=f"agh council steer {live.session_id} TEXT")

    own: dict[str, Handler] = {"steer": steer, "pause_after_round": pause, "stop": end}
    return dict.fromkeys(known, refuse_prompt) | {name: known[name] for name in SHARED} | own


if __name__ == "__main__":
    run(keep)
