"""A failure says why, in the agent's own words, and names the command that helps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.answering import Answering
from tests.support.live import Live
from tests.support.wait import wait_until

SECRET = "sk-ant-api03-" + "a1B2c3D4" * 10
NODE = """node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module '/opt/agent/index.js'
    at Module._load (node:internal/modules/cjs/loader:1051:27) {
  code: 'MODULE_NOT_FOUND'
}

Node.js v20.11.0
"""


def failed_start(live: Live, answers: dict[str, Any], code: int, **record: str) -> dict[str, Any]:
    """Return the error of a session that cannot start."""
    Answering(live, answers, **record)
    result = live.agh("session", "new", "--agent", "answering", "-o", "json", code=code)
    return dict(json.loads(result.stderr.splitlines()[-1])["error"])


def internal_error(**data: Any) -> dict[str, Any]:
    return {"error": {"code": -32603, "message": "Internal error", "data": data}}


@pytest.mark.parametrize("method", ["initialize", "session/new"])
def test_the_details_of_an_error_are_shown_and_stored(live: Live, method: str) -> None:
    refusal = internal_error(cause={"details": f"the model fable is unknown ({SECRET})"})
    error = failed_start(live, {method: refusal | {"stderr": "warming up\n"}}, 1)
    assert "failed: the model fable is unknown" in error["message"]
    assert error["hint"] == "choose another model with --model, or in the agent's own settings"
    assert error["details"]["stderr"] == ["warming up"]
    (session,) = live.sessions()
    failure = session.meta()["failure"]
    assert "the model fable is unknown" in failure["summary"]
    bundle = Path(failure["crash_bundle_path"]).read_text()
    assert "the model fable is unknown" in bundle
    assert SECRET not in json.dumps([error, session.meta(), bundle])


def test_the_details_of_an_error_in_a_turn(live: Live) -> None:
    refusal = internal_error(details="the context window is full", errorKind="invalid_request")
    session = Answering(live, {"session/prompt": refusal}).new()
    error = session.error("prompt", "hello", code=1)
    assert error["message"] == "agent answering: the context window is full: invalid_request"
    (event,) = session.events("error")
    assert event.content["error"] == "the context window is full: invalid_request"


def test_the_cause_of_a_death_is_chosen_among_the_last_lines(live: Live) -> None:
    death = {"stderr": f"key {SECRET}\n" * 30 + NODE, "stdout": "Debugger attached.\n", "exit": 1}
    error = failed_start(live, {"initialize": death}, 7, install='"npm install -g answering"')
    assert error["message"].endswith("; its last output: Error: Cannot find module '/opt/agent/index.js'")
    assert error["hint"] == "install it: npm install -g answering"
    assert len(error["details"]["stderr"]) == 20
    assert error["details"]["stdout"] == ["Debugger attached."]
    assert SECRET not in json.dumps(error)


def test_words_on_stdout_can_be_the_cause(live: Live) -> None:
    """A stub that says on stdout where the product is now, and exits 0."""
    death = {"stdout": "kimi-cli has moved. Error: install @moonshot-ai/kimi-code\n", "exit": 0}
    error = failed_start(live, {"initialize": death}, 7)
    assert "its last output: kimi-cli has moved. Error: install @moonshot-ai/kimi-code" in error["message"]


def test_a_death_in_a_turn(live: Live) -> None:
    session = Answering(live, {"session/prompt": {"stderr": NODE, "exit": 3}}).new()
    error = session.error("prompt", "hello", code=7)
    assert "Cannot find module" in error["message"]
    failure = wait_until(lambda: session.meta()["failure"], what="the end of the session")
    bundle = json.loads(Path(failure["crash_bundle_path"]).read_text())
    assert "Cannot find module" in bundle["failure"]["summary"]


def test_a_restore_that_fails_says_why(live: Live) -> None:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "ok"}}
    agent = Answering(live, {"session/prompt": {"updates": [chunk]}})
    session = agent.new()
    session.prompt("hello", "-o", "text")
    session.stop()
    agent.write({"session/load": internal_error(details="Claude Code process exited with code 1")})
    error = session.error("resume", code=1)
    assert "Claude Code process exited with code 1" in error["message"]
    assert error["hint"].endswith("--fresh")
