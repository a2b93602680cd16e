"""Questions: what an agent sends, as it is shown, and as a prompt when its keeper is gone."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from agh.core.acp.question import as_prompt, check_answer, description, read_question, stored_question

FORM: dict[str, Any] = {
    "mode": "form",
    "message": "How?\nTell me.",
    "toolCallId": "call-1",
    "requestedSchema": {
        "type": "object",
        "required": ["colour"],
        "properties": {
            "colour": {"type": "string", "title": "Colour", "enum": ["red", "blue"]},
            "size": {"type": "integer", "description": "In metres.", "default": 3, "minimum": 1},
            "odd": {"type": "integer", "default": "three"},
        },
    },
}


def test_a_form_is_read_and_shown() -> None:
    question = read_question(FORM)
    assert (question["mode"], question["tool_call_id"], question["url"]) == ("form", "call-1", None)
    assert description(question) == [
        "How?",
        "Tell me.",
        "colour (string, required): Colour",
        "  1. red",
        "  2. blue",
        "size (integer)",
        "In metres.",
        "  minimum 1",
        "  default: 3",
        "odd (integer)",
    ]


def test_a_default_stands_in_for_what_is_left_out() -> None:
    fields = read_question(FORM)["fields"]
    assert check_answer(fields, {"colour": "1"}) == {"colour": "red", "size": 3}
    assert check_answer(fields, {"colour": "blue", "size": "9", "odd": "1"}) == {
        "colour": "blue",
        "size": 9,
        "odd": 1,
    }


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"message": 3},
        {"message": "?", "mode": "dance"},
        {"message": "?", "mode": "url"},
        {"message": "?", "requestedSchema": {"properties": ["a"]}},
        {"message": "?", "requestedSchema": {"required": {"a": 1}}},
        {"message": "x" * 300_000},
        {"message": "?", "requestedSchema": {"properties": {str(n): {} for n in range(101)}}},
    ],
)
def test_what_is_no_question(params: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        read_question(params)


@pytest.mark.parametrize("shape", [None, 7, {"properties": None}, {"properties": {"a": 7}}])
def test_a_form_that_is_hardly_one_is_still_a_question(shape: Any) -> None:
    assert read_question({"message": "?", "requestedSchema": shape})["message"] == "?"


def test_what_was_stored_is_read_again() -> None:
    question = read_question(FORM)
    assert stored_question(orjson.dumps(question).decode(), "How?") == question
    for text in ("", "[]", "{}", '{"fields": [7]}', '{"fields": [{"name": 7}]}'):
        assert stored_question(text, "How?")["message"] == "How?"


def test_the_prompt_has_question_and_answer() -> None:
    prompt = as_prompt(read_question(FORM), {"colour": "red", "size": 3})
    assert "> How?\n> Tell me." in prompt
    assert "- Colour: red\n- size: 3" in prompt
    assert len(as_prompt(read_question({"message": "x" * 100_000}), {})) < 5000
    link = read_question({"message": "Log in", "mode": "url", "url": "https://a/b", "elicitationId": "1"})
    assert "https://a/b" in as_prompt(link, {})
