"""A copy of a session with its secrets hidden. Pure.

A secret that came in pieces is hidden too: the chunks of an answer are looked at together. The agent's
own form of a chunk (`raw`) is left out, since the pieces in it cannot be. As good as `core.redact`, and
no better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import orjson

from agh.core.events import Row
from agh.core.exchange import Copy
from agh.core.redact import Redactor

_CHUNKS = ("agent_message", "thought")
_PASSING = ("usage", "runtime_progress", "runtime_warning", "permission")
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
    """The same events, none missing; what streams is held back until the message has ended."""
    held: list[Row] = []
    for row in rows:
        if row.type in _CHUNKS or (held and row.type in _PASSING):
            held.append(row)
            continue
        yield from _message(held, redactor)
        held = []
        yield _with(row, redactor.json(row.parsed()))
    yield from _message(held, redactor)


def _message(rows: list[Row], redactor: Redactor) -> list[Row]:
    out = list(rows)
    for type in _CHUNKS:
        places = [place for place, row in enumerate(rows) if row.type == type]
        contents = [rows[place].parsed() for place in places]
        texts = redactor.chunks([str(content.get("text") or "") for content in contents])
        for place, content, text in zip(places, contents, texts, strict=True):
            rest = {key: value for key, value in content.items() if key not in ("raw", "text")}
            out[place] = _with(rows[place], {**redactor.json(rest), "text": text})
    return [row if row.type in _CHUNKS else _with(row, redactor.json(row.parsed())) for row in out]


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
