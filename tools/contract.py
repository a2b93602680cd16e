"""The parts of agh-plugins(7) that come from the source: the hooks, and the fields of an agent."""

from __future__ import annotations

import inspect
import re

from agh.adapters import hookspecs
from agh.adapters.agents import AgentRecord
from tools.roff import bold, escape, italic, paragraphs, prose, tagged


def filled(text: str, mark: str, body: str) -> str:
    """A page whose part between the comments `mark` and `end of mark` is `body`."""
    start, end = f'.\\" {mark}\n', f'.\\" end of {mark}\n'
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"no place for {mark}")
    return f"{before}{start}{body}\n{end}{after}"


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
