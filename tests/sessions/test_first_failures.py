"""The failures that people meet first have a cause and a next command, as in docs/failures.md."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import answering_agent
from tests.support.live import Live
from tests.support.wait import wait_until

DOCUMENT = Path(__file__).parents[2] / "docs" / "failures.md"
NPM = """npm error code E404
npm error 404 Not Found - GET https://registry.example/@agentclientprotocol%2fclaude-agent-acp - Not found
npm error 404
npm error 404  The requested resource '@agentclientprotocol/claude-agent-acp@*' could not be found.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm error A complete log of this run can be found in: /home/me/.npm/_logs/debug-0.log
"""
UV = """error: No solution found when resolving tool dependencies
  cause: Because fast-agent-acp was not found in the package registry and you require fast-agent-acp, we can \
conclude that your requirements are unsatisfiable.
"""
OLD_NODE = """file:///usr/lib/node_modules/@google/gemini-cli/dist/index.js:3
import { styleText } from 'node:util';
         ^^^^^^^^^
SyntaxError: The requested module 'node:util' does not provide an export named 'styleText'
    at ModuleJob._instantiate (node:internal/modules/esm/module_job:123:21)

Node.js v18.20.4
"""
CRASH = """/usr/lib/node_modules/claude-agent-acp/index.js:9
TypeError: Cannot read properties of undefined (reading 'settings')
    at Object.<anonymous> (/usr/lib/node_modules/claude-agent-acp/index.js:9:21)

"""
NO_MODULE = """Traceback (most recent call last):
  File "/opt/fast-agent/main.py", line 3, in <module>
    import tomlkit
ModuleNotFoundError: No module named 'tomlkit'
"""
MODELS = {
    "id": "model",
    "name": "Model",
    "category": "model",
    "type": "select",
    "currentValue": "large",
    "options": [{"value": "large", "name": "Large"}, {"value": "small", "name": "Small"}],
}

Setup = Callable[["Scene"], None]


class Scene:
    """A PATH with nothing on it but what a failure needs."""

    def __init__(self, live: Live) -> None:
        self.live, self.folder = live, live.workspace.parent / "bin"
        self.folder.mkdir()

    def file(self, path: Path, text: str, mode: int = 0o755) -> None:
        path.write_text(text)
        path.chmod(mode)

    def program(self, name: str, script: str) -> None:
        self.file(self.folder / name, f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")


def dies(name: str, stderr: str, code: int = 1) -> Setup:
    """A program that writes this to stderr and exits."""
    return lambda scene: scene.program(name, f"cat >&2 <<'END'\n{stderr}END\nexit {code}")


def prints(name: str, *lines: str) -> Setup:
    """A program that is no agent: it writes lines to stdout and exits."""
    return lambda scene: scene.program(name, "".join(f"echo '{line}'\n" for line in lines) + "exit 1")


def answers(**script: Any) -> Setup:
    """A Claude that answers as the script says; methods have _ in place of /."""

    def set_up(scene: Scene) -> None:
        file = scene.live.workspace.parent / "answers.json"
        file.write_text(json.dumps({name.replace("_", "/", 1): value for name, value in script.items()}))
        argv = f"{sys.executable} -P {answering_agent.__file__} {file}"
        scene.program("claude-agent-acp", f'exec {argv} "$@"')

    return set_up


def needs_login(scene: Scene) -> None:
    answers()(scene)
    (scene.live.workspace.parent / "answers.json").write_text('{"needs_login": true}')


def internal_error(**data: str) -> dict[str, Any]:
    return {"error": {"code": -32603, "message": "Internal error", **({"data": data} if data else {})}}


def provider_error(status: int, kind: str, message: str) -> dict[str, Any]:
    """Return what Claude answers when its provider has refused the request."""
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return internal_error(details=f"API Error: {status} {json.dumps(body)}")


def hangs(scene: Scene) -> None:
    scene.live.configure("[timeouts]\ninitialize = '1s'\n")
    scene.program("gemini", "exec sleep 1000")


class Failure(NamedTuple):
    set_up: Setup
    args: tuple[str, ...]
    in_turn: bool = False


CLAUDE, GEMINI, FAST_AGENT = ("--agent", "claude"), ("--agent", "gemini"), ("--agent", "fast-agent")
FAILURES = {
    "the agent is not installed": Failure(lambda scene: None, ("--agent", "goose")),
    "the agent's name is misspelt": Failure(lambda scene: None, ("--agent", "cluade")),
    "not logged in": Failure(needs_login, CLAUDE),
    "a wrong key, refused in the turn": Failure(
        answers(session_prompt=provider_error(401, "authentication_error", "invalid x-api-key")),
        CLAUDE,
        in_turn=True,
    ),
    "a model that the agent does not offer": Failure(
        answers(session_new={"result": {"sessionId": "s-1", "configOptions": [MODELS]}}),
        (*CLAUDE, "--model", "lareg"),
    ),
    "`--model`, but the agent offers no choice": Failure(answers(), (*CLAUDE, "--model", "large")),
    "a wrong model, refused in the turn": Failure(
        answers(session_prompt=provider_error(404, "not_found_error", "model: claude-fable-9")),
        CLAUDE,
        in_turn=True,
    ),
    "no network, at the start": Failure(
        answers(session_new=internal_error(details="getaddrinfo EAI_AGAIN api.anthropic.com")), CLAUDE
    ),
    "no network, in the turn": Failure(
        answers(
            session_prompt={
                "error": {"code": -32603, "message": "fetch failed", "data": "connect ECONNREFUSED ::1:443"}
            }
        ),
        CLAUDE,
        in_turn=True,
    ),
    "an error without a reason": Failure(answers(session_new=internal_error()), CLAUDE),
    "an error without a reason, but output on stderr": Failure(
        answers(session_new={**internal_error(), "stderr": "Error: cannot open settings.json\n"}), CLAUDE
    ),
    "a crash at the start": Failure(dies("claude-agent-acp", CRASH), CLAUDE),
    "a crash at the start, without any output": Failure(dies("claude-agent-acp", "", code=3), CLAUDE),
    "a Python module is missing": Failure(dies("fast-agent-acp", NO_MODULE), FAST_AGENT),
    "npx does not find the package": Failure(dies("npx", NPM), CLAUDE),
    "uvx does not find the package": Failure(dies("uvx", UV, code=2), FAST_AGENT),
    "Node.js is too old, and the agent fails with a syntax error": Failure(dies("gemini", OLD_NODE), GEMINI),
    "Node.js is too old, and the agent says so": Failure(
        dies("gemini", "Gemini CLI requires Node.js >= 22.0.0 (found v20.20.2).\n"), GEMINI
    ),
    "the program is not an ACP agent": Failure(
        prints("gemini", "Welcome to Gemini CLI!", "Unknown argument: acp"), GEMINI
    ),
    "the agent hangs": Failure(hangs, GEMINI),
    "the workspace is missing": Failure(
        lambda scene: None, ("--agent", "echo", "--workspace", "/no/such/directory")
    ),
    "the program is not executable": Failure(
        lambda scene: scene.file(scene.live.workspace / "my-agent", "#!/bin/sh\n", 0o644),
        ("--command", "./my-agent"),
    ),
    "the program of --command is missing": Failure(lambda scene: None, ("--command", "my-agent --acp")),
    "the program's interpreter is missing": Failure(
        lambda scene: scene.file(scene.folder / "goose", "#!/opt/python/bin/python3\n"), ("--agent", "goose")
    ),
}


def documented() -> dict[str, tuple[list[str], int]]:
    """Return the rows of the document: the lines that are printed, and the exit number."""
    rows = re.findall(r"^\| (.+?) \| (`.+`) \| (\d+) \|$", DOCUMENT.read_text(), re.MULTILINE)
    return {name: (text.strip("`").split("`<br>`"), int(code)) for name, text, code in rows}


def test_the_document_has_every_failure() -> None:
    assert list(documented()) == list(FAILURES)


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_has_its_cause_and_the_next_command(live: Live, name: str) -> None:
    failure, (lines, code) = FAILURES[name], documented()[name]
    scene = Scene(live)
    failure.set_up(scene)
    result = live.agh("run", "hello", *failure.args, env={"PATH": str(scene.folder)}, code=code)
    sessions = live.sessions()
    text = result.stderr.replace(str(live.workspace), "WORKSPACE")
    for session in sessions:
        text = text.replace(session.id, "SESSION")
    assert text.splitlines() == lines
    assert len(lines) == 2, "a cause and a next step"
    assert not re.search(r"Internal error \(code", text)
    assert result.stdout == ""
    wait_until(lambda: not live.processes())
    assert len(sessions) == failure.in_turn, "only a session that has a prompt is of any use"
    assert not any(session.is_live() for session in sessions)
