"""The keeper of a council: `python -m agh_council.keeper DIR SOCKET_FD`, like any keeper.

It holds the lock of the council's session, is the only writer of its log, answers on its socket, and runs
the engine. The members have their own keepers, which continue when this one is killed.
"""

from __future__ import annotations

import os
import signal
from typing import Any

# Needed only later: see agh.keeper.process for why they are loaded now.
import agh.keeper.agent.launch
import agh.keeper.notify.plan
import agh.sessions.repair
import agh.sessions.worktree  # noqa: F401
import agh_council.checkpoint  # noqa: F401
from agh import config
from agh.adapters import registry
from agh.adapters.agents import AgentRecord
from agh.core.events import timestamp
from agh.core.status import phase
from agh.errors import HookStopped, SessionStopping, Usage
from agh.home import Session
from agh.keeper import ending, hooks, verbs
from agh.keeper.process import Ready, log, run
from agh.keeper.server import Answer, Control, Handler
from agh.keeper.session import Live
from agh.store import meta
from agh.store.lock import Lock
from agh.store.writer import Writer
from agh_council import limits
from agh_council.actions import Finish, Pause, WriteMemo
from agh_council.engine import Engine
from agh_council.errors import CouncilLimit, GateWaits
from agh_council.planner import next_action
from agh_council.plugin import KIND
from agh_council.state import CouncilEvent
from agh_council.store import read_state, steer_event

SHARED_VERBS = ("hello", "attach", "detach", "update")


def keep(lock: Lock, ready: Ready, request: dict[str, Any]) -> None:
    """Keep the council's session from start to end."""
    is_resuming = not request.get("new")
    session_meta = meta.read(lock.session)
    check_can_start(lock.session, session_meta, request.get("maximums") or {})
    settings = config.load(session_meta["workspace_path"])
    writer = Writer(lock, KIND)
    live = Live(lock.session, session_meta, writer, settings, AgentRecord(KIND, ()))
    live.agent.environ = dict(os.environ)
    engine = Engine(live)
    if request.get("maximums"):
        payload = {"maximums": request["maximums"]}
        engine.recorder.record(CouncilEvent("limits", "new limits", payload))
    control = Control(live.loop, lock.session, council_verbs(live, engine))
    live.update(
        state="active",
        stop_reason=None,
        stop_detail=None,
        failure=None,
        attach=None,
        activity=None,
        keeper={"pid": os.getpid(), "started_at": timestamp()},
    )
    registry.manager()  # its hooks are called from here to the end
    live.ready = True
    pauses = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
    live.loop.on_signals(dict.fromkeys(pauses, lambda: live.end("paused", "signal")))
    ready.succeeded(verbs.describe(live) | {"strategy": KIND, "reason": "", "context_lost": False})
    try:
        deliberate(live, engine, is_resuming)
    except Exception as error:
        log(f"{type(error).__name__}: {error}")
        live.fail("error", "unknown_failure", f"{type(error).__name__}: {error}")
        raise
    finally:
        end(live, engine)
        control.close()
    writer.close()
    lock.release()


def check_can_start(session: Session, session_meta: meta.Meta, maximums: dict[str, float]) -> None:
    """Raise if a paused council waits at a gate, or has no budget left and no higher maximum."""
    state = read_state(session)
    if phase(session_meta) != "paused":
        return
    if state.waiting_gate is not None:
        raise GateWaits(state.session_id, state.waiting_gate["prompt"])
    _, budget, _ = limits.usages(state)
    maximum = maximums.get("budget", budget.bounds.max)
    is_over = isinstance(next_action(state), WriteMemo | Finish)
    if maximum is not None and budget.used >= maximum and not is_over:
        raise CouncilLimit(
            state.session_id, f"{budget.used:g} of the budget of {maximum:g} is spent", "--max-budget"
        )


def deliberate(live: Live, engine: Engine, is_resuming: bool) -> None:
    """Start every member, record a resume, and run the engine until the council ends or pauses."""
    objection = hooks.fire(live, "session_resume" if is_resuming else "session_start")
    if objection is not None:
        live.end("hook_stopped", objection)
        raise HookStopped(objection)
    if not isinstance(next_action(engine.state), Pause | Finish):
        profile_ids = [member.id for member in engine.state.profile.members]
        engine.pool.start([*profile_ids, *engine.state.members])
    if is_resuming:
        strategies = {
            agent_id: (member.restore or {}).get("strategy")
            for agent_id, member in engine.state.members.items()
        }
        with live.log.batch():
            live.log.record(
                "session_resumed", strategy=KIND, reason="it was rebuilt from its log", members=strategies
            )
        engine.recorder.catch_up()
    engine.run()


def end(live: Live, engine: Engine) -> None:
    """Stop the members, then write the checkpoint if the council paused, and the end of the session."""
    reason, _ = live.ending.decision or ("error", None)
    engine.close("completed" if reason == "completed" else "paused")
    hooks.fire(live, "session_stop", stop_reason=reason)
    hooks.await_all(live)
    live.meta["spent"] = {"cost_amount": engine.state.spent, "cost_currency": None}
    ending.write_end(live)


def council_verbs(live: Live, engine: Engine) -> dict[str, Handler]:
    """Return the verbs that the council's socket answers; verbs that need one agent are refused."""
    session_verbs = verbs.verbs(live)

    def steer(request: dict[str, Any], answer: Answer) -> None:
        if live.is_ending:
            raise SessionStopping(live.session_id)
        event = steer_event(engine.state, str(request["text"]), request.get("to"))
        engine.recorder.record(event)
        answer(event.payload)

    def pause_after_round(request: dict[str, Any], answer: Answer) -> None:
        engine.pause_after_round = True
        answer({"after_round": True})

    def stop(request: dict[str, Any], answer: Answer) -> None:
        options = {key: value for key, value in request.items() if value}
        ending.stop(live, {"reason": "user_canceled", **options}, answer)

    def refuse_prompt(request: dict[str, Any], answer: Answer) -> None:
        hint = f"to send its members a note: agh council steer {live.session_id} TEXT"
        raise Usage("a council does not support this; only its members' sessions do", hint=hint)

    own_verbs: dict[str, Handler] = {"steer": steer, "pause_after_round": pause_after_round, "stop": stop}
    shared_verbs = {name: session_verbs[name] for name in SHARED_VERBS}
    return dict.fromkeys(session_verbs, refuse_prompt) | shared_verbs | own_verbs


if __name__ == "__main__":
    run(keep)
