"""`agh session new`"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from agh.adapters.registry import ECHO
from agh.console.output import Spinner, output_option, remark, starting, write_result
from agh.errors import Usage
from agh.home import Session
from agh.sessions.new import create
from agh.store.meta import Meta
from agh.store.views import session_view

COUNT = click.IntRange(min=0)

limit_options = (
    click.option("--max-cost", type=float, help="Pause the session when its cost reaches this amount."),
    click.option("--max-turns", type=COUNT, metavar="N", help="Pause the session after this many turns."),
    click.option(
        "--max-bytes", type=COUNT, metavar="N", help="Pause the session when its log reaches this many bytes."
    ),
    click.option("--max-time", metavar="TIME", help="Pause the session once it has been live for this long."),
)


def agent_options(command: Any) -> Any:
    """Add the options that say which agent runs, where, and what it may do."""
    for option in (
        session_options,
        click.option(
            "--command", metavar="ARGV", help="Start this program as the agent, e.g. 'opencode acp'."
        ),
        click.option("--agent", metavar="NAME", help="Agent to use (default: the first one installed)."),
    ):
        command = option(command)
    return command


def session_options(command: Any) -> Any:
    """Add the same options without the choice of the agent."""
    for option in (
        *limit_options,
        click.option(
            "--option", "choices", multiple=True, metavar="K=V", help="Set one of the agent's own options."
        ),
        click.option(
            "--allowed-tools",
            metavar="TOOLS",
            help="Tools to allow without asking, inside the workspace: names or kinds, separated by "
            "commas, e.g. 'edit,execute(git *)'.",
        ),
        click.option(
            "--append-system-prompt",
            metavar="TEXT",
            help="Add to the agent's system prompt (@FILE reads the text from a file).",
        ),
        click.option(
            "--system-prompt",
            metavar="TEXT",
            help="Replace the agent's system prompt (@FILE reads the text from a file).",
        ),
        click.option("--mode", help="The agent's mode."),
        click.option("--model", help="The agent's model."),
        click.option(
            "--permissions", metavar="MODE", help="deny-all, approve-reads (default) or approve-all."
        ),
        click.option(
            "--allow-self-answers",
            is_flag=True,
            help="Let the agent's own processes answer its permission requests.",
        ),
        click.option(
            "--on", metavar="PLACE", help="Run the agent in this place, e.g. ssh:HOST; see agh-places(7)."
        ),
        click.option(
            "--add-dir",
            "directories",
            multiple=True,
            metavar="DIR",
            help="Let the agent work in this directory too. Repeatable.",
        ),
        click.option(
            "--workspace",
            metavar="W",
            help="Directory to work in: a path, or the name or id of a workspace (default: here).",
        ),
    ):
        command = option(command)
    return command


def name_options(command: Any) -> Any:
    """Add the options that name a new session."""
    for option in (
        click.option("--replace", is_flag=True, help="If a stopped session has this name, archive it."),
        click.option("--name", help="Name of the session, unique in its workspace."),
    ):
        command = option(command)
    return command


@click.command(
    "new",
    epilog="\b\nExamples:\n  agh session new --agent opencode --name fix-login\n"
    "  agh session new --workspace ../app --permissions approve-all --max-cost 2\n"
    "  agh session new --command 'my-agent --acp' -o json | jq -r .session.id",
)
@agent_options
@name_options
@click.option(
    "--worktree",
    "branch",
    is_flag=False,
    flag_value="",
    metavar="[BRANCH]",
    help="Work in a separate git worktree, on BRANCH (default: a new branch).",
)
@click.option(
    "--keeper",
    type=click.Choice(("here", "there")),
    default="here",
    show_default=True,
    help="Where the session is kept: on this machine, or on the host of --on ssh:HOST, "
    "where it survives a broken connection.",
)
@click.option("--no-ask", is_flag=True, help="Refuse whatever the agent asks for while it starts.")
@click.option("--wait", is_flag=True, help="Wait until the agent runs, even if its place has no slot yet.")
@output_option()
def new_command(output: str, wait: bool, keeper: str, **options: Any) -> None:
    """Start a session and print its id.

    It stays live until you stop it, or until it has been idle for 15 minutes (session.idle_after).

    If its place has no free slot, as on a full cluster, the session stays `starting`. You can already
    prompt it; its prompts are sent once the agent runs.
    """
    if keeper == "there":
        view = _new_mirrored(**options, waits_for_slot=wait)
    else:
        view = new_session(**options, waits_for_slot=wait)
    write_result("session", view, output, lambda: str(view["id"]))


def new_session(
    *,
    discard: bool = False,
    no_ask: bool = False,
    check: Callable[[Session], None] | None = None,
    waits_for_slot: bool = True,
    **options: Any,
) -> dict[str, Any]:
    """Start a session from the options of a command and return its view; for `check` see `create`."""
    if options.get("replace") and not options.get("name"):
        raise Usage("--replace needs --name", hint="agh new --name NAME --replace")
    request = check_options(**options)
    with starting() as spinner:
        session, hello = create(
            **request,
            discard=discard,
            check=check,
            waits_for_slot=waits_for_slot,
            announce=partial(announce, spinner),
            on_request=spinner.aside(partial(_answer_early, no_ask)),
        )
    if hello.get("queued"):
        remark(f"{options['on']} has no free slot; the agent starts when one is free, and prompts are queued")
    tell_remarks(hello)
    return session_view(session)


def _new_mirrored(*, no_ask: bool = False, **options: Any) -> dict[str, Any]:
    """Start a session that another machine keeps; return the view of its mirror here."""
    from agh.sessions.elsewhere.mirror import create_mirrored

    with starting():
        session, hello = create_mirrored(**check_options(**options))
    if hello.get("queued"):
        remark(f"{options['on']} has no free slot; the agent starts when one is free, and prompts are queued")
    tell_remarks(hello)
    return session_view(session)


def _answer_early(no_ask: bool, session: Session, request_id: str) -> None:
    from agh.cli.ask import answer_early

    answer_early(no_ask, session, request_id)


def tell_remarks(hello: dict[str, Any]) -> None:
    """Print what had to be done to start a session."""
    for text in hello.get("remarks") or []:
        remark(text)


def announce(spinner: Spinner, metadata: Meta, is_default: bool) -> None:
    """Print which agent is about to start: if agh has chosen it, and on a terminal always."""
    agent, path = metadata["agent_name"], metadata["workspace_path"]
    if is_default and agent == ECHO:
        remark("no agent is installed or configured; using the built-in echo agent (it repeats your prompt)")
    elif is_default:
        remark(f"starting {agent}, the first installed agent; choose another with --agent")
    elif sys.stderr.isatty():
        remark(f"starting {agent} in {path}")
    spinner.begin(agent)


def check_options(
    model: str | None,
    mode: str | None,
    choices: tuple[str, ...],
    max_cost: float | None,
    max_turns: int | None,
    max_bytes: int | None,
    max_time: str | None,
    system_prompt: str | None,
    append_system_prompt: str | None,
    allowed_tools: str | None,
    command: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return the arguments for `create`, or refuse options that make no sense."""
    agent_choices = {key: value for key, value in (("mode", mode), ("model", model)) if value}
    agent_choices |= dict(key_and_value(choice) for choice in choices)
    limits = {}
    if (max_cost, max_turns, max_time, max_bytes) != (None,) * 4:
        from agh.console.limits import parse_limits

        limits = parse_limits(max_cost, max_turns, max_time, max_bytes)
    return {
        **options,
        "command": None if command is None else split(command),
        "options": agent_choices,
        "limits": limits,
        "system_prompt": prompt_option(system_prompt, append_system_prompt),
        "allowed_tools": tools_option(allowed_tools),
    }


def split(command: str) -> list[str]:
    """Split the value of --command into an argv."""
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise Usage(f"--command: {error}", hint="quote it as you would in a shell") from None
    if not argv:
        raise Usage("--command is empty", hint="agh session new --command 'opencode acp'")
    return argv


def prompt_option(override: str | None, append: str | None) -> dict[str, str] | None:
    """Return the `mode` and `text` of the system prompt, if there is one."""
    if override is not None and append is not None:
        raise Usage("give either --system-prompt or --append-system-prompt, not both")
    value = append if override is None else override
    if value is None:
        return None
    text = value
    if value.startswith("@"):
        try:
            with open(value[1:], encoding="utf-8") as file:
                text = file.read()
        except (OSError, ValueError) as error:
            raise Usage(f"cannot read {value[1:]}: {getattr(error, 'strerror', None) or error}") from None
    if not text.strip():
        raise Usage("the system prompt is empty")
    return {"mode": "append" if override is None else "override", "text": text}


def tools_option(value: str | None) -> list[str]:
    """Split a list of tools at its commas, except inside the parentheses of a pattern."""
    if not value:
        return []
    import re

    from agh.core.rules import allow_rules

    tools = [tool.strip() for tool in re.split(r",(?![^(]*\))", value) if tool.strip()]
    try:
        allow_rules(tools)
    except ValueError as error:
        raise Usage(
            f"--allowed-tools: {error}", hint="for example: --allowed-tools 'edit,execute(git *)'"
        ) from None
    return tools


def key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise Usage(f"{text!r} is not KEY=VALUE", hint="for example: model=large")
    return key, value
