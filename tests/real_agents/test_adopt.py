"""Sessions that real agents made by themselves: adopted, and continued in the agent's own memory.

Each is made by the agent's own program without agh. The oracle is what the agent lists and stores itself; the
witness of the memory is the model.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.real_agents.install import PRODUCTS, Product, need, need_product
from tests.real_agents.standin import Standin
from tests.real_agents.steps import LIMIT, say, stop, the_request
from tests.support.live import Live, Session
from tests.support.resume import define

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(400)]

# The agents' own programs, and the newest adapter of Codex, beside those that the other tests use.
CODEX = Product("codex-exec", "@openai/codex", "codex")
CODEX_ACP = Product("codex-acp", "@agentclientprotocol/codex-acp", "codex-acp", "@latest")
CLAUDE = Product("claude-code", "@anthropic-ai/claude-code", "claude")


class Own(NamedTuple):
    """An agent's own program: how it is asked something without agh, and how it lists what it has."""

    program: Product
    ask: Callable[[str], list[str]]
    list_ids: Callable[[Live], list[str]]


def program(product: Product) -> str:
    """Return the path of a product's program; skip the test if it cannot be installed."""
    return str(need_product(product) / product.program)


def run(live: Live, *argv: str) -> str:
    """Run an agent's own program in the workspace; return what it prints."""
    done = subprocess.run(
        argv, cwd=live.workspace, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


def listed_by_opencode(live: Live) -> list[str]:
    listing = run(live, program(PRODUCTS["opencode"]), "session", "list", "--format", "json")
    return [entry["id"] for entry in json.loads(listing)]


def stored_by_codex(live: Live) -> list[str]:
    """Return the ids in the names of the rollouts, from which `codex resume` makes its list."""
    rollouts = sorted(Path(os.environ["CODEX_HOME"], "sessions").rglob("rollout-*.jsonl"), reverse=True)
    return [path.stem[-36:] for path in rollouts]


def stored_by_claude(live: Live) -> list[str]:
    """Return the ids in the names of the transcripts, from which `claude --resume` makes its list."""
    transcripts = Path(os.environ["CLAUDE_CONFIG_DIR"], "projects").glob("*/*.jsonl")
    return [path.stem for path in sorted(transcripts, key=lambda path: -path.stat().st_mtime_ns)]


AGENTS = {
    "opencode": Own(PRODUCTS["opencode"], lambda text: ["run", text], listed_by_opencode),
    "codex": Own(CODEX, lambda text: ["exec", "--skip-git-repo-check", text], stored_by_codex),
    "claude": Own(CLAUDE, lambda text: ["-p", text], stored_by_claude),
}


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest, live: Live) -> str:
    """Install an agent's own program and its adapter; return the name it has in agh."""
    name = str(request.param)
    program(AGENTS[name].program)
    if name == "codex":  # the newest adapter: the older one of the other tests lists nothing
        define(live, "codex", extends="codex", argv=[program(CODEX_ACP)])
    else:
        need(name)
    return name


def ask(live: Live, agent: str, text: str) -> None:
    own = AGENTS[agent]
    run(live, program(own.program), *own.ask(text))


def import_own(live: Live, agent: str, *args: str) -> Any:
    done = live.agh("session", "import", "--from-agent", agent, *args, "-o", "json", timeout=LIMIT)
    return json.loads(done.stdout)


def contents(session: Session) -> list[str]:
    lines = session.agh("transcript", "-o", "jsonl").stdout.splitlines()
    messages = [json.loads(line) for line in lines]
    return [
        message["content"]
        for message in messages
        if message["role"] in ("user", "assistant") and message["content"]
    ]


def test_what_an_agent_made_itself_is_adopted_and_continued(live: Live, standin: Standin, agent: str) -> None:
    ask(live, agent, "alpha")
    ask(live, agent, "beta")
    own_ids = AGENTS[agent].list_ids(live)
    assert len(own_ids) == 2

    listed = import_own(live, agent, "--list")["agent_sessions"]
    if agent == "codex":  # whose adapter leaves out what `codex exec` made: those are named
        assert listed == []
        chosen = own_ids
    else:
        assert {own["id"] for own in listed} == set(own_ids)
        assert {own["cwd"] for own in listed} == {str(live.workspace)}
        assert {own["session_id"] for own in listed} == {None}
        chosen = []

    reports = import_own(live, agent, *chosen)["imports"]
    assert {report["agent_session"] for report in reports} == set(own_ids)
    assert {report["status"] for report in reports} == {"imported"}
    sessions = [live.session(report["session_id"]) for report in reports]
    talks = sorted(contents(session) for session in sessions)
    assert talks == [[word, f'SEEN 1 user texts: "{word}"'] for word in ("alpha", "beta")]

    session = next(session for session in sessions if contents(session)[0] == "alpha")
    own_id = session.meta()["acp_session_id"]
    assert say(session, "gamma") == 'SEEN 2 user texts: "alpha" | "gamma"'
    assert the_request(standin, "gamma").texts == ["alpha", "gamma"]
    (resumed,) = session.events("session_resumed")
    assert resumed.content["strategy"] in ("native_resume", "native_load")
    assert session.meta()["acp_session_id"] == own_id
    session.check_log()
    stop(session)

    again = import_own(live, agent, *chosen)["imports"]
    assert {(report["status"], report["reason"]) for report in again} == {("unchanged", "already here")}
    assert {report["session_id"] for report in again} == {session.id for session in sessions}
    if agent in ("claude", "codex"):  # the file of an adopted session is known, too
        files = json.loads(live.agh("session", "import", "--from", agent, "-o", "json").stdout)["imports"]
        assert {report["status"] for report in files} == {"skipped"}
        assert {report["session_id"] for report in files} == {session.id for session in sessions}


def test_a_fork_at_a_message_has_the_agents_own_memory(live: Live, standin: Standin, agent: str) -> None:
    if agent == "opencode":
        pytest.skip("opencode forks all of a session")
    origin = live.session(live.agh("session", "new", "--agent", agent, timeout=LIMIT).stdout.strip())
    say(origin, "alpha")
    say(origin, "beta")
    stop(origin)
    at = origin.events("done")[0].sequence
    forked = live.agh("session", "fork", origin.id, "--at", str(at), "-o", "json", timeout=LIMIT)
    assert forked.stderr == "resumed by native_fork: the agent remembers the session\n"
    branch = live.session(json.loads(forked.stdout)["session"]["id"])
    assert say(branch, "gamma") == 'SEEN 2 user texts: "alpha" | "gamma"'
    assert the_request(standin, "gamma").texts == ["alpha", "gamma"]
    branch.check_log()
    stop(branch)
