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


@pytest.fixture(scope="module")
def module_client(module_live: Live) -> Iterator[Client]:
    client = Client(module_live, "--agent", "echo")
    client.initialize()
    yield client
    check_frames(client)


@pytest.fixture
def shared_client(shared_live: Live, module_client: Client) -> Client:
    """Return a client that the tests of a module share; each looks at sessions of its own."""
    module_client.answers.clear()
    module_client.messages.clear()
    return module_client


@pytest.fixture(autouse=True)
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check every frame that `agh acp` sends by the schema that ACP_SCHEMA names, if it names one."""
    clients = []
    start = Client.__init__

    def start_and_note(client: Client, *args: object, **options: object) -> None:
        clients.append(client)
        start(client, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Client, "__init__", start_and_note)
    yield
    for client in clients:
        check_frames(client)


def check_frames(client: Client) -> None:
    schema = oracle()
    if schema is None:
        return
    conversation = Conversation(schema)
    for sender, frame in client.frames:
        try:
            conversation.check(sender, frame)
        except Invalid as error:  # the tests send spoiled messages on purpose, and some come back
            if sender == "agent" and "hologram" not in str(error):
                raise
