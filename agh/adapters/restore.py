"""Strategies to restore a conversation, from the agent's own memory down to a fresh start.

A strategy restores the conversation, or raises `Impossible` (the next one is tried) or `Gone` (the agent no
longer has the conversation: only strategies that do not need it are tried). Any other failure ends the
resume: nothing is changed, the agent's session id is kept, and the user sees the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from agh.core.acp.reasons import error_text
from agh.core.named_tuple import NamedTuple

METHOD_NOT_FOUND, NOT_FOUND, AUTH_REQUIRED = -32601, -32002, -32000
_BY_SESSION_CAPABILITY = ("native_fork", "native_resume")
_GONE_WORDS = (
    "not found",
    "unknown session",
    "unknown sessionid",
    "no rollout",
    "invalid session identifier",
    "no previous session",
)


class Impossible(Exception):
    """A strategy that cannot be used; the text says why."""


class Gone(Exception):
    """A conversation that the agent no longer has; the text says how we know."""


class RpcFailure(Exception):
    """An agent's error response to a request; `error` is the JSON-RPC error object."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error_text(error)} (code {error.get('code')})")
        self.error = error


class Conversation(Protocol):
    """The conversation to restore, as a strategy sees it. Every call has a timeout, from the settings."""

    agent_session: str | None  # the agent's own id for the session
    had_turns: bool
    resume_argv: tuple[str, ...]  # the agent's own flags for resuming, from its record
    forking: bool  # the session is a copy of the session that the agent remembers
    fork_message: str | None  # the agent's id of the copy's last message, if the copy is not whole

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """Return what the agent advertised at `initialize`."""

    @property
    def last_message(self) -> str | None:
        """Return the agent's id of the last answer that was replayed."""

    def call(self, method: str, **params: Any) -> Any:
        """Send a request with the workspace and the MCP servers added; raises RpcFailure."""

    def new(self) -> dict[str, Any]:
        """Send `session/new`; return the agent's answer, with its `sessionId`."""

    def replayed(self, load: Callable[[], Any]) -> tuple[Any, int]:
        """Run `load`; return its result and the number of updates replayed, which are not recorded again."""

    def restart(self, extra_argv: list[str]) -> None:
        """End the agent and start it again with more arguments."""

    def inject_history(self) -> bool:
        """Prefix the next prompt with the recorded history; return False if there is none."""


class Restored(NamedTuple):
    """A restored conversation.

    `answer` is what the agent reported about the session (modes, options). `lost` is true if the agent no
    longer remembers it.
    """

    agent_session: str
    answer: dict[str, Any]
    lost: bool = False


class Strategy(NamedTuple):
    """A way to restore a conversation. Strategies with the lowest rank are tried first."""

    name: str
    rank: int
    restore: Callable[[Conversation], Restored]
    needs_memory: bool = True  # skipped once the agent is known to have lost the conversation


def native_fork(talk: Conversation) -> Restored:
    """Let the agent copy its own conversation, with `session/fork`."""
    if not talk.forking:
        raise Impossible("the session is not a fork")
    if not has_capability(talk.capabilities, "fork"):
        raise Impossible("the agent does not offer it")
    if talk.fork_message is not None and not talk.capabilities.get("loadSession"):
        raise Impossible("agh could not check that the fork ends at the right message")
    _require_id(talk)
    try:
        answer = talk.call("session/fork", sessionId=talk.agent_session)
    except RpcFailure as failure:
        raise Gone(f"the agent could not fork the session: {failure}") from None
    if not isinstance(answer, dict) or not isinstance(answer.get("sessionId"), str):
        raise Gone("the agent's fork has no session id")
    if talk.fork_message is not None:
        _check_end(talk, answer["sessionId"])
    return Restored(answer["sessionId"], answer)


def native_resume(talk: Conversation) -> Restored:
    """Let the agent resume without a replay, with `session/resume`."""
    if not has_capability(talk.capabilities, "resume"):
        raise Impossible("the agent does not offer it")
    return _native(talk, "session/resume")


def native_load(talk: Conversation) -> Restored:
    """Let the agent replay the conversation, with `session/load`; the replay is not recorded again."""
    if not talk.capabilities.get("loadSession"):
        raise Impossible("the agent does not offer it")
    restored, seen = talk.replayed(lambda: _native(talk, "session/load"))
    if not seen and talk.had_turns:
        raise Gone("the agent said it had loaded the session but replayed nothing")
    assert isinstance(restored, Restored)
    return restored


def cli_resume(talk: Conversation) -> Restored:
    """Restart the agent with its own resume flags; its new session then has the old memory."""
    if not talk.resume_argv:
        raise Impossible("agh knows no resume flags for this agent")
    _require_id(talk)
    _refuse_copy(talk)
    talk.restart([part.replace("{id}", str(talk.agent_session)) for part in talk.resume_argv])
    answer = talk.new()
    return Restored(answer["sessionId"], answer)


def inject_history(talk: Conversation) -> Restored:
    """Start a fresh agent session, and prefix its first prompt with the recorded history."""
    if not talk.had_turns:
        raise Impossible("there is no history yet")
    answer = talk.new()
    if not talk.inject_history():
        raise Impossible("there is no history yet")
    return Restored(answer["sessionId"], answer, lost=True)


def idle_boot(talk: Conversation) -> Restored:
    """Start a fresh agent session, without any context."""
    answer = talk.new()
    return Restored(answer["sessionId"], answer, lost=talk.had_turns)


STRATEGIES = (
    Strategy("native_fork", 5, native_fork),
    Strategy("native_resume", 10, native_resume),
    Strategy("native_load", 20, native_load),
    Strategy("cli_resume", 30, cli_resume),
    Strategy("inject_history", 40, inject_history, needs_memory=False),
    Strategy("idle_boot", 50, idle_boot, needs_memory=False),
)


def has_capability(capabilities: Mapping[str, Any], name: str) -> bool:
    """Return whether `sessionCapabilities` has an entry (an empty object counts)."""
    offered = capabilities.get("sessionCapabilities")
    return isinstance(offered, dict) and offered.get(name) is not None


def with_forced(capabilities: Mapping[str, Any], forced: Iterable[str]) -> dict[str, Any]:
    """Return the capabilities as if the agent advertised what these strategies need."""
    offered = capabilities.get("sessionCapabilities")
    added: dict[str, Any] = {
        name.removeprefix("native_"): {} for name in forced if name in _BY_SESSION_CAPABILITY
    }
    return {
        **capabilities,
        "loadSession": bool(capabilities.get("loadSession")) or "native_load" in forced,
        "sessionCapabilities": {**added, **(offered if isinstance(offered, dict) else {})},
    }


def _check_end(talk: Conversation, fork: str) -> None:
    """Raise Gone unless the fork ends at its message: an agent that does not know the request copies all."""
    try:
        talk.replayed(lambda: talk.call("session/load", sessionId=fork))
    except RpcFailure as failure:
        raise Gone(f"the agent's fork cannot be checked: {failure}") from None
    if talk.last_message != talk.fork_message:
        raise Gone("the agent's fork does not end at the right message")


def _native(talk: Conversation, method: str) -> Restored:
    _require_id(talk)
    _refuse_copy(talk)
    try:
        answer = talk.call(method, sessionId=talk.agent_session)
    except RpcFailure as failure:
        code = failure.error.get("code")
        if code == METHOD_NOT_FOUND:
            raise Impossible(f"the agent advertises {method} but does not support it") from None
        if code == NOT_FOUND or _says_gone(failure.error, str(talk.agent_session)):
            raise Gone(f"the agent does not know the session: {failure}") from None
        if code != AUTH_REQUIRED and _listed(talk) is False:
            raise Gone(f"{failure}, and the agent does not list the session") from None
        raise
    return Restored(str(talk.agent_session), answer if isinstance(answer, dict) else {})


def _require_id(talk: Conversation) -> None:
    if not talk.agent_session:
        raise Impossible("agh has no session id from this agent")


def _refuse_copy(talk: Conversation) -> None:
    """Refuse to let a fork continue in the conversation of the session it was copied from."""
    if talk.forking:
        raise Impossible("the conversation belongs to the session this one was forked from")


def _says_gone(error: Mapping[str, Any], session_id: str) -> bool:
    """Return whether an error says, at any depth, that the session is unknown."""
    text = _words(error).lower()
    about_it = "session" in text or "rollout" in text or session_id.lower() in text
    return about_it and any(word in text for word in _GONE_WORDS)


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(map(_words, value.values()))
    if isinstance(value, list):
        return " ".join(map(_words, value))
    return value if isinstance(value, str) else ""


def _listed(talk: Conversation) -> bool | None:
    """Return whether the agent lists the session; None if it cannot say."""
    if not has_capability(talk.capabilities, "list"):
        return None
    params: dict[str, Any] = {}
    for _ in range(100):
        try:
            answer = talk.call("session/list", **params)
        except RpcFailure:
            return None
        sessions = answer.get("sessions") if isinstance(answer, dict) else None
        if not isinstance(sessions, list):
            return None
        ids = [session.get("sessionId") for session in sessions if isinstance(session, dict)]
        if talk.agent_session in ids:
            return True
        if not answer.get("nextCursor"):
            return False
        params = {"cursor": answer["nextCursor"]}
    return None
