"""What `agh acp` offers to a client, and what a client has said that it can do. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agh import __version__
from agh.core.named_tuple import NamedTuple

PROTOCOL_VERSION = 1


class Client(NamedTuple):
    """What the client can show."""

    notices: bool = False
    compactions: bool = False
    switches: bool = False  # options that are on or off
    plans: bool = False  # that are updated by their ids
    forms: bool = False
    links: bool = False
    reads: bool = False  # files, with what is not saved
    writes: bool = False
    terminals: bool = False


def read_client(params: Mapping[str, Any]) -> Client:
    """Return what the parameters of `initialize` say about the client."""

    def has(*path: str) -> bool:
        value: Any = params.get("clientCapabilities")
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value not in (None, False)

    return Client(
        notices=has("session", "notices"),
        compactions=has("session", "compaction"),
        switches=has("session", "configOptions", "boolean"),
        plans=has("plan"),
        forms=has("elicitation", "form"),
        links=has("elicitation", "url"),
        reads=has("fs", "readTextFile"),
        writes=has("fs", "writeTextFile"),
        terminals=has("terminal"),
    )


def initialize_answer(prompt: Mapping[str, bool]) -> dict[str, Any]:
    """Return the answer to `initialize`. Agents log in by `agh agent login`, so there is no login method."""
    names = ("list", "resume", "close", "delete", "fork", "additionalDirectories")
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": {"name": "agh", "title": "agh", "version": __version__},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": dict(prompt),
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {name: {} for name in names},
        },
        "authMethods": [],
    }


def settings_for(client: Client, offers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the modes, models and options of a session, as far as the client can show them."""
    answer = {name: offers[name] for name in ("modes", "models") if offers.get(name)}
    if "configOptions" in offers:
        answer["configOptions"] = options_for(client, offers["configOptions"])
    return answer


def options_for(client: Client, options: Any) -> list[dict[str, Any]]:
    """Return the options that the client can show."""
    known = [option for option in options if isinstance(option, dict)] if isinstance(options, list) else []
    return [option for option in known if client.switches or option.get("type") != "boolean"]
