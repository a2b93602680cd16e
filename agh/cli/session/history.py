"""`agh session history`"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import click

from agh.cli.session.events import _workspace
from agh.console import terminal
from agh.console.output import output_option, write_lines, write_text
from agh.console.when import local
from agh.core.history import Turn, turn_json, turns
from agh.core.transcript import transcript
from agh.store import sessions
from agh.store.reader import Reader


@click.command("history", epilog="Example:  agh session history @last -o json | jq '.turns[-1].stop_reason'")
@click.argument("id")
@click.option(
    "--last", "--limit", "last", type=click.IntRange(min=1), metavar="N", help="Only the newest N turns."
)
@output_option()
def history_command(id: str, last: int | None, output: str) -> None:
    """Show a session's events grouped by turn."""
    session = sessions.resolve(id)
    with Reader(session) as reader:
        selection = turns(reader.rows())
    selection = selection[-last:] if last else selection
    if output == "human":
        now = datetime.now(UTC)
        write_text("".join(f"{describe(turn, now)}\n" for turn in selection))
        return
    envelope = (reader.session_id, *_workspace(session))
    if output == "jsonl":
        write_lines(turn_json(turn, envelope) for turn in selection)
    else:
        write_lines(['{"turns":[' + ",".join(turn_json(turn, envelope) for turn in selection) + "]}"])


def describe(turn: Turn, now: datetime) -> str:
    """Return a turn in lines: when it was in local time and how it ended, then what was said."""
    return "\n".join([_headline(turn, now), *_conversation(turn)])


def _headline(turn: Turn, now: datetime) -> str:
    state = turn.stop_reason or "open"
    line = f"{turn.turn_id}  {local(turn.started_at, now)}  {state}  {len(turn.rows)} events"
    return terminal.styled(terminal.clean(line), "title")


def _conversation(turn: Turn) -> Iterator[str]:
    marks = {"user": ">", "assistant": "<", "tool_call": "*", "marker": "!"}
    for message in transcript(turn.rows):
        if message["role"] in marks:
            content = message.get("content") or message.get("title") or message.get("summary") or ""
            text = content or message.get("tool_name") or message.get("thinking") or ""
            yield f"  {marks[message['role']]} {terminal.one_line(str(text), terminal.width() - 4)}"
