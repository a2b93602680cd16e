"""A live session inside its keeper: the log, the metadata and the agent, and how they change together.

Everything that happens goes through `batch`: events are recorded and acts are planned inside it; when
it ends the events are committed in one transaction, and only then the acts are done. So nothing is
acted on that is not on disk.

Agents are not trusted to make sense, so an act or a callback that fails is a `runtime_warning` and nothing
more: the acts after it are done. Only a log that cannot be written ends the session.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agh.adapters.agents import AgentRecord
from agh.core.events import Draft, draft_of, timestamp
from agh.core.redact import redactor
from agh.errors import StoreFailed
from agh.keeper.agent.connection import Agent
from agh.keeper.loop import Loop, Timer
from agh.store import meta
from agh.store.meta import Meta
from agh.store.writer import Writer

if TYPE_CHECKING:
    from agh.keeper.agent.permissions import Asked
    from agh.keeper.agent.terminals import Terminal
    from agh.keeper.hooks import Started
    from agh.keeper.server import Answer

CAUSE_LIMIT = 1000


def cause_of(error: Exception) -> str:
    """What went wrong, in a short text that can be stored: a file name in it may be no UTF-8."""
    return f"{type(error).__name__}: {error}"[:CAUSE_LIMIT].encode(errors="replace").decode()


@dataclass
class Turn:
    """The prompt that the agent is working on."""

    turn_id: str
    input_id: int
    after: int  # the last sequence before it
    began: float = field(default_factory=time.monotonic)
    cancelled: bool = False
    said_something: bool = False
    acted: bool = False  # something of it was shown, or done through us: it cannot be begun anew unseen
    usage: dict[str, Any] = field(default_factory=dict)  # as told request by request
    retries: int = 0  # how often it may be sent again
    attempts: int = 0  # how often it has failed so far
    waiting: Timer | None = None  # until it is sent again
    warned: bool = False
    warned_before: bool = False
    timed_out: tuple[str, str] | None = None  # the stop detail and the failure, if it does not end by itself
    last_progress: float = field(default_factory=time.monotonic)
    last_heartbeat: float = field(default_factory=time.monotonic)
    tools: dict[str, str] = field(default_factory=dict)  # calls in progress, by id
    approved: set[tuple[str, str | None]] = field(default_factory=set)  # kinds and resources allowed in it


class Live:
    def __init__(
        self,
        loop: Loop,
        directory: str,
        stored: Meta,
        writer: Writer,
        settings: dict[str, Any],
        record: AgentRecord,
    ) -> None:
        self.loop, self.directory, self.meta, self.writer = loop, directory, stored, writer
        self.settings = settings
        self.record_of_agent = record
        self.agent: Agent | None = None
        self.turn: Turn | None = None
        self.last_turn_id = ""
        self.ready = False  # the start is over, and commands are served
        self.settling = False  # a turn has ended, and what follows from it is still being done
        self.way_back: dict[str, Any] = {}  # what meta.json keeps saying until the start has succeeded
        self.replaying = False
        self.replayed = 0
        self.hooks_running: list[Started] = []
        self.nonsense = 0  # lines from the agent that were no messages
        self.ending: tuple[str, str | None] | None = None  # stop_reason and detail, once the end is decided
        self.failure: meta.Failure | None = None
        self.history: str | None = None  # to be injected into the next prompt
        self.environ: dict[str, str] = {}
        self.asked: dict[str, Asked] = {}
        self.terminals: dict[str, Terminal] = {}
        self.farewells: list[Answer] = []  # who waits to hear of the end
        self.began = self.last_activity = time.monotonic()
        self.last_activity_at, self.last_activity_kind = timestamp(), "session_start"
        self.health: str | None = None
        self.watch_turn: Callable[[Turn], None] = lambda turn: None
        self.pause_after_turn: tuple[str, str] | None = None  # stop reason and the limit that was reached
        loop.on_failure = self.survive
        self._drafts: list[Draft] | None = None
        self._acts: list[Callable[[], None]] = []
        self._at = ""  # the time of what is recorded in the batch

    @property
    def session_id(self) -> str:
        return self.meta["id"]

    @property
    def cwd(self) -> str:
        """The workspace as the agent sees it: in another place it may have another path."""
        return self.meta.get("cwd") or self.meta["workspace_path"]

    @property
    def is_elsewhere(self) -> bool:
        """Whether the agent runs in a place of its own, where the files of this machine are not."""
        return self.meta.get("cwd") is not None

    @property
    def db(self) -> sqlite3.Connection:
        return self.writer.connection

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Record and plan inside; at the end commit, then act. A batch inside a batch joins it."""
        if self._drafts is not None:
            yield
            return
        self._drafts, self._acts, self._at = [], [], timestamp()
        try:
            with self.writer.transaction():
                yield
                self.writer.store(self._drafts)
        except StoreFailed:
            if self.agent is not None:
                self.agent.on_frames = lambda frames: None  # what it still says must not follow what was lost
            raise
        finally:
            self._drafts = None
        acts, self._acts = self._acts, []
        for act in acts:
            try:
                act()
            except Exception as error:
                self.survive(error)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Inside a batch: what is recorded, planned and stored in here is undone if it fails."""
        assert self._drafts is not None, "a step is part of a batch"
        drafts, acts, waiting = len(self._drafts), len(self._acts), dict(self.asked)
        self.db.execute("SAVEPOINT step")
        try:
            yield
        except Exception as error:
            if self.is_fatal(error):
                raise
            self.db.execute("ROLLBACK TO step")
            self.db.execute("RELEASE step")
            del self._drafts[drafts:], self._acts[acts:]
            for request_id in self.asked.keys() - waiting.keys():
                self.asked[request_id].timer.cancel()
            self.asked = waiting
            raise
        self.db.execute("RELEASE step")

    def survive(self, error: Exception, raw: bytes | memoryview | None = None) -> None:
        """Note a failure that concerns one message only. If it concerns the log, raise it as StoreFailed."""
        if isinstance(error, StoreFailed):
            raise error
        if self.is_fatal(error):
            raise StoreFailed(self.session_id, error) from error
        text = f"something could not be handled: {cause_of(error)}"
        with self.batch():
            self.record("runtime_warning", turn_id=self.turn.turn_id if self.turn else "", text=text, raw=raw)

    @staticmethod
    def is_fatal(error: Exception) -> bool:
        """Whether nothing can be recorded any more. Values that SQLite does not take are no such failure."""
        if isinstance(error, sqlite3.DatabaseError):
            return not isinstance(
                error, sqlite3.IntegrityError | sqlite3.DataError | sqlite3.ProgrammingError
            )
        return isinstance(error, StoreFailed)

    def record(
        self, type: str, *, turn_id: str = "", raw: bytes | memoryview | None = None, **fields: Any
    ) -> None:
        self.add(draft_of(type, turn_id, self.meta.get("acp_session_id"), self._at, fields, raw))

    def add(self, made: Draft) -> None:
        assert self._drafts is not None, "events are recorded inside a batch"
        self._drafts.append(made)

    def then(self, act: Callable[[], None]) -> None:
        """Do this once everything recorded in the batch is on disk."""
        self._acts.append(act)

    def update(self, *, sync: bool = True, **changes: Any) -> None:
        """Change the metadata and write it out."""
        self.meta |= {**changes, "updated_at": timestamp(), "last_sequence": self.writer.last_sequence}  # type: ignore[typeddict-item]
        meta.write(self.directory, {**self.meta, **self.way_back}, sync=sync)  # type: ignore[typeddict-item]

    def show_activity(self) -> None:
        """Let `list` and `status` see what goes on. A hint for people: not worth an fsync."""
        (pending,) = self.db.execute("SELECT count(*) FROM permissions WHERE status = 'pending'").fetchone()
        activity = {
            "turn_id": self.turn.turn_id if self.turn else None,
            "pending_permissions": pending,
            "health": self.health,
            "last_activity_at": self.last_activity_at,
        }
        self.update(sync=False, activity=activity)

    def end(self, reason: str, detail: str | None = None) -> None:
        """Decide that the session ends; the first decision counts."""
        if self.ending is None:
            self.ending = (reason, detail)

    def fail(self, reason: str, kind: str, summary: str, *, detail: str | None = None) -> None:
        """Decide that the session ends in failure."""
        if self.ending is None:
            hide = redactor(self.environ).text  # the names of tools, for one, are the agent's words
            self.failure = {"kind": kind, "summary": hide(summary), "crash_bundle_path": None}
            self.end(reason, hide(detail or summary))

    def active(self, kind: str) -> None:
        """Note that something happened just now."""
        self.last_activity, self.last_activity_at, self.last_activity_kind = (
            time.monotonic(),
            timestamp(),
            kind,
        )
