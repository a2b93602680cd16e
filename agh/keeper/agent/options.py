"""The model, mode and other options of an agent: what it offers, and how to choose.

Options are set through the agent's config options if it has them, else through the older `set_mode` and
`set_model`. Asking for a value that the agent does not offer is an error that lists those it does. What an
agent offers may change with each choice, and an agent may choose by itself: the metadata follows.
"""

from __future__ import annotations

from typing import Any

from agh.core.acp.frames import only_dicts, redacted_error
from agh.core.acp.updates import commands_in
from agh.core.named_tuple import NamedTuple
from agh.errors import AghError, OptionUnknown
from agh.keeper.agent.connection import RpcError
from agh.keeper.server import Answer
from agh.keeper.session import Live
from agh.store import meta
from agh.store.meta import Meta


class Choice(NamedTuple):
    """An option that can be set: its values, and the request that sets it."""

    name: str
    values: list[str]
    method: str
    params: dict[str, Any]
    value_key: str


def offers_in(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an answer that offers choices. An agent may leave it out when it resumes."""
    return {key: answer[key] for key in ("configOptions", "modes", "models") if answer.get(key)}


def offered(answer: dict[str, Any]) -> list[Choice]:
    """Return the choices in an agent's answer to new, load or resume."""
    choices = []
    for option in only_dicts(answer.get("configOptions")):
        name = _option_name(option)
        params = {"configId": option.get("id")}
        if option.get("type") == "boolean":
            params["type"] = "boolean"
        choices.append(Choice(name, _values(option), "session/set_config_option", params, "value"))
    modes = answer.get("modes")
    if isinstance(modes, dict):
        ids = [str(mode.get("id")) for mode in only_dicts(modes.get("availableModes"))]
        choices.append(Choice("mode", ids, "session/set_mode", {}, "modeId"))
    models = answer.get("models")
    if isinstance(models, dict):
        ids = [str(model.get("modelId")) for model in only_dicts(models.get("availableModels"))]
        choices.append(Choice("model", ids, "session/set_model", {}, "modelId"))
    return choices


def requested_options(session: Meta) -> dict[str, str]:
    """Return the options that the session's metadata asks for."""
    basic = {"mode": session.get("mode"), "model": session.get("model")}
    return {**{key: value for key, value in basic.items() if value}, **(session.get("options") or {})}


def apply(live: Live, *, resuming: bool = False) -> list[str]:
    """Set everything that the session asks for; used before it is ready.

    A session that is resumed continues without what its agent refuses now; return what that is.
    """
    refusals = []
    for name, value in requested_options(live.meta).items():
        choice, parsed = _find(live.meta, name, value)
        try:
            params = {"sessionId": live.meta["acp_session_id"], **choice.params, choice.value_key: parsed}
            result = live.agent.connected.call(choice.method, params, live.settings["timeouts.new"])
            live.meta["offers"] = _offers_after(live.meta, choice, parsed, result)
        except RpcError as error:
            if not resuming:
                raise
            refusals.append(f"the agent refused {name} {value}: {error.message}")
    live.meta["current"] = current_options(live.meta.get("offers") or {})
    return refusals


def current_options(offers: dict[str, Any]) -> dict[str, str]:
    """Return the values that are in force, by the names of the options."""
    older = {
        "mode": (offers.get("modes"), "currentModeId"),
        "model": (offers.get("models"), "currentModelId"),
    }
    values = {name: group.get(key) for name, (group, key) in older.items() if isinstance(group, dict)}
    for option in only_dicts(offers.get("configOptions")):
        value = option.get("currentValue")
        values[_option_name(option)] = str(value).lower() if isinstance(value, bool) else value
    return {name: value[:200] for name, value in values.items() if isinstance(value, str)}


def take_information(live: Live, update: dict[str, Any]) -> None:
    """Inside a batch: keep what an update says about the session itself in the metadata."""
    kind = update.get("sessionUpdate")
    if kind in ("config_option_update", "current_mode_update"):
        _take_choices(live, update)
    elif kind == "available_commands_update":
        live.meta["commands"] = commands_in(update)
        live.log.then(lambda: live.update(sync=False))
    elif kind == "session_info_update":
        changes = {
            ours: value[:200] if isinstance(value, str) else None
            for ours, theirs in (("title", "title"), ("agent_updated_at", "updatedAt"))
            if theirs in update and isinstance(value := update[theirs], str | None)
        }
        if changes:
            live.log.then(lambda: live.update(sync=False, **changes))


def _take_choices(live: Live, update: dict[str, Any]) -> None:
    """Inside a batch: follow an agent that has changed its options, or its mode, by itself.

    While a session starts, what was chosen for it is not set yet, and stays as it is.
    """
    offers = dict(live.meta.get("offers") or {})
    mode = update.get("currentModeId", update.get("modeId"))
    if isinstance(update.get("configOptions"), list):
        offers["configOptions"] = only_dicts(update["configOptions"])
    elif isinstance(mode, str):
        offers = _with_current(offers, "mode", mode)
    _follow(live, offers)


def _follow(live: Live, offers: dict[str, Any]) -> None:
    current = current_options(offers)
    live.meta["offers"], live.meta["current"] = offers, current
    if not live.ready:
        return
    for name, value in requested_options(live.meta).items():
        if current.get(name, value) != value:
            meta.choose(live.meta, name, current[name])
    live.log.then(live.update)


def _offers_after(session: Meta, choice: Choice, value: Any, result: Any) -> dict[str, Any]:
    """Return what the agent offers after a choice: what its answer says, else the same with that value."""
    offers = session.get("offers") or {}
    if isinstance(result, dict) and isinstance(result.get("configOptions"), list):
        return {**offers, "configOptions": only_dicts(result["configOptions"])}
    return _with_current(offers, choice.name, value)


def _with_current(offers: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Return the offers with another value in force."""
    changed = dict(offers)
    older = {"mode": ("modes", "currentModeId"), "model": ("models", "currentModelId")}
    group, key = older.get(name, ("", ""))
    if isinstance(changed.get(group), dict):
        changed[group] = {**changed[group], key: value}
    if "configOptions" in changed:
        changed["configOptions"] = [
            {**option, "currentValue": value} if _option_name(option) == name else option
            for option in only_dicts(changed["configOptions"])
        ]
    return changed


def _option_name(option: dict[str, Any]) -> str:
    """Return the name that people use for an option: its category for the model and the mode."""
    category = str(option.get("category") or "")
    return category if category in ("model", "mode") else str(option.get("id"))


def set_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Set an option of a live session, and remember it for every resume.

    With `check` it is only refused if the agent does not offer it.
    """
    name, value = str(request["name"]), str(request["value"])
    choice, parsed = _find(live.meta, name, value)
    if request.get("check"):
        answer({"name": name, "value": value})
        return
    agent = live.agent.connected
    params = {"sessionId": live.meta["acp_session_id"], **choice.params, choice.value_key: parsed}

    def then(result: Any) -> None:
        if isinstance(result, AghError):
            answer(result)
        elif result.error is not None:
            answer(RpcError(redacted_error(result.error, agent.redactor)))
        else:
            offers = _offers_after(live.meta, choice, parsed, result.result)
            live.log.then(lambda: _remember(live, name, value, offers))
            live.log.then(lambda: answer({"name": name, "value": value}))

    agent.request(choice.method, params, then, live.settings["timeouts.new"])


def _remember(live: Live, name: str, value: str, offers: dict[str, Any]) -> None:
    meta.choose(live.meta, name, value)
    live.meta["offers"], live.meta["current"] = offers, current_options(offers)
    live.update()


def _find(session: Meta, name: str, value: str) -> tuple[Choice, Any]:
    """Return the first choice of that name, and the value in the type that the agent expects."""
    choices = offered(session.get("offers") or {})
    for choice in choices:
        if choice.name == name:
            if choice.params.get("type") == "boolean":
                if value.lower() in ("true", "false"):
                    return choice, value.lower() == "true"
            elif value in choice.values:
                return choice, value
            raise OptionUnknown(
                name, value, ", ".join(choice.values) or "nothing", hint=_suggest(value, choice.values)
            )
    names = list(dict.fromkeys(choice.name for choice in choices))
    hint = _suggest(name, names) if names else "leave the option out, and set it in the agent's own settings"
    raise OptionUnknown("option", name, ", ".join(names) or "none", hint=hint)


def _suggest(word: str, words: list[str]) -> str | None:
    from agh.core.suggest import closest

    close = closest(word, words)
    return f"did you mean {close}?" if close else None


def _values(option: dict[str, Any]) -> list[str]:
    """Return the values of a select option, even if they come in groups; of a boolean, both."""
    if option.get("type") == "boolean":
        return ["true", "false"]
    values = []
    for entry in only_dicts(option.get("options")):
        group = only_dicts(entry.get("options"))
        values += [str(item.get("value")) for item in group or [entry]]
    return values
