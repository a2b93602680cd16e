import hashlib
import json
import random
import sqlite3
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agh.core.acp import frames, json_text
from agh.core.acp.frames import Frame, Malformed, Notification, Request, Response, Splitter, parse
from tests.support.cpu import cpu_seconds, is_faster

DATABASE = sqlite3.connect(":memory:")


def assert_storable(frame: Frame) -> None:
    """Check that a frame can be stored, whatever it was made of."""
    if isinstance(frame, Malformed):
        orjson.dumps(frame._asdict())
        return
    value = orjson.loads(frame.raw)
    (valid, stored), *_ = DATABASE.execute(
        "select json_valid(?1), json_extract(?1, '$.method')", (frame.raw.decode(),)
    )
    assert valid == 1
    if isinstance(frame, Response):
        assert value["id"] == frame.id
        orjson.dumps([frame.result, frame.error])
    else:
        assert value["method"] == frame.method
        assert value.get("params") == frame.params
        if "\0" not in frame.method and b'"method"' in frame.raw:
            assert (
                stored == frame.method or frame.raw.count(b"method") > 1
            )  # of equal keys SQLite sees the first
        orjson.dumps(frame.params)


def frames_of(data: bytes, max_line: int = frames.MAX_LINE) -> list[Frame]:
    splitter = Splitter(max_line)
    return splitter.feed(data) + splitter.close()


# What is told apart


def test_the_three_kinds() -> None:
    line = '{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,2.5,null,"é"]}}'
    assert parse(line.encode()) == Request(1, "m", {"a": [1, 2.5, None, "é"]}, line.encode(), False)
    line = '{"jsonrpc": "2.0", "method": "m", "params": []}'
    assert parse(line.encode()) == Notification("m", [], line.encode())
    line = '{"id":"x","result":null}'
    assert parse(line.encode()) == Response("x", None, None, line.encode())
    line = '{"id":3,"error":{"code":-32002,"message":"gone","data":{"uri":"x"}}}'
    assert parse(line.encode()) == Response(
        3, None, {"code": -32002, "message": "gone", "data": {"uri": "x"}}, line.encode()
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"method":"m"}', Notification("m", None, b"")),
        ('{"method":"m","params":null}', Notification("m", None, b"")),
        ('{"method":"m","id":null}', Request(None, "m", None, b"")),
        ('{"method":"m","id":-1}', Request(-1, "m", None, b"")),
        ('{"method":"m","id":18446744073709551615}', Request(2**64 - 1, "m", None, b"")),
        ('{"method":"m","id":1,"result":2}', Request(1, "m", None, b"")),
        ('{"method":null,"id":1,"result":2}', Response(1, 2, None, b"")),
        ('{"id":1,"result":null,"error":null}', Response(1, None, None, b"")),
        ('{"id":9,"error":{"code":1,"message":""}}', Response(9, None, {"code": 1, "message": ""}, b"")),
        ('{"id":null,"error":{"code":1,"message":"x"}}',
         Response(None, None, {"code": 1, "message": "x"}, b"")),
        ('{"id":1,"id":2,"result":1,"result":{"a":1,"a":2}}', Response(2, {"a": 2}, None, b"")),
        (' {"method":"m"}\t\r', Notification("m", None, b"")),
    ],
)  # fmt: skip
def test_forgiven_and_kept_as_it_came(line: str, expected: Request | Response | Notification) -> None:
    assert parse(line.encode()) == expected._replace(raw=line.encode())


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ('"x"', "x"),
        ("null", "an error in an unknown format"),
        ("42", "an error in an unknown format"),
        ("[]", "an error in an unknown format"),
        ('{"message":"m"}', "m"),
        ('{"code":"1","message":"m"}', "m"),
        ('{"code":true,"message":"m"}', "m"),
        ('{"code":1.0,"message":"m"}', "m"),
        ('{"code":1}', "an error in an unknown format"),
        ('{"code":1,"message":2}', "an error in an unknown format"),
    ],
)
def test_an_error_of_another_form_is_made_one(error: str, message: str) -> None:
    line = f'{{"id":0,"error":{error}}}'
    normal = {"code": -32603, "message": message, "data": json.loads(error)}
    assert parse(line.encode()) == Response(0, None, normal, line.encode())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"(node:1) DeprecationWarning: x", "not JSON"),
        (b'{"method":"m"', "not JSON"),
        (b'{"method":"m"} {}', "not JSON"),
        (b'{"method":"a\x00b"}', "not JSON"),
        (b'{"id":01,"result":1}', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"\xef\xbb\xbf", "not JSON"),
        (b"42", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b'[{"method":"m"}]', "not a JSON object"),
        (b"{}", "it has neither a method nor an id"),
        (b'{"result":1}', "it has neither a method nor an id"),
        (b'{"id":1}', "it has no method, result or error"),
        (b'{"method":1}', "its method is not a string"),
        (b'{"method":["m"],"id":1}', "its method is not a string"),
        (b'{"method":"m","params":1}', "its params are neither an object nor an array"),
        (b'{"method":"m","params":"x","id":1}', "its params are neither an object nor an array"),
        (b'{"method":"m","id":1.0}', "its id must be a 64-bit integer, a string or null"),
        (b'{"method":"m","id":true}', "its id must be a 64-bit integer, a string or null"),
        (b'{"id":[1],"result":1}', "its id must be a 64-bit integer, a string or null"),
        (b'{"id":{},"result":1}', "its id must be a 64-bit integer, a string or null"),
        (b'{"id":18446744073709551616,"result":1}', "its id must be a 64-bit integer, a string or null"),
    ],
)
def test_malformed(line: bytes, reason: str) -> None:
    head = line.decode(errors="replace")
    assert parse(line) == Malformed(reason, len(line), hashlib.sha256(line).hexdigest(), head)


def test_the_head_is_the_first_200_bytes() -> None:
    frame = parse(b"x" * 199 + "é".encode() + b"y")
    assert isinstance(frame, Malformed)
    assert frame.head == "x" * 199 + "\ufffd"
    assert frame.length == 202


# What is not JSON, or not to everybody, and what becomes of it


@pytest.mark.parametrize(
    ("line", "raw", "params"),
    [
        (rb'["\ud800"]', r'["\ufffd"]', ["\ufffd"]),
        (rb'["a\uDC00b"]', r'["a\ufffdb"]', ["a\ufffdb"]),
        (rb'["\ud83d\ud83d\ude00"]', r'["\ufffd\ud83d\ude00"]', ["\ufffd😀"]),
        (rb'["\ud83d\\ude00"]', r'["\ufffd\\ude00"]', ["\ufffd\\ude00"]),
        (rb'["\\ud800","\\\ud800\\\\"]', r'["\\ud800","\\\ufffd\\\\"]', ["\\ud800", "\\\ufffd\\\\"]),
        (rb'["\n\u00e9\t\ud800\n"]', r'["\n\u00e9\t\ufffd\n"]', ["\né\t\ufffd\n"]),
        (rb'{"\ud800":1}', r'{"\ufffd":1}', {"\ufffd": 1}),
        (b'["\xff\xc3"]', '["\ufffd\ufffd"]', ["\ufffd\ufffd"]),
        (b'["\xed\xa0\x80"]', '["\ufffd\ufffd\ufffd"]', ["\ufffd\ufffd\ufffd"]),
        (b'[NaN,-Infinity,Infinity,"NaN"]', '[null,null,null,"NaN"]', [None, None, None, "NaN"]),
        (b"[1e999,-1E+999,1e-999]", '["1e999","-1E+999",1e-999]', ["1e999", "-1E+999", 0.0]),
        (b'[NaN,"\\"1e999 NaN"]', '[null,"\\"1e999 NaN"]', [None, '"1e999 NaN']),
        (b"[" + b"9" * 5000 + b"]", '["' + "9" * 5000 + '"]', ["9" * 5000]),
    ],
)  # fmt: skip
def test_the_least_is_changed_and_said(line: bytes, raw: str, params: Any) -> None:
    before, after = '{"method": "m","params": ', ',"n":12345678901234567890123}'
    frame = parse(before.encode() + line + after.encode())
    assert isinstance(frame, Notification)
    assert frame.raw.decode() == before + raw + after
    assert frame.sanitized
    assert frame.params == params
    assert_storable(frame)


def test_a_byte_order_mark_goes() -> None:
    assert parse(b'\xef\xbb\xbf{"method":"m"}') == Notification("m", None, b'{"method":"m"}', True)


@pytest.mark.parametrize(
    ("value", "parsed"),
    [
        ("123456789012345678901234567890", 1.2345678901234568e29),
        ("-9223372036854775809", -9.223372036854775808e18),
        ("9" * 300, 1e300),
        (r'"\u0000\ud83d\ude00"', "\0😀"),
        ('"\u2028\x7f\ufeff"', "\u2028\x7f\ufeff"),
    ],
)
def test_stays_as_it_came(value: str, parsed: Any) -> None:
    line = f'{{"method":"m","params":[{value}]}}'
    frame = parse(line.encode())
    assert frame == Notification("m", [parsed], line.encode(), False)
    assert_storable(frame)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("tail", ["", '"\\ud800"'])
def test_depth_is_capped(opening: str, tail: str) -> None:
    closing = "]" if opening == "[" else "}"

    def nested(depth: int) -> Frame:
        inner = tail or ("1" if opening != "[" else "")
        value = opening * (depth - 1) + inner + closing * (depth - 1)
        return parse(f'{{"method":"m","params":{value}}}'.encode())

    deepest = nested(json_text.MAX_DEPTH)
    assert isinstance(deepest, Notification)
    assert_storable(deepest)
    orjson.dumps({"content": {"raw": [deepest.params]}})
    for depth in (json_text.MAX_DEPTH + 1, 1023, 1026, 100_000):
        frame = nested(depth)
        assert isinstance(frame, Malformed)
        assert frame.reason == "nested too deeply"


def test_brackets_in_strings_are_not_depth() -> None:
    text = '[{"' * 1000 + "\\"
    frame = parse(orjson.dumps({"method": "m", "params": [text, [text]]}))
    assert isinstance(frame, Notification)
    assert frame.params == [text, [text]]


def test_values_are_capped() -> None:
    many = json_text.MAX_VALUES
    assert isinstance(parse(b'{"id":1,"result":[' + b"1," * (many - 10) + b"1]}"), Response)
    for line in (
        b'{"id":1,"result":[' + b"1," * many + b"1]}",
        b'{"id":1,"result":[' + b"[]," * many + b"1]}",
        b'{"id":1,"result":[' + b'"",' * 3 * many + b"1]}",
    ):
        frame = parse(line)
        assert isinstance(frame, Malformed)
        assert frame.reason == "too many values"
    text = ',[{"\\' * many  # in a string they count for nothing
    frame = parse(orjson.dumps({"id": 1, "result": text}))
    assert isinstance(frame, Response)
    assert frame.result == text


# Splitting


def test_lines_blank_lines_and_an_unfinished_one() -> None:
    splitter = Splitter()
    assert splitter.feed(b'\n \t\r\n{"method":"a"}\n\n{"meth') == [Notification("a", None, b'{"method":"a"}')]
    assert splitter.feed(b"") == []
    assert splitter.feed(b'od":"b"}') == []
    assert splitter.close() == [Notification("b", None, b'{"method":"b"}')]
    assert splitter.close() == []
    assert splitter.feed(b"  ") + splitter.close() == []
    assert splitter.feed(b'{"method":"c"}\n') == [Notification("c", None, b'{"method":"c"}')]


@pytest.mark.parametrize("ending", [b"\n", b""])
@pytest.mark.parametrize("step", [1, 7, 64, 1000])
def test_a_line_beyond_the_cap_is_one_malformed_and_the_next_is_well(ending: bytes, step: int) -> None:
    line = bytes(random.Random(step).randbytes(500)).replace(b"\n", b"")
    data = b'{"method":"a"}\n' + line + ending + (b'{"method":"b"}' if ending else b"")
    splitter = Splitter(max_line=100)
    found = [frame for at in range(0, len(data), step) for frame in splitter.feed(data[at : at + step])]
    found += splitter.close()
    too_long = Malformed(
        "longer than 100 bytes",
        len(line),
        hashlib.sha256(line).hexdigest(),
        line[:200].decode(errors="replace"),
        line[-200:].decode(errors="replace"),
    )
    after = [Notification("b", None, b'{"method":"b"}')] if ending else []
    assert found == [Notification("a", None, b'{"method":"a"}'), too_long, *after]


def test_the_cap_itself_is_allowed() -> None:
    line = b'{"method":"' + b"m" * 20 + b'"}'
    assert isinstance(frames_of(line, len(line))[0], Notification)
    assert isinstance(frames_of(line, len(line) - 1)[0], Malformed)


def peak_of(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [64, 65536])
def test_memory_is_bounded_by_the_cap(size: int) -> None:
    piece = b"x" * size
    splitter = Splitter(max_line=1 << 20)

    def feed() -> None:
        for _ in range((256 << 20) // size if size > 64 else (8 << 20) // size):
            assert splitter.feed(piece) == []

    assert peak_of(feed) < 3 << 20
    (frame,) = splitter.close()
    assert isinstance(frame, Malformed)
    assert frame.length == 256 << 20 if size > 64 else 8 << 20


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "no newline": lambda n: b"x" * n,
    "backslashes": lambda n: b'{"a":"' + b"\\" * n,
    "quotes": lambda n: b'{"a":"' + b'\\"' * (n // 2),
    "empty strings": lambda n: b'{"a":' + b'""' * (n // 2),
    "lone surrogates": lambda n: b'{"method":"' + b"\\ud800" * (n // 6) + b'"}',
    "bad UTF-8": lambda n: b'{"method":"' + b"\xff" * n + b'"}',
    "digits": lambda n: b'{"method":"m","params":[' + b"9" * n + b"]}",
    "zeros": lambda n: b'{"a":' + b"0 " * (n // 2),
    "infinite": lambda n: b'{"method":"m","params":[' + b"1e999," * (n // 6) + b"1]}",
    "closing": lambda n: b"]" * n,
    "opening": lambda n: b"[" * n,
    "in turn": lambda n: b"[]" * (n // 2),
}


@pytest.mark.parametrize("shape", HOSTILE)
def test_time_is_linear_in_the_length(shape: str) -> None:
    """Eight times the length would be 64 times the time, if it were not."""
    size = 40_000  # eight times that is still short enough for every repair to be tried
    small, large = HOSTILE[shape](size), HOSTILE[shape](8 * size)
    assert is_faster(lambda: parse(large), 32 * cpu_seconds(lambda: parse(small)) + 0.01)


def test_time_is_linear_in_the_pieces() -> None:
    def feed(pieces: int) -> None:
        splitter = Splitter()
        for _ in range(pieces):
            splitter.feed(b"x" * 64)
        splitter.close()

    assert is_faster(lambda: feed(80_000), 32 * cpu_seconds(lambda: feed(10_000)))


# Properties

LONE = "\ud800\udfff"
TEXTS = st.text(st.characters(exclude_categories=()) | st.sampled_from(LONE + '\0"\\\u2028😀\n'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
PARAMS = st.none() | st.lists(VALUES, max_size=3) | st.dictionaries(TEXTS, VALUES, max_size=3)
IDS = st.none() | st.integers(-(2**63), 2**64 - 1) | TEXTS
SAMPLES = [
    b'{"jsonrpc":"2.0","method":"session/update","params":{"update":{"content":{"text":"h\xc3\xa9\\u00e9"}}}}\n',
    b'{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"path":"/a b","line":1e5}}\n',
    b'{"jsonrpc":"2.0","id":"a","result":{"stopReason":"end_turn","usage":[1,-2.5,123456789012345678901]}}\n',
    b'{"id":0,"error":{"code":-32603,"message":"no \\ud83d\\ude00","data":{"details":[null,true,[]]}}}\n',
    b'{"method":"m","params":["\\ud800",NaN,1e999,"\xff"]}\n',
]
PIECES = st.sampled_from(
    [b"{", b"}", b"[", b"]", b'"', b"\\", b"\\u", b"d800", b",", b":", b"\n", b"\r", b" ", b"\0", b"\xff"]
    + [b"\xef\xbb\xbf", b"\xed\xa0\x80", b"NaN", b"1e999", b"-", b"0", b'"id"', b'"method"', b'"params"']
    + [b'"result"', b'"error"', b"null", b"true", *SAMPLES]
)
STREAMS = st.binary(max_size=200) | st.lists(PIECES | st.binary(max_size=3), max_size=30).map(b"".join)


def as_sent(value: Any) -> Any:
    """Return what of a value can be written: see the module's promises."""
    match value:
        case str():
            return "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in value)
        case float() if value != value or abs(value) == float("inf"):
            return None
        case int() if not -(2**63) <= value < 2**64:
            return float(value)
        case list():
            return [as_sent(each) for each in value]
        case dict():
            return {as_sent(key): as_sent(each) for key, each in value.items()}
    return value


@settings(deadline=None, max_examples=200)
@given(STREAMS, st.integers(1, 120))
def test_no_bytes_raise_and_every_frame_is_storable(data: bytes, max_line: int) -> None:
    for frame in frames_of(data) + frames_of(data, max_line) + [parse(data)]:
        assert_storable(frame)


@settings(deadline=None, max_examples=200)
@given(STREAMS, st.lists(st.integers(0, 400), max_size=12), st.integers(1, 120))
@example(b"".join(SAMPLES), list(range(400)), 100)
def test_the_pieces_make_no_difference(data: bytes, cuts: list[int], max_line: int) -> None:
    splitter = Splitter(max_line)
    found = []
    for start, end in pairwise([0, *sorted(cuts), max(len(data), *cuts, 0)]):
        found += splitter.feed(data[start:end])
    assert found + splitter.close() == frames_of(data, max_line)


@settings(deadline=None, max_examples=250)
@given(
    st.sampled_from(SAMPLES),
    st.lists(
        st.tuples(st.sampled_from(["flip", "cut", "insert", "drop"]), st.integers(0, 300), PIECES), max_size=4
    ),
    st.integers(0, 7),
)
def test_mutants_are_frames_that_can_be_stored(
    sample: bytes, mutations: list[tuple[str, int, bytes]], bit: int
) -> None:
    data = bytearray(sample)
    for kind, at, piece in mutations:
        at %= len(data) + 1
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << bit
        elif kind == "cut":
            del data[at:]
        elif kind == "insert":
            data[at:at] = piece
        elif kind == "drop":
            del data[at : at + 1]
    for frame in frames_of(bytes(data)):
        assert_storable(frame)


def test_every_bit_flip_of_every_sample_and_every_truncation() -> None:
    for sample in SAMPLES:
        for at in range(len(sample)):
            for bit in range(8):
                mutant = bytearray(sample)
                mutant[at] ^= 1 << bit
                for frame in frames_of(bytes(mutant)):
                    assert_storable(frame)
            for frame in frames_of(sample[:at]):
                assert_storable(frame)


def one(line: bytes) -> Frame:
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    orjson.loads(line)
    (frame,) = frames_of(line)
    assert_storable(frame)
    return frame


@settings(deadline=None, max_examples=100)
@given(IDS.filter(lambda id: id is not None), TEXTS, PARAMS)
def test_round_trip_of_requests_and_notifications(id: Any, method: str, params: Any) -> None:
    line = frames.encode_request(id, method, params)
    raw = line.rstrip(b"\n")
    assert one(line) == Request(as_sent(id), as_sent(method), as_sent(params), raw)
    line = frames.encode_notification(method, params)
    assert one(line) == Notification(as_sent(method), as_sent(params), line.rstrip(b"\n"))


@settings(deadline=None, max_examples=100)
@given(IDS, VALUES, st.integers(-(2**31), 2**31), TEXTS)
def test_round_trip_of_answers(id: Any, value: Any, code: int, message: str) -> None:
    line = frames.encode_result(id, value)
    assert one(line) == Response(as_sent(id), as_sent(value), None, line.rstrip(b"\n"))
    line = frames.encode_error(id, code, message, value)
    error = {"code": code, "message": as_sent(message)}
    if value is not None:
        error["data"] = as_sent(value)
    assert one(line) == Response(as_sent(id), None, error, line.rstrip(b"\n"))


def test_what_is_not_given_is_not_sent() -> None:
    assert frames.encode_request(1, "m") == b'{"jsonrpc":"2.0","id":1,"method":"m"}\n'
    assert frames.encode_notification("m", []) == b'{"jsonrpc":"2.0","method":"m","params":[]}\n'
    assert frames.encode_result(None, None) == b'{"jsonrpc":"2.0","id":null,"result":null}\n'
    assert (
        frames.encode_error("a", -32601, "no")
        == b'{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"no"}}\n'
    )
