"""Sending a prompt to a session, live or not."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from agh.core.named_tuple import NamedTuple
from agh.core.prompt import check_size
from agh.errors import AghError, KeeperDied
from agh.home import Session
from agh.keeper import client
from agh.store import meta

if TYPE_CHECKING:
    from agh.sessions.start import OnRequest

_NOT_NOW = ("keeper_gone", "session_starting", "session_stopping")


class Sent(NamedTuple):
    """The keeper's receipt for a prompt, and its hello if the session had to be started for it."""

    receipt: dict[str, Any]
    started: dict[str, Any] | None


def send(
    session: Session,
    prompt: list[dict[str, Any]],
    *,
    idempotency_key: str | None = None,
    on_request: OnRequest | None = None,
    deadline: float | None = None,
    **args: Any,
) -> Sent:
    """Queue a prompt, making the session live first if it is not, until the deadline (monotonic).

    A keeper may die with the prompt in its hands. It is asked for once more then, under the same key: if the
    log has the prompt already, its receipt comes back, and the prompt is not sent a second time.
    """
    key, started, died = idempotency_key or os.urandom(8).hex(), None, False
    while True:
        try:
            patience = client.ANSWER_LIMIT if deadline is None else _seconds_to(deadline)
            request = {"prompt": prompt, "idempotency_key": key, **args}
            receipt = client.call(session, "prompt", limit=patience, **request)
            return Sent(receipt, started)
        except KeeperDied as error:
            if died:
                from agh.keeper.failures import explain_end

                raise explain_end(session, error) from None
            died = True
        except AghError as error:
            if error.code not in _NOT_NOW:
                raise
        from agh.sessions.start import ensure_live  # here: most sessions are live, and it takes 2 ms

        _check_size(session, prompt)
        limit = None if deadline is None else _seconds_to(deadline)
        hello = ensure_live(session, limit=limit, on_request=on_request, waits_for_slot=False)
        started = hello if hello["started"] else started


def _seconds_to(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


def _check_size(session: Session, prompt: list[dict[str, Any]]) -> None:
    """Refuse a prompt that is too large. A keeper refuses it too, but only once the session is live."""
    from agh.config import load

    settings = load(meta.read(session)["workspace_path"])
    check_size(prompt, settings["session.input_bytes"])
