"""Restoring the conversation with the agent: the strategies are tried in order until a strategy works.

The strategy used, and whether the agent's memory was lost, is recorded and reported. A failure that is
neither "impossible" nor "gone" changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from agh.adapters import registry
from agh.adapters.opening import directories, fork_point, opening
from agh.adapters.restore import (
    AUTH_REQUIRED,
    Gone,
    Impossible,
    Restored,
    RpcFailure,
    Strategy,
    with_forced,
)
from agh.core.acp.reasons import error_text, is_auth_failure
from agh.core.inject import history, paused_context, size
from agh.core.named_tuple import NamedTuple
from agh.core.status import phase
from agh.errors import (
    AgentDied,
    AgentFailed,
    AgentNeedsLogin,
    AghError,
    CheckpointMissing,
    ContextLost,
    RestoreFailed,
    SystemPromptRefused,
    TimedOut,
)
from agh.keeper.agent.advice import describe_method, hint_for, kind_of, login_hint
from agh.keeper.agent.connection import RpcError
from agh.keeper.agent.start import restart_agent
from agh.keeper.session import Live
from agh.store import checkpoint, milestones
from agh.store.reader import Reader
from agh.store.schema import LANDMARK

QUIET_LIMIT = 5.0


class Outcome(NamedTuple):
    """The strategy that worked, why it was used, and what it gave."""

    strategy: str
    reason: str
    restored: Restored


class LiveConversation:
    """The Conversation that a strategy works with: see agh.adapters.restore."""

    def __init__(self, live: Live, fork_of: str | None = None, fork_message: str | None = None) -> None:
        self._live = live
        self.forking, self.fork_message = fork_of is not None, fork_message
        self._tried_login = False
        self.agent_session: str | None = fork_of or live.meta.get("acp_session_id")
        any_prompt = f"SELECT 1 FROM events WHERE {LANDMARK} AND type = 'user_message' LIMIT 1"
        self.had_turns = live.log.db.execute(any_prompt).fetchone() is not None
        self.resume_argv = live.agent.record.resume_argv

    @property
    def capabilities(self) -> Mapping[str, Any]:
        offered = self._live.meta.get("acp_caps") or {}
        forced = self._live.agent.record.restore_force
        return with_forced(offered, forced) if forced else offered

    def call(self, method: str, **params: Any) -> Any:
        live = self._live
        params["cwd"] = live.cwd
        if method != "session/list":
            params["mcpServers"] = [*(live.meta.get("mcp_servers") or []), *live.agent.mcp_servers]
            params |= self._opening()
            params |= directories(self.capabilities, live.folders[1:])
        if method == "session/fork" and self.fork_message is not None:
            fork_point(live.agent.record, params, self.fork_message)
        limit = live.settings[
            "timeouts.new" if method in ("session/new", "session/list") else "timeouts.load"
        ]
        agent = live.agent.connected
        try:
            try:
                return agent.call(method, params, limit)
            except RpcError as error:
                if error.error.get("code") != AUTH_REQUIRED or not self._authenticate(limit):
                    raise
                return agent.call(method, params, limit)
        except RpcError as error:
            raise RpcFailure(error.error) from None

    def _opening(self) -> dict[str, Any]:
        """Return the session's system prompt and tools. Tools are left out if a rule may still deny them."""
        live = self._live
        strict = any(rule.decision != "allow" for rule in live.settings["permissions.rules"])
        tools = [] if strict else live.meta.get("allowed_tools") or []
        record, caps = live.agent.record, self.capabilities
        try:
            return opening(record, caps, live.meta.get("system_prompt"), tools)
        except SystemPromptRefused as error:
            if live.before_start.get("agent_name") in (None, record.name):
                raise
            with live.log.batch():  # another agent takes over: better without it than not at all
                live.log.record("runtime_warning", text=f"{error.message}; the session continues without it")
            live.meta["system_prompt"] = None
            return opening(record, caps, None, tools)

    def _authenticate(self, limit: float) -> bool:
        """Try once to log in, by the method that the user selected or by keys in the environment."""
        live = self._live
        agent = live.agent
        methods = [method for method in live.meta.get("auth_methods") or [] if isinstance(method, dict)]
        methods = [method for method in methods if kind_of(method) != "terminal"]  # those are for a person
        usable = [method for method in methods if method.get("id") == agent.record.auth_method]
        usable += [
            method
            for method in methods
            if method.get("type") == "env_var" and _keys_are_set(method, agent.environ)
        ]
        if not usable or self._tried_login or agent.connection is None:
            return False
        self._tried_login = True
        agent.connection.call("authenticate", {"methodId": usable[0]["id"]}, limit)
        return True

    def new(self) -> dict[str, Any]:
        answer = self.call("session/new")
        if not isinstance(answer, dict) or not isinstance(answer.get("sessionId"), str):
            text = "session/new returned no session id"
            raise AgentFailed(self._live.meta["agent_name"], text, failure_kind="protocol_failure")
        return answer

    def replayed(self, load: Callable[[], Any]) -> tuple[Any, int]:
        agent = self._live.agent
        agent.replaying, agent.replayed, agent.replayed_message = True, 0, None
        try:
            answer = load()
            self._await_quiet()
        except BaseException:
            agent.replaying = False
            raise
        return answer, agent.replayed

    @property
    def last_message(self) -> str | None:
        return self._live.agent.replayed_message

    def restart(self, extra_argv: list[str]) -> None:
        restart_agent(self._live, extra_argv)

    def inject_history(self) -> bool:
        budget = self._live.settings["session.history_budget"]
        text = self._paused_context(budget) or self._history(budget)
        self._live.turns.history = text
        self._live.meta["inject_history"] = text is not None
        return text is not None

    def _paused_context(self, budget: int) -> str | None:
        """Return what the checkpoint of a paused session has of this agent; None if it was not paused."""
        live = self._live
        if phase(live.last_end) != "paused" or live.before_start.get("agent_name") != live.meta["agent_name"]:
            return None
        try:
            agents = checkpoint.read(live.session)["active_agents"]
        except CheckpointMissing:
            return None
        agent = next((agent for agent in agents if agent["agent_id"] == live.meta["agent_name"]), None)
        return agent and paused_context(agent["conversation_tail"], budget, agent["expertise_snapshot"])

    def _history(self, budget: int) -> str | None:
        """Return the newest part of the recorded history that fits."""
        with Reader(self._live.session) as reader:
            before, messages = milestones.tail(reader, count := 200)
            while before != milestones.START and size(messages) <= budget:
                before, messages = milestones.tail(reader, count := 4 * count)
        return history(messages, budget, omitted=before.messages)

    def _await_quiet(self) -> None:
        """Wait until nothing has come for a moment: some agents replay after their reply."""
        agent = self._live.agent
        deadline = time.monotonic() + QUIET_LIMIT
        seen = -1
        while seen != agent.replayed and time.monotonic() < deadline:
            seen = agent.replayed
            self._live.loop.run_until(lambda: agent.replayed != seen, agent.record.quiet_after_load)  # noqa: B023


def _keys_are_set(method: dict[str, Any], environ: Mapping[str, str]) -> bool:
    names = method.get("vars")
    names = names if isinstance(names, list) else []
    required = [name for name in names if isinstance(name, dict) and not name.get("optional")]
    return bool(required) and all(environ.get(str(name.get("name"))) for name in required)


def start_conversation(live: Live) -> Outcome:
    """Start the first conversation of a session."""
    with _agent_errors(live):
        answer = LiveConversation(live).new()
    return Outcome("new", "", Restored(answer["sessionId"], answer))


def restore(
    live: Live,
    *,
    require_context: bool = False,
    fork_of: str | None = None,
    fork_message: str | None = None,
    skip: tuple[str, ...] = (),
) -> Outcome:
    """Restore the conversation by the first strategy that works.

    `fork_of` is the agent's session that this session is a copy of, up to `fork_message` if that is named;
    `skip` are the strategies not to use.
    """
    skip += live.agent.record.restore_skip
    if fork_message is not None and "fork_at" not in live.agent.record.session_meta:
        fork_of = fork_message = None  # the agent would copy all of it
    conversation = LiveConversation(live, fork_of, fork_message)
    reasons: list[str] = []
    forgotten = False
    with _agent_errors(live):
        for strategy in _in_order(live.agent.record.restore_force):
            if strategy.name in skip or (forgotten and strategy.needs_memory):
                continue
            if require_context and conversation.had_turns and not strategy.needs_memory:
                raise ContextLost(live.session_id)
            try:
                # What an agent reports of the conversation from here to the next prompt is a replay.
                live.agent.replaying = strategy.needs_memory
                restored = strategy.restore(conversation)
                if live.meta.get("inject_history") and live.turns.history is None:
                    conversation.inject_history()  # no prompt got through since, so neither did the history
                return Outcome(strategy.name, "; ".join(reasons) or "the agent supports it", restored)
            except Impossible as impossible:
                if strategy.name != "native_fork" or conversation.forking:
                    reasons.append(f"{strategy.name}: {impossible}")
            except Gone as gone:
                reasons.append(f"{strategy.name}: {gone}")
                forgotten = True
            except (AghError, RpcFailure):
                raise
            except Exception as error:  # a bug in a plugin
                broken = f"the strategy {strategy.name} failed: {type(error).__name__}: {error}"
                raise RestoreFailed(live.session_id, broken) from error
    raise RestoreFailed(live.session_id, "; ".join(reasons))


def _in_order(forced: tuple[str, ...]) -> list[Strategy]:
    """Return the strategies in the order to try them: those that the agent's record forces come first."""
    return sorted(registry.strategies(), key=lambda strategy: strategy.name not in forced)


class _agent_errors:
    """Turns an agent's errors into ours, which say what to do."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        live = self._live
        if isinstance(error, RpcFailure):
            if is_auth_failure(error.error):
                raise login_needed(live, error_text(error.error)) from None
            details: dict[str, Any] = live.agent.connected.last_lines()
            if error.error.get("data") is not None:
                details["data"] = error.error["data"]
            text = live.agent.connected.with_last_words(str(error))
            if live.meta.get("acp_session_id"):
                raise RestoreFailed(live.session_id, text, **details) from None
            hint = hint_for(live.agent.record, text)
            raise AgentFailed(live.meta["agent_name"], text, hint=hint, **details) from None
        if isinstance(error, TimedOut | AgentDied) and live.meta.get("acp_session_id"):
            raise RestoreFailed(live.session_id, error.message, **error.details) from None


def login_needed(live: Live, message: str) -> AghError:
    """Return the error for an agent that needs a login, with the command that logs in."""
    record = live.agent.record
    offered = [describe_method(method) for method in live.meta.get("auth_methods") or []]
    return AgentNeedsLogin(record.name, message, hint=login_hint(record), methods=offered)
