"""`agh session usage`"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from agh.console import terminal
from agh.console.output import columns, output_option, write_result
from agh.errors import AghError
from agh.home import Session
from agh.store import sessions
from agh.store.meta import Meta
from agh.store.reader import Reader

SUMS = (
    "input_tokens",
    "output_tokens",
    "thought_tokens",
    "cached_read_tokens",
    "cached_write_tokens",
    "total_tokens",
)
_COLUMNS = ("turn_id", *SUMS, "context_used", "context_size", "cost_amount", "cost_currency", "timestamp")
BAR = 30


@click.command("usage", epilog="Example:  agh session usage --by day -o json")
@click.argument("id", required=False)
@click.option(
    "--by",
    type=click.Choice(("session", "turn", "agent", "workspace", "day", "model")),
    help="Group by this (default: turn with ID, else session).",
)
@output_option()
def usage_command(id: str | None, by: str | None, output: str) -> None:
    """Show tokens and cost of one session or of all.

    With ID, lists the turns of that session; without ID, lists all sessions. --by changes the grouping.

    A figure that the agent did not report is null in JSON and - in the table, never zero.
    """
    entries = [(session, meta) for session, meta in sessions.scan() if not isinstance(meta, AghError)]
    if id is not None:
        wanted = sessions.resolve(id)
        entries = [(session, meta) for session, meta in entries if session == wanted]
    rows = total(read_usage(entries), by or ("turn" if id else "session"))
    write_result("usage", rows, output, lambda: format_usage(rows))


def read_usage(entries: list[tuple[Session, Meta]]) -> Iterator[dict[str, Any]]:
    """Yield a record for each turn that reported usage."""
    for session, meta in entries:
        try:
            with Reader(session) as reader:
                rows = reader.fetch(
                    f"SELECT {', '.join(_COLUMNS)} FROM token_usage ORDER BY timestamp, turn_id"
                )
        except AghError:
            continue
        for row in rows:
            record = dict(zip(_COLUMNS, row, strict=True))
            yield record | {
                "session": meta["id"],
                "turn": record["turn_id"],
                "agent": meta.get("agent_name"),
                "workspace": meta.get("workspace_path"),
                "model": meta.get("model"),
                "day": record["timestamp"][:10],
            }


def total(records: Iterator[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    """Sum per group, and per currency in a group with several. A sum of only unknown values is unknown."""
    listed = list(records)
    currency = {
        record[by]: record["cost_currency"] for record in listed if record["cost_currency"] is not None
    }
    groups: dict[tuple[Any, Any], dict[str, Any]] = {}
    for record in listed:
        key = (record[by], record["cost_currency"] or currency.get(record[by]))
        group = groups.setdefault(key, {by: record[by], "turns": 0, "cost_currency": key[1]})
        group["turns"] += 1
        for name in (*SUMS, "cost_amount"):
            group[name] = add(group.get(name), record[name])
        group |= {name: record[name] for name in ("context_used", "context_size") if record[name] is not None}
    order = list(groups) if by == "turn" else sorted(groups, key=lambda key: tuple(map(str, key)))
    return [groups[key] for key in order]


def add(left: float | None, right: float | None) -> float | None:
    return right if left is None else left if right is None else left + right


def format_usage(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    by = next(iter(rows[0]))
    most = max((row.get("total_tokens") or 0 for row in rows), default=0)
    cells = [
        (
            terminal.one_line(str(row[by] or "-"), 40),
            str(row["turns"]),
            _figure(row.get("input_tokens")),
            _figure(row.get("output_tokens")),
            _figure(row.get("total_tokens")),
            "-"
            if row.get("cost_amount") is None
            else f"{row['cost_amount']:.4f} {row['cost_currency'] or ''}".strip(),
            _bar(row.get("total_tokens"), most),
        )
        for row in rows
    ]
    header = (by.upper(), "TURNS", "IN", "OUT", "TOTAL", "COST", "")
    return columns(header, cells)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,}"


def _bar(value: float | None, most: float) -> str:
    return "█" * round(BAR * value / most) if terminal.is_fancy() and value and most else ""
