"""A copy of a session with its secrets hidden. Pure.

A secret that was split across chunks is hidden too: the chunks of a turn are searched together, whatever
came between them, as far as memory allows; so are the texts of a tool call's updates. The agent's own form of
a chunk (`raw`), also of a summary, is left out, because the pieces in it cannot be hidden. It misses what
`core.redact` misses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from agh.core.events import TURN_END_TYPES, Row
from agh.core.redaction.redact import LONGEST, Redactor, text_blocks

if TYPE_CHECKING:
    from agh.core.exchange import Snapshot

_CHUNKS = ("agent_message", "thought")
_TOOLS = ("tool_call", "tool_result")
SUMMARY_CHUNK = "compaction_summary_chunk"  # the title of a `system` event
_BOUNDS = ("user_message", *TURN_END_TYPES)
MOST_ROWS, MOST_CHARACTERS = 1000, 4 << 20  # that are held back until their turn has ended
_LAST_ROWS = 100  # of those: held back longer, because a secret may begin in them
_JSON_COLUMNS = ("prompt", "request", "answer", "fields")


def redact_copy(snapshot: Snapshot, redactor: Redactor) -> Snapshot:
    """Return the copy without secrets; the caller still has to replace its `database`."""
    tables = {
        name: [redact_table_row(row, redactor) for row in rows] for name, rows in snapshot.tables.items()
    }
    return replace(
        snapshot,
        session=redactor.json(snapshot.session),
        tables=tables,
        rows=lambda: redacted_rows(snapshot.rows(), redactor),
    )


def redacted_rows(rows: Iterable[Row], redactor: Redactor) -> Iterator[Row]:
    """Yield every event, redacted; chunks are held back until their turn has ended."""
    pending: list[Row] = []
    size = 0
    before = dict.fromkeys(_CHUNKS, "")  # the end of the text already yielded for this turn
    for row in rows:
        if pending and (row.type in _BOUNDS or (row.turn_id and row.turn_id != pending[-1].turn_id != "")):
            yield from _redact(pending, before, redactor)
            pending, size, before = [], 0, dict.fromkeys(_CHUNKS, "")
        pending.append(row)
        size += len(row.content)
        if len(pending) >= MOST_ROWS or size > MOST_CHARACTERS:
            count = len(pending) - (_LAST_ROWS if size <= MOST_CHARACTERS else 0)
            yield from _redact(pending, before, redactor)[:count]
            for type in _CHUNKS:
                text = before[type] + "".join(_text(row) for row in pending[:count] if row.type == type)
                before[type] = text[-LONGEST:]
            pending = pending[count:]
            size = sum(len(row.content) for row in pending)
    yield from _redact(pending, before, redactor)


def _redact(rows: list[Row], before: dict[str, str], redactor: Redactor) -> list[Row]:
    clean_rows = []
    tools = iter(_redact_tools(rows, redactor))
    texts = {type: iter(_redact_texts(rows, type, before[type], redactor)) for type in _CHUNKS}
    for row in rows:
        content = row.parsed()
        if row.type == "system" and content.get("title") == SUMMARY_CHUNK:
            content.pop("raw", None)
        if row.type not in _CHUNKS:
            clean_rows.append(
                _with_content(row, next(tools) if row.type in _TOOLS else redactor.json(content))
            )
            continue
        rest = {key: value for key, value in content.items() if key not in ("raw", "text")}
        # The event shows its own time, whatever is in it; each chunk has another, which would be searched.
        own = {"timestamp": row.timestamp} if rest.get("timestamp") == row.timestamp else {}
        rest = {key: value for key, value in rest.items() if key not in own}
        clean_rows.append(_with_content(row, {**redactor.json(rest), **own, "text": next(texts[row.type])}))
    return clean_rows


def _redact_tools(rows: list[Row], redactor: Redactor) -> list[dict[str, Any]]:
    """Redact the events of tool calls, and secrets that are split over the updates of one call."""
    contents = [row.parsed() for row in rows if row.type in _TOOLS]
    blocks: dict[Any, list[dict[str, Any]]] = {}
    for content in contents:
        call = str(content.get("tool_call_id"))  # whatever an importer let through
        blocks.setdefault((call, "raw"), []).extend(text_blocks(content.get("raw")))
        blocks.setdefault((call, "fields"), []).extend(text_blocks({**content, "raw": None}))
    texts: dict[int, str] = {}
    for belonging_together in blocks.values():
        texts |= redactor.block_texts(belonging_together)
    clean: list[dict[str, Any]] = [redactor.json(content, texts) for content in contents]
    for content in clean:
        _copy_texts(content.get("raw"), content.get("tool_result"))
    return clean


def _copy_texts(update: Any, result: Any) -> None:
    """Give a tool's result the texts of the redacted update, from which it was made."""
    if not isinstance(update, dict) or not isinstance(result, dict) or "content" not in result:
        return
    before = result["content"]
    result["content"] = after = "\n".join(block["text"] for block in text_blocks(update.get("content")))
    if result.get("error") == before:
        result["error"] = after


def _redact_texts(rows: list[Row], type: str, before: str, redactor: Redactor) -> list[str]:
    return redactor.chunks([before, *(_text(row) for row in rows if row.type == type)], each=True)[1:]


def _text(row: Row) -> str:
    return str(row.parsed().get("text") or "")


def _with_content(row: Row, content: dict[str, Any]) -> Row:
    return row._replace(content=orjson.dumps(content).decode())


def redact_table_row(row: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Return a row of a table other than the events, redacted; also what is in it as JSON."""
    clean = redactor.json(row)
    for column in _JSON_COLUMNS:
        if isinstance(row.get(column), str):
            try:
                clean[column] = orjson.dumps(redactor.json(orjson.loads(row[column]))).decode()
            except orjson.JSONDecodeError:
                pass
    return dict(clean)
