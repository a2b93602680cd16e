"""What came of a tool call: its name, its output, its patches and its file. Pure.

Agents report a tool call in pieces and put the output in many places: content blocks, `rawOutput` in a shape
of their own, `_meta`, a terminal. `carry` collects what the updates before the last have said, and
`tool_event` makes the result from that and from the last update. What is carried is bounded: of a long output
the newest part is kept, and a note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from agh.core.acp.frames import only_dicts
from agh.core.acp.long_text import LONG, LongText, blocks, join_texts, json_length

Fields = dict[str, Any]

OUTPUT_LIMIT = 100_000  # characters of output that are carried from one update to another
_CARRIED = ("title", "kind", "locations")
_FINISHED = ("completed", "failed")
_RESULT_KEYS = ("stdout", "stderr", "error")
# Where agents put the text of a result, in the order in which it is most useful.
_TEXT_KEYS = (
    *("aggregated_output", "formatted_output", "output", "text", "content", "result", "returnDisplay"),
    *("detailedContent", "message", "data"),
)
_NAME_KEYS = ("toolName", "tool_name")
_NAME_DEPTH = 3
_TEXT_DEPTH = 6
_MAX_TERMINALS = 20


def tool_event(
    update: Fields,
    earlier: Mapping[str, Any] | None = None,
    terminal: Callable[[str], str | None] | None = None,
) -> tuple[str, Fields]:
    """Return the event type of a tool call's update, and its content fields.

    `earlier` is what `carry` has collected; `terminal` returns the output of one of our own terminals.
    """
    finished = update.get("status") in _FINISHED
    whole = carry(earlier or {}, update) if finished else update
    fields: Fields = {
        "tool_call_id": str(update.get("toolCallId")),
        "title": whole.get("title"),
        "tool_name": tool_name(whole),
        "tool_input": update.get("rawInput"),
    }
    if not finished:
        return "tool_call", fields
    failed = update["status"] == "failed"
    whole |= {key: update[key] for key in ("content", "rawOutput") if update.get(key)}  # all of it
    return "tool_result", fields | {
        "tool_result": _tool_result(whole, failed, terminal),
        "tool_error": failed,
    }


def carry(earlier: Mapping[str, Any], update: Fields) -> Fields:
    """Return what the updates of a tool call have said so far: later fields replace earlier ones."""
    fields = dict(earlier)
    fields |= {key: update[key] for key in _CARRIED if update.get(key) is not None}
    if name := own_tool_name(update):
        fields["name"] = name
    if update.get("content"):
        content = only_dicts(update["content"])
        fields["content"] = _bounded_content(content)
        shown = [str(block.get("terminalId")) for block in content if block.get("type") == "terminal"]
        fields["terminals"] = [*dict.fromkeys([*fields.get("terminals", ()), *shown])][:_MAX_TERMINALS]
    if update.get("rawOutput") is not None:
        fields["rawOutput"] = _bounded_output(update["rawOutput"])
    if "_meta" in update:
        printed, exit_code = _terminal_meta(update)
        if printed:
            fields["printed"] = newest(str(fields.get("printed", "")) + printed)
        if exit_code is not None:
            fields["exit_code"] = exit_code
    return fields


def tool_name(update: Mapping[str, Any]) -> str | None:
    """Return the tool's own name if the agent sent it, otherwise the kind of tool."""
    kind = update.get("kind")
    return own_tool_name(update) or (kind if isinstance(kind, str) and kind != "other" else None)


def own_tool_name(update: Mapping[str, Any]) -> str | None:
    """Return the tool's own name; None if the agent did not send it."""
    name = update.get("name")
    return name if isinstance(name, str) and name else _named_in(update.get("_meta"), _NAME_DEPTH)


def newest(text: str, limit: int = OUTPUT_LIMIT) -> str:
    """Return the end of a long text, with a note of what is left out."""
    if len(text) <= limit:
        return text
    return f"[{len(text) - limit} earlier characters are left out]\n{text[-limit:]}"


def output_text(output: Any) -> str:
    """Return the text in an agent's `rawOutput`; empty if it has none that a reader would look for."""
    return "\n".join(_texts_in(output, 0))


def _tool_result(update: Fields, failed: bool, terminal: Callable[[str], str | None] | None) -> Fields:
    result: Fields = {}
    texts, patches = [], []
    for block in only_dicts(update.get("content")):
        inner = block.get("content")
        if block.get("type") == "diff":
            patches.append(block)
        elif isinstance(inner, dict) and isinstance(text := _block_text(inner), str):
            texts.append(text)
    output = update.get("rawOutput")
    parts = {}
    if isinstance(output, dict):
        parts = {key: output[key] for key in _RESULT_KEYS if isinstance(output.get(key), str)}
    screens = [terminal(name) for name in update.get("terminals", ())] if terminal else []
    printed = newest("\n".join(filter(None, [update.get("printed"), *screens])))
    if printed and not parts.get("stdout"):
        parts["stdout"] = printed
    if not any(texts) and not any(parts.values()) and (text := newest(output_text(output))):
        texts = [text]
    text = join_texts(texts, "\n")
    if texts:
        result["content"] = text
    if patches:
        result["structured_patch"] = patches
    paths = [location.get("path") for location in only_dicts(update.get("locations"))]
    if path := next((path for path in [*paths, *(patch.get("path") for patch in patches)] if path), None):
        result["file_path"] = path
    if output is not None and sum(map(json_length, parts.values())) <= LONG:  # otherwise it is only in `raw`
        result["raw_output"] = output
    result |= parts
    if "exit_code" in update:
        result["exit_code"] = update["exit_code"]
    if failed and "error" not in result:
        result["error"] = text[:LONG] or "the tool failed"
    return result


def _block_text(block: Fields) -> Any:
    """Return the text of a content block, or of the resource that it embeds."""
    resource = block.get("resource")
    return resource.get("text") if isinstance(resource, dict) else block.get("text")


def _terminal_meta(update: Mapping[str, Any]) -> tuple[str, int | None]:
    """Return what a command printed and how it exited, as some agents report it in `_meta`."""
    meta = update.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    chunks = [meta.get(key) for key in ("terminal_output", "terminal_output_delta")]
    texts = [chunk["data"] for chunk in only_dicts(chunks) if isinstance(chunk.get("data"), str)]
    ended = meta.get("terminal_exit")
    code = ended.get("exit_code") if isinstance(ended, dict) else None
    return "".join(map(_whole, texts)), code if type(code) is int and abs(code) < 1 << 31 else None


def _named_in(meta: Any, depth: int) -> str | None:
    """Return the name of a tool from `_meta`, where each product has its own place for it."""
    if not isinstance(meta, dict) or depth == 0:
        return None
    for key in _NAME_KEYS:
        if isinstance(meta.get(key), str) and meta[key]:
            return str(meta[key])
    return next(filter(None, (_named_in(inner, depth - 1) for inner in meta.values())), None)


def _bounded_content(content: list[Fields]) -> list[Fields]:
    """Return content blocks of a limited size; texts that are too long are cut."""
    if _size(content, 0) <= OUTPUT_LIMIT:
        return content
    texts = [_block_text(inner) for block in content if isinstance(inner := block.get("content"), dict)]
    text = newest("\n".join(_whole(text) for text in texts if isinstance(text, str)))
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def _bounded_output(output: Any) -> Any:
    return output if _size(output, 0) <= OUTPUT_LIMIT else newest(output_text(output))


def _size(value: Any, depth: int) -> int:
    """Return about how many characters a JSON value has."""
    if isinstance(value, str):
        return json_length(value)
    if not isinstance(value, dict | list):
        return 8
    if depth > _TEXT_DEPTH:
        return OUTPUT_LIMIT + 1
    size = sum(len(key) for key in value) if isinstance(value, dict) else 0
    return size + sum(_size(inner, depth + 1) + 1 for inner in _inner(value))


def _inner(value: Any) -> Iterator[Any]:
    yield from value.values() if isinstance(value, dict) else value


def _texts_in(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if value:
            yield _whole(value)
    elif isinstance(value, list) and depth < _TEXT_DEPTH:
        for entry in value:
            yield from _texts_in(entry, depth + 1)
    elif isinstance(value, dict) and depth < _TEXT_DEPTH:
        for key in (*_RESULT_KEYS, *_TEXT_KEYS):
            if texts := list(_texts_in(value.get(key), depth + 1)):
                yield from texts
                return


def _whole(text: str) -> str:
    """Return a text of limited size, also from a string that was not parsed."""
    if not isinstance(text, LongText):
        return text
    return "".join(islice(blocks(text), 8))
