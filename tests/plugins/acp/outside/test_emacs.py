"""acp.el, the library of agent-shell, in Emacs. `make acp-emacs ACP_EL=DIRECTORY` names a checkout of it."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

from tests.plugins.acp.outside.program import AGENT, Program
from tests.support.live import Live

SCRIPT = Path(__file__).with_name("emacs_chat.el")
STREAM = "".join(f"chunk {number} " for number in range(1, 61))


class Emacs:
    """Starts Emacs with acp.el, each time as a new process."""

    def __init__(self, live: Live, directory: Path) -> None:
        library, program = os.environ.get("ACP_EL", ""), shutil.which("emacs")
        if program is None or not library:
            pytest.skip("Emacs or acp.el is missing; make acp-emacs ACP_EL=DIRECTORY")
        self._live, self._directory = live, directory
        self._command = [program, "-Q", "--batch", "-L", library, "-l", "acp", "-l", SCRIPT]

    def start(self, function: str, session_id: str = "") -> Program:
        env = {"SESSION": session_id, "COMMAND": shlex.join(AGENT)}
        argv = [*self._command, "-f", function, *AGENT]
        return Program(self._live, self._directory / function, argv, env)


@pytest.fixture
def emacs(live: Live, tmp_path: Path) -> Emacs:
    return Emacs(live, tmp_path)


def test_acp_el_uses_a_session_and_loads_it_after_a_kill(emacs: Emacs, live: Live) -> None:
    file = live.workspace / "notes.txt"
    file.write_text("on disk")
    with emacs.start("chat-first") as editor:
        editor.wait_for("streaming")
        editor.kill()
        steps = editor.steps()
    session = live.session(steps["new"]["id"])
    check_first(steps, session.id, file)
    session.wait_idle()
    assert session.text().endswith(STREAM)
    with emacs.start("chat-again", session.id) as editor:
        editor.wait_for("load")
        session.tell("from the terminal")
        editor.wait_for("asked")
        session.agh("approve")
        steps = editor.finish()
    assert "stderr" not in steps
    assert steps["list"]["listed"] == [session.id]
    assert steps["load"]["prompts"] == [text for _, text in session.inputs()][:8]
    assert steps["load"]["answers"][0] == "echo: hello from Emacs"
    assert steps["load"]["answers"][-1] == STREAM
    assert steps["load"]["calls"][:2] == ["Search", "Write the file"]
    assert steps["terminal"]["prompts"] == ["from the terminal"]
    assert steps["terminal"]["text"] == "echo: from the terminal"
    assert steps["asked"]["titles"] == ["Elsewhere"]
    assert steps["answered"]["text"] == "permission: allow_once"
    assert "$/cancel_request" in steps["answered"]["others"]
    assert steps["resume"]["updates"] == 0
    assert '"hello from Emacs"' in steps["recall"]["text"]
    assert session.is_live()
    session.check_log()


def check_first(steps: dict[str, dict[str, object]], session_id: str, file: Path) -> None:
    """Check what the editor saw until it was killed."""
    assert "stderr" not in steps
    assert steps["initialize"]["version"] == 1
    assert steps["initialize"]["load"] is True
    assert not steps["initialize"]["auth"]
    assert steps["new"]["mode"] == "ask"
    assert steps["new"]["options"] == ["model"]
    assert steps["prompt"]["reason"] == "end_turn"
    chunks = steps["prompt"]["chunks"]
    assert isinstance(chunks, list)
    assert len(chunks) > 1
    assert "".join(chunks) == "echo: hello from Emacs"
    assert steps["tools"]["plan"] == ["look", "write"]
    assert steps["tools"]["calls"] == ["Search"]
    assert steps["tools"]["statuses"] == ["in_progress", "completed"]
    assert steps["permission"]["titles"] == ["Write the file"]
    assert steps["permission"]["text"] == "permission: allow_once"
    assert steps["read"]["text"] == f"read {file}: not saved, on disk"
    assert steps["write"]["text"] == f"change {file}: ok"
    assert steps["write"]["buffer"] == file.read_text() == "by the agent\n"
    assert str(steps["settings"]["text"]).startswith("mode=code model=large")
    assert steps["cancel"]["reason"] == "cancelled"
    fork = steps["fork"]["id"]
    assert "hello from Emacs" in str(steps["fork"]["text"])
    assert steps["fork"]["listed"] == [fork, session_id]
    assert steps["delete"]["listed"] == [session_id]
