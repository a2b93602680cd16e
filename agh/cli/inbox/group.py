"""`agh inbox`: the list, and the group of the commands that answer from it"""

from __future__ import annotations

import click

from agh.cli.inbox.view import format_entry
from agh.cli.lazy import LazyGroup
from agh.console.output import output_option, remark, write_result, write_text
from agh.errors import Usage
from agh.sessions.requests.inbox import list_entries

NAMES = {"answer": "answer", "approve": "decide", "deny": "decide", "dismiss": "dismiss", "show": "show"}
NOTHING_WAITS = 1  # the exit number


@click.group(
    "inbox",
    cls=LazyGroup,
    modules={name: f"agh.cli.inbox.{module}:{name}_command" for name, module in NAMES.items()},
    invoke_without_command=True,
    no_args_is_help=False,
    epilog="\b\nExamples:\n  agh inbox\n  agh inbox approve 3\n  agh inbox --watch",
)
@click.option(
    "--watch", is_flag=True, help="Keep printing new entries until Ctrl-C; type `3 y` or `3 n` to answer."
)
@click.option("--count", is_flag=True, help="Print only their number; fast enough for a shell prompt.")
@output_option()
@click.pass_context
def inbox(context: click.Context, watch: bool, count: bool, output: str) -> None:
    """List everything that needs you, in all sessions.

    Lists permission requests (with diffs), questions, council gates and logins, oldest first. Failures and
    limits are listed too, for seven days or until you dismiss them. Numbers are never reused, so an answer
    cannot reach the wrong request. Exits 1 if the inbox is empty.
    """
    if context.invoked_subcommand is not None:
        return
    if watch:
        if count:
            raise Usage("give either --watch or --count, not both", hint="agh inbox --help")
        from agh.cli.inbox.watch import watch_inbox

        watch_inbox(output)
        return
    entries = list_entries()
    if count:
        write_text(f"{len(entries)}\n")
    else:
        write_result("inbox", entries, output, lambda: "\n".join(map(format_entry, entries)))
        if not entries and output == "human":
            remark("the inbox is empty")
    if not entries:
        raise click.exceptions.Exit(NOTHING_WAITS)
