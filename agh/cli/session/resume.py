"""`agh session resume`"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from agh.cli.ask import answer_early
from agh.cli.look.turn_view import tell_restored
from agh.cli.session.new import COUNT
from agh.console.limits import parse_limits
from agh.console.output import output_option, remark, starting, write_json, write_text
from agh.console.terminal import default_holder
from agh.console.when import parse_duration
from agh.core.status import BADGES
from agh.errors import Usage
from agh.sessions.listing import SHOWN_STATES
from agh.sessions.resume import Obstacle, newest, resume
from agh.store import sessions
from agh.store.views import View, session_view


def _skip(view: View, obstacle: Obstacle) -> None:
    """Pass over a session without a word."""


def _tell_skipped(view: View, obstacle: Obstacle) -> None:
    remark(f"{view['id']} cannot be resumed: {obstacle['message']}")


@click.command(
    "resume",
    epilog="\b\nExamples:\n  agh session resume fix-login\n"
    "  agh session resume --latest && agh session prompt @last 'go on'\n"
    "  agh session resume fix-login --agent codex\n"
    "  agh session resume fix-login --require-context -o json | jq -r .restore.strategy\n"
    "  agh session resume --all",
)
@click.argument("id", required=False)
@click.option("--latest", is_flag=True, help="The most recently active session that can be resumed.")
@click.option(
    "--all", "everything", is_flag=True, help="Every session that a shutdown, kill or power cut ended."
)
@click.option(
    "--state",
    type=click.Choice(SHOWN_STATES),
    metavar="STATE",
    help="With --all: sessions in this state instead.",
)
@click.option(
    "--status",
    type=click.Choice(BADGES),
    metavar="STATUS",
    help="With --all: sessions with this status instead.",
)
@click.option("--workspace", metavar="W", help="With --latest: only sessions of this workspace.")
@click.option("--why", is_flag=True, help="With --latest: show which sessions were skipped, and why.")
@click.option("--attach-only", is_flag=True, help="Only attach to a live session; never start the agent.")
@click.option("--agent", metavar="NAME", help="Hand the session to another agent, with its history.")
@click.option("--fresh", is_flag=True, help="Discard the agent's memory and start a new conversation.")
@click.option("--require-context", is_flag=True, help="Fail if the agent cannot restore its own memory.")
@click.option("--max-cost", type=float, help="A new limit on cost.")
@click.option("--max-turns", type=COUNT, metavar="N", help="A new limit on turns.")
@click.option("--max-bytes", type=COUNT, metavar="N", help="A new limit on the bytes of the log.")
@click.option("--max-time", metavar="TIME", help="A new limit on time.")
@click.option("--holder", help="Name under which you hold the session (default: this terminal or script).")
@click.option("--ttl", default="15m", show_default=True, help="How long the lease lasts, at most 24h.")
@click.option("--steal", is_flag=True, help="Take over from another terminal or script.")
@click.option("--no-ask", is_flag=True, help="Refuse whatever the agent asks for while it starts.")
@output_option()
def resume_command(
    id: str | None,
    latest: bool,
    everything: bool,
    state: str | None,
    status: str | None,
    workspace: str | None,
    why: bool,
    attach_only: bool,
    holder: str | None,
    ttl: str,
    steal: bool,
    max_cost: float | None,
    max_turns: int | None,
    max_bytes: int | None,
    max_time: str | None,
    no_ask: bool,
    output: str,
    **intent: Any,
) -> None:
    """Make a session live again, in the same conversation.

    If the session is live, this only attaches to it; there is never a second agent. If it is stopped, agh
    repairs the log and starts the agent, which restores its own memory. If it cannot, agh sends it the
    history with your next prompt. agh prints how it restored the conversation, and records that as an event.
    If the agent fails for any other reason, nothing is started and you can try again. --fresh starts over
    without the old conversation.

    With --all, resumes every session of the last week that a reboot or a preemption ended, several at a time
    and without attaching. It skips live sessions and is safe to run repeatedly. Sessions that fail are named
    on stderr, and the exit code is that of the first failure.

    Attaching takes a lease, so that two people do not type at once. The lease expires by itself;
    `agh session detach` gives it back.
    """
    if everything:
        limits = (max_cost, max_turns, max_bytes, max_time)
        if any((id, latest, attach_only, steal, *intent.values(), *limits)):
            raise Usage(
                "--all can be combined only with --state and --status", hint="agh session resume --all"
            )
        from agh.cli.session.outcomes import print_outcomes
        from agh.sessions.many import resume_all

        print_outcomes(resume_all(state=state, badge=status), output, "no session to resume")
        return
    if state or status:
        raise Usage("--state and --status need --all", hint="agh session resume --all --status failed")
    if id is None and not latest:
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param=context.command.params[0])  # on a terminal: pick one
    if id is not None and latest:
        raise Usage("name a session, or use --latest", hint="agh session resume @last")
    if why and not latest:
        raise Usage("--why needs --latest", hint="agh session list --resumable --why")
    holder = holder or default_holder()
    on_skip = _tell_skipped if why else _skip
    session = sessions.resolve(id) if id else newest(workspace, holder, steal=steal, on_skip=on_skip)
    if session is None:
        if output != "human":
            write_json({"resumed": None, "reason": "no_eligible_sessions"})
        else:
            write_text("no session can be resumed\n")
        return
    lease = {"holder": holder, "ttl": parse_duration(ttl, "--ttl"), "steal": steal}
    intent |= {"limits": parse_limits(max_cost, max_turns, max_time, max_bytes)}
    with starting(session) as spinner:
        intent["on_request"] = spinner.aside(partial(answer_early, no_ask))
        resumed = resume(session, attach_only, lease, **intent)
    if resumed.hello["started"]:
        tell_restored(resumed.hello)
    view = session_view(session, holder)
    if output != "human":
        result = {"session": view, "attach": resumed.attach, "restore": resumed.restore}
        write_json(result, lines=output == "jsonl")
    else:
        write_text(f"{view['id']}  {view['badge']}\n")
