"""User messages that an agent reports in a live session: our own prompts again, or those of somebody else."""

from __future__ import annotations

import json
from typing import Any

from tests.support.answering import Answering
from tests.support.live import Live, Session

OUTSIDE = "a message that agh did not send: "


def chunk(text: str, kind: str = "user", **fields: Any) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": f"{kind}_message_chunk", "content": content, **fields}


def prompted(live: Live, prompt: str, *updates: dict[str, Any]) -> Session:
    """Return a session whose agent has sent these updates in its turn."""
    session = Answering(live, {"session/prompt": {"updates": list(updates)}}).new()
    session.prompt(prompt, "-o", "text")
    return session


def spoken(session: Session) -> list[tuple[str, str]]:
    """Return the messages of the transcript, by role."""
    messages = json.loads(session.agh("transcript", "-o", "json").stdout)["messages"]
    return [(message["role"], message.get("content") or message["summary"]) for message in messages]


ECHOES = [
    [chunk("look at the clock")],
    [chunk("look at "), chunk("the clock")],
    [chunk("look at\nthe clock\n", messageId="m1")],
    [chunk("look"), {"sessionUpdate": "session_info_update", "title": "Clock"}, chunk(" at the clock")],
]


def test_our_own_prompt_is_recognised(live: Live) -> None:
    answers = [{"updates": [*echo, chunk("ok", "agent")]} for echo in ECHOES]
    session = Answering(live, {"session/prompt": answers}).new()
    for count, echo in enumerate(ECHOES, 1):
        turn_id = session.turn("look at the clock")["turn_id"]
        assert spoken(session) == [("user", "look at the clock"), ("assistant", "ok")] * count, echo
        titles = [event.content["title"] for event in session.events("system", turn=turn_id)]
        assert titles.count("user_message_chunk") == sum(
            update["sessionUpdate"] == "user_message_chunk" for update in echo
        ), "nothing is dropped"
    assert not session.markers()


def test_a_message_of_somebody_else_is_not_the_models_words(live: Live) -> None:
    updates = [chunk("and "), chunk("feed the cat"), chunk("ok", "agent"), chunk("ay", "agent")]
    session = prompted(live, "look at the clock", *updates)
    assert spoken(session) == [
        ("user", "look at the clock"),
        ("marker", f"{OUTSIDE}and feed the cat"),
        ("assistant", "okay"),
    ]
    (marker,) = session.events("transcript_marker.created")
    assert (marker.content["kind"], marker.content["turn"]) == (
        "outside_message",
        session.events("done")[0].turn_id,
    )
    for verb in ("transcript", "recap"):
        assert f"{OUTSIDE}and feed the cat" in session.agh(verb).stdout
    session.check_log()


def test_two_messages_with_ids_of_their_own_at_the_end_of_a_turn(live: Live) -> None:
    updates = [chunk("ok", "agent"), chunk("one", messageId="m1"), chunk("two", messageId="m2")]
    session = prompted(live, "look at the clock", *updates)
    markers = [event.content["summary"] for event in session.events("transcript_marker.created")]
    assert markers == [f"{OUTSIDE}one", f"{OUTSIDE}two"]
    last = [event.type for event in session.events()][-2:]
    assert last == ["transcript_marker.created", "done"]
