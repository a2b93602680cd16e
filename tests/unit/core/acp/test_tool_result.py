"""What came of a tool call: its name and its output, wherever an agent puts them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agh.core.acp.frames import parse
from agh.core.acp.tool_result import OUTPUT_LIMIT, carry, output_text, tool_name
from agh.core.acp.updates import event_of
from agh.core.events import draft
from agh.core.markdown import result_text


def tool(**more: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "call-1", **more}


@pytest.mark.parametrize(
    ("update", "name"),
    [
        ({"kind": "execute"}, "execute"),
        ({"kind": "other"}, None),
        ({"kind": 5}, None),
        ({}, None),
        ({"kind": "read", "_meta": {"claudeCode": {"toolName": "Glob"}}}, "Glob"),
        ({"kind": "read", "_meta": {"x": 1, "y": {"toolName": None}}}, "read"),
        ({"kind": "read", "_meta": None}, "read"),
        ({"kind": "execute", "name": "exec_command"}, "exec_command"),
        ({"kind": "execute", "name": ""}, "execute"),
        ({"kind": "execute", "_meta": {"tool_name": "bash"}}, "bash"),
        ({"kind": "execute", "_meta": {"toolName": "run_shell_command"}}, "run_shell_command"),
        ({"_meta": {"goose": {"toolCall": {"toolName": "shell"}}}}, "shell"),
    ],
)
def test_a_tool_has_its_own_name_where_it_is_told(update: dict[str, Any], name: str | None) -> None:
    assert tool_name(update) == name


def texts(*said: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": text}} for text in said]


def test_a_result_is_taken_apart() -> None:
    diff = {"type": "diff", "path": "/w/a.py", "oldText": "a", "newText": "b"}
    update = tool(
        status="completed",
        content=[*texts("one", "two"), diff, {"type": "terminal", "terminalId": "t"}],
        locations=[{"path": "/w/b.py"}],
        rawOutput={"stdout": "out", "stderr": "err", "exit": 0},
    )
    type, fields = event_of(update)
    assert (type, fields["tool_error"]) == ("tool_result", False)
    assert fields["tool_result"] == {
        "content": "one\ntwo",
        "structured_patch": [diff],
        "file_path": "/w/b.py",
        "raw_output": {"stdout": "out", "stderr": "err", "exit": 0},
        "stdout": "out",
        "stderr": "err",
    }
    patched = event_of(tool(status="completed", content=[diff]))[1]["tool_result"]
    assert patched["file_path"] == "/w/a.py"


def test_a_failed_tool_says_why() -> None:
    content = event_of(tool(status="failed", content=texts("no such file")))[1]
    assert content["tool_error"] is True
    assert content["tool_result"]["error"] == "no such file"
    assert event_of(tool(status="failed"))[1]["tool_result"] == {"error": "the tool failed"}
    raw = event_of(tool(status="failed", rawOutput={"error": "denied"}))[1]["tool_result"]
    assert raw["error"] == "denied"
    assert event_of(tool(status="failed", rawOutput="text"))[1]["tool_result"]["raw_output"] == "text"


OUTPUTS = [
    "done",
    ["done"],
    [{"type": "text", "text": "done"}],
    {"output": "done", "metadata": {"exit": 0}},
    {"formatted_output": "done", "exit_code": 0},
    {"aggregated_output": "done", "formatted_output": "other"},
    {"content": [{"type": "text", "text": "done"}], "isError": False},
    {"result": {"content": "done"}},
    {"stdout": "done", "stderr": ""},
]


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: str(output)[:40])
def test_raw_output_has_its_text_in_many_places(output: Any) -> None:
    fields = event_of(tool(status="completed", rawOutput=output))[1]
    assert result_text(fields["tool_result"]) == "done"
    assert fields["tool_result"]["raw_output"] == output


@pytest.mark.parametrize("output", [None, 5, {}, [], {"exit": 0}, {"output": {"output": 5}}])
def test_raw_output_without_a_text(output: Any) -> None:
    assert output_text(output) == ""


def follow(*updates: dict[str, Any], terminals: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the fields of the last update's event, with what the others said carried to it."""
    earlier: dict[str, Any] = {}
    for update in updates[:-1]:
        earlier = carry(earlier, update)
    return event_of(updates[-1], earlier, (terminals or {}).get)[1]


def test_a_result_keeps_what_the_updates_before_it_said() -> None:
    diff = {"type": "diff", "path": "/w/a.py", "oldText": "a", "newText": "b"}
    fields = follow(
        tool(title="Edit a.py", kind="edit", name="apply_patch"),
        tool(content=[*texts("it works"), diff], locations=[{"path": "/w/a.py"}], kind="other"),
        tool(status="completed"),
    )
    assert (fields["title"], fields["tool_name"]) == ("Edit a.py", "apply_patch")
    assert fields["tool_result"] == {
        "content": "it works",
        "structured_patch": [diff],
        "file_path": "/w/a.py",
    }
    replaced = follow(tool(content=texts("half")), tool(status="completed", content=texts("whole")))
    assert replaced["tool_result"]["content"] == "whole"


def test_output_in_meta_adds_up() -> None:
    fields = follow(
        tool(_meta={"terminal_info": {"terminal_id": "t"}}),
        tool(_meta={"terminal_output_delta": {"terminal_id": "t", "data": "one\n"}}),
        tool(_meta={"terminal_output": {"terminal_id": "t", "data": "two\n"}}),
        tool(status="failed", _meta={"terminal_exit": {"exit_code": 3, "signal": None}}),
    )
    assert (fields["tool_result"]["stdout"], fields["tool_result"]["exit_code"]) == ("one\ntwo\n", 3)
    assert fields["tool_error"] is True
    alone = follow(tool(status="completed", _meta={"terminal_output": {"data": "all"}}))
    assert alone["tool_result"]["stdout"] == "all"


def test_the_output_of_our_own_terminal() -> None:
    shown = tool(content=[{"type": "terminal", "terminalId": "term-1"}])
    fields = follow(shown, tool(status="completed"), terminals={"term-1": "tests passed\n"})
    assert fields["tool_result"]["stdout"] == "tests passed\n"
    assert "stdout" not in follow(shown, tool(status="completed"))["tool_result"]


@pytest.mark.parametrize(
    "pieces",
    [
        [tool(_meta={"terminal_output_delta": {"data": "x" * 60_000}})] * 3,
        [tool(content=[{"type": "content", "content": {"type": "text", "text": "x" * 150_000}}])],
        [tool(rawOutput={"output": ["x" * 150_000]})],
    ],
)
def test_what_is_carried_is_bounded(pieces: list[dict[str, Any]]) -> None:
    text = result_text(follow(*pieces, tool(status="completed"))["tool_result"])
    assert OUTPUT_LIMIT <= len(text) < OUTPUT_LIMIT + 100
    assert text.startswith("[") and "left out]" in text


def test_a_very_long_output_is_carried_in_part() -> None:
    update = tool(content=[{"type": "content", "content": {"type": "text", "text": "x" * (3 << 20)}}])
    params = {"sessionId": "s", "update": update}
    frame = parse(orjson.dumps({"method": "session/update", "params": params}))
    fields = follow(frame.params["update"], tool(status="completed"))  # type: ignore[union-attr, index, call-overload]
    assert OUTPUT_LIMIT <= len(result_text(fields["tool_result"])) < OUTPUT_LIMIT + 100


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("abc", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "text",
                    "content",
                    "terminalId",
                    "terminal_output",
                    "terminal_exit",
                    "exit_code",
                    "data",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)
FIELDS = ("content", "title", "kind", "name", "rawOutput", "locations", "_meta", "printed", "terminals")


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), json_values), max_size=3), st.booleans())
def test_no_updates_can_do_harm(updates: list[dict[str, Any]], failed: bool) -> None:
    last = tool(status="failed" if failed else "completed")
    fields = follow(*(tool(**update) for update in updates), last, terminals={"a": "b"})
    orjson.loads(draft("tool_result", **fields).content)
