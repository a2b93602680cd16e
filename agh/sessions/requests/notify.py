"""Notifications of what no keeper can tell: a session whose keeper was killed, or that could not be started.

Promises: each failure is reported once, by whichever command sees it first; many are one notification. A
notifier that fails changes nothing about the command, which waits no longer than the notifier's timeout.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from agh import config
from agh.adapters.redactions import redactor_for
from agh.core.named_tuple import NamedTuple
from agh.core.settings.notify import Notify
from agh.errors import AghError
from agh.home import Session
from agh.store import meta
from agh.store.inbox import state

MOST = 3  # failures that are told one by one


class Failure(NamedTuple):
    """A session that failed, how, and when: a failure with the same text and time is reported once."""

    session: Session
    text: str
    at: str


def notify_failures(failures: Sequence[Failure]) -> None:
    """Notify the user of sessions that failed, if the settings say so."""
    try:
        notify: Notify | None = config.load()["notify"]
    except AghError:  # settings that cannot be read are told by whatever needs them
        return
    if not failures or notify is None or not notify.senders or "failed" not in notify.events:
        return
    with suppress(AghError, OSError):
        new = state.note_notified({session.id: f"{at} {text}" for session, text, at in failures})
        _send(notify, [failure for failure in failures if failure.session.id in new])


def _send(notify: Notify, failures: Sequence[Failure]) -> None:
    from agh.keeper.notify.message import compose
    from agh.keeper.notify.send import page_link, send_all

    messages = [
        compose(meta.read(session), redactor_for(os.environ, None), "failed", "failed", text)
        for session, text, _ in failures
    ]
    if len(messages) > MOST:
        lines = [f"{message['title']}: {message['text']}" for message in messages]
        none = dict.fromkeys(("session_id", "name", "agent_name", "workspace_path"))
        title = f"{len(messages)} sessions failed"
        messages = [{**messages[0], **none, "title": title, "text": "\n".join(lines)[:2000]}]
    for message in messages:
        send_all(notify, message | {"link": page_link(message["session_id"] or "")})
