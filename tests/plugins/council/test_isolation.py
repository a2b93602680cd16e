"""What was said to one member alone reaches no other: no prompt, no tail, no record of the checkpoint."""

from __future__ import annotations

import json
import shlex

from tests.plugins.council.support import MEMBERS, Council, perspective, profile
from tests.support.live import ECHO

FORGETFUL = shlex.join([*ECHO, "--caps", "none"])
WORD = "xyzzy-planted"


def test_a_word_for_one_member_stays_with_it(council: Council) -> None:
    """Planted in its role, its pad and a note for it alone; the chair and a rival hear what it answers."""
    perspectives = (
        perspective("advocate", role=f"Know {WORD}-role."),
        perspective("skeptic", command=FORGETFUL),
        perspective("chair", speaks_last=True, command=FORGETFUL),
    )
    gates = "[[gates]]\nafter_round = 1\n[[gates]]\nafter_round = 2\n"
    council.run(profile("[expertise]\nenabled = true\n", gates, perspectives=perspectives), code=5)
    council.agh("steer", f"for you: {WORD}-note", "--to", "advocate")
    (pad,) = council.live.workspace.rglob("advocate.md")
    pad.write_text(f"{WORD}-pad")
    council.agh("gate approve", code=5)
    state, checkpoint = council.state(), council.checkpoint()
    records = {agent["agent_id"]: agent for agent in checkpoint["active_agents"]}
    prompt_text = "\n".join(council.prompts("advocate"))
    assert f"{WORD}-role" in prompt_text and f"{WORD}-note" in prompt_text
    assert records["advocate"]["expertise_snapshot"] == f"{WORD}-pad"
    assert f"{WORD}-note" in json.dumps(records["advocate"]["conversation_tail"]), "it was delegated to it"
    for id in ("skeptic", "chair"):
        prompts = council.prompts(id)
        assert WORD not in "\n".join(prompts)
        assert WORD not in json.dumps(state.tail(id))
        assert WORD not in json.dumps(records[id])
        assert any("## Session Context (Resumed)" in text for text in prompts), "it was told its own tail"
    for id in MEMBERS:
        delegations = [
            message for message in records[id]["conversation_tail"] if message["type"] == "delegation"
        ]
        assert delegations and {message["agent_id"] for message in delegations} == {id}
