"""`agh session attach`: a session on a terminal"""

from __future__ import annotations

import os
import sys
import threading

import click

from agh.adapters.redactions import redactor_for
from agh.cli.session.recap import describe
from agh.cli.turn import send_and_tell, show_turn, tell_restored
from agh.console import terminal
from agh.console.output import remark, write_text
from agh.console.terminal import default_holder
from agh.console.when import parse_duration
from agh.core.events import TURN_END_TYPES, Row
from agh.core.markdown import plain
from agh.core.transcript import transcript
from agh.errors import AghError, KeeperDied, TurnInterrupted, Usage
from agh.home import Session
from agh.keeper import client
from agh.sessions.resume import resume
from agh.store import meta, sessions
from agh.store.follow import follow
from agh.store.reader import EVERYTHING, Query, Reader
from agh.store.schema import LANDMARK
from agh.store.views import recap_view

PROMPT = "> "
REMEMBERED = 100


@click.command("attach", epilog="Example:  agh session attach @last")
@click.argument("id")
@click.option("--holder", help="The label of the lease (default: this terminal).")
@click.option("--ttl", default="15m", show_default=True, help="How long the lease lasts, at most 24h.")
@click.option("--steal", is_flag=True, help="Take the lease from another holder.")
def attach_command(id: str, holder: str | None, ttl: str, steal: bool) -> None:
    """Talk to a session on this terminal.

    Shows a recap and live output, and reads prompts with a history.

    Ctrl-C cancels the turn. Ctrl-D detaches; the agent keeps working.
    """
    if not (sys.stdin.isatty() and terminal.is_terminal()):
        raise Usage("attach needs a terminal", hint=f"agh session prompt {id} TEXT")
    session = sessions.resolve(id)
    lease = {"holder": holder or default_holder(), "ttl": parse_duration(ttl, "--ttl"), "steal": steal}
    resumed = resume(session, attach_only=False, lease=lease)
    if resumed.hello["started"]:
        tell_restored(resumed.hello)
    hide = redactor_for(os.environ, meta.read(session)["workspace_path"])
    write_text(describe(recap_view(session, 10, hide)) + "\n")
    _remember_prompts(session)
    converse(session)
    client.call(session, "detach", holder=lease["holder"])
    remark("detached; the session stays live")


def converse(session: Session) -> None:
    """Read and send prompts until Ctrl-D."""
    running = client.call(session, "hello").get("turn_id")
    if running:
        _watch(session, {"turn_id": running, "after": _start_of(session, running), "status": "dispatching"})
    while True:
        with Reader(session) as reader:
            seen = reader.last_sequence()
        with _Onlooker(session, seen):
            try:
                text = input(PROMPT)
            except EOFError:
                write_text("\n")
                return
            except KeyboardInterrupt:
                write_text("\n")
                continue
        if text.strip():
            _watch(session, send_and_tell(session, [{"type": "text", "text": text}]))


def _start_of(session: Session, turn_id: str) -> int:
    """Return the sequence to follow from, so that requests that still wait for an answer are shown again."""
    with Reader(session) as reader:
        ((request, last),) = reader.fetch(
            "SELECT (SELECT min(sequence) FROM events WHERE "
            f"{LANDMARK} AND type IN ('permission', 'question') AND turn_id = ? "
            "AND content ->> '$.request_id' IN "
            "(SELECT request_id FROM permissions WHERE status = 'pending' "
            "UNION SELECT request_id FROM questions WHERE status = 'pending')), "
            "(SELECT max(sequence) FROM events)",
            [turn_id],
        )
    return int(last if request is None else request - 1)


def _watch(session: Session, receipt: dict[str, object]) -> None:
    """Show a turn. A turn that fails does not end the conversation; a keeper that dies does."""
    try:
        show_turn(session, receipt, "human")
    except (KeeperDied, TurnInterrupted):
        raise
    except KeyboardInterrupt:
        pass
    except AghError as error:
        remark(f"agh: {error.message}")


def _remember_prompts(session: Session) -> None:
    """Fill the prompt line's history with the session's prompts."""
    import readline

    readline.clear_history()
    readline.set_auto_history(True)
    with Reader(session) as reader:
        for row in reader.newest(Query(types=("user_message",)), REMEMBERED):
            text = str(row.parsed().get("text") or "")
            if text and "\n" not in text:
                readline.add_history(terminal.clean(text))


class _Onlooker:
    """Shows what others do in the session while this terminal waits at its prompt."""

    def __init__(self, session: Session, after: int) -> None:
        self._session, self._after = session, after
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join(timeout=1)

    def _look(self) -> None:
        import readline

        turn: list[Row] = []
        for _, rows in follow([(self._session, self._after)], EVERYTHING, tick=0.2):
            if self._over.is_set():
                return
            for row in rows:
                turn.append(row)
                if row.type in TURN_END_TYPES:
                    text = terminal.clean(plain(transcript(turn)))
                    write_text(f"\r\x1b[K{text}{PROMPT}{readline.get_line_buffer()}")
                    turn = []
