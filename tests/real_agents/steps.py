"""What these tests do again and again. LIMIT is long: real agents start slowly."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from agh.core.inject import HEADER
from tests.real_agents.install import need
from tests.real_agents.standin import Asked, Standin
from tests.support.live import GONE_WITHIN, Live, Session
from tests.support.processes import carrying
from tests.support.wait import wait_until

LIMIT = 120.0
SLOW = "[slow 100]"

# In the form of each agent's own ids, and of no session of theirs.
UNKNOWN = {
    "opencode": "ses_e1da59342ffe2PlUZa7gYxI3Im",
    "codex": "01a1e259-6ced-7f50-b2d4-6570e5b13c82",
    "qwen": "3f0f9a5e-1111-4222-8333-944444444444",
}
STORES = {"opencode": ".local/share/opencode", "codex": ".codex/sessions", "qwen": ".qwen/projects"}


def start(live: Live, agent: str, *args: object) -> Session:
    """Start a live session; skip the test if the agent cannot be installed."""
    need(agent)
    result = live.agh("session", "new", "--agent", agent, *args, timeout=LIMIT)
    return live.session(result.stdout.strip())


def stop(session: Session) -> None:
    """Stop it, and see that nothing of the agent is left."""
    cookie = session.cookie
    session.agh("stop")
    assert carrying(cookie) == []
    wait_until(lambda: not session.live.processes(), GONE_WITHIN)


def say(session: Session, text: str) -> str:
    return session.say(text, timeout=LIMIT)


def resume(session: Session, *args: object) -> dict[str, Any]:
    """Resume the session; return how it was restored."""
    document = json.loads(session.agh("resume", *args, "-o", "json", timeout=LIMIT).stdout)
    assert document["session"]["id"] == session.id
    restore: dict[str, Any] = document["restore"]
    return restore


def begin_slow(session: Session, text: str) -> str:
    """Start a turn, and return its id when some of the answer has arrived."""
    turn_id = session.prompt(f"{text} {SLOW}", "--detach", timeout=LIMIT).stdout.strip()
    wait_until(lambda: session.text(turn_id).startswith("begun"), LIMIT, what="the agent begins to answer")
    return turn_id


def kill_keeper(session: Session) -> None:
    """SIGKILL; the agent, its launcher and whatever else it started must follow."""
    cookie = session.kill_keeper()
    wait_until(lambda: not carrying(cookie), GONE_WITHIN, what="everything below the leash ends")


def name_unknown(session: Session) -> str:
    """Let the stopped session ask its agent for a conversation that it never had."""
    meta = session.meta()
    meta["acp_session_id"] = UNKNOWN[meta["agent_name"]]
    (session.directory / "meta.json").write_text(json.dumps(meta))
    return str(meta["acp_session_id"])


def delete_store(session: Session) -> str:
    """Delete what the stopped agent keeps of its conversations."""
    meta = session.meta()
    shutil.rmtree(Path(os.environ["HOME"]) / STORES[meta["agent_name"]])
    return str(meta["acp_session_id"])


def the_request(standin: Standin, prompt: str) -> Asked:
    """Return the one request of an agent that was about this prompt."""
    (found,) = standin.conversation(prompt)
    return found


def tellings(asked: Asked) -> list[str]:
    """Return the texts in a request that tell an injected history."""
    return [text for text in asked.texts if text.startswith(HEADER)]
