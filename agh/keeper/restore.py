"""Getting the conversation back: the ladder from the agent's own memory down to a fresh start.

Each rung is a strategy: it restores, or says that it cannot and why. Only an impossible rung or a
conversation that is truly gone leads one rung down; any other failure is an error that changes
nothing. What was used, and whether context was lost, is always said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from agh.errors import AgentNeedsLogin, AghError, ContextLost, RestoreFailed, TimedOut
from agh.keeper.agent import Agent, RpcError
from agh.keeper.live import Live

QUIET, QUIET_LIMIT = 0.15, 3.0
METHOD_NOT_FOUND, NOT_FOUND, AUTH_REQUIRED = -32601, -32002, -32000
_GONE_WORDS = (
    "not found",
    "unknown session",
    "unknown sessionid",
    "no rollout",
    "invalid session identifier",
)


class Impossible(Exception):
    """This rung cannot be taken; the text says why."""


class Gone(Exception):
    """The agent no longer has the conversation; the text says how we know."""


class Restored(NamedTuple):
    strategy: str
    reason: str
    acp_session_id: str
    session: dict[str, Any]  # what the agent said of the session: modes, options
    lost: bool  # the agent starts without its own memory of a conversation that had turns


def new_session(live: Live) -> dict[str, Any]:
    """`session/new` in the session's workspace."""
    result = _agent(live).call("session/new", _place(live), live.settings["timeouts.new"])
    if not isinstance(result, dict) or not isinstance(result.get("sessionId"), str):
        raise RestoreFailed(live.session_id, "session/new gave no session id")
    return result


def restore(live: Live, *, require_context: bool = False) -> Restored:
    """Take the first rung that holds."""
    token = live.meta.get("acp_session_id")
    had_turns = bool(live.meta.get("turns"))
    reasons: list[str] = []
    if not token:
        reasons.append("no session id of the agent is stored")
    else:
        for name, rung in _NATIVE:
            try:
                session = rung(live, token)
                return Restored(name, "; ".join(reasons) or "the agent supports it", token, session, False)
            except Impossible as impossible:
                reasons.append(f"{name}: {impossible}")
            except Gone as gone:
                reasons.append(f"{name}: {gone}")
                break
    if require_context and had_turns:
        raise ContextLost(live.session_id)
    session = new_session(live)
    strategy = "inject_history" if had_turns else "idle_boot"
    return Restored(strategy, "; ".join(reasons), session["sessionId"], session, had_turns)


def native_resume(live: Live, token: str) -> dict[str, Any]:
    if not _has(live, "resume"):
        raise Impossible("the agent does not offer it")
    return _native(live, "session/resume", token)


def native_load(live: Live, token: str) -> dict[str, Any]:
    """The agent replays the conversation; the replay is counted and not stored again."""
    if not (live.meta.get("acp_caps") or {}).get("loadSession"):
        raise Impossible("the agent does not offer it")
    live.replaying, live.replayed = True, 0
    try:
        session = _native(live, "session/load", token)
        _await_quiet(live)
    finally:
        live.replaying = False
    if live.replayed == 0 and live.meta.get("turns"):
        raise Gone("the agent said it was loaded but replayed nothing")
    return session


_NATIVE: tuple[tuple[str, Callable[[Live, str], dict[str, Any]]], ...] = (
    ("native_resume", native_resume),
    ("native_load", native_load),
)


def needs_login(error: AghError) -> bool:
    return isinstance(error, RpcError) and error.error.get("code") == AUTH_REQUIRED


def _native(live: Live, method: str, token: str) -> dict[str, Any]:
    try:
        result = _agent(live).call(
            method, {"sessionId": token, **_place(live)}, live.settings["timeouts.load"]
        )
    except RpcError as error:
        code = error.error.get("code")
        if code == METHOD_NOT_FOUND:
            raise Impossible("the agent does not know the method") from None
        if code == NOT_FOUND or _says_gone(error.error, token):
            raise Gone(f"the agent does not know the session ({error.message})") from None
        if needs_login(error):
            raise AgentNeedsLogin(live.meta["agent_name"], error.message) from None
        if _listed(live, token) is False:
            raise Gone(f"{error.message}; the agent does not list the session") from None
        raise RestoreFailed(live.session_id, error.message) from None
    except TimedOut as error:
        raise RestoreFailed(live.session_id, error.message) from None
    return result if isinstance(result, dict) else {}


def _says_gone(error: Any, token: str) -> bool:
    """Whether an error, at any depth, says that the session is unknown."""
    text = _words(error).lower()
    return any(word in text for word in _GONE_WORDS) and (
        "session" in text or token.lower() in text or "rollout" in text
    )


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(map(_words, value.values()))
    if isinstance(value, list):
        return " ".join(map(_words, value))
    return value if isinstance(value, str) else ""


def _listed(live: Live, token: str) -> bool | None:
    """Whether the agent lists the session; None when it cannot tell."""
    if not _has(live, "list"):
        return None
    params: dict[str, Any] = {"cwd": live.meta["workspace_path"]}
    for _ in range(100):
        try:
            answer = _agent(live).call("session/list", params, live.settings["timeouts.new"])
        except RpcError:
            return None
        if not isinstance(answer, dict) or not isinstance(answer.get("sessions"), list):
            return None
        if any(isinstance(one, dict) and one.get("sessionId") == token for one in answer["sessions"]):
            return True
        if not answer.get("nextCursor"):
            return False
        params = {**params, "cursor": answer["nextCursor"]}
    return None


def _await_quiet(live: Live) -> None:
    """Some agents replay after their reply: wait until nothing more has come for a moment."""
    import time

    deadline = time.monotonic() + QUIET_LIMIT
    while time.monotonic() < deadline:
        seen = live.replayed
        live.loop.run_until(lambda seen=seen: live.replayed != seen, QUIET)  # type: ignore[misc]
        if live.replayed == seen:
            return


def _has(live: Live, capability: str) -> bool:
    caps = (live.meta.get("acp_caps") or {}).get("sessionCapabilities")
    return isinstance(caps, dict) and caps.get(capability) is not None


def _place(live: Live) -> dict[str, Any]:
    return {"cwd": live.meta["workspace_path"], "mcpServers": []}


def _agent(live: Live) -> Agent:
    assert live.agent is not None
    return live.agent
