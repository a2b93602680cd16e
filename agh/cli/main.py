"""The root command, and the only code that turns a failure into a message and an exit number."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from agh import __version__
from agh.cli.lazy import LazyGroup, build_flag
from agh.errors import (
    BROKEN_PIPE,
    INTERRUPTED,
    AghError,
    Bug,
    DataDamaged,
    NoDescriptors,
    OutputFailed,
    Usage,
)

COMMANDS = {
    "agent": "agh.cli.agent.group:agent",
    "compare": "agh.cli.compare:compare",
    "completion": "agh.cli.completion:completion",
    "config": "agh.cli.config:config",
    "db": "agh.cli.db.group:db",
    "doctor": "agh.cli.doctor:doctor",
    "help": "agh.cli.guide.help:help_command",
    "inbox": "agh.cli.inbox.group:inbox",
    "man": "agh.cli.manual.command:man",
    "notify": "agh.cli.inbox.notify:notify",
    "plugins": "agh.cli.plugins:plugins",
    "run": "agh.cli.run:run",
    "session": "agh.cli.session.group:session",
    "skill": "agh.cli.skill:skill",
    "top": "agh.cli.top.command:top",
    "version": "agh.cli.guide.help:version_command",
    "workspace": "agh.cli.workspace:workspace",
}
# Second names: the same commands as below `agh session`, which is where they are documented.
SHORT = {
    "attach": "attach",
    "events": "events",
    "list": "list",
    "log": "events",
    "ls": "list",
    "new": "new",
    "prompt": "prompt",
    "resume": "resume",
    "search": "search",
    "status": "status",
    "stop": "stop",
    "transcript": "transcript",
}
SECTIONS = {
    "Common session commands (agh session lists them all)": (
        "new",
        "prompt",
        "attach",
        "resume",
        "stop",
        "list, ls",
        "status",
        "events, log",
        "transcript",
        "search",
    ),
}


def _plugin_commands(group: click.Group) -> None:
    from agh.adapters.registry import add_commands

    add_commands(group)


EXAMPLES = (
    "\b\nExamples:\n  agh run 'what does this project do?'\n"
    "  agh new --name fix-login && agh attach fix-login\n"
    "  agh log @last --follow | jq -r .type"
)


@click.group(
    "agh",
    cls=LazyGroup,
    modules=COMMANDS,
    short={name: f"agh.cli.session.{command}:{command}_command" for name, command in SHORT.items()},
    sections=SECTIONS,
    more=_plugin_commands,
    epilog=EXAMPLES,
    params=[build_flag("-V", "--version", "Show the version and exit.", lambda _: f"agh {__version__}")],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
def root() -> None:
    """Run coding agents as durable sessions on local files."""


def main() -> NoReturn:
    """Run the command line and exit at once: a short command needs no orderly teardown."""
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = code or BROKEN_PIPE
    except OSError as error:
        code = code or report(OutputFailed(error.strerror), sys.argv[1:])
    os._exit(code)


def run(args: Sequence[str]) -> int:
    """Run a command line and return its exit number. Every failure is reported here and nowhere else."""
    if not args:
        code = run(["--help"])
        _welcome()
        return code
    try:
        with root.make_context("agh", list(args)) as context:
            root.invoke(context)
        return 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except AghError as error:
        return report(_explained(error) or error, args)
    except click.exceptions.NoArgsIsHelpError as help:
        click.echo(help.format_message())
        return 0
    except click.MissingParameter as error:
        return _ask_for_session(error, args)
    except click.ClickException as error:
        return report(_usage(error, args), args)
    except BrokenPipeError:
        return BROKEN_PIPE
    except UnicodeEncodeError as error:
        return report(Usage(f"{error.object!r} is not valid UTF-8"), args)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Exception as error:
        if cause := _explained(error):
            return report(cause, args)
        if os.environ.get("AGH_DEBUG"):
            raise
        return report(Bug(f"{type(error).__name__}: {error}"), args)


def _ask_for_session(error: click.MissingParameter, args: Sequence[str]) -> int:
    """Let the user pick the session that the command lacks, if this is a terminal, and run the command."""
    if (
        _lacks_session(error)
        and sys.stdin
        and sys.stdin.isatty()
        and sys.stderr.isatty()
        and not _wants_json(args)
    ):
        from agh.cli.top.pick import pick_session

        try:
            session_id = pick_session(error.ctx)
        except KeyboardInterrupt:
            return INTERRUPTED
        if session_id:
            return run([*args, session_id])
    return report(_usage(error, args), args)


def _lacks_session(error: click.MissingParameter) -> bool:
    """Tell whether what a command lacks is its session, or its sessions."""
    return error.ctx is not None and error.param is not None and error.param.name in ("id", "ids")


def _explained(error: Exception) -> AghError | None:
    """Return what the system lacked, if that is what failed."""
    if isinstance(error, AghError) and not isinstance(error, DataDamaged):
        return None
    try:
        from agh.keeper.failures import explain
    except (ImportError, OSError):
        return NoDescriptors()
    return explain(error)


def _welcome() -> None:
    """Greet a user without sessions."""
    if sys.stderr.isatty():
        from agh.cli.guide.welcome import welcome

        welcome()


def report(error: AghError, args: Sequence[str]) -> int:
    from agh.console.terminal import clean, clean_json

    if isinstance(error, Usage) and error.hint == Usage.hint:
        error.hint = f"{_command_path(args)} --help"
    fields = _redacted(error)
    if _wants_json(args):
        import orjson

        text = clean_json(orjson.dumps({"error": fields}, default=str).decode())
    else:
        text = f"agh: {clean(fields['message'])}"
        if fields["hint"]:
            text += f"\nhint: {clean(fields['hint'])}"
        if "sess-" in text:
            from agh.cli.guide.names import use_names

            text = use_names(text)
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        pass
    return error.exit


def _redacted(error: AghError) -> dict[str, Any]:
    """Return the error as an object, without secrets."""
    try:
        from agh.adapters.redactions import redactor_for

        fields: dict[str, Any] = redactor_for(os.environ, None, plugins=False).json(error.as_dict())
    except (ImportError, OSError):  # there are no descriptors left
        return error.as_dict()
    return fields


def _usage(error: click.ClickException, args: Sequence[str]) -> Usage:
    """Turn click's error into ours; the hint is what was probably meant, else the help."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "agh"
    if isinstance(error, click.MissingParameter) and context and _lacks_session(error):
        from agh.cli.guide.which import session_missing

        return session_missing(context)
    if context and error.message.startswith("No such command"):
        from agh.cli.lazy import unknown_command

        return unknown_command(context, [error.message.partition("'")[2].rpartition("'")[0]])
    close = getattr(error, "possibilities", None)  # of an unknown option
    if close:
        return Usage(error.message.rstrip("."), hint=f"{path} {close[0]}")
    if context and context.command.name in ("prompt", "run") and "extra argument" in error.message:
        return Usage("the prompt is more than one word", hint=f"put it in quotes: {_quoted(path, args)}")
    meant = _choice_meant(error)
    return Usage(error.format_message().rstrip("."), hint=f"did you mean {meant}?" if meant else None)


def _command_path(args: Sequence[str]) -> str:
    """Return the command that the arguments name, as it was typed, with the groups above it."""
    command: click.Command | None = root
    path = ["agh"]
    for word in args:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word)
        if command is not None:
            path.append(word)
    return " ".join(path)


def _quoted(path: str, args: Sequence[str]) -> str:
    """Return the command line of a prompt that was given as several words, with the words as one."""
    words = args[len(path.split()) - 1 :]
    if any(word.startswith("-") for word in words):
        return f"{path} 'fix the test'"
    start = 0 if path.endswith("run") else 1
    import shlex

    return f"{path} {shlex.join([*words[:start], ' '.join(words[start:])])}"


def _choice_meant(error: click.ClickException) -> str:
    kind = getattr(getattr(error, "param", None), "type", None)
    value, is_no_choice, _ = error.message.partition("' is not one of ")
    if not isinstance(kind, click.Choice) or not is_no_choice:
        return ""
    from agh.core.suggest import closest

    return closest(value.lstrip("'"), map(str, kind.choices))


def _wants_json(args: Sequence[str]) -> bool:
    for option, value in zip(args, [*args[1:], ""], strict=True):
        if option in ("-ojson", "-ojsonl", "--output=json", "--output=jsonl"):
            return True
        if option in ("-o", "--output") and value in ("json", "jsonl"):
            return True
    return False
