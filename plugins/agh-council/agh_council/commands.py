"""The commands of `agh council`. Each parses its arguments, does one thing, and prints a view of it."""

from __future__ import annotations

import os
import shlex
from typing import Any

import click

from agh import config
from agh.adapters import registry
from agh.console import terminal
from agh.console.output import output_option, write_result, write_text
from agh.console.when import parse_duration
from agh.errors import InputTooLarge, KeeperGone, Usage, WorkspaceGone
from agh.home import Session
from agh.keeper import client
from agh.sessions.start import ensure_live, start
from agh.sessions.stop import stop_session
from agh.store import lock
from agh_council import store, views
from agh_council.errors import ProfileInvalid
from agh_council.follow import error_for, follow_council
from agh_council.profile import read_profile


@click.group("council", epilog="Example:  agh council run review.toml --brief question.md")
def council() -> None:
    """Let several agents deliberate in rounds.

    ID works as for sessions; @last is the newest council in this directory."""


@council.command(
    "run", epilog="Example:  agh council run review.toml --brief question.md -o json | jq -r .council.memo"
)
@click.argument("profile", type=click.Path())
@click.option(
    "--brief",
    type=click.File("r", encoding="utf-8"),
    required=True,
    help="File with the question; - reads stdin.",
)
@click.option("--workspace", type=click.Path(), help="Directory for the members (default: here).")
@click.option("--name", help="Name of the council's session.")
@click.option("--detach", is_flag=True, help="Print its id and return at once.")
@output_option()
def run_command(
    profile: str, brief: Any, workspace: str | None, name: str | None, detach: bool, output: str
) -> None:
    """Start a council; follow it until it writes its memo or pauses.

    It keeps running if this command ends. Ctrl-C pauses it; press it again to leave without waiting.
    Exits 0 with a memo, 5 at a gate, 6 if it paused for another reason.
    """
    path = os.path.realpath(workspace or os.getcwd())
    if not os.path.isdir(path):
        raise WorkspaceGone(path, hint="name a directory with --workspace")
    tables, question = _load_profile(profile, path), brief.read()
    if not question.strip():
        raise Usage("the brief is empty", hint="write the question into the file that --brief names")
    size, maximum = len(question.encode()), config.load(path)["session.input_bytes"]
    if size > maximum:
        raise InputTooLarge(size, maximum)
    with store.create_council(tables, question, path, name) as session_lock:
        session = session_lock.session
        start(session_lock, new=True)
    _follow(session, 0, detach, output)


@council.command("resume", epilog="Example:  agh council resume @last --max-budget 10")
@click.argument("id")
@click.option("--max-budget", type=click.FloatRange(min=0), metavar="AMOUNT", help="A new maximum budget.")
@click.option("--max-rounds", type=click.IntRange(min=1), metavar="N", help="A new maximum number of rounds.")
@click.option("--max-time", metavar="TIME", help="A new time limit. The clock restarts in any case.")
@click.option("--detach", is_flag=True, help="Print its id and return at once.")
@output_option()
def resume_command(
    id: str, max_budget: float | None, max_rounds: int | None, max_time: str | None, detach: bool, output: str
) -> None:
    """Continue a council that was paused, stopped or killed.

    Resumes all of its members.
    """
    time = parse_duration(max_time, "--max-time") if max_time else None
    maximums = {"budget": max_budget, "rounds": max_rounds, "time": time}
    session = store.find_council(id)
    after = _resume(session, {name: value for name, value in maximums.items() if value is not None})
    _follow(session, after, detach, output)


def _resume(session: Session, maximums: dict[str, float] | None = None) -> int:
    """Start the council unless it is completed; return the sequence to follow it from."""
    after = store.read_state(session).sequence
    if views.council_view(session)["phase"] != "completed":
        from agh.store import checkpoint

        if os.path.lexists(os.path.join(session, checkpoint.FILE)):
            checkpoint.read(session)  # refuse a damaged one before starting anything
        ensure_live(session, maximums=maximums or {})
    return after


@council.command("status", epilog="Example:  agh council status @last -o json | jq .council.constraints")
@click.argument("id")
@output_option()
def status_command(id: str, output: str) -> None:
    """Show a council: its members, rounds and limits."""
    view = views.council_view(store.find_council(id))
    write_result("council", view, output, lambda: views.format_summary(view))


@council.command("list", epilog="Example:  agh council list -o json | jq -r '.councils[].session_id'")
@output_option()
def list_command(output: str) -> None:
    """List the councils, newest first."""
    councils = views.list_view()
    write_result("councils", councils, output, lambda: views.format_table(councils))


@council.command("pause", epilog="Example:  agh council pause @last --after-round")
@click.argument("id")
@click.option("--after-round", is_flag=True, help="Finish the current round first.")
@output_option()
def pause_command(id: str, after_round: bool, output: str) -> None:
    """Pause a council; resume continues from its checkpoint."""
    session = store.find_council(id)
    if after_round and lock.is_held(session):
        client.call(session, "pause_after_round")
        for _ in follow_council(session, 0):
            pass
    else:
        stop_session(session, reason="paused")
    view = views.council_view(session)
    write_result("council", view, output, lambda: f"{view['session_id']}  {view['phase']}")


@council.command("steer", epilog="Example:  agh council steer @last --to skeptic 'look at the costs'")
@click.argument("id")
@click.argument("text")
@click.option("--to", metavar="MEMBER", help="Only tell this member; the others never see it.")
@output_option()
def steer_command(id: str, text: str, to: str | None, output: str) -> None:
    """Tell the members something; they see it in their next round."""
    session = store.find_council(id)
    try:
        steer = client.call(session, "steer", text=text, to=to)
    except KeeperGone:
        steer = store.append_event(session, lambda state: store.steer_event(state, text, to))
    write_result("steer", steer, output, lambda: steer["id"])


@council.group("gate", epilog="Example:  agh council gate approve @last")
def gate() -> None:
    """Decide at a gate, where a council waits for you."""


@gate.command("approve", epilog="Example:  agh council gate approve @last")
@click.argument("id")
@click.option(
    "--sequence", type=int, metavar="N", help="Approve only if the open gate was opened by event N."
)
@click.option("--later", is_flag=True, help="Record the decision, but wait for `agh council resume`.")
@click.option("--detach", is_flag=True, help="Return at once; the council continues.")
@output_option()
def approve_command(id: str, sequence: int | None, later: bool, detach: bool, output: str) -> None:
    """Let the council continue."""
    _decide(id, True, "", sequence, later, detach, output)


@gate.command("reject", epilog="Example:  agh council gate reject @last --feedback 'too vague'")
@click.argument("id")
@click.option("--feedback", required=True, help="What is wrong; the members see it.")
@click.option("--sequence", type=int, metavar="N", help="Reject only if the open gate was opened by event N.")
@click.option("--later", is_flag=True, help="Record the decision, but wait for `agh council resume`.")
@click.option("--detach", is_flag=True, help="Return at once; the council continues.")
@output_option()
def reject_command(
    id: str, feedback: str, sequence: int | None, later: bool, detach: bool, output: str
) -> None:
    """Redo the step before the gate, with feedback."""
    _decide(id, False, feedback, sequence, later, detach, output)


def _decide(
    id: str, approved: bool, feedback: str, sequence: int | None, later: bool, detach: bool, output: str
) -> None:
    session = store.find_council(id)
    decision = store.decide_gate(session, approved, feedback, sequence)
    if later:
        write_result("gate", decision, output, lambda: str(decision["status"]))
        return
    _follow(session, _resume(session), detach, output)


@council.command("transcript", epilog="Example:  agh council transcript @last > deliberation.md")
@click.argument("id")
@output_option("human", "markdown", "json", "jsonl")
def transcript_command(id: str, output: str) -> None:
    """Print the deliberation: questions and answers, by round."""
    state = store.read_state(store.find_council(id))
    if output in ("human", "markdown"):
        write_text(terminal.clean(views.format_transcript(state)))
    else:
        write_result("messages", views.message_views(state), output, str)


@council.command("validate", epilog="Example:  agh council validate review.toml")
@click.argument("profile", type=click.Path())
@output_option()
def validate_command(profile: str, output: str) -> None:
    """Check a profile's keys, values and agents."""
    _load_profile(profile, os.getcwd())
    write_result("profile", {"path": profile, "valid": True}, output, lambda: f"{profile}: ok")


def _follow(session: Session, after: int, detach: bool, output: str) -> None:
    """Print the council's events until it stops, then the result; raise the error to exit with."""
    if detach:
        view = views.council_view(session)
        write_result("council", view, output, lambda: str(view["session_id"]))
        return
    for line in follow_council(session, after):
        if output == "human":
            click.echo(line, err=True)
    view = views.council_view(session)
    write_result("council", view, output, lambda: views.format_summary(view))
    error = error_for(view)
    if error is not None:
        raise error


def _load_profile(path: str, workspace: str) -> dict[str, Any]:
    """Return the tables of a profile's file; refuse one that is invalid or names an unknown agent."""
    import tomllib

    try:
        with open(path, "rb") as file:
            tables = tomllib.load(file)
        for member in read_profile(tables).members:
            if member.command and not shlex.split(member.command):
                raise ValueError(f"{member.id}: the command is empty")
            if member.agent:
                registry.agent(member.agent, workspace)
    except OSError as error:
        raise ProfileInvalid(
            path, error.strerror, hint="give the path of a TOML profile, such as review.toml"
        ) from None
    except ValueError as error:
        raise ProfileInvalid(path, error) from None
    return tables
