"""Values of an answer: read from text or JSON, and checked against their field."""

from __future__ import annotations

import time
from typing import Any

import pytest

from agh.core.acp.answer_value import check_value
from agh.core.acp.question import read_question


def field(**shape: Any) -> Any:
    params = {"message": "?", "requestedSchema": {"type": "object", "properties": {"it": shape}}}
    return read_question(params)["fields"][0]


TITLED = [
    {"const": "a", "title": "First, of all"},
    {"const": "b", "title": "2"},
    {"const": "3", "title": "c"},
]


@pytest.mark.parametrize(
    ("shape", "given", "value"),
    [
        ({"type": "string"}, "as it is ", "as it is "),
        ({"type": "string", "maxLength": 3}, "äöü", "äöü"),
        ({"type": "string", "format": "email"}, "a@b.c", "a@b.c"),
        ({"type": "string", "format": "uri"}, "https://a/b", "https://a/b"),
        ({"type": "string", "format": "date"}, "2026-02-28", "2026-02-28"),
        ({"type": "string", "format": "date-time"}, "2026-02-28T10:00:00Z", "2026-02-28T10:00:00Z"),
        ({"type": "string", "format": "postcode"}, "what it likes", "what it likes"),
        ({"type": "string", "pattern": "^[a-c]+$"}, "abc", "abc"),
        ({"type": "string", "enum": ["red", "blue"]}, "2", "blue"),
        ({"type": "string", "enum": ["red", "blue"]}, "RED", "red"),
        ({"type": "string", "oneOf": TITLED}, "first, of all", "a"),
        ({"type": "string", "oneOf": TITLED}, "2", "b"),  # a title comes before a number
        ({"type": "string", "oneOf": TITLED}, "3", "3"),  # and so does a value
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "number"}, "-2", -2),
        ({"type": "number"}, 2.5, 2.5),
        ({"type": "integer"}, "7", 7),
        ({"type": "integer"}, 7.0, 7),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "boolean"}, True, True),
        ({"type": "array", "items": {"type": "string", "enum": ["x", "y"]}}, "y, 1", ["y", "x"]),
        ({"type": "array", "items": {"anyOf": TITLED}}, "First, of all", ["a"]),
        ({"type": "array", "items": {"anyOf": TITLED}}, ["a", "a"], ["a"]),
        ({"type": "array", "items": {"type": "other"}}, "p,q", ["p", "q"]),
        ({"type": "colour"}, "blue", "blue"),  # a type that agh does not know
    ],
)
def test_values_that_fit(shape: dict[str, Any], given: Any, value: Any) -> None:
    checked = check_value(field(**shape), given)
    assert (checked, type(checked)) == (value, type(value))


@pytest.mark.parametrize(
    ("shape", "given", "reason"),
    [
        ({"type": "string"}, 3, "a string"),
        ({"type": "string", "minLength": 2}, "a", "at least 2 characters"),
        ({"type": "string", "maxLength": 2}, "abc", "at most 2 characters"),
        ({"type": "string", "format": "email"}, "a b@c", "not a valid email"),
        ({"type": "string", "format": "uri"}, "nowhere", "not a valid uri"),
        ({"type": "string", "format": "date"}, "2026-02-30", "not a valid date$"),
        ({"type": "string", "format": "date-time"}, "2026-02-28", "not a valid date-time"),
        ({"type": "string", "pattern": "^[a-c]+$"}, "abd", "does not match"),
        ({"type": "string", "enum": ["red", "blue"]}, "3", "not one of red, blue"),
        ({"type": "string", "enum": ["red", "blue"]}, "0", "not one of red, blue"),
        ({"type": "number"}, "nan", "a number"),
        ({"type": "number"}, "1e999", "a number"),
        ({"type": "number"}, True, "a number"),
        ({"type": "number", "minimum": 0}, "-1", "at least 0"),
        ({"type": "number", "maximum": 0.5}, "0.6", "at most 0.5"),
        ({"type": "integer"}, "1.5", "whole"),
        ({"type": "integer"}, "99999999999999999999", "whole"),
        ({"type": "boolean"}, "perhaps", "yes or no"),
        ({"type": "boolean"}, 1, "yes or no"),
        ({"type": "array", "items": {"enum": ["x"]}}, "x,y", "not one of x"),
        ({"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 2}, "x", "at least 2 items"),
        ({"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 1}, "x,y", "at most 1 items"),
        ({"type": "array", "items": {"enum": ["x"]}}, [1], "list of strings"),
    ],
)
def test_values_that_do_not_fit_and_why(shape: dict[str, Any], given: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^it: .*{reason}"):
        check_value(field(**shape), given)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*$", "a*a*a*a*a*b", r"(a)\1{9}b", "(", "[" * 150, "a" * 300, "((a*)*)*b"]
)
def test_a_pattern_that_could_take_forever_is_not_run(pattern: str) -> None:
    started = time.process_time()
    assert check_value(field(type="string", pattern=pattern), "a" * 150)
    assert time.process_time() - started < 5
