"""`agh session wait`"""

from __future__ import annotations

import time

import click

from agh.console.output import output_option, write_result
from agh.console.when import parse_duration
from agh.core.status import LIVE_STATES
from agh.errors import KeeperGone, TimedOut
from agh.home import Session
from agh.store import sessions
from agh.store.reader import Query, Reader
from agh.store.views import View, session_view
from agh.store.watch import Watch

CONDITIONS = ("idle", "turn", "stopped", "permission", "question")


@click.command(
    "wait", epilog="Example:  agh session wait @last --until idle --timeout 10m && notify-send done"
)
@click.argument("id")
@click.option(
    "--until", type=click.Choice(CONDITIONS), default="idle", show_default=True, help="What to wait for."
)
@click.option("--timeout", metavar="TIME", help="Give up after this long (exit 3).")
@output_option()
def wait_command(id: str, until: str, timeout: str | None, output: str) -> None:
    """Wait until a session is idle, stops or needs an answer.

    --until selects what to wait for. A session is not idle while a prompt is waiting for a usage limit to
    reset. The command then waits until the turn of that prompt is complete, even if the session stops in the
    meantime.
    """
    view = wait_for(sessions.resolve(id), until, parse_duration(timeout, "--timeout") if timeout else None)
    write_result("session", view, output, lambda: f"{view['id']}  {view['badge']}")


def wait_for(session: Session, until: str, timeout: float | None) -> View:
    deadline = None if timeout is None else time.monotonic() + timeout
    with Watch() as watch, Reader(session) as reader:
        watch.add(session)
        start = reader.last_sequence()
        while True:
            view = session_view(session)
            if _holds(view, until, reader, start):
                return view
            if view["state"] not in LIVE_STATES and view["phase"] != "limited":
                raise KeeperGone(view["id"])
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut(f"session {view['id']} (--until {until})", timeout or 0)
            watch.wait(1.0 if deadline is None else max(0.001, deadline - time.monotonic()))


def _holds(view: View, until: str, reader: Reader, start: int) -> bool:
    if until == "turn":
        return bool(reader.page(Query(types=("done", "error")), start, reader.last_sequence(), limit=1))
    if until == "stopped":
        return view["state"] not in LIVE_STATES
    if until == "permission":
        return str(view["phase"]) == "waiting_for_permission"
    if until == "question":
        return str(view["phase"]) == "waiting_for_answer"
    if view["state"] not in LIVE_STATES and view["phase"] != "limited":
        return True
    waiting = reader.fetch("SELECT 1 FROM inputs WHERE status IN ('queued', 'dispatching') LIMIT 1")
    return str(view["phase"]) == "idle" and not waiting
