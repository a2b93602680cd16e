"""`agh session events`"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import click
import orjson

from agh.cli.look.event_line import event_line, stop_line
from agh.console import terminal
from agh.console.output import output_option, remark, write_bytes, write_lines, write_text
from agh.console.when import parse_time
from agh.core.events import TYPES, Row, envelopes, joined_envelopes
from agh.core.status import workspace_id
from agh.errors import DataDamaged, EventsMissing, MetaInvalid, Usage
from agh.home import Session
from agh.store import meta, sessions
from agh.store.follow import Batch, follow
from agh.store.follow.home import follow_home
from agh.store.reader import Query, Reader
from agh.store.views import stop_notice

MAX_SEQUENCE = (1 << 63) - 1
Printer = Callable[[Session, list[Row]], list[str]]


@click.command(
    "events",
    epilog="\b\nExamples:\n  agh session events @last --follow | jq -r .type\n"
    "  agh session events ID --where \"content->>'$.tool_name' = 'Bash'\" --last 5",
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Events of all sessions, ordered by time.")
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(TYPES),
    metavar="TYPE",
    help="Only events of this type. Repeatable.",
)
@click.option("--agent", help="Only events of this agent.")
@click.option("--turn", help="Only events of this turn.")
@click.option("--since", metavar="TIME", help="RFC 3339, or how long ago: 5m, 2h, 3d.")
@click.option(
    "--after", "--last-event-id", metavar="SEQ", default="0", help="Only events after this sequence number."
)
@click.option(
    "--last",
    "--limit",
    "last",
    type=click.IntRange(0, MAX_SEQUENCE),
    metavar="N",
    help="The newest N that match, oldest first.",
)
@click.option("--where", metavar="SQL", help="Only events for which this SQL expression is true.")
@click.option(
    "-f", "--follow", "following", is_flag=True, help="Keep printing new events until the session stops."
)
@click.option("--raw", is_flag=True, help="With --follow on a terminal: one line per event, as stored.")
@output_option("human", "json", "jsonl", "sse", default=None)
def events_command(
    ids: tuple[str, ...],
    everything: bool,
    types: tuple[str, ...],
    agent: str | None,
    turn: str | None,
    since: str | None,
    after: str,
    last: int | None,
    where: str | None,
    following: bool,
    raw: bool,
    output: str | None,
) -> None:
    """Print the stored events of one or more sessions.

    Prints readable text on a terminal and one JSON object per line in a pipe. On a terminal, --follow joins
    the chunks of a message into whole lines.
    """
    if not after.isdecimal() or int(after) > MAX_SEQUENCE:
        raise Usage(f"--after: {after!r} is not a sequence number", hint="agh session events ID --after 42")
    if not ids and not everything:
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param=context.command.params[0])  # on a terminal: pick one
    if ids and everything:
        raise Usage("give either session IDs or --all, not both", hint="agh session events @last")
    query = Query(types, agent, turn, parse_time(since, "--since") if since else None, where)
    output = output or ("human" if terminal.is_terminal() else "jsonl")
    if output == "json" and following:
        raise Usage("--follow never ends, so it cannot print one JSON document", hint="use -o jsonl")
    write = _writer(output)
    is_joined = following and not raw and output == "human" and terminal.is_terminal()
    if everything and following:
        printer = _joiner(True) if is_joined else _printer(output, True)
        _follow_home(query, int(after), last, printer, write)
        return
    selected, damaged = _all_sessions() if everything else (_resolve(ids), [])
    printer = _joiner(len(selected) > 1) if is_joined else _printer(output, len(selected) > 1)
    is_dump = output == "jsonl" and not following and last is None and not terminal.is_terminal()
    if is_dump and len(selected) == 1:
        _dump(selected[0], query, int(after))
    elif following:
        _follow(selected, query, int(after), last, printer, write)
    else:
        pages = _read_stored(selected, query, int(after), last, printer)
        for lines in _document(pages) if output == "json" else pages:
            write(lines)
    for error in damaged:
        _tell_damage(error)
    if damaged:
        raise click.exceptions.Exit(DataDamaged.exit)


def _writer(output: str) -> Callable[[list[str]], None]:
    return (
        (lambda lines: write_text("".join(f"{line}\n" for line in lines)))
        if output == "human"
        else write_lines
    )


def _resolve(ids: tuple[str, ...]) -> list[Session]:
    return list(dict.fromkeys(map(sessions.resolve, ids)))


def _all_sessions() -> tuple[list[Session], list[DataDamaged]]:
    """Return every session that can be read, and the errors of the others."""
    readable, damaged = [], []
    for session, metadata in sessions.scan():
        try:
            if isinstance(metadata, MetaInvalid):
                raise metadata
            Reader(session).close()
            readable.append(session)
        except DataDamaged as error:
            damaged.append(error)
    return readable, damaged


def _dump(session: Session, query: Query, after: int) -> None:
    """Write all events of a session as JSON lines: the same as `_read_stored`, in half the time."""
    with Reader(session) as reader:
        splice = partial(joined_envelopes, envelope_of=(session.id, *_workspace(session)), plain=set())
        for text in reader.spliced(splice, query, after):
            write_bytes(text)


def _read_stored(
    selected: list[Session], query: Query, after: int, last: int | None, printer: Printer
) -> Iterator[list[str]]:
    """Yield pages of lines: one session in order of sequence, several in order of time."""
    if len(selected) == 1:
        with Reader(selected[0]) as reader:
            pages = reader.pages(query, after) if last is None else [reader.newest(query, last, after)]
            for rows in filter(None, pages):
                yield printer(selected[0], rows)
        return
    merged: Iterator[tuple[str, Session, Row]] = heapq.merge(
        *(_read_timed(session, query, after, last) for session in selected),
        key=lambda entry: (entry[0], entry[1].id, entry[2].sequence),
    )
    if last is not None:
        merged = iter(list(merged)[-last:] if last else [])
    while page := list(islice(merged, 1000)):
        yield [line for _, session, row in page for line in printer(session, [row])]


def _read_timed(
    session: Session, query: Query, after: int, last: int | None
) -> Iterator[tuple[str, Session, Row]]:
    """Yield a session's rows for merging, with the log open only while a page is read."""
    latest = ""
    while True:
        try:
            with Reader(session) as reader:
                if last is not None:
                    rows = reader.newest(query, last, after)
                else:
                    rows = reader.page(query, after, reader.last_sequence(), limit=64)
        except EventsMissing:
            return
        for row in rows:
            latest = max(latest, row.timestamp)  # a clock that went back must not unsort the merge
            yield latest, session, row
        if last is not None or not rows:
            return
        after = rows[-1].sequence


def _follow(
    selected: list[Session],
    query: Query,
    after: int,
    last: int | None,
    printer: Printer,
    write: Callable[[list[str]], None],
) -> None:
    positions = []
    for session in selected:
        start = after
        if last is not None:
            with Reader(session) as reader:
                start = reader.last_sequence()
                rows = reader.newest(query, last, after, start) if last else []
            if rows:
                write(printer(session, rows))
        positions.append((session, start))
    _print_batches(follow(positions, query, output=_pipe(), on_polling=remark), printer, write)


def _follow_home(
    query: Query,
    after: int,
    last: int | None,
    printer: Printer,
    write: Callable[[list[str]], None],
) -> None:
    batches = follow_home(query, after, last, on_damage=_tell_damage, output=_pipe(), on_polling=remark)
    _print_batches(batches, printer, write)


def _print_batches(batches: Iterator[Batch], printer: Printer, write: Callable[[list[str]], None]) -> None:
    for batch in batches:
        if batch.session is None:
            continue  # a tick
        write(printer(batch.session, batch.rows))


def _tell_damage(error: DataDamaged) -> None:
    remark(f"left out: {error.message}")


def _pipe() -> int | None:
    """Return the descriptor of standard output if it has one: to see when its reader goes away."""
    try:
        return sys.stdout.fileno()
    except (OSError, ValueError):
        return None


def _joiner(many: bool) -> Printer:
    """Return a printer that joins the chunks of messages, for people."""
    from agh.cli.look.event_stream import EventStream

    return EventStream(many=many).lines


def _printer(output: str, many: bool) -> Printer:
    """Return a printer that prints each row; no rows mean that the session has stopped."""
    if output == "human":
        return lambda session, rows: (
            [(f"{session.id} " if many else "") + event_line(row) for row in rows]
            or [stop_line(session.id, stop_notice(session))]
        )
    workspaces: dict[Session, tuple[str | None, str | None]] = {}

    def as_json(session: Session, rows: list[Row]) -> list[str]:
        if not rows:
            return [_notice(session, output)]
        if session not in workspaces:
            workspaces[session] = _workspace(session)
        lines = envelopes(rows, session.id, *workspaces[session])
        if output != "sse":
            return list(lines)
        return [
            f"id: {row.sequence}\nevent: {row.type}\ndata: {line}\n"
            for row, line in zip(rows, lines, strict=True)
        ]

    return as_json


def _workspace(session: Session) -> tuple[str | None, str | None]:
    metadata = meta.read(session)
    return workspace_id(metadata), metadata.get("workspace_path")


def _notice(session: Session, output: str) -> str:
    line = orjson.dumps(stop_notice(session)).decode()
    return f"event: session_stopped\ndata: {line}\n" if output == "sse" else line


def _document(pages: Iterator[list[str]]) -> Iterator[list[str]]:
    """Wrap pages of envelopes in one JSON document without holding them all."""
    comma, opening = "", '{"events":['
    for lines in pages:
        if lines:
            yield [opening + comma + ",\n".join(lines)]
            comma, opening = ",", ""
    yield [opening + "]}"]
