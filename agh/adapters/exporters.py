"""The built-in export formats. Each writes one file from the copy of a session; it never reads the session.

jsonl and db contain everything: metadata, events, usage, hook runs, inputs and permissions; they can be
imported again. markdown and html contain the conversation, for reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson

from agh.core.events import envelopes, timestamp
from agh.core.exchange import SCHEMA, Exporter, Snapshot
from agh.core.transcript import transcript

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # what a terminal would execute instead of show


def jsonl(snapshot: Snapshot, path: str) -> None:
    """Write one line for the session, one per event as `session events` prints it, one per other row."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in _lines(snapshot))


def _lines(snapshot: Snapshot) -> Iterator[str]:
    session = snapshot.session
    counts = {"events": snapshot.last_sequence, **{name: len(rows) for name, rows in snapshot.tables.items()}}
    yield orjson.dumps({"schema": SCHEMA, "session": session, "counts": counts}).decode()
    workspace = (session.get("workspace_id"), session.get("workspace_path"))
    yield from envelopes(snapshot.rows(), session["id"], *workspace)
    for table, rows in snapshot.tables.items():
        for row in rows:
            yield orjson.dumps({"table": table, "row": row}).decode()


def markdown(snapshot: Snapshot, path: str) -> None:
    """Write the conversation as Markdown, below a title and a list of facts."""
    from agh.core.markdown import markdown

    session = snapshot.session
    facts = {
        "session": session["id"],
        "agent": session.get("agent_name"),
        "workspace": session.get("workspace_path"),
        "created": session.get("created_at"),
        "updated": session.get("updated_at"),
    }
    title = " ".join(str(session.get("title") or session.get("name") or session["id"]).split())
    head = "\n".join(f"- {key}: {value}" for key, value in facts.items() if value)
    text = f"# {title}\n\n{head}\n\n{markdown(transcript(snapshot.rows()))}"
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(_CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text))


def html(snapshot: Snapshot, path: str) -> None:
    """Write the conversation as one HTML page."""
    from agh.adapters.html_page import page

    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(page(snapshot.session, transcript(snapshot.rows()), generated_at=timestamp()))


def database(snapshot: Snapshot, path: str) -> None:
    """Write a SQLite file with all tables."""
    snapshot.database(path)


EXPORTERS = (
    Exporter("jsonl", "everything, one JSON object per line; can be imported", jsonl, (".jsonl", ".ndjson")),
    Exporter("markdown", "the conversation, as Markdown", markdown, (".md", ".markdown")),
    Exporter("html", "the conversation, as one HTML page", html, (".html", ".htm")),
    Exporter("db", "everything, as a SQLite file; can be imported", database, (".db",), binary=True),
)
