"""Resuming the conversation with the agent: the ladder of strategies, climbed down rung by rung.

What was used, and whether the agent's memory was lost, is recorded and told. A failure that is
neither "impossible" nor "gone" changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agh.adapters import registry
from agh.adapters.opening import opening
from agh.adapters.restore import AUTH_REQUIRED, Gone, Impossible, Restored, RpcFailure
from agh.core.inject import history, size
from agh.errors import (
    AgentDied,
    AgentFailed,
    AgentNeedsLogin,
    AghError,
    ContextLost,
    RestoreFailed,
    SystemPromptRefused,
    TimedOut,
)
from agh.keeper.agent.connection import RpcError
from agh.keeper.agent.launch import restart_agent
from agh.keeper.session import Live
from agh.store import milestones
from agh.store.reader import Reader
from agh.store.schema import LANDMARK

QUIET_LIMIT = 5.0


class Outcome(NamedTuple):
    strategy: str
    reason: str
    restored: Restored


class LiveConversation:
    """The Conversation that strategies are given: see agh.adapters.restore."""

    def __init__(self, live: Live, fork_of: str | None = None) -> None:
        self._live = live
        self.forking = fork_of is not None
        self._tried_login = False
        self.agent_session: str | None = fork_of or live.meta.get("acp_session_id")
        prompted = f"SELECT 1 FROM events WHERE {LANDMARK} AND type = 'user_message' LIMIT 1"
        self.had_turns = live.db.execute(prompted).fetchone() is not None
        self.resume_argv = live.record_of_agent.resume_argv

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return self._live.meta.get("acp_caps") or {}

    def call(self, method: str, **params: Any) -> Any:
        live = self._live
        place: dict[str, Any] = {"cwd": live.cwd}
        if method != "session/list":
            place["mcpServers"] = live.meta.get("mcp_servers") or []
            place |= self._asked()
        limit = live.settings[
            "timeouts.new" if method in ("session/new", "session/list") else "timeouts.load"
        ]
        assert live.agent is not None
        try:
            try:
                return live.agent.call(method, {**params, **place}, limit)
            except RpcError as error:
                if error.error.get("code") != AUTH_REQUIRED or not self._authenticate(limit):
                    raise
                return live.agent.call(method, {**params, **place}, limit)
        except RpcError as error:
            raise RpcFailure(error.error) from None

    def _asked(self) -> dict[str, Any]:
        """The session's system prompt and tools. Tools stay with us where a rule may still say no."""
        live = self._live
        strict = any(rule.decision != "allow" for rule in live.settings["permissions.rules"])
        tools = [] if strict else live.meta.get("allowed_tools") or []
        record, caps = live.record_of_agent, self.capabilities
        try:
            return opening(record, caps, live.meta.get("system_prompt"), tools)
        except SystemPromptRefused as error:
            if live.way_back.get("agent_name") in (None, record.name):
                raise
            with live.batch():  # another agent takes over: better without it than not at all
                live.record("runtime_warning", text=f"{error.message}; the session goes on without it")
            live.meta["system_prompt"] = None
            return opening(record, caps, None, tools)

    def _authenticate(self, limit: float) -> bool:
        """Log in by the method that the user chose, or by keys that are in the environment; once."""
        live = self._live
        methods = [one for one in live.meta.get("auth_methods") or [] if isinstance(one, dict)]
        chosen = [one for one in methods if one.get("id") == live.record_of_agent.auth_method]
        chosen += [
            one for one in methods if one.get("type") == "env_var" and _keys_are_set(one, live.environ)
        ]
        if not chosen or self._tried_login or live.agent is None:
            return False
        self._tried_login = True
        live.agent.call("authenticate", {"methodId": chosen[0]["id"]}, limit)
        return True

    def new(self) -> dict[str, Any]:
        answer = self.call("session/new")
        if not isinstance(answer, dict) or not isinstance(answer.get("sessionId"), str):
            raise AgentFailed(self._live.meta["agent_name"], "session/new gave no session id")
        return answer

    def replayed(self, load: Callable[[], Any]) -> tuple[Any, int]:
        live = self._live
        live.replaying, live.replayed = True, 0
        try:
            answer = load()
            self._await_quiet()
        except BaseException:
            live.replaying = False
            raise
        return answer, live.replayed

    def restart(self, extra_argv: list[str]) -> None:
        restart_agent(self._live, extra_argv)

    def inject_history(self) -> bool:
        budget = self._live.settings["session.history_budget"]
        with Reader(self._live.directory) as reader:
            before, said = milestones.tail(reader, count := 200)
            while before != milestones.START and size(said) <= budget:
                before, said = milestones.tail(reader, count := 4 * count)
        told = history(said, budget, omitted=before.messages)
        self._live.history = told
        self._live.meta["inject_history"] = told is not None
        return told is not None

    def _await_quiet(self) -> None:
        """Some agents replay after their reply: wait until nothing more has come for a moment."""
        live = self._live
        deadline = time.monotonic() + QUIET_LIMIT
        seen = -1
        while seen != live.replayed and time.monotonic() < deadline:
            seen = live.replayed
            live.loop.run_until(lambda: live.replayed != seen, live.record_of_agent.quiet_after_load)  # noqa: B023


def _keys_are_set(method: dict[str, Any], environ: Mapping[str, str]) -> bool:
    names = method.get("vars")
    names = names if isinstance(names, list) else []
    wanted = [one for one in names if isinstance(one, dict) and not one.get("optional")]
    return bool(wanted) and all(environ.get(str(one.get("name"))) for one in wanted)


def open_new(live: Live) -> Outcome:
    """The first conversation of a session."""
    with _failures_told(live):
        answer = LiveConversation(live).new()
    return Outcome("new", "", Restored(answer["sessionId"], answer))


def restore(
    live: Live, *, require_context: bool = False, fork_of: str | None = None, skip: tuple[str, ...] = ()
) -> Outcome:
    """Take the first strategy that works. `fork_of` is the agent's session that this one is a copy of;
    `skip` are strategies that whoever resumes the session does not want."""
    skip += live.record_of_agent.restore_skip
    talk = LiveConversation(live, fork_of)
    reasons: list[str] = []
    forgotten = False
    with _failures_told(live):
        for strategy in registry.strategies():
            if strategy.name in skip or (forgotten and strategy.needs_memory):
                continue
            if require_context and talk.had_turns and not strategy.needs_memory:
                raise ContextLost(live.session_id)
            try:
                # What an agent tells of the conversation from here to the next prompt is a replay.
                live.replaying = strategy.needs_memory
                restored = strategy.restore(talk)
                if live.meta.get("inject_history") and live.history is None:
                    talk.inject_history()  # an earlier fresh session was never told: no prompt got through
                return Outcome(strategy.name, "; ".join(reasons) or "the agent supports it", restored)
            except Impossible as impossible:
                if strategy.name != "native_fork" or talk.forking:
                    reasons.append(f"{strategy.name}: {impossible}")
            except Gone as gone:
                reasons.append(f"{strategy.name}: {gone}")
                forgotten = True
            except (AghError, RpcFailure):
                raise
            except Exception as error:  # a plugin's own mistake
                broken = f"the strategy {strategy.name} failed: {type(error).__name__}: {error}"
                raise RestoreFailed(live.session_id, broken) from error
    raise RestoreFailed(live.session_id, "; ".join(reasons))


class _failures_told:
    """Turns what an agent answers into errors that say what to do."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        live = self._live
        if isinstance(error, RpcFailure):
            if error.error.get("code") == AUTH_REQUIRED:
                raise login_needed(live, str(error.error.get("message"))) from None
            if live.meta.get("acp_session_id"):
                raise RestoreFailed(live.session_id, str(error)) from None
            raise AgentFailed(live.meta["agent_name"], str(error)) from None
        if isinstance(error, TimedOut | AgentDied) and live.meta.get("acp_session_id"):
            raise RestoreFailed(live.session_id, error.message) from None


def login_needed(live: Live, said: str) -> AghError:
    record = live.record_of_agent
    offered = [str(one.get("name") or one.get("id")) for one in live.meta.get("auth_methods") or []]
    hint = f"log in: {record.login}" if record.login else None
    return AgentNeedsLogin(record.name, said, hint=hint, methods=offered)
