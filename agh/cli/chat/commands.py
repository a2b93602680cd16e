"""The commands of the chat: words that begin with a slash and are not for the agent.

Promises: a command returns what to print or to page and never touches the screen, so it can run in a thread.
Failures are AghErrors, as everywhere. A command of the agent with the same name is reached with two slashes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agh.cli.approval import Line, diff_lines, styled
from agh.cli.chat.ending import Ending
from agh.cli.chat.keys import HELP
from agh.console import terminal
from agh.core.named_tuple import NamedTuple
from agh.core.suggest import closest
from agh.errors import Usage
from agh.home import Session
from agh.store import meta
from agh.store.reader import Query, Reader

LONG_OUTPUT = 5  # lines; a longer one is folded where it is shown
SEARCHED = 50  # results of tools among which /last looks for a long one


class Result(NamedTuple):
    """What a command leads to: text to print, a function for the terminal, the editor, or the chat's end."""

    text: str = ""
    show: Callable[[], None] | None = None
    edits: bool = False
    ending: Ending | None = None


class Command(NamedTuple):
    """A command: what it does, in a few words, and the function that does it."""

    help: str
    run: Callable[[Session, str], Result]


def agent_commands(session: Session) -> list[tuple[str, str]]:
    """Return the commands that the agent has announced, each with its description."""
    entries = meta.read(session).get("commands") or []
    return [(f"/{entry.get('name')}", str(entry.get("description") or "")) for entry in entries]


def all_commands(session: Session) -> list[tuple[str, str]]:
    """Return the commands of the chat and of the agent; the agent's are reached with // if there are both."""
    announced = agent_commands(session)
    own = [(name, command.help) for name, command in COMMANDS.items()]
    return own + [(f"/{name}" if name in COMMANDS else name, help) for name, help in announced]


def values_of(session: Session, command: str) -> list[str]:
    """Return what can follow a command: the values that the agent offers, or the names of sessions."""
    if command in ("/model", "/mode"):
        return _offered(meta.read(session).get("offers") or {}, command[1:])
    if command == "/agent":
        from agh.cli.handover import installed_agents

        return [name for name in installed_agents() if name != meta.read(session)["agent_name"]]
    if command == "/attach":
        from agh.store.views import list_views

        views = list_views(lambda view: "error" not in view and not view.get("archived"))
        return [str(view.get("name") or view["id"]) for view in views if view["id"] != session.id]
    return []


def for_agent(session: Session, text: str) -> str | None:
    """Return the prompt that a text with a slash stands for; None if it is a command of the chat.

    Raise Usage if neither the chat nor the agent has such a command.
    """
    if text.startswith("//"):
        return text[1:]
    word = text.split(maxsplit=1)[0]
    if word in COMMANDS:
        return None
    announced = [name for name, _ in agent_commands(session)]
    if word in announced or "/" in word[1:] or word == "/":  # a path is no command
        return text
    nearest = closest(word, [*COMMANDS, *announced])
    hint = f"did you mean {nearest}? " if nearest else ""
    raise Usage(
        f"there is no command {word}", hint=f"{hint}/help lists them; /{word} sends it to the agent anyway"
    )


def run_command(session: Session, text: str) -> Result:
    """Run a command of the chat."""
    word, _, argument = text.partition(" ")
    return COMMANDS[word.strip()].run(session, argument.strip())


def _help(session: Session, _: str) -> Result:
    rows = [f"{name:<15}{command.help}\n" for name, command in COMMANDS.items()]
    announced = [terminal.one_line(name, 40) for name, _ in agent_commands(session)]
    own = f"\nFrom the agent: {' '.join(announced)}\n" if announced else ""
    return Result(
        text=f"{HELP}\n{''.join(rows)}{own}\nStart with // to send a slash command to the agent unchanged.\n"
    )


def _choose(name: str) -> Callable[[Session, str], Result]:
    def run(session: Session, value: str) -> Result:
        from agh.sessions.update import choose

        metadata = meta.read(session)
        if value:
            choose(session, {name: value})
            return Result(text=f"{name}: {terminal.one_line(value, 200)}\n")
        current = str((metadata.get("current") or {}).get(name) or metadata.get(name) or "")
        values = _offered(metadata.get("offers") or {}, name) or ([current] if current else [])
        if not values:
            return Result(text=f"the agent offers no choice of {name}\n")
        marked = [(value == current, terminal.one_line(value, 200)) for value in values]
        return Result(text="".join(f"{'*' if is_current else ' '} {value}\n" for is_current, value in marked))

    return run


def _agent(session: Session, name: str) -> Result:
    if name:
        from agh.cli.handover import check_handover

        return Result(text=check_handover(session, name), ending=Ending(agent=name))
    view = meta.read(session)
    words = [view["agent_name"], view.get("agent_version"), view.get("place")]
    return Result(text=terminal.one_line(" ".join(str(word) for word in words if word), 200) + "\n")


def _cost(session: Session, _: str) -> Result:
    from agh.cli.session.usage import format_usage, read_usage, total

    rows = total(read_usage([(session, meta.read(session))]), "turn")
    return Result(text=format_usage(rows) or "the agent has reported no usage\n")


def _diff(session: Session, _: str) -> Result:
    text = changes_of_last_turn(session)
    if not text:
        return Result(text="the last turn reported no changed files\n")
    return _in_pager(styled(diff_lines(text)))


def changes_of_last_turn(session: Session) -> str:
    """Return what the agent reports to have changed in the last turn, as a unified diff."""
    from agh.cli.look.turn_view import diff_lines as unified

    with Reader(session) as reader:
        prompts = reader.newest(Query(types=("user_message",)), 1)
        turn = prompts[0].turn_id if prompts else ""
        results = reader.rows(Query(types=("tool_result",), turn=turn)) if turn else iter(())
        contents = [row.parsed().get("tool_result") for row in results]
    lines: list[str] = []
    for result in contents:
        for patch in (result.get("structured_patch") or []) if isinstance(result, dict) else []:
            if isinstance(patch, dict):
                lines += unified(patch.get("oldText"), patch.get("newText"), str(patch.get("path")))
    return "\n".join(lines)


def _last(session: Session, _: str) -> Result:
    with Reader(session) as reader:
        rows = reader.newest(Query(types=("tool_result",)), SEARCHED)
    outputs = [(content, _output(content.get("tool_result"))) for content in (row.parsed() for row in rows)]
    outputs = [(content, text) for content, text in outputs if text.strip()]
    if not outputs:
        return Result(text="no tool has printed anything yet\n")
    longer = [entry for entry in outputs if entry[1].count("\n") >= LONG_OUTPUT]
    content, text = (longer or outputs)[-1]
    title = terminal.one_line(str(content.get("title") or content.get("tool_name") or "tool"), 200)
    return _in_pager(styled([Line(title, "title")]) + terminal.clean(text).rstrip("\n") + "\n")


def _output(result: Any) -> str:
    if not isinstance(result, dict):
        return ""
    parts = [result.get(key) for key in ("content", "stdout", "stderr", "error")]
    return "\n".join(dict.fromkeys(str(part) for part in parts if part))


def _history(session: Session, _: str) -> Result:
    from agh.cli.look.page import show_conversation

    return Result(show=lambda: show_conversation(session, full=False, use_pager=True))


def _in_pager(text: str) -> Result:
    from agh.console.pager import page

    return Result(show=lambda: page(text))


def _queue(session: Session, argument: str) -> Result:
    from agh.sessions.queue import cancel_inputs, read_inputs

    if argument == "drop":
        dropped = cancel_inputs(session, None)
        return Result(text=f"dropped {len(dropped)} queued prompt{'s' * (len(dropped) != 1)}\n")
    waiting = [entry for entry in read_inputs(session, everything=False) if entry["status"] == "queued"]
    lines = [f"{number}. {_prompt_text(entry['prompt'])}\n" for number, entry in enumerate(waiting, 1)]
    return Result(text="".join(lines) + "/queue drop drops them\n" if lines else "the queue is empty\n")


def _prompt_text(blocks: list[dict[str, Any]]) -> str:
    return terminal.one_line(next((str(block["text"]) for block in blocks if block.get("text")), ""), 70)


def _attach(session: Session, name: str) -> Result:
    from agh.store import sessions

    if not name:
        raise Usage("name a session", hint="press Tab after /attach to list them")
    return Result(ending=Ending(session_id=sessions.resolve(name).id))


def _edit(session: Session, _: str) -> Result:
    return Result(edits=True)


def _quit(session: Session, _: str) -> Result:
    return Result(ending=Ending())


def _offered(offers: dict[str, Any], name: str) -> list[str]:
    """Return the values that the agent offers for its model or its mode."""
    from agh.core.acp.frames import only_dicts

    for option in only_dicts(offers.get("configOptions")):
        if name in (option.get("category"), option.get("id")):
            values = only_dicts(option.get("options"))
            groups = [entry for value in values for entry in only_dicts(value.get("options")) or [value]]
            return [str(entry["value"]) for entry in groups if entry.get("value")]
    group = offers.get(f"{name}s")
    if not isinstance(group, dict):
        return []
    key, id = ("availableModes", "id") if name == "mode" else ("availableModels", "modelId")
    return [str(entry[id]) for entry in only_dicts(group.get(key)) if entry.get(id)]


COMMANDS = {
    "/help": Command("list keys and commands", _help),
    "/model": Command("show the models, or choose one", _choose("model")),
    "/mode": Command("show the modes, or choose one", _choose("mode")),
    "/agent": Command("show the agent, or hand over to another", _agent),
    "/diff": Command("show what the last turn changed", _diff),
    "/last": Command("show the last long tool output in full", _last),
    "/history": Command("show the whole conversation", _history),
    "/cost": Command("show tokens and cost by turn", _cost),
    "/queue": Command("list queued prompts; /queue drop drops them", _queue),
    "/edit": Command("write the prompt in your editor", _edit),
    "/attach": Command("switch to another session", _attach),
    "/quit": Command("leave; the agent keeps working", _quit),
}
