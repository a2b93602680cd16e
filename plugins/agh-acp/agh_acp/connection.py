"""What belongs to one client: what it can do, how its sessions are started, and those that it has open."""

from __future__ import annotations

import threading
from typing import Any

from agh.core.named_tuple import NamedTuple
from agh.home import Session
from agh_acp.attachment import Attachment
from agh_acp.capabilities import Client
from agh_acp.hands import Hands
from agh_acp.prompts import Prompts
from agh_acp.wire import Wire
from agh_acp.worker import Workers


class Options(NamedTuple):
    """How new sessions are started."""

    agent: str | None = None
    command: list[str] | None = None
    place: str | None = None
    permissions: str | None = None
    keep_mcp: bool = False
    is_remote: bool = False  # the client may not name programs of this machine


class Connection:
    """One client."""

    def __init__(self, wire: Wire, options: Options) -> None:
        self.wire, self.options = wire, options
        self.client = Client()
        self.workers = Workers()
        self._lock = threading.Lock()
        self._attachments: dict[str, Attachment] = {}
        self._prompts: dict[str, Prompts] = {}

    def prompts(self, session: Session) -> Prompts:
        """Return the client's prompts of a session."""
        with self._lock:
            return self._prompts.setdefault(session.id, Prompts(session, self.wire))

    def all_prompts(self) -> list[Prompts]:
        """Return the prompts of all sessions."""
        with self._lock:
            return list(self._prompts.values())

    def attachment(self, session: Session) -> Attachment | None:
        """Return how the client follows a session; None if it does not."""
        return self._attachments.get(session.id)

    def attach(
        self,
        session: Session,
        after: int,
        mcp_servers: list[dict[str, Any]],
        directory: str | None = None,
    ) -> Attachment:
        """Follow a session from the row after this sequence; lend it what the client has.

        `directory` is the session's workspace as the client calls it.
        """
        self.detach(session)
        prompts = self.prompts(session)
        hands = Hands(session, self.wire, self.client, directory)
        attachment = Attachment(session, self.wire, self.client, self.workers, prompts, hands, mcp_servers)
        self._attachments[session.id] = attachment
        attachment.start(after)
        return attachment

    def detach(self, session: Session) -> None:
        """Stop following a session."""
        attachment = self._attachments.pop(session.id, None)
        if attachment is not None:
            attachment.close()

    def leave(self) -> None:
        """Take back what the client lends, and stop following: it is gone."""
        for attachment in list(self._attachments.values()):
            attachment.leave()

    def forget(self, session: Session) -> None:
        """Answer the prompts of a session that the client has closed; they stay in the queue."""
        self.prompts(session).leave()

    def send_updates(self, session: Session, updates: list[dict[str, Any]]) -> None:
        """Send the client updates of a session."""
        self.wire.send(
            {"method": "session/update", "params": {"sessionId": session.id, "update": update}}
            for update in updates
        )
