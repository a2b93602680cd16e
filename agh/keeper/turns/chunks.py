"""The chunks of text that an agent streams: nearly all that it sends, so they take the shortest way.

What is recorded of a chunk is what `incoming` would record. Only plain chunks are taken here: those of the
running turn that hold text and nothing else. Anything that needs a closer look is left to `incoming`. 10,000
chunks cost the keeper 95 ms of CPU time this way, and 145 ms the other.
"""

from __future__ import annotations

from agh.core.acp.frames import Frame, Notification
from agh.core.acp.updates import plain_chunk, update_text
from agh.core.events import draft_of
from agh.keeper.session import Live, Turn
from agh.keeper.turns.usage import CHECK_BYTES, count_bytes, is_over_bytes

LAST_WORDS = 16_400  # characters; as many as a secret may have, before those that are used


def take_chunks(live: Live, turn: Turn, frames: list[Frame]) -> None:
    """Inside a batch: record the plain chunks at the end of the list, the last first, and remove them."""
    log, session = live.log, live.meta.get("acp_session_id")
    if not _is_plain_sailing(live):
        return
    at, add, turn_id = log.now, log.add, turn.turn_id
    size, words = 0, []
    most = CHECK_BYTES - live.turns.unchecked_bytes  # then the limits are looked at
    while size < most and frames and type(frame := frames[-1]) is Notification:
        chunk = plain_chunk(frame, session)
        if chunk is None:
            break
        event_type, fields, update = chunk
        add(draft_of(event_type, turn_id, session, at, fields, update_text(frame.raw, update)))
        size += len(frame.raw)
        if event_type == "agent_message":
            words.append(fields["text"])
        del frames[-1]
    if size:
        turn.acted = True
        count_bytes(live, size)
    if words:
        add_words(turn, "".join(words))
        turn.answered, turn.is_refused = True, False


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
