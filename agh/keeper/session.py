"""A live session inside its keeper, in five parts: its log, its agent, its turns, its activity and its end.

Agents are not trusted to make sense, so an act or a callback that fails becomes a `runtime_warning` and
nothing more. Only a log that cannot be written ends the session.

The parts are plain classes: as dataclasses they would add 2.5 ms to the start of every session.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agh.adapters.agents import AgentRecord
from agh.adapters.redactions import redactor_for
from agh.core.acp.permission import headline
from agh.core.events import timestamp
from agh.core.named_tuple import NamedTuple
from agh.core.redaction.redact import Redactor
from agh.errors import StoreFailed
from agh.home import Session
from agh.keeper.agent.connection import Agent
from agh.keeper.log import Log, is_fatal
from agh.keeper.loop import Loop, Timer
from agh.store import meta
from agh.store.meta import Meta
from agh.store.writer import Writer

LINE = 200  # characters of a question or a message that a list shows

if TYPE_CHECKING:
    from datetime import datetime

    from agh.core.acp.tool_calls import ToolCall
    from agh.keeper.agent.permissions import PendingRequest
    from agh.keeper.agent.policy import Grant
    from agh.keeper.agent.questions import PendingQuestion
    from agh.keeper.agent.terminals import Terminal
    from agh.keeper.agent.user_messages import UserMessage
    from agh.keeper.hooks import RunningHook
    from agh.keeper.lending import Lending
    from agh.keeper.server import Answer

CAUSE_LIMIT = 1000


def cause_of(error: Exception) -> str:
    """Return what went wrong as a short text that can be stored: a file name in it may not be UTF-8."""
    return f"{type(error).__name__}: {error}"[:CAUSE_LIMIT].encode(errors="replace").decode()


class Retry(NamedTuple):
    """A failed prompt that waits to be sent again. `give_up` closes its turn instead."""

    timer: Timer
    give_up: Callable[[], None]


class Turn:
    """The prompt that the agent is working on."""

    cancelled = False
    answered = False  # the agent has written a message or used a tool
    is_refused = False  # it did not get a permission, and has done nothing since
    acted = False  # the user may have seen something of it, so it cannot silently start again
    bytes = 0  # that the agent sent in it
    last_words = ""  # the end of what the agent has said
    failed_by_agent = False  # it reports a failure, though it may end the turn as if there was none
    attempts = 0  # how often it has failed so far
    limit: tuple[datetime, str] | None = None  # it was cancelled at a usage limit: the reset and the error
    retry: Retry | None = None
    warned = False
    warned_before = False
    timed_out: tuple[str, str] | None = None  # stop detail, and why it was cancelled

    def __init__(
        self, turn_id: str, input_id: int, after: int, retries: int = 0, *, park: bool = False
    ) -> None:
        self.turn_id, self.input_id = turn_id, input_id
        self.after = after  # the last sequence before it
        self.retries = retries  # how often it may be sent again
        self.park = park  # whether its prompt waits for the reset of a usage limit
        self.started = self.last_progress = self.last_heartbeat = time.monotonic()
        self.usage: dict[str, Any] = {}  # the sum of what single requests reported
        self.tools: dict[str, dict[str, Any]] = {}  # what the open tool calls are, by id
        self.outputs: dict[str, dict[str, Any]] = {}  # carried to their results, by id
        self.calls: dict[str, ToolCall] = {}  # what is recorded of the open tool calls, by id
        self.grants: list[Grant] = []  # what was allowed for them


class LeftOpen(NamedTuple):
    """A tool call that is still open although its turn has ended well."""

    turn_id: str
    call: dict[str, Any]


class AgentSide:
    """The agent, and what it has open with us."""

    connection: Agent | None = None
    waits_for_slot = False  # its place has no room for it yet
    lending: Lending | None = None  # files and terminals of editors
    replaying = False  # until the next prompt, it repeats a conversation that is in the log
    replayed = 0
    replayed_message: str | None = None  # the id of the last answer that was replayed, if it has one
    malformed = 0  # lines that were not messages
    user_message: UserMessage | None = None  # that it is about to report

    def __init__(self, record: AgentRecord) -> None:
        self.record = record
        self.environ: dict[str, str] = {}
        self.mcp_servers: list[dict[str, Any]] = []  # of a client, and never stored
        self.requests: dict[str, PendingRequest] = {}  # permissions that wait, by id
        self.questions: dict[str, PendingQuestion] = {}  # that wait for an answer, by id
        self.compactions: set[str] = set()  # of its context, that a marker tells of
        self.terminals: dict[str, Terminal] = {}
        self.ending_terminals: list[Terminal] = []  # released, and perhaps not over yet
        self.released: dict[str, str] = {}  # output of terminals that are gone, by id
        self.sent: list[list[dict[str, Any]]] = []  # the last two prompts

    @property
    def is_waiting(self) -> bool:
        """Tell whether it waits for the user."""
        return bool(self.requests or self.questions)

    @property
    def connected(self) -> Agent:
        """Return the connection of an agent that has been started."""
        assert self.connection is not None, "the agent has been started"
        return self.connection


class Turns:
    """The running turn, and what to do around it."""

    current: Turn | None = None
    last_id = ""
    finishing = False  # a turn has ended, and its consequences are still being handled
    pause_after: tuple[str, str] | None = None  # stop reason and the limit that was reached
    history: str | None = None  # to be injected into the next prompt
    alarm: Timer | None = None  # looks whether a usage limit has reset
    bytes = 0  # of the session's log, and what the agent sent since it was started
    unchecked_bytes = 0  # received since the limits were last checked
    dropped_updates = 0  # that came after a limit on bytes was reached

    def __init__(self) -> None:
        self.left_open: dict[str, LeftOpen] = {}  # tool calls of turns that ended well, by id
        self.attended: set[str] = set()  # ids of turns whose prompt came from a terminal

    @property
    def current_id(self) -> str:
        """Return the id of the running turn, or an empty string between turns."""
        return self.current.turn_id if self.current else ""


class Activity:
    """When the session was last active, and how healthy its agent looks. Intervals are monotonic."""

    def __init__(self) -> None:
        self.started = self.last = time.monotonic()
        self.last_at, self.last_kind = timestamp(), "session_start"
        self.health: str | None = None
        self.needs_login = False  # the last turn ended because a key or a login was refused

    def note(self, kind: str) -> None:
        """Note that something happened just now."""
        self.last, self.last_at, self.last_kind = time.monotonic(), timestamp(), kind


class Ending:
    """How the session ends, once that is decided, and who waits to hear it."""

    decision: tuple[str, str | None] | None = None  # stop_reason and detail
    failure: meta.Failure | None = None

    def __init__(self) -> None:
        self.waiting: list[Answer] = []


class Live:
    def __init__(
        self, session: Session, metadata: Meta, writer: Writer, settings: dict[str, Any], record: AgentRecord
    ) -> None:
        self.session, self.meta, self.settings = session, metadata, settings
        self.loop = Loop(self.survive)
        self.log = Log(writer, metadata, self.survive)
        self.agent = AgentSide(record)
        self.turns = Turns()
        self.activity = Activity()
        self.ending = Ending()
        self.hooks: list[RunningHook] = []
        self.last_end: dict[str, Any] = {}  # how meta.json said that the session ended before this start
        self.ready = False  # the start is over, and commands are served
        # They tell the command that waits for the start what the agent asks, and that it has no slot yet.
        self.on_early_request: Callable[[str], None] | None = None
        self.on_queued: Callable[[dict[str, Any]], None] | None = None
        self.before_start: dict[str, Any] = {}  # what meta.json still says until the start has succeeded

    @property
    def session_id(self) -> str:
        return self.meta["id"]

    @property
    def cwd(self) -> str:
        """Return the workspace as the agent sees it: in another place it may have another path."""
        return self.meta.get("cwd") or self.meta["workspace_path"]

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the directories that the agent works in: the workspace and those of `--add-dir`."""
        return (self.cwd, *(self.meta.get("additional_directories") or ()))

    @property
    def is_elsewhere(self) -> bool:
        """Tell whether the agent runs in another place, which does not have the files of this machine."""
        return self.meta.get("cwd") is not None

    @property
    def redactor(self) -> Redactor:
        """Return the redactor for what leaves the session."""
        return redactor_for(self.agent.environ, self.meta["workspace_path"])

    @property
    def is_ending(self) -> bool:
        return self.ending.decision is not None

    @contextmanager
    def step(self) -> Iterator[None]:
        """Inside a batch: undo everything in here if it fails, and forget the requests it has added."""
        agent = self.agent
        requests, questions = dict(agent.requests), dict(agent.questions)
        try:
            with self.log.step():
                yield
        except Exception as error:
            if not is_fatal(error):
                for request_id, request in (agent.requests | agent.questions).items():
                    if request_id not in requests and request_id not in questions:
                        request.timer.cancel()
                agent.requests, agent.questions = requests, questions
            raise

    def survive(self, error: Exception, raw: bytes | memoryview | None = None) -> None:
        """Record a failure that concerns a single message. If the log itself failed, raise StoreFailed."""
        if isinstance(error, StoreFailed):
            raise error
        if is_fatal(error):
            raise StoreFailed(self.session_id, error) from error
        text = f"agh could not handle a message: {cause_of(error)}"
        with self.log.batch():
            self.log.record("runtime_warning", turn_id=self.turns.current_id, text=text, raw=raw)

    def update(self, *, sync: bool = True, **changes: Any) -> None:
        """Change the metadata and write it out."""
        self.meta |= {**changes, "updated_at": timestamp(), "last_sequence": self.log.last_sequence}  # type: ignore[typeddict-item]
        meta.write(self.session, {**self.meta, **self.before_start}, sync=sync)  # type: ignore[typeddict-item]

    def show_activity(self) -> None:
        """Let `list` and `status` see what is going on. It is only a hint, not worth an fsync."""
        pending = "SELECT count(*) FROM permissions WHERE status = 'pending'"
        ((count,),) = self.log.db.execute(pending).fetchall()
        activity = {
            "turn_id": self.turns.current_id or None,
            "pending_permissions": count,
            "pending_questions": len(self.agent.questions),
            "question": self._open_question(),
            "health": self.activity.health,
            "waiting_for_auth": self.activity.needs_login,
            "waiting_for_slot": self.agent.waits_for_slot,
            "last_activity_at": self.activity.last_at,
        }
        self.update(sync=False, activity=activity)

    def _open_question(self) -> str | None:
        """Return what the agent asks its user, in one line without secrets; None if it asks nothing."""
        for request in self.agent.requests.values():
            text = headline(request.subject.fields())
            break
        else:
            text = next((pending.question["message"] for pending in self.agent.questions.values()), "")
        return self.redactor.beginning(" ".join(text.split()), LINE) if text else None

    def end(self, reason: str, detail: str | None = None) -> None:
        """Decide that the session ends; the first decision counts."""
        if not self.is_ending:
            self.ending.decision = (reason, detail)

    def fail(self, reason: str, kind: str, summary: str, *, detail: str | None = None) -> None:
        """Decide that the session ends in failure."""
        if not self.is_ending:
            hide = self.redactor.text  # the agent chooses the names of its tools, for example
            self.ending.failure = {"kind": kind, "summary": hide(summary), "crash_bundle_path": None}
            self.end(reason, hide(detail or summary))
