"""Very long strings in JSON: parsed as their beginning, written whole."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agh.core.acp import long_text
from agh.core.acp.long_text import LongText, blocks, dumps, join_texts, loads

STRINGS = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
JSON = st.recursive(
    STRINGS | st.integers(-5, 5) | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
    max_leaves=20,
)


@pytest.fixture(autouse=True, scope="module")
def short_limits() -> Any:
    """Treat every document as long, and a string beyond ten bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_text, "LONG", 0)
        patch.setattr(long_text, "LONG_STRING", 10)
        patch.setattr(long_text, "BEGINNING", 4)
        yield


def whole(value: Any) -> Any:
    """Return the value with each LongText as the text it stands for."""
    if isinstance(value, str):
        return "".join(blocks(value))
    if isinstance(value, list):
        return [whole(entry) for entry in value]
    return {key: whole(entry) for key, entry in value.items()} if isinstance(value, dict) else value


@given(JSON, st.booleans(), st.sampled_from([None, 1]))
def test_nothing_changes(value: Any, escaped: bool, indent: int | None) -> None:
    document = json.dumps(value, ensure_ascii=escaped, indent=indent).encode()
    parsed = loads(document)
    assert whole(parsed) == value
    assert orjson.loads(dumps(parsed)) == value


@given(JSON, st.integers(0, 200), st.binary(min_size=1, max_size=3))
def test_what_is_accepted_is_what_orjson_accepts(value: Any, position: int, damage: bytes) -> None:
    document = bytearray(json.dumps(value).encode())
    position %= len(document)
    document[position : position + 1] = damage
    try:
        expected = orjson.loads(document)
    except ValueError:
        with pytest.raises(ValueError):
            loads(bytes(document))
    else:
        assert whole(loads(bytes(document))) == expected


@pytest.mark.parametrize(
    "inner",
    [
        rb"\ud83d\ude00" * 3000,
        b"x" + "😀".encode() * 3000,
        rb"\\" * 3000,
        rb"\"" * 3000,
        b"x" * 262_143 + "é😀".encode() + rb"\ud83d\ude00\u0041\n",
    ],
)
def test_blocks_end_between_characters(inner: bytes) -> None:
    document = b'["' + inner + b'"]'
    assert whole(loads(document)) == orjson.loads(document)


@pytest.mark.parametrize(
    "inner", [rb"\ud800", rb"\ud83dx", rb"\ud83d\u0041", b"\x01", b"\xff", b"\xed\xa0\x80", rb"\x"]
)
def test_an_invalid_string_is_refused(inner: bytes) -> None:
    document = b'["' + b"x" * 20 + inner + b'"]'
    for parser in (orjson.loads, loads):
        with pytest.raises(ValueError):
            parser(document)


def test_a_key_is_never_cut_and_the_last_of_equal_keys_wins() -> None:
    document = b'{"a key that is long" : "a value that is long","b":"first of two","b":"second of two"}'
    parsed = loads(document)
    assert [*parsed] == ["a key that is long", "b"]
    assert isinstance(parsed["b"], LongText) and whole(parsed["b"]) == "second of two"


def test_a_long_text_is_its_beginning() -> None:
    (text,) = loads(b'["0123456789abcdef"]')
    assert text == "0123" and type(str(text)) is str
    assert join_texts([text], "\n") is text
    assert whole(join_texts(["a", text, 'b"'], "\n")) == 'a\n0123456789abcdef\nb"'
    assert join_texts(["a", "b"], "\n") == "a\nb"


def test_only_text_may_be_a_subclass() -> None:
    with pytest.raises(TypeError, match="Odd"):
        dumps({"a": type("Odd", (dict,), {})()})


def test_only_bulk_is_left_long() -> None:
    text = "0123456789abcdef"
    value = {"a": text, "bulk": {"b": [text]}, "c": [{"d": text}]}
    parsed = loads(orjson.dumps(value), ("bulk",))
    assert parsed["a"] == text and parsed["c"] == [{"d": text}]
    assert isinstance(parsed["bulk"]["b"][0], LongText) and whole(parsed) == value
