"""The chat from the first session to the last: attach, converse, and attach again where that leads."""

from __future__ import annotations

import sys
from types import ModuleType

from agh.cli.chat.joining import hold_session
from agh.console.output import remark
from agh.errors import AghError
from agh.home import Session, session_of


def chat(session: Session, holder: str, ttl: float | None, steal: bool) -> Session:
    """Converse with a session until the user leaves, or somebody takes it over; return the last one.

    A prompt for a session that has stopped resumes it; `/attach` goes to another one, `/agent` stops it and
    resumes it with another agent, or with its own if that fails.
    """
    asyncio = _import_asyncio()
    from agh.cli.chat.conversation import Conversation
    from agh.cli.chat.outbox import Prompt

    prompt: Prompt | None = None
    former: Session | None = None
    agent: str | None = None
    while True:
        is_joined = False
        try:
            with hold_session(session, holder, ttl, steal, agent) as lease:
                is_joined = True
                if prompt is not None:
                    _send(session, prompt.blocks, prompt.key)
                ending = asyncio.run(Conversation(session, lease).run())
                if ending.error is not None:
                    raise ending.error
        except AghError as error:
            if is_joined or (former is None and agent is None):
                raise
            remark(f"agh: {error.message}")  # the other one cannot be had: back to the one before
            session, former, agent, prompt = former or session, None, None, None
            continue
        prompt, former, agent, steal = ending.prompt, None, ending.agent, False
        if ending.session_id is not None:
            session, former = session_of(ending.session_id), session
        elif agent is not None:
            _stop(session)
        elif prompt is None:
            return session


def _import_asyncio() -> ModuleType:
    """Import asyncio without ssl, which takes a third of the time and which a terminal does not need.

    asyncio is made to run without ssl: a Python may have been built so.
    """
    is_new = "ssl" not in sys.modules
    if is_new:
        sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        import asyncio
    finally:
        if is_new:
            del sys.modules["ssl"]
    return asyncio


def _stop(session: Session) -> None:
    from agh.sessions.stop import stop_session

    stop_session(session)


def _send(session: Session, blocks: list[dict[str, object]], key: str) -> None:
    from agh.sessions.prompt import send

    send(session, blocks, idempotency_key=key, attended=True)
