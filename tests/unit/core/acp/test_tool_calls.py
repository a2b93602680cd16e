"""What a tool call is about, when its texts are too long to be shown."""

from __future__ import annotations

from typing import Any

import orjson

from agh.core.acp.frames import BULK
from agh.core.acp.long_text import LONG, LongText, loads
from agh.core.acp.tool_calls import read_tool_call


def parse(**message: Any) -> Any:
    """Return a tool call as it comes out of a very long frame."""
    return loads(orjson.dumps({**message, "_meta": "x" * LONG}), BULK)


def test_a_change_whose_text_is_not_whole_is_not_shown_as_if_it_were() -> None:
    diff = {"type": "diff", "path": "/w/a", "oldText": None, "newText": "harmless\n" * 10_000 + "harmful\n"}
    message = parse(content=[diff])
    assert isinstance(message["content"][0]["newText"], LongText)
    (edit,) = read_tool_call(message).edits
    assert (edit.path, edit.new) == ("/w/a", None)


def test_nor_is_one_whose_old_text_is_not_whole() -> None:
    diff = {"type": "diff", "path": "/w/a", "oldText": "x\n" * 50_000, "newText": "new"}
    (edit,) = read_tool_call(parse(content=[diff])).edits
    assert edit.new is None


def test_a_command_that_is_not_whole_says_more_than_is_read() -> None:
    long = "echo harmless; " * 10_000 + "rm -rf ."
    for command in (long, ["sh", "-c", long]):
        call = read_tool_call(parse(rawInput={"content": {"command": command}}))
        assert call.commands and len(call.commands[0]) < len(long)
        assert call.too_long
    call = read_tool_call(parse(rawInput={"content": {"command": "sh", "args": ["-c", long]}}))
    assert call.too_long


def test_arguments_that_come_as_a_text_before_the_tool_runs() -> None:
    """Kimi sends them so until it runs the tool, after it has asked for permission."""
    text = '{"path": "/w/new.txt", "content": "hello"}'
    block = {"type": "content", "content": {"type": "text", "text": text}}
    call = read_tool_call({"title": "Write", "kind": "edit", "status": "pending", "content": [block]})
    assert call.paths == ("/w/new.txt",)
    assert [(edit.path, edit.new) for edit in call.edits] == [("/w/new.txt", "hello")]
    command = {"type": "content", "content": {"type": "text", "text": '{"command": "make"}'}}
    assert read_tool_call({"status": "pending", "content": [command]}).commands == ("make",)


def test_a_text_that_is_no_argument() -> None:
    block = {"type": "content", "content": {"type": "text", "text": '{"path": "/w/a"}'}}
    for fields in ({"status": "completed"}, {"status": "pending", "locations": [{"path": "/w/b"}]}):
        assert "/w/a" not in read_tool_call({**fields, "content": [block]}).paths
    assert read_tool_call({"status": "pending", "rawInput": {}, "content": [block]}).paths == ()
    for text in ("{", "[1]", "ordinary words", None):
        broken = {"type": "content", "content": {"type": "text", "text": text}}
        assert read_tool_call({"status": "pending", "content": [broken, block][:1]}).paths == ()
    assert read_tool_call({"status": "pending", "content": ["x"]}).paths == ()
