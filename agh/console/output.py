"""How results leave a command: the -o option, JSON documents, JSON lines and aligned columns.

stdout is data, stderr is talk. JSON is UTF-8 whatever the locale. On a terminal, characters that
could act on it are escaped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click
import orjson

from agh.console import terminal
from agh.errors import OutputFailed

F = TypeVar("F", bound=Callable[..., Any])


def output_option(*choices: str, default: str | None = "human") -> Callable[[F], F]:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(choices or ("human", "json", "jsonl")),
        default=default,
        show_default=default is not None,
        help="Output format.",
    )


def write_text(text: str) -> None:
    """Text for stdout that was already made safe."""
    with _told():
        sys.stdout.write(text)
        sys.stdout.flush()


def write_utf8(text: str) -> None:
    """Text that says of itself that it is UTF-8, whatever the locale."""
    with _told():
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()


@contextmanager
def _told() -> Iterator[None]:
    """A full disk is no bug of ours; a reader that went away is the funnel's business."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(error.strerror) from None


def write_lines(lines: Iterable[str]) -> None:
    """JSON lines as UTF-8, flushed: a reader gets whole lines."""
    data = "\n".join(lines)
    if not data:
        return
    if terminal.is_terminal():
        data = "\n".join(map(terminal.clean_json, data.split("\n")))
    write_utf8(data + "\n")


def write_json(value: Any, *, lines: bool = False) -> None:
    """One JSON document; indented for a person at a terminal, compact in a pipe."""
    option = orjson.OPT_INDENT_2 if terminal.is_terminal() and not lines else 0
    write_lines([orjson.dumps(value, option=option).decode()])


def write_result(noun: str, value: Any, output: str, human: Callable[[], str]) -> None:
    """A command's result: `{noun: value}` as json, `value` line by line as jsonl, or for people."""
    if output == "json":
        write_json({noun: value})
    elif output == "jsonl":
        for one in value if isinstance(value, list) else [value]:
            write_json(one, lines=True)
    else:
        text = human()
        write_text(text if text.endswith("\n") or not text else text + "\n")


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns of text that was already cleaned."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]
    return "\n".join(lines) + "\n"


def talk(text: str) -> None:
    """A remark for the person, on stderr."""
    print(terminal.clean(text), file=sys.stderr, flush=True)
