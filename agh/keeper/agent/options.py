"""Model, mode and other options of an agent: what it offers, and choosing among it.

Chosen through the agent's config options where it has them, else through the older `set_mode` and
`set_model`. A value that the agent does not offer is an error that lists what it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from agh.core.frames import redacted_error
from agh.errors import AghError, OptionUnknown
from agh.keeper.agent.connection import RpcError
from agh.keeper.server import Answer
from agh.keeper.session import Live
from agh.store import meta


class Choice(NamedTuple):
    """One thing that can be chosen: its values, and the request that chooses one."""

    name: str
    values: list[str]
    method: str
    params: dict[str, Any]
    value_key: str


def offers_in(answer: dict[str, Any]) -> dict[str, Any]:
    """What an answer says of choices. An agent need not say it again when it resumes."""
    return {key: answer[key] for key in ("configOptions", "modes", "models") if answer.get(key)}


def offered(answer: dict[str, Any]) -> list[Choice]:
    """What an agent's answer to new, load or resume lets us choose."""
    found = []
    for option in _dicts(answer.get("configOptions")):
        name = str(option.get("category") or option.get("id"))
        name = name if name in ("model", "mode") else str(option.get("id"))
        params = {"configId": option.get("id")}
        if option.get("type") == "boolean":
            params["type"] = "boolean"
        found.append(Choice(name, _values(option), "session/set_config_option", params, "value"))
    modes = answer.get("modes")
    if isinstance(modes, dict):
        ids = [str(one.get("id")) for one in _dicts(modes.get("availableModes"))]
        found.append(Choice("mode", ids, "session/set_mode", {}, "modeId"))
    models = answer.get("models")
    if isinstance(models, dict):
        ids = [str(one.get("modelId")) for one in _dicts(models.get("availableModels"))]
        found.append(Choice("model", ids, "session/set_model", {}, "modelId"))
    return found


def wanted(live: Live) -> dict[str, str]:
    """What the session's metadata asks for."""
    asked = {"mode": live.meta.get("mode"), "model": live.meta.get("model")}
    return {**{key: value for key, value in asked.items() if value}, **(live.meta.get("options") or {})}


def apply(live: Live) -> None:
    """Choose everything that the session asks for; used before it is ready."""
    agent = live.agent
    assert agent is not None
    for name, value in wanted(live).items():
        choice, given = _find(live, name, value)
        params = {"sessionId": live.meta["acp_session_id"], **choice.params, choice.value_key: given}
        agent.call(choice.method, params, live.settings["timeouts.new"])


def set_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """The verb `set`: choose one thing in a live session, and remember it for every resume.

    With `check` it is only refused if the agent does not offer it.
    """
    name, value = str(request["name"]), str(request["value"])
    choice, given = _find(live, name, value)
    if request.get("check"):
        answer({"name": name, "value": value})
        return
    agent = live.agent
    assert agent is not None
    params = {"sessionId": live.meta["acp_session_id"], **choice.params, choice.value_key: given}

    def then(result: Any) -> None:
        if isinstance(result, AghError):
            answer(result)
        elif result.error is not None:
            answer(RpcError(redacted_error(result.error, agent.redactor)))
        else:
            live.then(lambda: _remember(live, name, value))
            live.then(lambda: answer({"name": name, "value": value}))

    agent.request(choice.method, params, then, live.settings["timeouts.new"])


def _remember(live: Live, name: str, value: str) -> None:
    meta.choose(live.meta, name, value)
    live.update()


def _find(live: Live, name: str, value: str) -> tuple[Choice, Any]:
    """The first choice of that name, and the value as the agent wants it."""
    choices = offered(live.meta.get("offers") or {})
    for choice in choices:
        if choice.name == name:
            if choice.params.get("type") == "boolean":
                if value.lower() in ("true", "false"):
                    return choice, value.lower() == "true"
            elif value in choice.values:
                return choice, value
            raise OptionUnknown(name, value, ", ".join(choice.values) or "nothing")
    names = ", ".join(dict.fromkeys(choice.name for choice in choices))
    raise OptionUnknown("option", name, names or "no options")


def _values(option: dict[str, Any]) -> list[str]:
    """The values of a select option, also when they come in groups; of a boolean, both."""
    if option.get("type") == "boolean":
        return ["true", "false"]
    found = []
    for one in _dicts(option.get("options")):
        inner = list(_dicts(one.get("options")))
        found += [str(each.get("value")) for each in inner] if inner else [str(one.get("value"))]
    return found


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())
