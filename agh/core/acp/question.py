"""A question of the agent (`elicitation/create`): what it asks, in which fields, and what answers it. Pure.

The table, the form at a terminal, the JSON and the page all show what is read here, and every answer is
checked against it. What an agent demands in a way that agh does not know is taken as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

import orjson

from agh.core.acp.answer_value import check_value, choices_of

MOST_FIELDS, MOST_BYTES = 100, 256 << 10
_LONGEST_QUOTE = 4000  # characters of the agent's words in a prompt
_TYPES = ("string", "number", "integer", "boolean", "array")
_LIMITS = {
    "minLength": "min_length",
    "maxLength": "max_length",
    "pattern": "pattern",
    "format": "format",
    "minimum": "minimum",
    "maximum": "maximum",
    "minItems": "min_items",
    "maxItems": "max_items",
}


class Field(TypedDict):
    """One field of a form. `choices` is empty if anything of its type can be given."""

    name: str
    type: str
    required: bool
    title: NotRequired[str]
    description: NotRequired[str]
    choices: list[dict[str, str]]
    default: NotRequired[Any]
    limits: dict[str, Any]


class Question(TypedDict):
    """What the agent asks: a form with fields, or a link to open."""

    mode: str  # form or url
    message: str
    fields: list[Field]
    url: str | None
    elicitation_id: str | None
    tool_call_id: str | None


def read_question(params: Mapping[str, Any]) -> Question:
    """Return the question in the parameters of a request; raise ValueError if it is none."""
    message, mode = params.get("message"), params.get("mode", "form")
    if not isinstance(message, str):
        raise ValueError("message must be a string")
    if mode not in ("form", "url"):
        raise ValueError(f"mode {mode!r} is neither form nor url")
    url = params.get("url")
    if mode == "url" and not isinstance(url, str):
        raise ValueError("url must be a string")
    question: Question = {
        "mode": mode,
        "message": message,
        "fields": _read_fields(params.get("requestedSchema")) if mode == "form" else [],
        "url": url if mode == "url" else None,
        "elicitation_id": _text(params.get("elicitationId")),
        "tool_call_id": _text(params.get("toolCallId")),
    }
    if len(orjson.dumps(question)) > MOST_BYTES:
        raise ValueError(f"a question may have at most {MOST_BYTES >> 10} KB")
    return question


def stored_question(text: str, message: str) -> Question:
    """Return the question in a row; one without fields if a file that was imported has it wrong."""
    try:
        value = orjson.loads(text)
        for field in value["fields"]:
            describe_field(field)
            if not isinstance(field["name"], str) or field["type"] not in _TYPES:
                raise ValueError("a field needs a name and a type")
        question: Question = {key: value[key] for key in Question.__annotations__}  # type: ignore[assignment]
        return question
    except (ValueError, TypeError, KeyError, AttributeError):
        return {
            "mode": "form",
            "message": message,
            "fields": [],
            "url": None,
            "elicitation_id": None,
            "tool_call_id": None,
        }


def check_answer(fields: list[Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a form in the types that the agent expects; raise ValueError if one is wrong.

    A field that is left out has its default, if there is one.
    """
    names = [field["name"] for field in fields]
    for name in values:
        if name not in names:
            raise ValueError(f"there is no field {name!r}; the fields are: {', '.join(names) or 'none'}")
    content = {}
    for field in fields:
        value = values.get(field["name"], field.get("default"))
        if value is not None:
            content[field["name"]] = check_value(field, value)
        elif field["required"]:
            raise ValueError(f"{field['name']} is required")
    return content


def describe_field(field: Mapping[str, Any]) -> list[str]:
    """Describe a field in lines: its name, type and title, then its choices by number."""
    about = ", ".join([field["type"], *(["required"] if field["required"] else [])])
    title = field.get("title") or ""
    head = f"{field['name']} ({about})" + (f": {title}" if title and title != field["name"] else "")
    lines = [head, *str(field.get("description") or "").splitlines()]
    for number, choice in enumerate(field["choices"], 1):
        value, title = choice["value"], choice["title"]
        text = title if title.startswith(value) else f"{value}: {title}"
        more = f" ({choice['description']})" if choice.get("description") else ""
        lines.append(f"  {number}. {text}{more}")
    limits = [f"{name.replace('_', ' ')} {value}" for name, value in field["limits"].items()]
    if limits:
        lines.append(f"  {', '.join(limits)}")
    if field.get("default") is not None:
        lines.append(f"  default: {as_text(field['default'])}")
    return lines


def description(question: Mapping[str, Any]) -> list[str]:
    """Describe a question in lines: the agent's words, the link to open, and each field."""
    lines = str(question["message"]).splitlines() or ["(no words)"]
    if question.get("url"):
        lines.append(f"link: {question['url']}")
    for field in question["fields"]:
        lines += describe_field(field)
    return lines


def as_prompt(question: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """Return the prompt that gives an agent its question and the answer, when its request is gone."""
    if question["mode"] == "url":
        answer = f"I have agreed to open the link {question['url']}"
    else:
        titles = {field["name"]: field.get("title") or field["name"] for field in question["fields"]}
        lines = [f"- {titles.get(name, name)}: {as_text(value)}" for name, value in content.items()]
        answer = "\n".join(lines) or "I agree; there is nothing to fill in."
    words = str(question["message"])
    words = words if len(words) <= _LONGEST_QUOTE else f"{words[:_LONGEST_QUOTE]} …"
    quoted = "\n".join(f"> {line}" for line in words.splitlines())
    return (
        "This session was interrupted while your question waited for an answer. "
        f"You asked:\n\n{quoted}\n\nMy answer:\n\n{answer}\n\nPlease continue from there."
    )


def as_text(value: Any) -> str:
    """Return a value of an answer as it would be typed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _read_fields(schema: Any) -> list[Field]:
    schema = schema if isinstance(schema, dict) else {}
    properties, required = schema.get("properties") or {}, schema.get("required") or []
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise ValueError("properties must be an object, and required must be a list")
    if len(properties) > MOST_FIELDS:
        raise ValueError(f"a form may have at most {MOST_FIELDS} fields")
    return [_read_field(name, shape, name in required) for name, shape in properties.items()]


def _read_field(name: str, shape: Any, required: bool) -> Field:
    shape = shape if isinstance(shape, dict) else {}
    type = shape.get("type")
    field: Field = {
        "name": name,
        "type": type if type in _TYPES else "string",
        "required": required,
        "choices": choices_of(shape),
        "limits": {
            ours: shape[theirs]
            for theirs, ours in _LIMITS.items()
            if isinstance(shape.get(theirs), int | float | str)
        },
    }
    if title := _text(shape.get("title")):
        field["title"] = title
    if text := _text(shape.get("description")):
        field["description"] = text
    if shape.get("default") is not None:
        try:
            field["default"] = check_value(field, shape["default"])
        except ValueError:
            pass  # the agent's own mistake: there is no default then
    return field


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
