"""`agh session prompt`"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from agh.cli.turn import TimeLimit, send_and_tell, show_turns
from agh.console.output import output_option, remark, write_json, write_text
from agh.console.when import parse_duration
from agh.errors import AghError, NothingToContinue, SessionNotFound, Usage
from agh.home import Session
from agh.store import meta, sessions


def prompt_options(command: Any) -> Any:
    """Add what `prompt` and `run` share: where the text comes from and how the turn is shown."""
    for option in (
        output_option("human", "text", "json", "jsonl"),
        click.option("--timeout", metavar="TIME", help="Cancel the turn and give up after this long."),
        click.option(
            "--retries",
            type=click.IntRange(0, 10),
            default=0,
            metavar="N",
            help="Retry up to N times if the model fails temporarily (overloaded, timed out) before it "
            "answers.",
        ),
        click.option(
            "--park",
            is_flag=True,
            help="At a usage limit, keep the prompt in the queue until it resets (exit 10).",
        ),
        click.option("--wait", is_flag=True, help="Like --park, but wait until the turn is complete."),
        click.option(
            "--no-ask",
            is_flag=True,
            help="Do not wait for answers: refuse what --permissions does not allow, and decline "
            "the agent's questions.",
        ),
        click.option(
            "--attach", multiple=True, metavar="FILE", help="Attach an image or a file. Repeatable."
        ),
        click.option("--file", type=click.File("r", encoding="utf-8"), help="Read the prompt from a file."),
        click.argument("input", required=False, metavar="[-]", callback=_check_dash),
        click.argument("text", required=False),
    ):
        command = option(command)
    return command


def _check_dash(context: click.Context, _: click.Parameter, word: str | None) -> str | None:
    """Refuse any word but - behind the prompt."""
    if word not in (None, "-"):
        raise click.UsageError(f"Got unexpected extra argument ({word})", context)
    return word


continue_option = click.option(
    "-c", "--continue", "continues", is_flag=True, help="Use the newest session in this directory."
)


@click.command(
    "prompt",
    epilog="\b\nExamples:\n  agh session prompt fix-login 'why does the login test fail?'\n"
    "  agh session prompt --continue 'now fix it'\n"
    "  agh session prompt @last --file task.md --attach screen.png\n"
    "  git diff | agh session prompt fix-login 'review this' -\n"
    "  agh session prompt @last 'stop that, look at the clock first' --steer\n"
    "  agh session prompt @last 'run the tests' --detach --idempotency-key nightly-1",
)
@click.argument("id", required=False)
@prompt_options
@continue_option
@click.option(
    "--queue",
    "mode",
    flag_value="queue",
    default=True,
    help="Queue the prompt if the session is busy (default).",
)
@click.option(
    "--interrupt",
    "mode",
    flag_value="interrupt",
    help="Cancel the running turn and all queued prompts first.",
)
@click.option("--steer", "mode", flag_value="steer", help="Interject when the current tool call finishes.")
@click.option("--detach", is_flag=True, help="Return as soon as the prompt is safely queued.")
@click.option(
    "--idempotency-key", metavar="KEY", help="Send nothing if a prompt with this key was already sent."
)
def prompt_command(
    id: str | None,
    text: str | None,
    input: str | None,
    file: Any,
    continues: bool,
    attach: tuple[str, ...],
    timeout: str | None,
    retries: int,
    park: bool,
    wait: bool,
    no_ask: bool,
    mode: str,
    detach: bool,
    idempotency_key: str | None,
    output: str,
) -> None:
    """Send a prompt and show the turn live.

    If the session is busy, the prompt is queued. If it is not live, it is resumed first. With --continue,
    leave out ID. Ctrl-C cancels the turn; press it again to leave without waiting.

    With - as TEXT, the prompt is read from standard input. With - after TEXT, standard input is added to it,
    between fences.

    With --park, a prompt that reaches a usage limit waits in the queue. The command prints the time of
    the reset and exits 10. `agh session wait` waits for it, `agh session cancel` cancels it. agh-cron(7)
    explains what happens if the session is not live by then.
    """
    if continues:
        if id is not None and (text not in (None, "-") or file is not None):
            raise Usage("--continue takes no ID", hint="agh prompt -c TEXT")
        id, text, input = None, id, text
    elif id is None:
        from agh.cli.guide.which import session_missing

        raise session_missing(click.get_current_context())
    elif text is None and file is None and _is_text(id):
        import shlex

        hint = f"{click.get_current_context().command_path} --continue {shlex.quote(id)}"
        raise Usage("name a session and a prompt, or use --continue", hint=hint)
    seconds = parse_duration(timeout, "--timeout") if timeout else None
    blocks = prompt_blocks(text, file, input, limit=seconds)
    with TimeLimit(seconds) as limit:
        session = newest_here() if id is None else sessions.resolve(id)
        blocks += attachments(attach, session)
        options: dict[str, Any] = {"mode": mode, "idempotency_key": idempotency_key, "retries": retries}
        options |= {"park": park or wait, "watched": not detach, "deadline": limit.deadline}
        receipt = send_and_tell(session, blocks, refuse=no_ask, **options)
        if not detach:
            if receipt["status"] == "queued" and not receipt.get("resumes_at"):
                why = (
                    "the agent is waiting for a slot"
                    if receipt.get("waits_for_slot")
                    else "the session is busy"
                )
                remark(f"{why}; the prompt waits in its queue")
            raise click.exceptions.Exit(show_turns(session, receipt, output, limit, wait=wait, refuse=no_ask))
    if output in ("json", "jsonl"):
        write_json({"input": receipt})
    else:
        write_text(f"{receipt['turn_id']}\n")


def newest_here() -> Session:
    """Return the newest session in use here."""
    session = sessions.newest(os.path.realpath(sessions.working_directory()))
    if session is None:
        raise NothingToContinue()
    return session


def _is_text(word: str) -> bool:
    """Tell whether a word in place of a session's id must be the prompt."""
    if word.startswith(("@", "sess-")):
        return False
    try:
        sessions.resolve(word)
    except SessionNotFound:
        return True
    except AghError:
        pass
    return False


def prompt_blocks(
    text: str | None,
    file: Any,
    input: str | None = None,
    *,
    limit: float | None = None,
    takes_pipe: bool = False,
) -> list[dict[str, Any]]:
    """Return the prompt: the text, or standard input, or both if `input` is a dash or a pipe is taken."""
    if file is not None and text == "-":
        text, input = None, "-"
    if (text is None) == (file is None):
        help = f"{click.get_current_context().command_path} --help"
        raise Usage("give the prompt as TEXT, as - for standard input, or with --file", hint=help)
    content = str(file.read() if file else text)
    if text == "-" or input == "-" or takes_pipe:
        content = _with_input(content, limit, is_named=text == "-" or input == "-")
    if not content.strip():
        raise Usage("the prompt is empty", hint="give it as TEXT, as - for standard input, or with --file")
    return [{"type": "text", "text": content.encode(errors="replace").decode()}]


def _with_input(text: str, limit: float | None, *, is_named: bool) -> str:
    """Return the text with standard input behind it, or in its place if it is a dash."""
    from agh.console import standard_input

    if text == "-":
        return standard_input.read(limit)
    if not text.strip() or not (is_named or standard_input.is_pipe()):
        return text
    material = standard_input.read(limit, unasked=not is_named)
    if not material.strip():
        return text
    if not is_named and sys.stderr.isatty():
        remark(f"{len(material.encode())} bytes of standard input were added to the prompt")
    return standard_input.fenced(text, material)


def attachments(paths: tuple[str, ...], session: Session) -> list[dict[str, Any]]:
    if not paths:
        return []
    from agh.console.attachments import attachment

    metadata = meta.read(session)
    return [attachment(path, metadata) for path in paths]
