"""The manual: a page of section 1 for every command, and the generated parts of the pages of section 7."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click

from agh.adapters import hookspecs
from agh.adapters.agents import AgentRecord
from agh.cli.tree import commands, plugins_of_commands
from agh.config import SETTINGS
from tools.roff import bold, escape, header, italic, paragraphs, prose, section, tagged, verbatim

EXITS = {
    0: "It worked.",
    1: "The agent or the turn failed.",
    2: "Usage: the command line or a file of settings is wrong; nothing was changed.",
    3: "A limit on time passed.",
    4: "No such session, agent or workspace.",
    5: "A permission was refused or waits for an answer; or the home is not private.",
    6: "The session is busy, or cannot be attached to.",
    7: "The keeper or the agent died in the middle of a turn; the session can be resumed.",
    8: "Stored data is damaged and needs a person.",
    9: "The agent is not installed, or not logged in.",
    70: "A bug in agh.",
    130: "Interrupted from the keyboard.",
    141: "The reader of the output went away.",
}
ENVIRONMENT = {
    "AGH_HOME": "The home; the default is `~/.agh`.",
    "AGH_PLUGINS": "The plugins to load, separated by commas; the empty text loads none, unset loads all.",
    "AGH_DEBUG": "When set, a bug in agh shows its traceback.",
    "NO_COLOR": "When set, no colours on a terminal.",
    "TERM": "A `dumb` terminal gets plain text.",
    "COLUMNS": "The width of the terminal, where it differs from the real one.",
    "PATH": "Where agents are looked for.",
}
FOR_AGENTS = {
    "AGH_SESSION_ID": "Set for the agent and its tools: the session that they work in.",
    "AGH_LAUNCH": "Set for the agent and its tools: the mark by which processes that escaped are found.",
}
FILES = {
    "~/.agh/": "The home, `$AGH_HOME`. It belongs to one user: mode 0700, its files 0600.",
    "~/.agh/config.toml": "Settings. A workspace may add `.agh/config.toml`; it wins, flags win over both.",
    "~/.agh/agents/NAME.toml": "Agents of your own; also `.agh/agents/NAME.toml` in a workspace.",
    "~/.agh/workspaces.toml": "Directories that have a name.",
    "~/.agh/sessions/ID/meta.json": "What a session is and the last thing known of its state.",
    "~/.agh/sessions/ID/events.db": "Its event log, an SQLite database; see `agh-events`(7).",
    "~/.agh/sessions/ID/lock": "Held by the keeper while the session is live; never removed.",
    "~/.agh/sessions/ID/keeper.sock, keeper.log": "The keeper's control socket and its own remarks.",
    "~/.agh/logs/crash-bundles/": "One redacted file per failure.",
    "~/.cache/agh/": "What can be made again, such as the index of the search; it may be removed.",
}
FILES_OF = {
    "agent": ("~/.agh/config.toml", "~/.agh/agents/NAME.toml"),
    "config": ("~/.agh/config.toml",),
    "plugins": ("~/.agh/config.toml",),
    "completion": (),
    "workspace": ("~/.agh/workspaces.toml", "~/.agh/config.toml"),
}
COMPLETION_FILES = {
    "share/bash-completion/completions/agh": "Installed with agh, for bash.",
    "share/zsh/site-functions/_agh": "For zsh.",
    "share/fish/vendor_completions.d/agh.fish": "For fish.",
}
ABOUT = """
agh runs coding agents that speak the Agent Client Protocol as durable sessions on local files. There is no
daemon. A session is a directory with an append-only event log; while it is live, a keeper process owns it,
holds its lock, runs its agent and is the only writer of its log. Everything that is shown is read from that
log, so it can be read while the agent works, after it ended, and after everything was killed.

Commands print data on standard output and remarks on standard error. `-o json` gives one document,
`-o jsonl` one object per line; errors are then one JSON object on standard error. Where a command takes an
ID it also takes a unique prefix of one, a session's name, or `@last`, the newest session of this directory.
"""
MAN = Path(__file__).parent.parent / "man"


def manual(root: click.Group) -> dict[str, str]:
    """Every page of section 1, by its file's name."""
    owners = plugins_of_commands()
    silent = silences(root)
    if silent:
        raise ValueError("there is nothing to write about:\n" + "\n".join(silent))
    return {f"{title(path)}.1": page(path, command, owners) for path, command in commands(root)}


def silences(root: click.Group) -> list[str]:
    """What the commands do not say of themselves, and should: help, an example, help for every option."""
    found = []
    for path, command in commands(root):
        name = " ".join(("agh", *path))
        found += [f"{name}: no help"] * (not command.help)
        found += [f"{name}: no example in its epilog"] * (not examples(command))
        options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        found += [f"{name} {one.opts[0]}: no help" for one in options if not one.help]
    return found


def title(path: tuple[str, ...]) -> str:
    return "-".join(("agh", *path))


def page(path: tuple[str, ...], command: click.Command, owners: dict[str, str]) -> str:
    """One command, in the order in which people look for things."""
    name = " ".join(("agh", *path))
    plugin = owners.get(path[0], "") if path else ""
    more = f"\n\nThis command comes with the plugin `{plugin}`." if plugin else ""
    about = f"\n\n{ABOUT.strip()}" if not path else ""
    help = inspect.cleandoc(command.help or "").replace("\b\n", "") + about + more
    return header(title(path), 1) + "".join(
        (
            section("NAME", f"{escape(title(path))} \\- {escape(_summary(command))}"),
            section("SYNOPSIS", _synopsis(name, command)),
            section("DESCRIPTION", paragraphs(help)),
            section("COMMANDS", _commands(path, command)),
            section("OPTIONS", _options(command)),
            section("SETTINGS", _settings() if path in ((), ("config",)) else ""),
            section("PROMISES", promises() if not path else ""),
            section("EXIT STATUS", _exits()),
            section("FILES", _files(path)),
            section("ENVIRONMENT", _environment(path)),
            section("EXAMPLES", verbatim("\n".join(examples(command)))),
            section("SEE ALSO", _see_also(path, command)),
        )
    )


def examples(command: click.Command) -> list[str]:
    """The command lines of the epilog."""
    text = re.sub(r"^Examples?(?: \([^)]*\))?:\s*", "", (command.epilog or "").lstrip("\b\n"))
    return [line.strip() for line in text.splitlines() if "agh" in line]


def promises() -> str:
    """The promises of the README, and what is not promised."""
    text = (MAN.parent / "README.md").read_text()
    body = text.partition("\n## Promises\n")[2].partition("\n## ")[0].strip()
    listed = re.findall(r"^(\d+)\. ((?:.+\n?(?!\d+\. ))+)", body, flags=re.M)
    return "\n".join(f".IP {number}. 4\n{prose(promise)}" for number, promise in listed) + (
        "\n.PP\n" + paragraphs(body[body.index("Not promised") :])
    )


def hooks() -> str:
    """The hooks of the plugin contract, from their docstrings."""
    return "\n".join(
        _hook(name, hook) for name, hook in sorted(vars(hookspecs).items()) if name.startswith("agh_")
    )


def _hook(name: str, hook: object) -> str:
    if not callable(hook) or not hook.__doc__:
        raise ValueError(f"{name}: a hook needs a docstring")
    said, *parameters = re.split(r"^:param ", inspect.cleandoc(hook.__doc__), flags=re.M)
    described = [tuple(one.split(":", 1)) for one in parameters]
    missing = set(inspect.signature(hook).parameters) - {given for given, _ in described}
    if missing:
        raise ValueError(f"{name}: no word about {', '.join(sorted(missing))}")
    terms = [(italic(given), prose(text)) for given, text in described]
    signature = f"{name}({', '.join(inspect.signature(hook).parameters)})"
    return f".SS {escape(signature)}\n{paragraphs(said)}\n{tagged(terms)}"


def agent_fields() -> str:
    """The fields of an agent, from the comments beside them."""
    source = inspect.getsource(AgentRecord)
    fields = re.findall(r"^    (\w+): .*?(?:  # (.*))?$", source, flags=re.M)
    silent = [name for name, meaning in fields if not meaning]
    if silent:
        raise ValueError(f"fields of an agent without a comment: {', '.join(silent)}")
    shown = [
        (bold(name), prose(f"{text[0].upper()}{text[1:]}.")) for name, text in fields if name != "source"
    ]
    return tagged(shown)


def _summary(command: click.Command) -> str:
    return " ".join(re.split(r"(?<=[.:])\s|\n\s*\n", inspect.cleandoc(command.help or ""))[0].split()).rstrip(
        ".:"
    )


def _synopsis(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    pieces = [italic(piece) for piece in command.collect_usage_pieces(context)]
    return f"{bold(name)} {' '.join(pieces)}"


def _commands(path: tuple[str, ...], command: click.Command) -> str:
    if not isinstance(command, click.Group):
        return ""
    below = [(one, found) for one, found in commands(command, path) if len(one) == len(path) + 1]
    return tagged([(f"{bold(title(one))}(1)", escape(_summary(found) + ".")) for one, found in below])


def _options(command: click.Command) -> str:
    context = click.Context(command, help_option_names=["-h", "--help"])
    shown = []
    for option in command.get_params(context):
        if isinstance(option, click.Option) and not option.hidden:
            shown.append((_term(option, context), _meaning(option, context)))
    return tagged(shown)


def _term(option: click.Option, context: click.Context) -> str:
    names = ", ".join(bold(name) for name in (*option.opts, *option.secondary_opts))
    if option.is_flag or option.count:
        return names
    choice = isinstance(option.type, click.Choice) and not option.metavar
    return f"{names} {italic((option.name or '').upper() if choice else option.make_metavar(context))}"


def _meaning(option: click.Option, context: click.Context) -> str:
    text = prose(option.help or "")
    if isinstance(option.type, click.Choice):
        text += f" One of {', '.join(bold(str(value)) for value in option.type.choices)}."
    if option.show_default and isinstance(option.default, str | int) and not option.is_flag:
        text += f" The default is {bold(str(option.default))}."
    return text


def _settings() -> str:
    shown = [
        (
            bold(name),
            prose(f"{one.meaning[0].upper()}{one.meaning[1:]}. The default is {_value(one.default)}."),
        )
        for name, one in SETTINGS.items()
    ]
    return f"{prose('Keys of `config.toml`; a dot stands for a table.')}\n{tagged(shown)}"


def _value(default: object) -> str:
    return f"`{default}`" if default not in ("", []) else "empty"


def _exits() -> str:
    return tagged([(bold(str(number)), prose(meaning)) for number, meaning in EXITS.items()])


def _files(path: tuple[str, ...]) -> str:
    shown = {name: FILES[name] for name in (FILES_OF.get(path[0], FILES) if path else FILES)}
    if path[:1] == ("completion",):
        shown = COMPLETION_FILES
    return tagged([(italic(name), prose(meaning)) for name, meaning in shown.items()])


def _environment(path: tuple[str, ...]) -> str:
    shown = ENVIRONMENT | (FOR_AGENTS if not path else {})
    return tagged([(bold(name), prose(meaning)) for name, meaning in shown.items()])


def _see_also(path: tuple[str, ...], command: click.Command) -> str:
    above = [title(path[:-1])] if path else []
    others = sorted(page.stem for page in MAN.glob("man7/*.7"))
    pages = [f"{bold(one)}(1)" for one in above] + [f"{bold(one)}(7)" for one in others]
    return ", ".join(pages)


def filled(text: str, mark: str, body: str) -> str:
    """A page whose part between the comments `mark` and `end of mark` is `body`."""
    start, end = f'.\\" {mark}\n', f'.\\" end of {mark}\n'
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"no place for {mark}")
    return f"{before}{start}{body}\n{end}{after}"
