"""`agh run`: one prompt in a session of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from click.core import ParameterSource

from agh.cli.ask import can_ask
from agh.cli.session.new import agent_options, name_options, new_session
from agh.cli.session.prompt import attachments, continue_option, newest_here, prompt_blocks, prompt_options
from agh.cli.turn import TimeLimit, send_and_tell, show_turns
from agh.console.attachments import check_file
from agh.console.output import remark
from agh.console.when import parse_duration
from agh.errors import AghError, KeeperDied, SessionLimited, SessionLive, Usage
from agh.home import Session
from agh.keeper import client
from agh.sessions.stop import stop_session
from agh.store import lock as locks
from agh.store import sessions
from agh.store.reader import Reader


@click.command(
    "run",
    epilog="\b\nExamples:\n  agh run 'explain the failing test' -o text\n"
    "  agh run --continue 'now fix it'\n"
    "  agh run --file task.md --agent codex --timeout 10m --permissions deny-all\n"
    "  git diff | agh run 'review this'\n"
    "  agh run - --rm < task.md",
)
@agent_options
@name_options
@prompt_options
@continue_option
@click.option("--no-stdin", is_flag=True, help="Do not read standard input, even if it is a pipe.")
@click.option("--keep", is_flag=True, help="Leave the session live afterwards.")
@click.option("--rm", "remove", is_flag=True, help="Delete the session afterwards.")
def run(
    text: str | None,
    input: str | None,
    no_stdin: bool,
    file: Any,
    continues: bool,
    attach: tuple[str, ...],
    timeout: str | None,
    retries: int,
    park: bool,
    wait: bool,
    no_ask: bool,
    keep: bool,
    remove: bool,
    output: str,
    **options: Any,
) -> None:
    """Send one prompt in a new session and show the turn.

    Text from a pipe is added to the prompt as a fenced block. --no-stdin ignores it; use it in a loop such as
    `… | while read`, so that agh does not consume the loop's input. Input redirected from a file is read only
    if TEXT is -, or if - follows TEXT.

    Afterwards the session is stopped but stays in the list, so you can resume it. --rm deletes it instead,
    however the turn ended. The session is still kept if it crashed and can be resumed (exit 7), if other
    prompts were sent to it, or if you pressed Ctrl-C twice.

    With --park, a prompt that reaches a usage limit is sent again when the limit resets; the session stays
    live until then. The command prints the time and exits 10. With --wait, it waits until the turn is
    complete.

    --continue sends the prompt to the newest session in this directory, and leaves it live or stopped, as it
    was.
    """
    _check_options(continues, keep, remove, options)
    if no_stdin and "-" in (text, input):
        raise Usage("give either --no-stdin or -, not both")
    seconds = parse_duration(timeout, "--timeout") if timeout else None
    blocks = prompt_blocks(text, file, input, limit=seconds, takes_pipe=not no_stdin)
    for path in attach:
        check_file(path)
    if continues:
        session = newest_here()
        blocks += attachments(attach, session)
        keep = keep or locks.is_held(session)
    else:

        def attach_files(session: Session) -> None:
            blocks.extend(attachments(attach, session))

        view = new_session(discard=True, no_ask=no_ask, check=attach_files, **options)
        session = sessions.resolve(view["id"])
    ending = _deleting(session) if remove else _stopping(session, stop=not keep)
    with ending, TimeLimit(seconds) as limit:
        if continues:
            deadline = limit.deadline
            receipt = send_and_tell(
                session, blocks, refuse=no_ask, deadline=deadline, retries=retries, park=park or wait
            )
        else:
            options = {"retries": retries, "park": park or wait, "attended": not no_ask and can_ask()}
            receipt = client.call(session, "prompt", prompt=blocks, **options)
        code = show_turns(session, receipt, output, limit, wait=wait, refuse=no_ask, stops=not keep)
    raise click.exceptions.Exit(code)


def _check_options(continues: bool, keep: bool, remove: bool, options: dict[str, Any]) -> None:
    """Refuse options that contradict each other."""
    if remove and (keep or continues):
        raise Usage(f"give either --rm or {'--keep' if keep else '--continue'}, not both")
    if not continues:
        return
    context = click.get_current_context()
    for option in context.command.params:
        if (
            option.name in options
            and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
        ):
            raise Usage(
                f"{option.opts[0]} is only for a new session, but --continue uses an existing one",
                hint="agh session set @last KEY=VALUE changes its model, mode and permissions",
            )


@contextmanager
def _stopping(session: Session, *, stop: bool) -> Iterator[None]:
    """Stop the session when the block has ended, if that is wanted; leave it if its prompt is parked."""
    try:
        yield
    except SessionLimited:
        stop = False
        raise
    finally:
        if stop:
            stop_session(session, kill=True)


@contextmanager
def _deleting(session: Session) -> Iterator[None]:
    """Stop the session when the block has ended, and delete it if nothing is lost by that."""
    keep_because, stays = "", False
    try:
        yield
    except SessionLimited:
        stays = True
        raise
    except AghError as error:
        keep_because = "it can be resumed" if error.exit == KeeperDied.exit else _find_work(session)
        if not keep_because and session.id in error.hint:
            error.hint = "run it without --rm to keep the session and its log"
        raise
    except BaseException:
        keep_because = "this command was interrupted"
        raise
    else:
        keep_because = _find_work(session)
    finally:
        if stays:
            remark(f"{session.id} was not deleted: its prompt is still queued")
        else:
            stop_session(session, kill=True)
            _delete(session, keep_because)


def _find_work(session: Session) -> str:
    """Say if prompts of others wait in the session or are being answered; its first prompt is our own."""
    with Reader(session) as reader:
        statuses = reader.fetch("SELECT status FROM inputs ORDER BY rowid")[1:]
    has_work = bool({"queued", "dispatching"} & {status for (status,) in statuses})
    return "it has other prompts to answer" if has_work else ""


def _delete(session: Session, keep_because: str) -> None:
    from agh.sessions.delete import delete

    try:
        leftovers = [] if keep_because else delete(session)
    except SessionLive:
        keep_because = "another command has resumed it"
    if keep_because:
        remark(f"{session.id} was not deleted: {keep_because}")
        return
    for leftover in leftovers:
        remark(f"not deleted: {leftover}")
