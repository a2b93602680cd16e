"""The keeper of a mirror: `python -m agh_places.mirror_keeper DIR SOCKET_FD`, like any keeper.

It holds the mirror's lock, pulls the other log into the mirror's, and passes requests on to the keeper on the
other machine. It runs no agent and adds no event of its own. When the connection breaks it stays, tries to
connect again, and pulls what it missed. A prompt that was under way is sent again under its key, so it is
queued once; any other request fails with `place_gone`.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from agh import __version__, config
from agh.core.events import timestamp
from agh.core.named_tuple import NamedTuple
from agh.core.status import LIVE_STATES, MIRROR_CUT
from agh.errors import AghError, FarCommandFailed, KeeperGone, PlaceGone, Relayed, SessionStarting, Usage
from agh.keeper.loop import Loop
from agh.keeper.process import Ready, log, run
from agh.keeper.server import Answer, Control, Handler
from agh.sessions.elsewhere.command import prepare_command
from agh.sessions.elsewhere.mirror import RELAY
from agh.sessions.elsewhere.pulled import open_mirror, store_pulled
from agh.store import meta
from agh.store.lock import Lock
from agh_places.wire import Wire

PATIENCE = 20.0  # seconds that a prompt waits for a broken connection; whoever sent it waits no longer
PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)  # seconds between two tries to connect
FORWARDED = ("prompt", "set", "cancel", "decide", "answer", "attach", "detach", "queue", "update", "redact")
RESTORED = ("strategy", "reason", "context_lost", "meant", "remarks", "queued")  # of the other keeper's hello
LOCAL_CHANGES = ("name", "archived")  # what a mirror has of its own
NOT_FORWARDED = ("v", "deadline", "peer_pid", "when_gone")
# What the other agh says about its session. Nothing of it decides what is run or deleted on this machine.
PULLED = (
    *("state", "stop_reason", "stop_detail", "failure", "activity", "attach", "turns", "spent", "restore"),
    *(
        "title",
        "last_message",
        "agent_name",
        "agent_version",
        "model",
        "mode",
        "current",
        "offers",
        "options",
    ),
    *("commands", "acp_session_id", "acp_session_ids", "acp_caps", "auth_methods", "limits", "permissions"),
    *("resumes_at", "limited", "unanswered_permissions", "orphaned_questions", "updated_at"),
)


class Request(NamedTuple):
    """A request that waits for its answer."""

    message: dict[str, Any]
    answer: Answer

    @property
    def may_repeat(self) -> bool:
        """Tell whether it may be sent twice: a prompt with a key is queued once."""
        return self.message["verb"] == "prompt" and bool(self.message.get("idempotency_key"))


class Mirror:
    """A mirror that is connected, or tries to be."""

    def __init__(self, lock: Lock, ready: Ready, request: dict[str, Any]) -> None:
        self.session, self._ready = lock.session, ready
        self.meta: Any = meta.read(lock.session)
        self.place = str(self.meta["place"])
        self.writer = open_mirror(lock, str(self.meta["agent_name"]))
        self.loop = Loop()
        self._create, self._start = request.get("create"), not request.get("only_if_live")
        self._wire: Wire | None = None
        self._is_connected, self._was_connected, self._failures = False, False, 0
        self._may_exist = False  # it was to be created there, and no answer came
        self._number = 0
        self._waiting: dict[int, Request] = {}
        self._stops: list[tuple[Answer, dict[str, Any]]] = []
        self.failure: AghError | None = None
        self.is_over = False
        self._has_ended = False  # the session itself, not only this keeper

    def connect(self) -> None:
        """Start the other end, from where the mirror's log ends."""
        places = config.load(self.meta["workspace_path"])["places"]
        command = prepare_command(self.place, (RELAY, self.session.id), places)
        try:
            self._wire = Wire(self.loop, command, self._take, self._lose)
        except OSError as error:
            self._lose(PlaceGone(self.place, f"{command.argv[0]}: {error.strerror}"))

    def verbs(self) -> dict[str, Handler]:
        """Return the verbs of the mirror's socket."""
        return {**dict.fromkeys(FORWARDED, self._forward), "hello": self._hello, "stop": self._forward}

    def describe(self) -> dict[str, Any]:
        """Return the answer to `hello`: the session is reached through this process."""
        return {
            "session_id": self.session.id,
            "version": __version__,
            "pid": os.getpid(),
            "agent_pid": None,
            "turn_id": (self.meta.get("activity") or {}).get("turn_id"),
            "last_sequence": self.writer.last_sequence,
        }

    def update(self, **changes: Any) -> None:
        """Change the metadata and write it out."""
        changes |= {"last_sequence": self.writer.last_sequence}
        if self.meta | changes != self.meta:
            self.meta |= changes
            meta.write(self.session, self.meta)

    def cut(self) -> None:
        """End this process without ending the session."""
        self.update(state="stopped", stop_reason="shutdown", stop_detail=MIRROR_CUT, keeper=None)
        self.is_over = True

    def close(self) -> None:
        """End the connection, and answer whoever waited for the end of the session."""
        if self._wire is not None:
            self._wire.close()
        for answer, result in self._stops:
            answer({**result, "pid": os.getpid()})
        for request in self._waiting.values():
            request.answer(self._last_answer(request))
        self.writer.close()

    def _last_answer(self, request: Request) -> dict[str, Any] | AghError:
        """Return what a request gets that was still under way when this keeper ended."""
        if not self._has_ended:
            return self._gone()
        is_stop = request.message["verb"] == "stop"
        return {"pid": os.getpid()} if is_stop else KeeperGone(self.session.id)

    def _hello(self, request: dict[str, Any], answer: Answer) -> None:
        self._check_started()
        answer(self.describe())

    def _forward(self, request: dict[str, Any], answer: Answer) -> None:
        self._check_started()
        local = {key: request.pop(key) for key in LOCAL_CHANGES if key in request}
        if request["verb"] == "update" and local:
            self.update(**local)
            if not request.keys() - {*NOT_FORWARDED, "verb"}:
                answer(local)
                return
        message = {key: value for key, value in request.items() if key not in NOT_FORWARDED}
        if not self._is_connected:
            raise self._gone()
        self._send(Request(message, answer))

    def _check_started(self) -> None:
        if not self._was_connected:
            raise SessionStarting(self.session.id)

    def _send(self, request: Request) -> None:
        assert self._wire is not None
        self._number += 1
        self._waiting[self._number] = request
        self._wire.send({"number": self._number, "request": request.message})

    def _gone(self) -> AghError:
        hint = f"try again when the connection is back; see agh session status {self.session.id}"
        return PlaceGone(self.place, "the session continues there", hint=hint)

    def _take(self, message: dict[str, Any]) -> None:
        """Take a message of the other end."""
        try:
            if "greeting" in message:
                self._open()
            elif "number" in message:
                self._take_answer(message)
            elif "error" in message:
                self._fail(Relayed(message["error"]))
            elif "live" in message:
                self._note_connected(message["live"])
            elif "rows" in message:
                store_pulled(self.writer, message["rows"], message["tables"])
                self._take_meta(message["meta"])
            elif "ended" in message:
                self._take_meta(message["ended"])
                self.update(keeper=None, state="stopped")
                self.is_over = self._has_ended = True
        except (KeyError, TypeError, ValueError) as error:
            self._fail(FarCommandFailed(self.place, f"agh there sent an invalid session: {error}"))

    def _open(self) -> None:
        """Say what is needed of the session. Before the other end has greeted, nothing is asked of it."""
        assert self._wire is not None
        self._may_exist = self._create is not None
        self._wire.send({"after": self.writer.last_sequence, "create": self._create, "start": self._start})

    def _take_answer(self, message: dict[str, Any]) -> None:
        request = self._waiting.pop(int(message["number"]))
        if "error" in message:
            request.answer(Relayed(message["error"]))
        elif request.message["verb"] == "stop":
            self._stops.append((request.answer, message["ok"]))  # answered when the end is in our log
        else:
            request.answer(message["ok"])

    def _take_meta(self, far: dict[str, Any]) -> None:
        """Take over what the other metadata says about the session, if it makes sense."""
        fields = {key: far[key] for key in PULLED if key in far}
        candidate = {**self.meta, **fields}
        if problem := meta.find_problem(candidate):
            raise ValueError(problem)
        if candidate["state"] in LIVE_STATES:
            fields["keeper"] = {"pid": os.getpid(), "started_at": self.meta["created_at"]}
        self.update(**fields)

    def _note_connected(self, hello: dict[str, Any]) -> None:
        if self._failures:
            log(f"connected to {self.place} again")
        is_first, self._was_connected = not self._was_connected, True
        self._is_connected, self._failures, self._create, self._start = True, 0, None, False
        waiting, self._waiting = self._waiting, {}
        for request in waiting.values():
            self._send(request)
        if is_first:
            restored = {key: hello[key] for key in RESTORED if key in hello}
            self._ready.succeeded(self.describe() | restored)

    def _fail(self, error: AghError) -> None:
        """Give up: the other agh cannot keep this session."""
        self.failure, self.is_over = error, True

    def _lose(self, error: AghError | None) -> None:
        """Note that the connection is gone. If it never was there, give up; else try again, for ever."""
        self._wire, self._is_connected = None, False
        if self.is_over:
            return
        error = error or self._gone()
        if not self._was_connected:
            error.details["may_exist"] = self._may_exist
            self._fail(error)
            return
        repeatable = {number: request for number, request in self._waiting.items() if request.may_repeat}
        lost = [request for number, request in self._waiting.items() if number not in repeatable]
        self._waiting = repeatable
        for request in lost:
            request.answer(self._gone())
        if repeatable:
            self.loop.later(PATIENCE, lambda: self._give_up(repeatable))
        if not self._failures:
            log(f"{error.message}; the session continues there")
            activity = {**(self.meta.get("activity") or {}), "disconnected_at": timestamp()}
            self.update(activity=activity)
        pause = PAUSES[min(self._failures, len(PAUSES) - 1)]
        self._failures += 1
        self.loop.later(pause, self._connect_again)

    def _give_up(self, requests: dict[int, Request]) -> None:
        """Answer prompts that still wait for the connection."""
        for number in requests.keys() & self._waiting.keys() if not self._is_connected else ():
            self._waiting.pop(number).answer(self._gone())

    def _connect_again(self) -> None:
        try:
            if not self.is_over:
                self.connect()
        except AghError as error:  # the settings name no such place any more
            self._lose(error)


def keep(lock: Lock, ready: Ready, request: dict[str, Any]) -> None:
    """Keep a mirror until its session ends."""
    if request.get("agent") or request.get("fresh") or request.get("limits"):
        raise Usage(
            "a session that is kept on another host can be changed only there",
            hint="leave out --agent, --fresh and the limits, or resume it with the agh on that host",
        )
    mirror = Mirror(lock, ready, request)
    state = {"state": "starting", "stop_reason": None, "stop_detail": None, "failure": None}
    mirror.update(**state, keeper={"pid": os.getpid(), "started_at": timestamp()})
    control = Control(mirror.loop, lock.session, mirror.verbs())
    ends = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    mirror.loop.on_signals(dict.fromkeys(ends, mirror.cut))
    try:
        mirror.connect()
        mirror.loop.run_until(lambda: mirror.is_over)
        if mirror.failure is not None:
            mirror.update(state="stopped", stop_reason="error", stop_detail=mirror.failure.message)
            raise mirror.failure
    finally:
        mirror.close()
        control.close()
    lock.release()


if __name__ == "__main__":
    run(keep)
