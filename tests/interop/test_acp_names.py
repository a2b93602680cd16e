"""docs/acp.md has a word for every name of the protocol.

`acp_names.json` is what the schema had when it was last looked at. `make schema` compares it with the newest;
`make schema-names` writes it anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from agh.core.acp.updates import event_of
from agh.keeper.agent import incoming
from agh.keeper.agent.launch import client_info

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAMES: dict[str, dict[str, list[str]]] = json.loads((HERE / "acp_names.json").read_text())  # stable, unstable
TITLES = {
    "methods": "Methods",
    "updates": "Updates",
    "client capabilities": "Client capabilities",
    "agent capabilities": "Agent capabilities",
}
TEXT = (ROOT / "docs" / "acp.md").read_text()


def rows(title: str) -> dict[str, tuple[str, str]]:
    """Map the names in a section's table to their status and to what agh does."""
    section = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| `([^`]+)` \| (stable|unstable) \| (.+) \|$", section, flags=re.M)
    assert len(lines) == len({name for name, _, _ in lines}), "a name stands there twice"
    return {name: (status, words) for name, status, words in lines}


@pytest.mark.parametrize("kind", TITLES)
def test_every_name_has_a_word(kind: str) -> None:
    written = {name: status for name, (status, _) in rows(TITLES[kind]).items()}
    known = {name: status for status in NAMES for name in NAMES[status][kind]}
    assert written == known


def test_the_words_about_capabilities_are_true() -> None:
    def paths(value: object, prefix: str = "") -> set[str]:
        if not isinstance(value, dict):
            return set()
        return {f"{prefix}{key}" for key in value}.union(
            *(paths(value[key], f"{prefix}{key}.") for key in value)
        )

    offered = {name for name, (_, words) in rows("Client capabilities").items() if words.startswith("offers")}
    assert offered == paths(client_info()["clientCapabilities"])


def test_the_words_about_updates_are_true() -> None:
    for name, (_, words) in rows("Updates").items():
        finished = {"status": "completed"} if "once it is completed" in words else {}
        kind, _ = event_of({"sessionUpdate": name, "title": "a title", **finished})
        assert f"`{kind}`" in words, name


def test_the_requests_that_agh_serves_are_named() -> None:
    refused = {
        name for name, (_, words) in rows("Methods").items() if "-32601" in words or "declines" in words
    }
    served = set(incoming._HANDLERS)
    assert served <= set(rows("Methods"))
    assert not served & refused
