"""The settings that `agh acp --print-config` prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agh_acp.snippets import EDITORS, snippet

from tests.support.build import ROOT
from tests.support.program import Agh


@pytest.mark.parametrize("editor", ["zed", "jetbrains"])
def test_json_settings_can_be_read(agh: Agh, editor: str) -> None:
    output = agh("acp", "--agent", "opencode", "--keep-mcp", "--print-config", editor).stdout
    comment, _, text = output.partition("\n")
    assert comment.startswith("// ")
    server = json.loads(text)["agent_servers"]["agh"]
    assert server["command"] == "agh"
    assert server["args"] == ["acp", "--agent", "opencode", "--keep-mcp"]


@pytest.mark.parametrize("editor", EDITORS)
def test_every_editor_has_settings_and_a_line_in_the_document(editor: str) -> None:
    assert "opencode" in snippet(editor, ["acp", "--agent", "opencode"])
    assert f"| `{editor}` |" in Path(ROOT / "docs" / "editors.md").read_text()


def test_a_bad_command_is_refused(agh: Agh) -> None:
    assert "--command" in agh("acp", "--command", "'", code=2).stderr


def test_marimo_is_given_a_port_that_its_page_connects_to() -> None:
    # the page has a fixed port for each agent that it lists, and takes no other address
    assert "--port 3017\n" in snippet("marimo", ["acp"])
