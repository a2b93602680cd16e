"""`agh council`: the commands. Each does one thing and hands the result to a view."""

from __future__ import annotations

import os
from typing import Any

import click

from agh import config
from agh.console import terminal
from agh.console.output import output_option, write_result, write_text
from agh.console.when import span
from agh.errors import InputTooLarge, KeeperGone, Usage, WorkspaceGone
from agh.keeper import client
from agh.sessions.start import ensure_live, start
from agh.sessions.stop import stop_session
from agh.store import lock
from agh_council import store, views
from agh_council.follow import follow_to_the_end, how_it_ended, load_profile


@click.group("council", epilog="Example:  agh council run review.toml --brief question.md")
def council() -> None:
    """Let several agents deliberate in rounds. ID is as for sessions; @last is the newest council here."""


@council.command(
    "run", epilog="Example:  agh council run review.toml --brief question.md -o json | jq -r .council.memo"
)
@click.argument("profile", type=click.Path())
@click.option(
    "--brief", type=click.File("r", encoding="utf-8"), required=True, help="The question; - is stdin."
)
@click.option("--workspace", type=click.Path(), help="Where the members work (default: this directory).")
@click.option("--name", help="A name to call the council's session by.")
@click.option("--detach", is_flag=True, help="Print its id and leave it to itself.")
@output_option()
def run_command(
    profile: str, brief: Any, workspace: str | None, name: str | None, detach: bool, output: str
) -> None:
    """Open a council and follow it to its memo, or to where it pauses.

    It goes on when this command ends. Ctrl-C pauses it; a second Ctrl-C leaves it running.
    Exit: 0 with a memo, 5 at a gate, 6 when it was paused otherwise.
    """
    path = os.path.realpath(workspace or os.getcwd())
    if not os.path.isdir(path):
        raise WorkspaceGone("(new)", path, hint="name a directory with --workspace")
    given, question = load_profile(profile, path), brief.read()
    if not question.strip():
        raise Usage("the brief is empty", hint="write the question into the file of --brief")
    size, most = len(question.encode()), config.load(path)["session.input_bytes"]
    if size > most:
        raise InputTooLarge(size, most)
    with store.open_council(given, question, path, name) as held:
        directory = held.directory
        start(held, new=True)
    _follow(directory, 0, detach, output)


@council.command("resume", epilog="Example:  agh council resume @last --max-budget 10")
@click.argument("id")
@click.option("--max-budget", type=click.FloatRange(min=0), help="A new maximum of the budget.")
@click.option("--max-rounds", type=click.IntRange(min=1), help="A new maximum of rounds.")
@click.option("--max-time", metavar="TIME", help="A new maximum of time; the clock begins anew either way.")
@click.option("--detach", is_flag=True, help="Print its id and leave it to itself.")
@output_option()
def resume_command(
    id: str, max_budget: float | None, max_rounds: int | None, max_time: str | None, detach: bool, output: str
) -> None:
    """Go on with a council where it stopped: paused, stopped, or killed. Every member is brought back."""
    time = span(max_time, "--max-time") if max_time else None
    given = {"budget": max_budget, "rounds": max_rounds, "time": time}
    directory = store.find(id)
    after = resume(directory, {key: value for key, value in given.items() if value is not None})
    _follow(directory, after, detach, output)


def resume(directory: str, maximums: dict[str, float] | None = None) -> int:
    """Make the council live, unless it has come to its end; the last event before that."""
    after = store.read_state(directory).sequence
    if views.council_view(directory)["phase"] != "completed":
        from agh.store import checkpoint

        if os.path.lexists(os.path.join(directory, checkpoint.FILE)):
            checkpoint.read(directory)  # a damaged one is told before anything is started
        ensure_live(directory, maximums=maximums or {})
    return after


@council.command("status", epilog="Example:  agh council status @last -o json | jq .council.constraints")
@click.argument("id")
@output_option()
def status_command(id: str, output: str) -> None:
    """Show a council: its members, rounds and limits."""
    view = views.council_view(store.find(id))
    write_result("council", view, output, lambda: views.summary(view))


@council.command("list", epilog="Example:  agh council list -o json | jq -r '.councils[].session_id'")
@output_option()
def list_command(output: str) -> None:
    """List the councils, newest first."""
    found = views.list_view()
    write_result("councils", found, output, lambda: views.table(found))


@council.command("pause", epilog="Example:  agh council pause @last --after-round")
@click.argument("id")
@click.option("--after-round", is_flag=True, help="Let the round that runs come to its end first.")
@output_option()
def pause_command(id: str, after_round: bool, output: str) -> None:
    """Pause a council: its state goes into the checkpoint, its agents end, resume goes on from there."""
    directory = store.find(id)
    if after_round and lock.is_held(directory):
        client.call(directory, "pause_after_round")
        for _ in follow_to_the_end(directory, 0):
            pass
    else:
        stop_session(directory, reason="paused")
    view = views.council_view(directory)
    write_result("council", view, output, lambda: f"{view['session_id']}  {view['phase']}")


@council.command("steer", epilog="Example:  agh council steer @last --to skeptic 'look at the costs'")
@click.argument("id")
@click.argument("text")
@click.option("--to", metavar="MEMBER", help="For this member alone; the others never see it.")
@output_option()
def steer_command(id: str, text: str, to: str | None, output: str) -> None:
    """Tell the members something; it comes with their next round."""
    directory = store.find(id)
    try:
        given = client.call(directory, "steer", text=text, to=to)
    except KeeperGone:
        given = store.write_note(directory, lambda state: store.steering(state, text, to))
    write_result("steer", given, output, lambda: given["id"])


@council.group("gate", epilog="Example:  agh council gate approve @last")
def gate() -> None:
    """Decide at a gate where a council waits."""


@gate.command("approve", epilog="Example:  agh council gate approve @last")
@click.argument("id")
@click.option("--later", is_flag=True, help="Only note the decision; `resume` goes on.")
@click.option("--detach", is_flag=True, help="Go on, and do not wait.")
@output_option()
def approve_command(id: str, later: bool, detach: bool, output: str) -> None:
    """Let the council go on."""
    _decide(id, True, "", later, detach, output)


@gate.command("reject", epilog="Example:  agh council gate reject @last --feedback 'too vague'")
@click.argument("id")
@click.option("--feedback", required=True, help="What is wrong with it; the members are told.")
@click.option("--later", is_flag=True, help="Only note the decision; `resume` goes on.")
@click.option("--detach", is_flag=True, help="Go on, and do not wait.")
@output_option()
def reject_command(id: str, feedback: str, later: bool, detach: bool, output: str) -> None:
    """Have the step before the gate done again, with feedback."""
    _decide(id, False, feedback, later, detach, output)


def _decide(id: str, approved: bool, feedback: str, later: bool, detach: bool, output: str) -> None:
    directory = store.find(id)
    given = store.write_note(directory, lambda state: store.decision(state, approved, feedback))
    if later:
        write_result("gate", given, output, lambda: str(given["status"]))
        return
    _follow(directory, resume(directory), detach, output)


@council.command("transcript", epilog="Example:  agh council transcript @last > deliberation.md")
@click.argument("id")
@output_option("human", "markdown", "json", "jsonl")
def transcript_command(id: str, output: str) -> None:
    """Print the deliberation: who was asked what in which round, and what they answered."""
    state = store.read_state(store.find(id))
    if output in ("human", "markdown"):
        write_text(terminal.clean(views.talk_text(state)))
    else:
        write_result("messages", views.talk(state), output, str)


@council.command("validate", epilog="Example:  agh council validate review.toml")
@click.argument("profile", type=click.Path())
@output_option()
def validate_command(profile: str, output: str) -> None:
    """Check a profile: its keys, its values, and that its agents are known."""
    load_profile(profile, os.getcwd())
    write_result("profile", {"path": profile, "valid": True}, output, lambda: f"{profile}: ok")


def _follow(directory: str, after: int, detach: bool, output: str) -> None:
    """Show what happens until it stops, then the result."""
    if detach:
        view = views.council_view(directory)
        write_result("council", view, output, lambda: str(view["session_id"]))
        return
    for line in follow_to_the_end(directory, after):
        if output == "human":
            click.echo(line, err=True)
    view = views.council_view(directory)
    write_result("council", view, output, lambda: views.summary(view))
    error = how_it_ended(view)
    if error is not None:
        raise error
