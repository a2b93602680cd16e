"""History as text: the form, the cuts, the budget."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agh.core.inject import BUDGET, HEADER, INSTRUCTIONS, MESSAGE_LIMIT, RESULT_LIMIT, history, with_history
from agh.core.transcript import Message, transcript
from tests.support.build import conversation, rows

LEFT_OUT = re.compile(r"\[(\d+) earlier entries are left out\]")


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str, **more: Any) -> Message:
    return {"role": "assistant", "content": text, **more}


def call(name: str | None = "Read", **more: Any) -> Message:
    return {"role": "tool_call", "tool_call_id": "call-1", "tool_name": name, **more}


def result(content: Any, name: str = "Read", **more: Any) -> Message:
    return {
        "role": "tool_result",
        "tool_call_id": "call-1",
        "tool_name": name,
        "tool_result": content,
        **more,
    }


def told(*messages: Message, budget: int = BUDGET) -> str:
    text = history(messages, budget)
    assert text is not None
    return text


def test_a_conversation_is_told_line_by_line() -> None:
    assert told(*transcript(rows(conversation()))) == (
        "[USER]: Explain the stop path.\n"
        "[TOOL CALL: Read]\n"
        "[TOOL RESULT: Read] package session\n"
        "[ASSISTANT]: AGH first marks the session stopping..."
    )


def test_the_limits_are_those_of_the_contract() -> None:
    assert (MESSAGE_LIMIT, RESULT_LIMIT, BUDGET) == (2_000, 500, 60_000)


def test_nothing_to_tell() -> None:
    marker = {"role": "marker", "kind": "context_reset", "summary": "the agent forgot"}
    assert history([]) is None
    assert history([marker]) is None
    assert history([assistant("", thinking="only a thought")]) is None


def test_a_tool_without_a_name_has_its_title_or_none() -> None:
    assert told(call(None, title="Read a file")) == "[TOOL CALL: Read a file]"
    assert told(call(None)) == "[TOOL CALL: tool]"


def test_what_a_tool_said() -> None:
    assert told(result({"error": "no such file", "stdout": "x"})) == "[TOOL RESULT: Read] no such file\nx"
    assert told(result({"raw_output": {"exit": 1}})) == '[TOOL RESULT: Read] {"exit":1}'
    assert told(result(None)).strip() == "[TOOL RESULT: Read]"


@pytest.mark.parametrize("filling", ["x", "é", "🦊", "👩‍🚀", "\n"])
def test_long_texts_are_cut_between_characters(filling: str) -> None:
    long = filling * 5_000
    for message, label, limit in (
        (user(long), "[USER]: ", MESSAGE_LIMIT),
        (assistant(long), "[ASSISTANT]: ", MESSAGE_LIMIT),
        (result({"stdout": long}), "[TOOL RESULT: Read] ", RESULT_LIMIT),
    ):
        text = told(message).removeprefix(label)
        assert len(text) <= limit
        assert text.endswith("…")
        assert long.startswith(text[:-1])
        assert len(text) >= limit - 1
        assert text.encode().decode() == text


def test_a_text_at_the_limit_is_whole() -> None:
    exact = "x" * MESSAGE_LIMIT
    assert told(user(exact)) == f"[USER]: {exact}"


texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("🦊👩‍🚀\n"), max_size=300)
messages = st.lists(
    st.one_of(
        texts.map(user),
        texts.map(assistant),
        st.just(call()),
        texts.map(lambda text: result({"stdout": text})),
        texts.map(lambda text: user(text * 20)),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(messages, st.integers(2_100, 20_000))
def test_the_newest_part_is_kept(given_messages: list[Message], budget: int) -> None:
    """Also: what is kept is a tail of the whole, and what is missing is counted."""
    whole, text = history(given_messages), history(given_messages, budget)
    if whole is None or text is None:
        assert whole is text is None
        return
    text.encode()
    lines = [line for message in given_messages if (line := history([message]))]
    assert whole == "\n".join(lines)
    if text == whole:
        return
    first, _, rest = text.partition("\n")
    match = LEFT_OUT.fullmatch(first)
    assert match, "what was left out is said first"
    left_out = int(match[1])
    assert 0 < left_out < len(lines)
    assert rest == "\n".join(lines[left_out:])
    assert len(rest) <= budget
    assert len("\n".join(lines[left_out - 1 :])) + 1 > budget - 100, "no more is left out than must be"


@settings(deadline=None)
@given(st.lists(texts.map(user), min_size=2, max_size=20), st.data())
def test_the_budget_is_never_exceeded(given_messages: list[Message], data: st.DataObject) -> None:
    """Tried where it is tight: with room for the last few entries and nothing more."""
    lines = told(*given_messages, budget=10**9).split("[USER]: ")[1:]
    last = data.draw(st.integers(1, len(lines)))
    budget = max(100, sum(len("[USER]: ") + len(line) for line in lines[-last:]) + 1)
    assert len(told(*given_messages, budget=budget)) <= budget


def test_the_budget_holds() -> None:
    text = told(*(user("x" * 91) for _ in range(100)), budget=1_000)
    assert LEFT_OUT.match(text)
    assert len(text) <= 1_000


def test_a_budget_too_small_for_the_newest_says_at_least_what_is_missing() -> None:
    assert told(user("one"), user("x" * 1_000), budget=50) == "[2 earlier entries are left out]"


def test_a_prompt_with_history_around_it() -> None:
    picture = {"type": "image", "data": "…", "mimeType": "image/png"}
    prompt = [{"type": "text", "text": "go"}, picture, {"type": "text", "text": "on"}]
    text, other = with_history("[USER]: hi", prompt)
    assert other == picture
    assert text["type"] == "text"
    assert text["text"] == (
        f"{HEADER}\n\n=== EXECUTION HISTORY ===\n[USER]: hi\n\n=== CURRENT REQUEST ===\ngo\non\n\n"
        f"=== INSTRUCTIONS ===\n{INSTRUCTIONS}"
    )
    assert HEADER == "RESUME CONTEXT FOR CONTINUING TASK"
    assert "ontinu" in INSTRUCTIONS and "not repeat" in INSTRUCTIONS


def test_the_prompt_itself_is_left_alone() -> None:
    prompt = [{"type": "text", "text": "go on"}]
    with_history("x", prompt)
    assert prompt == [{"type": "text", "text": "go on"}]
