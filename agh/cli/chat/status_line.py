"""The session in a few words: the header, the line below the input, and the line after each turn.

Promises: nothing is wider than the terminal; what does not fit is left out, the least important first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agh.console import terminal
from agh.core.named_tuple import NamedTuple
from agh.errors import AghError
from agh.home import Session
from agh.store.reader import Reader
from agh.store.views import session_view

SEPARATOR = " · "
FEW_DIGITS = 0.1  # of money; less than this has more digits
_USAGE = ("input_tokens", "output_tokens", "cost_amount", "cost_currency", "context_used", "context_size")
_ORDINARY = ("end_turn", "")


class Facts(NamedTuple):
    """What is known of a session between two turns."""

    name: str
    agent: str
    model: str
    mode: str
    directory: str
    context: str
    cost: str


def read_facts(session: Session) -> Facts:
    """Read what the header and the status line say."""
    view = session_view(session)
    current = view.get("current") or {}
    usage = _read_usage(session, "ORDER BY timestamp DESC LIMIT 1")
    spent = view.get("spent") or {}
    return Facts(
        name=_word(view.get("name") or view.get("title") or view["id"], 60),
        agent=_word(view.get("agent_name"), 40),
        model=_word(current.get("model") or view.get("model"), 40),
        mode=_word(current.get("mode") or view.get("mode"), 40),
        directory=_word(_short_path(str(view.get("workspace_path") or "")), 200),
        context=format_context(usage),
        cost=format_cost(spent.get("cost_amount"), spent.get("cost_currency")),
    )


def header(facts: Facts, width: int) -> str:
    """Return the lines at the top of the chat: the name, what it runs on, where, and how to get help."""
    details = join([facts.agent, facts.model, facts.mode, facts.context, facts.cost], width)
    directory = terminal.cut(facts.directory, width)
    lines = [terminal.styled(terminal.cut(facts.name, width), "title"), details, directory]
    lines.append(
        terminal.styled(terminal.cut("/help lists keys and commands; Ctrl-D leaves", width), "muted")
    )
    return "".join(f"{line}\n" for line in lines if line) + "\n"


def status_text(facts: Facts, state: str, width: int) -> str:
    """Return the line below the input: what the session does, then what it runs on."""
    parts = [state, facts.name, facts.model or facts.agent, facts.mode, facts.context, facts.cost]
    return join(parts, width)


def join(parts: list[str], width: int) -> str:
    """Join what fits, from the left; the first part is cut if it must be."""
    text = ""
    for part in filter(None, parts):
        longer = f"{text}{SEPARATOR}{part}" if text else terminal.cut(part, width)
        if terminal.display_width(longer) <= width:
            text = longer
    return text


def footer(session: Session, turn_id: str, started: str, ended: str, stop_reason: str, width: int) -> str:
    """Return the line after a turn: how long it took, what it used, and how it ended if not as usual."""
    usage = _read_usage(session, "WHERE turn_id = ?", turn_id)
    parts = [_seconds(started, ended)]
    if usage.get("input_tokens") is not None or usage.get("output_tokens") is not None:
        parts.append(f"{usage.get('input_tokens') or 0:,} in {usage.get('output_tokens') or 0:,} out")
    parts.append(format_cost(usage.get("cost_amount"), usage.get("cost_currency")))
    parts.append(format_context(usage))
    if stop_reason not in _ORDINARY:
        parts.insert(0, terminal.one_line(stop_reason.replace("_", " "), 40))
    return terminal.styled(join(parts, width), "muted")


def format_error(error: AghError) -> str:
    """Return a failure and what to do about it."""
    message = terminal.styled(terminal.clean(error.message), "error")
    return f"{message}\n{terminal.styled(terminal.clean(error.hint), 'muted')}" if error.hint else message


def format_cost(amount: float | None, currency: str | None) -> str:
    """Return an amount of money; empty if it is unknown."""
    if amount is None:
        return ""
    figure = f"{amount:.2f}" if amount >= FEW_DIGITS else f"{amount:.4f}"
    return f"${figure}" if currency in (None, "USD") else f"{figure} {terminal.one_line(currency, 5)}"


def format_context(usage: Mapping[str, Any]) -> str:
    """Return how full the agent's context is; empty if that is unknown."""
    used, size = usage.get("context_used"), usage.get("context_size")
    return f"context {100 * used / size:.0f} %" if used is not None and size else ""


def _read_usage(session: Session, where: str, *values: str) -> dict[str, Any]:
    with Reader(session) as reader:
        rows = reader.fetch(f"SELECT {', '.join(_USAGE)} FROM token_usage {where}", values)
    return dict(zip(_USAGE, rows[0], strict=True)) if rows else {}


def _seconds(started: str, ended: str) -> str:
    try:
        seconds = (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds()
    except ValueError:  # the start is not in the part of the log that was read
        return ""
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.0f} min {seconds % 60:.0f} s"


def _short_path(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path


def _word(value: Any, width: int) -> str:
    return terminal.one_line(str(value), width) if value else ""
