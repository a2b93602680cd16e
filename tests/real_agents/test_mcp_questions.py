"""A question that an MCP server asks through Codex: answered by a command, and after a kill of the keeper."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real_agents import asking_server
from tests.real_agents.standin import MODEL, Standin
from tests.real_agents.steps import LIMIT, kill_keeper, stop
from tests.real_agents.tap import read_frames
from tests.support.live import Live, Session
from tests.support.wait import wait_until

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(400)]


@pytest.fixture
def session(live: Live, use_newest: Callable[[str, Path], None], tmp_path: Path) -> Session:
    """Return a session of Codex that has the server."""
    use_newest("codex", tmp_path / "frames.jsonl")
    # A model that it does not know: it would let those that it knows search for tools.
    settings = Path(os.environ["CODEX_HOME"]) / "config.toml"
    settings.write_text(settings.read_text().replace('model = "gpt-5.5"', f'model = "{MODEL}"'))
    server = (
        f'name = "asking"\ncommand = "{sys.executable}"\nargs = ["-I", "{asking_server.__file__}"]\nenv = []'
    )
    live.configure(f"[[mcp_servers]]\n{server}\n")
    result = live.agh("session", "new", "--agent", "codex", "--mode", "read-only", timeout=LIMIT)
    return live.session(result.stdout.strip())


def ask(session: Session, word: str) -> dict[str, Any]:
    """Send a prompt that makes the server ask, and return its question."""
    session.prompt(f"{word} [use pick_colour]", "--detach", timeout=LIMIT)
    wait_until(lambda: session.status()["phase"] == "waiting_for_answer", LIMIT)
    (question,) = json.loads(session.agh("questions", "-o", "json").stdout)["questions"]
    assert question["message"] == asking_server.MESSAGE
    return dict(question)


def test_answered_from_another_terminal(session: Session, standin: Standin, tmp_path: Path) -> None:
    question = ask(session, "alpha")
    (field,) = question["fields"]
    assert [choice["value"] for choice in field["choices"]] == ["green", "white"]
    session.agh("answer", question["request_id"], "colour=white")
    session.wait_idle(LIMIT)
    frames = read_frames(tmp_path / "frames.jsonl")
    assert "elicitation/create" in {frame.method for frame in frames}
    assert '\\"colour\\": \\"white\\"' in json.dumps(standin.conversation("alpha")[-1].body)
    session.check_log()
    stop(session)


def test_answered_after_the_keeper_was_killed(session: Session, standin: Standin) -> None:
    ask(session, "alpha")
    kill_keeper(session)
    process = session.agh("answer", "colour=green", timeout=LIMIT)
    assert "the question and your answer were sent as a prompt" in process.stderr
    session.wait_idle(LIMIT)
    (request, *_) = standin.conversation("My answer:")
    assert f"> {asking_server.MESSAGE}" in request.prompt
    assert "green" in request.prompt
    assert request.texts[0].startswith("alpha"), "it has its own memory"
    session.check_log()
    stop(session)
