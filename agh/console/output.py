"""How commands print results: the -o option, JSON documents, JSON lines and aligned columns.

Results go to stdout, remarks to stderr. JSON is UTF-8 whatever the locale. On a terminal, characters that
could control it are escaped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agh.console import terminal
from agh.errors import OutputFailed

if TYPE_CHECKING:
    from agh.home import Session

F = TypeVar("F", bound=Callable[..., Any])


class _OutputOption(click.Option):
    """The option -o. click looks for a long option of that name first, and for words like it in difflib.

    Being found there saves 1 ms.
    """

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        parser._long_opt["-o"] = parser._short_opt["-o"]


def output_option(*choices: str, default: str | None = "human") -> Callable[[F], F]:
    return click.option(
        "-o",
        "--output",
        cls=_OutputOption,
        type=click.Choice(choices or ("human", "json", "jsonl")),
        default=default,
        show_default=default is not None,
        help="Output format.",
    )


def write_text(text: str) -> None:
    """Write text that has already been cleaned to stdout."""
    with _reporting_failure():
        sys.stdout.write(text)
        sys.stdout.flush()


def write_utf8(text: str) -> None:
    """Write text as UTF-8 to stdout, whatever the locale."""
    write_bytes(text.encode())


def write_bytes(*pieces: bytes) -> None:
    with _reporting_failure():
        sys.stdout.flush()
        sys.stdout.buffer.writelines(pieces)
        sys.stdout.buffer.flush()


@contextmanager
def _reporting_failure() -> Iterator[None]:
    """Turn a failed write, such as on a full disk, into OutputFailed; let a broken pipe through."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(error.strerror) from None


def write_lines(lines: Iterable[str]) -> None:
    """Write JSON lines as UTF-8 and flush them, so that a reader gets whole lines."""
    data = "\n".join(lines)
    if not data:
        return
    if terminal.is_terminal():
        data = "\n".join(map(terminal.clean_json, data.split("\n")))
    write_utf8(data + "\n")


def write_json(value: Any, *, lines: bool = False) -> None:
    """Write one JSON document, indented on a terminal and compact in a pipe."""
    import orjson  # text for people needs none (3 ms)

    option = orjson.OPT_INDENT_2 if terminal.is_terminal() and not lines else 0
    write_lines([orjson.dumps(value, option=option).decode()])


def write_result(noun: str, value: Any, output: str, human: Callable[[], str]) -> None:
    """Write a result: `{noun: value}` as json, `value` line by line as jsonl, or the text from `human`."""
    if output == "json":
        write_json({noun: value})
    elif output == "jsonl":
        for record in value if isinstance(value, list) else [value]:
            write_json(record, lines=True)
    else:
        text = human()
        write_text(text if text.endswith("\n") or not text else text + "\n")


def write_documents(noun: str, documents: Sequence[bytes | memoryview], output: str) -> None:
    """Write what `write_result` would write for these values as json or jsonl; they are JSON already."""
    if terminal.is_terminal():
        import orjson

        write_result(noun, list(map(orjson.loads, documents)), output, str)
    elif output == "jsonl":
        write_bytes(b"".join([b"%s\n" % document for document in documents]))
    else:
        write_bytes(b'{"%s":[' % noun.encode(), b",".join(documents), b"]}\n")


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format left-aligned columns of text that has already been cleaned."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]
    return "\n".join(lines) + "\n"


def remark(text: str) -> None:
    """Print a remark for the user on stderr."""
    print(terminal.clean(text), file=sys.stderr, flush=True)


class Spinner:
    """Shows that a session starts; this one shows nothing, as nobody watches."""

    def __enter__(self) -> Spinner:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def begin(self, agent: str) -> None:
        """Note that an agent starts now."""

    def aside(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        """Return the callback so that the spinner is gone while it prints and asks."""
        return callback


def starting(session: Session | None = None) -> Spinner:
    """Return a block in which a session may start: a spinner says so if that takes long, on a terminal."""
    if not sys.stderr.isatty():
        return Spinner()
    from agh.console.starting import Starting

    return Starting(session)
