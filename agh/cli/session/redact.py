"""`agh session redact`"""

from __future__ import annotations

from typing import Any

import click

from agh.console.output import output_option, write_result
from agh.sessions.update import redact
from agh.store import sessions


@click.command(
    "redact",
    epilog="\b\nExamples:\n  agh session redact @last evt-000042\n"
    "  agh session redact @last $(agh session search KEY -o json | jq -r '.matches[].event_id')",
)
@click.argument("id")
@click.argument("events", nargs=-1, required=True, metavar="EVENT...")
@output_option()
def redact_command(id: str, events: tuple[str, ...], output: str) -> None:
    """Hide the text of messages, tool calls, questions or markers.

    EVENT is an event id from `transcript` or `events`; agh hides the whole message that it belongs to. The
    text no longer appears in anything agh shows or copies: transcript, events, recap, search, db, export,
    fork, the web page. The log is never edited, so events.db still has the text, and so does the agent's own
    memory.
    """
    redactions = redact(sessions.resolve(id), events)
    write_result(
        "redacted", redactions, output, lambda: "\n".join(map(_line, redactions)) or "already hidden"
    )


def _line(entry: dict[str, Any]) -> str:
    count = len(entry["events"])
    return f"{entry['marker_id']}  {count} event{'' if count == 1 else 's'} hidden"
