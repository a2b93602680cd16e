"""The chunks of text that an agent streams: nearly all that it sends, so they take the shortest way.

What is recorded of a chunk is what `incoming` would record. Only chunks of the running turn are taken here.
Anything that needs a closer look is left to `incoming`.
"""

from __future__ import annotations

from agh.core.acp.chunks import Chunks
from agh.core.acp.frames import Frame
from agh.keeper.session import Live, Turn
from agh.keeper.turns.usage import CHECK_BYTES, count_bytes, is_over_bytes

LAST_WORDS = 16_400  # characters; as many as a secret may have, before those that are used


def take_chunks(live: Live, turn: Turn, frames: list[Frame]) -> None:
    """Inside a batch: record the chunks at the end of the list, the last first, and remove them."""
    session = live.meta.get("acp_session_id")
    while frames and type(chunks := frames[-1]) is Chunks:
        if chunks.shape.session != session or not _is_plain_sailing(live):
            return
        chunks, others = chunks.split(CHECK_BYTES - live.turns.unchecked_bytes)  # then the limits are checked
        live.log.add(*chunks.drafts(turn.turn_id, live.log.now))
        frames[-1:] = [others] if others.lines else []
        turn.acted = True
        if chunks.shape.type == "agent_message":
            add_words(turn, "".join(chunks.texts))
            turn.answered, turn.is_refused = True, False
        count_bytes(live, sum(map(len, chunks.lines)))


def add_words(turn: Turn, text: str) -> None:
    """Add what the agent says to its last words in the turn."""
    words = turn.last_words + text[-LAST_WORDS:]  # cut only now and then: that copies them
    turn.last_words = words if len(words) <= 2 * LAST_WORDS else words[-LAST_WORDS:]


def _is_plain_sailing(live: Live) -> bool:
    """Tell whether a chunk only has to be recorded: nothing else waits for the agent to speak."""
    agent = live.agent
    return live.ready and not (
        agent.replaying
        or agent.user_message is not None
        or live.turns.history is not None
        or is_over_bytes(live)
    )
