"""A copy of a session with its secrets hidden. Pure.

A secret that came in pieces is hidden too: the chunks of a turn are looked at together, whatever came
between them, as far as memory allows. The agent's own form of a chunk (`raw`) is left out, since the pieces
in it cannot be hidden. As good as `core.redact`, and no better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import orjson

from agh.core.events import TURN_END_TYPES, Row
from agh.core.exchange import Copy
from agh.core.redact import LONGEST, Redactor

_CHUNKS = ("agent_message", "thought")
_BOUNDS = ("user_message", *TURN_END_TYPES)
MOST_ROWS, MOST_CHARACTERS = 1000, 4 << 20  # that are held back until their turn has ended
_LAST_ROWS = 100  # of those: held back further, since what they begin may go on
_JSON_COLUMNS = ("prompt", "request")


def redacted(copy: Copy, redactor: Redactor) -> Copy:
    """The copy as it may be shown; its `database` is still the caller's to replace."""
    tables = {name: [_row(row, redactor) for row in rows] for name, rows in copy.tables.items()}
    return replace(
        copy,
        session=redactor.json(copy.session),
        tables=tables,
        rows=lambda: redacted_rows(copy.rows(), redactor),
    )


def redacted_rows(rows: Iterable[Row], redactor: Redactor) -> Iterator[Row]:
    """Yield the same events, none missing; what streams is held back until its turn has ended."""
    held: list[Row] = []
    size = 0
    before = dict.fromkeys(_CHUNKS, "")  # the end of what was yielded of this turn
    for row in rows:
        if held and (row.type in _BOUNDS or (row.turn_id and row.turn_id != held[-1].turn_id != "")):
            yield from _redacted(held, before, redactor)
            held, size, before = [], 0, dict.fromkeys(_CHUNKS, "")
        held.append(row)
        size += len(row.content)
        if len(held) >= MOST_ROWS or size > MOST_CHARACTERS:
            count = len(held) - (_LAST_ROWS if size <= MOST_CHARACTERS else 0)
            yield from _redacted(held, before, redactor)[:count]
            for type in _CHUNKS:
                text = before[type] + "".join(_text(row) for row in held[:count] if row.type == type)
                before[type] = text[-LONGEST:]
            held = held[count:]
            size = sum(len(row.content) for row in held)
    yield from _redacted(held, before, redactor)


def _redacted(rows: list[Row], before: dict[str, str], redactor: Redactor) -> list[Row]:
    out = []
    texts = {type: iter(_texts(rows, type, before[type], redactor)) for type in _CHUNKS}
    for row in rows:
        content = row.parsed()
        if row.type not in _CHUNKS:
            out.append(_with(row, redactor.json(content)))
            continue
        rest = {key: value for key, value in content.items() if key not in ("raw", "text")}
        out.append(_with(row, {**redactor.json(rest), "text": next(texts[row.type])}))
    return out


def _texts(rows: list[Row], type: str, before: str, redactor: Redactor) -> list[str]:
    return redactor.chunks([before, *(_text(row) for row in rows if row.type == type)])[1:]


def _text(row: Row) -> str:
    return str(row.parsed().get("text") or "")


def _with(row: Row, content: dict[str, Any]) -> Row:
    return row._replace(content=orjson.dumps(content).decode())


def _row(row: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    clean = redactor.json(row)
    for column in _JSON_COLUMNS:
        if isinstance(row.get(column), str):
            try:
                clean[column] = orjson.dumps(redactor.json(orjson.loads(row[column]))).decode()
            except orjson.JSONDecodeError:
                pass
    return dict(clean)
