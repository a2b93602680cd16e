"""`agh compare`: one prompt over several agents

Each agent has a session of its own, run by an `agh run` of its own: they start and work side by side,
and one that fails or dies is a row of the result, never the end of the others.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from typing import Any

import click
import orjson

from agh.adapters import registry
from agh.cli.session.new import check_options, session_options
from agh.cli.session.prompt import prompt_blocks
from agh.console import terminal
from agh.console.output import columns, output_option, remark, write_result
from agh.console.when import parse_duration
from agh.errors import INTERRUPTED, AghError, Usage
from agh.store import sessions, workspaces
from agh.store.reader import Reader

TOKENS = ("input_tokens", "output_tokens", "total_tokens", "cost_amount", "cost_currency")


@click.command("compare", epilog="Example:  agh compare claude codex:gpt-5.5 'why does the login test fail?'")
@click.argument("words", nargs=-1, required=True, metavar="AGENT[:MODEL]... TEXT")
@session_options
@click.option("--file", type=click.File("r", encoding="utf-8"), help="Read the prompt from a file.")
@click.option("--timeout", metavar="TIME", help="Cancel turns that take longer than this.")
@click.option(
    "--retries",
    type=click.IntRange(0, 10),
    default=0,
    metavar="N",
    help="Retry up to N times if the model fails temporarily.",
)
@click.option("--keep", is_flag=True, help="Leave the sessions live afterwards.")
@output_option()
def compare(words: tuple[str, ...], file: Any, output: str, **options: Any) -> None:
    """Send one prompt to several agents and compare the answers.

    TEXT may be - to read standard input. All agents work in the same directory. They cannot ask you: whatever
    --permissions does not allow is refused. Exits 0 if every agent completed its turn. The sessions stay in
    the list.
    """
    named, text = (words, None) if file else (words[:-1], words[-1])
    if not named:
        raise Usage("name at least one agent and the prompt", hint="agh compare claude codex 'TEXT'")
    prompt = str(prompt_blocks(text, file)[0]["text"])
    start_options = {
        key: value for key, value in options.items() if key not in ("timeout", "retries", "keep")
    }
    check_options(**start_options)
    if options["timeout"]:
        parse_duration(options["timeout"], "--timeout")
    directory = workspaces.find_existing(options["workspace"]).path
    pairs = [name.partition(":")[::2] for name in named]
    for agent, _ in pairs:
        registry.agent(agent, directory)
    rows = run_all(pairs, prompt, _as_arguments(click.get_current_context()), quiet=output != "human")
    write_result("answers", rows, output, lambda: _table(rows) + "".join(map(_answer, rows)))
    codes = {row["exit"] for row in rows if row["exit"]}
    if codes:
        raise click.exceptions.Exit(codes.pop() if len(codes) == 1 else 1)


def run_all(
    pairs: list[tuple[str, str]], prompt: str, options: list[str], *, quiet: bool
) -> list[dict[str, Any]]:
    """Run all agents at once; return a row for each, in the order named. Ctrl-C cancels what still runs."""
    rows: list[dict[str, Any]] = [{} for _ in pairs]
    running: list[subprocess.Popen[bytes]] = []
    command = [sys.executable, "-P", "-m", "agh", "run", "-", "-o", "json", "--no-ask", *options]

    def collect(number: int, agent: str, model: str, process: subprocess.Popen[bytes], began: float) -> None:
        out, errors = process.communicate(prompt.encode())
        seconds = round(time.monotonic() - began, 3)
        rows[number] = {"agent": agent, "model": model or None} | outcome(out, errors, process.returncode)
        rows[number]["total_seconds"] = seconds
        if not quiet and sys.stderr.isatty():
            left = sum(not row for row in rows)
            remark(
                f"{_name(rows[number])} is done after {seconds:.1f} s" + (f"; {left} to go" if left else "")
            )

    def pressed(*_: object) -> None:
        for process in running:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, pressed)
    try:
        threads = []
        for number, (agent, model) in enumerate(pairs):
            argv = [*command, "--agent", agent, *(["--model", model] if model else [])]
            pipe = subprocess.PIPE
            # In its own process session: Ctrl-C reaches it once, through us.
            process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
            running.append(process)
            threads.append(
                threading.Thread(target=collect, args=(number, agent, model, process, time.monotonic()))
            )
            threads[-1].start()
        for thread in threads:
            thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    return rows


def outcome(out: bytes, errors: bytes, code: int) -> dict[str, Any]:
    """Make a row from what `agh run -o json` printed; what it did not print is None."""
    turn = _json(out).get("turn") or {}
    error = _json((errors.strip().splitlines() or [b""])[-1]).get("error")
    if code and not error:
        message = "interrupted" if code == INTERRUPTED else f"agh run exited with code {code}"
        error = {
            "code": "interrupted" if code == INTERRUPTED else "run_failed",
            "message": message,
            "hint": "",
        }
    return {
        "session_id": turn.get("session_id"),
        "turn_id": turn.get("turn_id"),
        "stop_reason": turn.get("stop_reason"),
        "text": turn.get("text"),
        "exit": code if code >= 0 else 1,
        "error": error,
        **_figures(turn),
    }


def _figures(turn: dict[str, Any]) -> dict[str, Any]:
    """Read the turn's own time, tokens and cost from its log."""
    figures: dict[str, Any] = dict.fromkeys(("seconds", *TOKENS))
    try:
        with Reader(sessions.resolve(str(turn["session_id"]))) as reader:
            rows = reader.fetch(
                f"SELECT {', '.join(TOKENS)} FROM token_usage WHERE turn_id = ?", [turn["turn_id"]]
            )
            ((began, ended),) = reader.fetch(
                "SELECT julianday(min(timestamp)), julianday(max(timestamp)) FROM events WHERE turn_id = ?",
                [turn["turn_id"]],
            )
    except (AghError, KeyError):
        return figures
    if rows:
        figures |= dict(zip(TOKENS, rows[0], strict=True))
    return figures | {"seconds": None if began is None else round((ended - began) * 86400, 3)}


def _json(text: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _as_arguments(ctx: click.Context) -> list[str]:
    """Return the options of this command as arguments for `agh run`."""
    words: list[str] = []
    for param in ctx.command.params:
        value = ctx.params.get(str(param.name))
        if (
            not isinstance(param, click.Option)
            or param.name in ("output", "file")
            or value in (None, (), False)
        ):
            continue
        for item in value if isinstance(value, tuple) else (value,):
            words += [param.opts[0]] if item is True else [param.opts[0], str(item)]
    return words


def _table(rows: list[dict[str, Any]]) -> str:
    room = max(20, terminal.width() - 62) if terminal.is_terminal() else 60
    cells = [
        (
            terminal.one_line(_name(row), 24),
            "-" if row["seconds"] is None else f"{row['seconds']:.1f}s",
            str(row["total_tokens"] if row["total_tokens"] is not None else "-"),
            "-"
            if row["cost_amount"] is None
            else f"{row['cost_amount']:.4f} {row['cost_currency'] or ''}".strip(),
            str(row["session_id"] or "-"),
            terminal.one_line(_answer_or_error(row), room),
        )
        for row in rows
    ]
    return columns(("AGENT", "TIME", "TOKENS", "COST", "SESSION", "ANSWER"), cells)


def _answer(row: dict[str, Any]) -> str:
    """Format the whole answer below a heading; return nothing for one that fits in the table."""
    text = str(row["text"] or "").strip()
    if row["error"] or (len(text) <= 40 and "\n" not in text):
        return ""
    return f"\n{terminal.styled('== ' + terminal.clean(_name(row)), 'title')}\n{terminal.clean(text)}\n"


def _name(row: dict[str, Any]) -> str:
    return f"{row['agent']}:{row['model']}" if row["model"] else str(row["agent"])


def _answer_or_error(row: dict[str, Any]) -> str:
    return f"failed: {row['error'].get('message')}" if row["error"] else str(row["text"] or "(nothing)")
