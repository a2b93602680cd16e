"""codecompanion.nvim in Neovim, with the settings that agh prints. `make acp-neovim` says what it needs."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.plugins.acp.outside.program import Program
from tests.support.live import Live

SCRIPT = Path(__file__).with_name("neovim_chat.lua")
STREAM = "".join(f"chunk {number} ".ljust(12, ".") for number in range(1, 61))


class Neovim:
    """Starts Neovim with codecompanion.nvim, each time as a new process."""

    def __init__(self, live: Live, directory: Path) -> None:
        program = shutil.which(os.environ.get("NVIM", "nvim"))
        plugins = [os.environ.get(name, "") for name in ("CODECOMPANION", "PLENARY")]
        if program is None or not all(plugins):
            pytest.skip("Neovim or a plugin is missing; make acp-neovim")
        settings = directory / "settings.lua"
        settings.write_text(live.agh("acp", "--agent", "echo", "--print-config", "neovim").stdout)
        self._live, self._directory = live, directory
        paths = [f"set rtp+={plugin}" for plugin in plugins]
        self._command = [program, "--clean", "--headless"]
        for line in [*paths, "runtime plugin/codecompanion.lua", f"luafile {settings}", f"luafile {SCRIPT}"]:
            self._command += ["--cmd" if line in paths else "-c", line]

    def start(self, name: str, session_id: str = "") -> Program:
        search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = {"PATH": search, **({"SESSION": session_id} if session_id else {})}
        return Program(self._live, self._directory / name, self._command, env)


@pytest.fixture
def neovim(live: Live, tmp_path: Path) -> Neovim:
    return Neovim(live, tmp_path)


def test_codecompanion_uses_a_session_and_loads_it_after_a_kill(neovim: Neovim, live: Live) -> None:
    file = live.workspace / "notes.txt"
    file.write_text("on disk")
    with neovim.start("first") as editor:
        editor.wait_for("streaming")
        editor.kill()
        steps = editor.steps()
    session = live.session(steps["new"]["id"])
    check_first(steps, session.id, file)
    session.wait_idle()
    assert session.text().endswith(STREAM)
    reasons = [event.content["stop_reason"] for event in session.events("done")]
    assert reasons == [*["end_turn"] * 8, "cancelled", *["end_turn"] * 2]
    with neovim.start("again", session.id) as editor:
        resumed = editor.wait_for("resume")
        # codecompanion does not answer what is asked outside of its own prompts; that must not block.
        turn = session.send("/ask Outside")
        session.decide("allow")
        editor.allow("go-on")
        steps = editor.finish()
    assert session.id in steps["list"]["listed"]
    assert resumed["id"] == session.id
    assert resumed["title"] == "Named by the agent"
    for text in ["hello from Neovim", "echo: hello from Neovim", "echo: after the cancel", STREAM]:
        assert text in resumed["text"]
    assert session.text(turn) == "permission: allow_once"
    assert '"hello from Neovim"' in steps["recall"]["text"]
    assert session.is_live()
    session.check_log()


def check_first(steps: dict[str, dict[str, object]], session_id: str, file: Path) -> None:
    """Check what the editor showed until it was killed."""
    text = {name: str(facts.get("text")) for name, facts in steps.items()}
    assert steps["initialize"]["version"] == 1
    assert steps["initialize"]["auth"] == 0
    assert "echo: hello from Neovim" in text["prompt"]
    assert "Search" in text["tools"]
    assert "found" in text["tools"]
    assert "permission: allow_once" in text["permission"]
    assert "permission: reject_once" in text["refusal"]
    assert f"read {file}: on disk" in text["read"]
    assert f"change {file}: ok" in text["write"]
    assert steps["write"]["buffer"] == ["by the agent"]
    assert file.read_text().rstrip() == "by the agent"
    assert "model=large" in text["settings"]
    assert steps["title"]["title"] == "Named by the agent"
    assert "echo: after the cancel" in text["cancel"]
    assert steps["list"]["listed"] == [session_id]
