from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.plugins.acp.client import Client
from tests.support.acp_schema import Conversation, Invalid, oracle
from tests.support.live import Live


@pytest.fixture
def client(live: Live) -> Client:
    """Return a client that is connected to `agh acp --agent echo`."""
    client = Client(live, "--agent", "echo")
    client.initialize()
    return client


@pytest.fixture(autouse=True)
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check every frame that `agh acp` sends by the schema that ACP_SCHEMA names, if it names one."""
    schema, clients = oracle(), []
    start = Client.__init__

    def start_and_note(client: Client, *args: object, **options: object) -> None:
        clients.append(client)
        start(client, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Client, "__init__", start_and_note)
    yield
    for client in clients if schema is not None else []:
        assert schema is not None
        conversation = Conversation(schema)
        for sender, frame in client.frames:
            try:
                conversation.check(sender, frame)
            except Invalid as error:  # the tests send spoiled messages on purpose, and some come back
                if sender == "agent" and "hologram" not in str(error):
                    raise
