"""What a request may say. One table of fields checks it and describes it in the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson
from starlette.requests import Request

from agh.errors import Usage
from agh_serve.errors import RequestTooLarge

MOST_BYTES = 16 << 20
TEXT = {"type": "string", "minLength": 1, "maxLength": 4096, "pattern": r"^[^\u0000]+$"}
FLAG = {"type": "boolean"}
COUNT = {"type": "integer", "minimum": 0, "maximum": (1 << 63) - 1}
AMOUNT = {"type": "number", "minimum": 0, "maximum": 1e12}
SPAN = {"type": "string", "pattern": r"^[0-9]{1,9}(\.[0-9]{1,6})?[smhdw]?$", "examples": ["15m"]}
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}


class Field(NamedTuple):
    name: str
    about: str
    schema: Mapping[str, Any] = TEXT
    required: bool = False


def one_of(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


def read_query(request: Request, fields: Iterable[Field]) -> dict[str, Any]:
    """The parameters of the URL. One that is not known is refused: a typing error must not widen a query."""
    known = {field.name: field for field in fields}
    given: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        if name not in known:
            raise Usage(f"unknown parameter {name!r}", hint=f"known are: {', '.join(known) or 'none'}")
        schema = known[name].schema
        if schema["type"] == "array":
            given.setdefault(name, []).append(_from_text(text, schema["items"], name))
        elif name in given:
            raise Usage(f"{name} is given twice", hint="give it once")
        else:
            given[name] = _from_text(text, schema, name)
    for name, value in given.items():
        check(value, known[name].schema, name)
    return given


async def read_body(request: Request, fields: Iterable[Field], *, more: bool = False) -> dict[str, Any]:
    """The JSON object of the body; no body is an empty one. With `more` unknown members are passed over."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise RequestTooLarge(MOST_BYTES)
    known = {field.name: field for field in fields}
    try:
        given = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise Usage(f"the body is not JSON: {error}", hint="send a JSON object") from None
    if not isinstance(given, dict):
        raise Usage("the body is not a JSON object", hint="send a JSON object")
    given = {name: value for name, value in given.items() if name in known or not more}
    for name, value in given.items():
        if name not in known:
            raise Usage(f"unknown member {name!r}", hint=f"known are: {', '.join(known) or 'none'}")
        check(value, known[name].schema, name)
    for field in known.values():
        if field.required and field.name not in given:
            raise Usage(f"{field.name} is missing", hint=field.about)
    return given


def check(value: Any, schema: Mapping[str, Any], name: str) -> None:
    """Refuse a value that its schema does not describe; this knows the words that the tables use."""
    kinds = _KINDS[schema["type"]]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise Usage(f"{name}: {_shown(value)} is not of type {schema['type']}")
    if "enum" in schema and value not in schema["enum"]:
        raise Usage(f"{name}: {_shown(value)} is none of {', '.join(schema['enum'])}")
    if isinstance(value, str):
        _check_text(value, schema, name)
    elif isinstance(value, int | float):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            raise Usage(f"{name}: {value} is out of range")
    elif isinstance(value, list):
        for one in value:
            check(one, schema["items"], name)
    elif isinstance(value, dict) and "additionalProperties" in schema:
        for key, one in value.items():
            check(one, schema["additionalProperties"], f"{name}.{key}")


def _check_text(value: str, schema: Mapping[str, Any], name: str) -> None:
    if len(value) < schema.get("minLength", 0):
        raise Usage(f"{name} is empty")
    if len(value) > schema.get("maxLength", len(value)):
        raise Usage(f"{name} is longer than {schema['maxLength']} characters")
    if "pattern" in schema and not re.search(schema["pattern"].replace("$", r"\Z"), value):
        raise Usage(f"{name}: {_shown(value)} cannot be understood")


def _from_text(text: str, schema: Mapping[str, Any], name: str) -> Any:
    kind = schema["type"]
    if kind == "integer":
        if not text.isascii() or not text.isdecimal() or len(text) > 19:
            raise Usage(f"{name}: {_shown(text)} is not a whole number")
        return int(text)
    if kind == "boolean":
        if text not in ("true", "false"):
            raise Usage(f"{name}: {_shown(text)} is neither true nor false")
        return text == "true"
    return text


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
