"""agh-config(5): every setting with its type, its default and an example; and the keys of its tables."""

from __future__ import annotations

from pathlib import Path

from agh import config
from agh.config import SETTINGS
from tools.roff import bold, escape, header, paragraphs, prose, section, tagged, verbatim

SPEC = Path(__file__).parent.parent / "docs/spec.md"
# By the name of the function that reads a value.
TYPES = {
    "text": "a string",
    "directory": "an absolute path; `~` is your home directory",
    "directories": "a list of absolute paths",
    "patterns": "a list of regular expressions",
    "permission_mode": "`deny-all`, `approve-reads` or `approve-all`",
    "theme": "`auto`, `light`, `dark` or `none`",
    "limit_reaction": "`fail` or `park`",
    "seconds": "a time span, such as `90s`, `5m`, `2h`, `3d` or a number of seconds",
    "request_timeout": "a time span such as `90s`, `5m` or `2h`, 0 to wait forever, or `auto`: "
    "wait forever if the prompt came from a terminal or `[notify]` is set up, otherwise 5 minutes",
    "count": "a whole number",
    "amount": "a number",
    "read_servers": "a list of tables; see MCP SERVERS",
    "read_rules": "a list of tables; see PERMISSION RULES",
    "read_hooks": "a list of tables; see HOOKS",
    "read_notify": "a table; see NOTIFICATIONS",
    "tables": "tables with a name; see PLACES",
}
EXAMPLES = {
    "agent": '"claude"',
    "permissions.mode": '"deny-all"',
    "permissions.timeout": '"10m"',
    "questions.timeout": '"8h"',
    "env.file": '"~/.agh/keys"',
    "redaction.patterns": "['ACME-[0-9a-f]{32}']",
    "session.limits.max_cost": "5.0",
    "session.limits.max_turns": "50",
    "session.limits.max_time": '"2h"',
    "session.limits.max_bytes": "1073741824",
    "session.limits.max_turn_bytes": "268435456",
    "session.limits.on_usage_limit": '"park"',
    "session.limits.max_windows": "3",
    "session.limits.jitter": '"5m"',
    "session.limits.continue_with": '"Go on with the failing tests."',
    "session.reserve_bytes": "1073741824",
    "session.supervision.heartbeat": '"10s"',
    "session.supervision.progress_notify_interval": '"5m"',
    "session.supervision.inactivity_warning_after": '"5m"',
    "session.supervision.inactivity_timeout": '"1h"',
    "session.supervision.tool_inactivity_timeout": '"6h"',
    "session.supervision.timeout_cancel_grace": '"1m"',
    "session.supervision.prompt_deadline": '"4h"',
    "session.worktrees": '"/scratch/me/worktrees"',
    "session.idle_after": '"1h"',
    "session.cancel_grace": '"10s"',
    "session.queue_cap": "50",
    "session.input_bytes": "1048576",
    "session.retry_delay": '"10s"',
    "session.history_budget": "120000",
    "session.transcript_replay_depth": "200",
    "timeouts.initialize": '"2m"',
    "timeouts.new": '"2m"',
    "timeouts.load": '"5m"',
    "catalog.url": '""',
    "ui.theme": '"dark"',
    "trusted_workspaces": '["/src/app"]',
}
SERVER_KEYS = {
    "name": "The server's name, a string. Required.",
    "command": "The program to start, a string.",
    "args": "Its arguments, a list of strings. The default is empty.",
    "env": "Its environment variables, a table of strings. The default is empty.",
    "type": "`http` or `sse`, for a server that has a `url` instead of a `command`.",
    "url": "The address of such a server, a string.",
    "headers": "Headers to send to it, a table of strings. The default is empty.",
}
PLACE_KEYS = {
    "on": "The address: `ssh:build1`, `docker:run:IMAGE`, `slurm:PARTITION` and so on. Required.",
    "dir": "The workspace's directory there, a string. The default is the same path as here.",
    "options": "More arguments for the program that reaches the place, a list. The default is empty.",
    "command": "The program that reaches the place, a list, if it is not the usual one.",
    "env": "Variables to forward (`NAME`) or to set there (`NAME=VALUE`), a list. The default is empty.",
    "memory": "A memory limit, such as `16G`. There is none by default.",
    "cpus": "A limit on CPUs, a number. There is none by default.",
    "agent_on": "If the session is kept on that host (`--keeper there`), the place where the host runs "
    "the agent, as the host names it, such as `slurm:batch`.",
    "idle_after": "End the agent of a session there after this long without a turn. The default is 30s in a "
    "place with slots (`slurm`), and `session.idle_after` elsewhere.",
    "writable_git": "Whether a container may write `.git/hooks` and `.git/config`. The default is false.",
}
TABLES = {
    "mcp_servers": """[[mcp_servers]]
name = "files"
command = "npx"
args = ["-y", "@modelcontextprotocol/server-filesystem", "/src"]

[[mcp_servers]]
name = "wiki"
type = "http"
url = "https://wiki.example.org/mcp"
headers = { Authorization = "Bearer TOKEN" }
""",
    "permissions.rules": """[[permissions.rules]]
decision = "allow"
kind = "execute"
command = "make test*"

[[permissions.rules]]
decision = "deny"
path = "secrets/*"
""",
    "hooks": """[[hooks]]
event = "turn_end"
command = "logger -t agh"
mode = "async"
timeout = "10s"
""",
    "notify": """[notify]
desktop = true
ntfy = "https://ntfy.sh/my-topic"
turn_end_after = "2m"
""",
    "places": """[places.gpu]
on = "slurm:gpu"
options = ["--gres=gpu:1"]
memory = "16G"
cpus = 4
env = ["HF_TOKEN", "TMPDIR=/scratch/me/tmp"]
""",
}
RULES = """
All keys but `decision` are patterns, in which `*`, `?` and `[…]` work as in a shell. A rule applies to a
request if all of its patterns match. The first rule that applies decides.
"""
FILES = """
`~/.agh/config.toml` is yours (`$AGH_HOME/config.toml` if AGH_HOME is set). A workspace may add
`.agh/config.toml`, which takes effect once you trust it: `agh workspace trust` shows it first.

A workspace can make your permissions and limits stricter, never looser. The stricter mode wins, and so does
the lower limit. Its hooks, MCP servers and places are added to yours. Its rules can deny or ask, never
allow. For other settings, such as `agent`, its value is used. Options on the command line win over both
files.

An unknown key or an invalid value is an error that names the file. `agh config validate` checks both files;
`agh config show` prints every value and where it comes from; `agh config set` changes a value and keeps your
comments.
"""


def page() -> str:
    """Format agh-config(5). Raise ValueError if a setting has no type or no example."""
    names = [name for name in SETTINGS if name not in TABLES]
    if missing := [name for name in names if name not in EXAMPLES]:
        raise ValueError(f"settings without an example: {', '.join(missing)}")
    example = 'agent = "claude"\n\n[permissions]\nmode = "deny-all"\n\n[session.limits]\nmax_cost = 5.0\n'
    return header("agh-config", 5) + "".join(
        (
            section("NAME", r"agh\-config \- the settings of agh, config.toml"),
            section("EXAMPLES", verbatim(example)),
            section("DESCRIPTION", paragraphs(FILES)),
            section("SETTINGS", f"{prose('A dot in a key stands for a TOML table.')}\n{_format_settings()}"),
            section("MCP SERVERS", _format_table("mcp_servers", _format_keys(SERVER_KEYS))),
            section(
                "PERMISSION RULES",
                f"{prose(RULES)}\n.PP\n{_format_table('permissions.rules', _format_rows('decision'))}",
            ),
            section("HOOKS", _format_table("hooks", _format_rows("event"))),
            section("NOTIFICATIONS", _format_table("notify", _format_rows("bell"))),
            section("PLACES", _format_table("places", _format_keys(PLACE_KEYS))),
            section("SEE ALSO", _format_see_also()),
        )
    )


def example_of(name: str) -> str:
    """Return a setting's example as TOML."""
    return TABLES.get(name) or f"{name} = {EXAMPLES[name]}\n"


def type_of(name: str) -> str:
    """Return what kind of value a setting takes, for people."""
    return TYPES[SETTINGS[name].read.__name__]


def _format_settings() -> str:
    terms = []
    for name, setting in SETTINGS.items():
        meaning = f"{setting.meaning[0].upper()}{setting.meaning[1:]}."
        default = f"`{setting.default}`" if setting.default not in ("", [], {}) else "empty"
        if " " in str(setting.default):
            default = f'`"{setting.default}"`'
        is_noted = "in your" in setting.meaning
        own = " Only in your own config.toml." if name in config.OWN_ONLY and not is_noted else ""
        kind = type_of(name)
        text = prose(f"{meaning}{own} Type: {kind}. Default: {default}.")
        if name in EXAMPLES:
            text += f"\n.br\nExample: {bold(example_of(name).strip())}"
        terms.append((bold(name), text))
    return tagged(terms)


def _format_table(name: str, keys: str) -> str:
    return f"{escape('Keys of the table:')}\n{keys}\n{verbatim(TABLES[name])}"


def _format_keys(keys: dict[str, str]) -> str:
    return tagged([(bold(name), prose(meaning)) for name, meaning in keys.items()])


def _format_rows(first: str) -> str:
    """Format the table of the contract whose first key this is, so that its text is written only once."""
    lines = SPEC.read_text().split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| `{first}` | "))
    heads = [cell.strip() for cell in lines[start - 2].strip("|").split("|")]
    terms = []
    for line in lines[start:]:
        if not line.startswith("| "):
            break
        name, *rest = [cell.strip() for cell in line.strip("|").split(" | ")]
        meaning = f"{rest[-1][0].upper()}{rest[-1][1:]}."
        default = f" Default: {rest[0]}." if heads[1] == "default" else ""
        terms.append((bold(name.strip("`")), prose(meaning + default)))
    return tagged(terms)


def _format_see_also() -> str:
    return f"{bold('agh-config')}(1), {bold('agh-cron')}(7), {bold('agh-places')}(7), {bold('agh-notify')}(1)"
