"""The parts of agh-plugins(7) that come from the source: the hooks, and the fields of an agent."""

from __future__ import annotations

import inspect
import re

from agh.adapters import hookspecs
from agh.adapters.agents import AgentRecord
from tools.roff import bold, escape, italic, paragraphs, prose, tagged


def fill(text: str, mark: str, body: str) -> str:
    """Replace the part of a page between the comments `mark` and `end of mark` by `body`."""
    start, end = f'.\\" {mark}\n', f'.\\" end of {mark}\n'
    before, opening, rest = text.partition(start)
    _, closing, after = rest.partition(end)
    if not opening or not closing:
        raise ValueError(f"no place for {mark}")
    return f"{before}{start}{body}\n{end}{after}"


def hooks() -> str:
    """Describe the hooks of the plugin contract, from their docstrings."""
    return "\n".join(
        _describe_hook(name, hook)
        for name, hook in sorted(vars(hookspecs).items())
        if name.startswith("agh_")
    )


def _describe_hook(name: str, hook: object) -> str:
    if not callable(hook) or not hook.__doc__:
        raise ValueError(f"{name}: a hook needs a docstring")
    description, *parameters = re.split(r"^:param ", inspect.cleandoc(hook.__doc__), flags=re.M)
    documented = [tuple(parameter.split(":", 1)) for parameter in parameters]
    missing = set(inspect.signature(hook).parameters) - {parameter for parameter, _ in documented}
    if missing:
        raise ValueError(f"{name}: no word about {', '.join(sorted(missing))}")
    terms = [(italic(parameter), prose(text)) for parameter, text in documented]
    signature = f"{name}({', '.join(inspect.signature(hook).parameters)})"
    return f".SS {escape(signature)}\n{paragraphs(description)}\n{tagged(terms)}"


def agent_fields() -> str:
    """Describe the fields of an agent, from the comments beside them."""
    source = inspect.getsource(AgentRecord)
    fields = re.findall(r"^    (\w+): .*?(?:  # (.*))?$", source, flags=re.M)
    uncommented = [name for name, meaning in fields if not meaning]
    if uncommented:
        raise ValueError(f"fields of an agent without a comment: {', '.join(uncommented)}")
    terms = [
        (bold(name), prose(f"{text[0].upper()}{text[1:]}.")) for name, text in fields if name != "source"
    ]
    return tagged(terms)
