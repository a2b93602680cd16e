"""The options of one agent process: from AGH_ECHO_OPTIONS, then from the command line, which wins.

They are parsed by hand: argparse would add a fifth to the start-up time.
"""

from __future__ import annotations

import os

CAPS = ("load", "resume", "list", "fork", "close", "delete", "additionalDirectories")
OUTCOMES = (
    "ok", "not-found", "not-found-text", "method-not-found", "unclear", "unclear-listed", "unclear-missing",
    "error", "null", "empty", "late", "die", "hang",
)  # fmt: skip

HELP = f"""usage: agh-echo [OPTION…]

A scripted ACP agent on stdin and stdout. Options, also read from AGH_ECHO_OPTIONS:
  --caps LIST          what to advertise, of {",".join(CAPS)}; or none
  --on-load OUTCOME    how session/load ends: {", ".join(OUTCOMES)}
  --on-resume OUTCOME  how session/resume ends
  --init-delay S       answer initialize after S seconds
  --init-hang          never answer initialize
  --auth-required      refuse sessions until authenticate is called
  --chatter            a stray line on stdout and one on stderr, at the start
  --deaf               survive the end of stdin, and SIGTERM
  --wrapper            run the agent as a child, the way npx does, and wait for it
  --no-usage           never report usage
  --system-prompt      advertise that session/new takes a system prompt
  --switch             offer the boolean option `brief` to a client that can show one
  --page N             list N sessions at a time (default: all)
  --slow S             wait S seconds after every chunk of text
  --state DIR          where sessions are stored (else AGH_ECHO_HOME, else the XDG state directory)

example: agh-echo --caps load,list --on-load not-found
"""


class BadOption(Exception):
    """An option that is unknown, or whose value is invalid."""


class Options:
    """The options, with their defaults."""

    caps: tuple[str, ...] = CAPS
    on_load = "ok"
    on_resume = "ok"
    init_delay = 0.0
    init_hang = False
    auth_required = False
    chatter = False
    deaf = False
    wrapper = False
    no_usage = False
    system_prompt = False
    switch = False
    page = 0.0
    slow = 0.0
    state = ""


def words(argv: list[str]) -> list[str]:
    """Return all option words. Later ones override earlier ones."""
    from_environment = os.environ.get("AGH_ECHO_OPTIONS", "")
    if not from_environment:
        return argv
    import shlex

    return shlex.split(from_environment) + argv


def parse(argv: list[str]) -> Options:
    """Return the options in these words. Raise BadOption."""
    options = Options()
    rest = iter(argv)
    for word in rest:
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if not flag.startswith("--") or name.startswith("_") or not hasattr(Options, name):
            raise BadOption(f"unknown option {flag}")
        default = getattr(Options, name)
        if isinstance(default, bool):
            setattr(options, name, True)
            continue
        if not equals:
            value = next(rest, "")
        setattr(options, name, _convert(flag, default, value))
    return options


def _convert(flag: str, default: object, value: str) -> object:
    """Return a value in the type of its default."""
    if isinstance(default, tuple):
        caps = tuple(cap for cap in value.split(",") if cap not in ("", "none"))
        if not set(caps) <= set(CAPS):
            raise BadOption(f"{flag} takes a list from {','.join(CAPS)}, or none")
        return caps
    if isinstance(default, float):
        try:
            return float(value)
        except ValueError:
            raise BadOption(f"{flag} takes a number") from None
    if default == "ok" and value not in OUTCOMES:
        raise BadOption(f"{flag} takes one of {', '.join(OUTCOMES)}")
    return value
