"""The fields of a request. The same schemas check a request and describe it in the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from starlette.requests import Request

from agh.core.named_tuple import NamedTuple
from agh.errors import Usage
from agh_serve.errors import RequestTooLarge

MAX_BODY_BYTES = 16 << 20
HINT = "GET /api/openapi.json describes every parameter"
TEXT = {"type": "string", "minLength": 1, "maxLength": 4096, "pattern": r"^[^\u0000]+$"}
FLAG = {"type": "boolean"}
COUNT = {"type": "integer", "minimum": 0, "maximum": (1 << 63) - 1}
AMOUNT = {"type": "number", "minimum": 0, "maximum": 1e12}
SPAN = {"type": "string", "pattern": r"^[0-9]{1,9}(\.[0-9]{1,6})?[smhdw]?$", "examples": ["15m"]}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}


class Field(NamedTuple):
    """A query parameter, a member of a JSON body, or a header."""

    name: str
    description: str
    schema: Mapping[str, Any] = TEXT
    required: bool = False


def enum_schema(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def read_query(request: Request, fields: Iterable[Field]) -> dict[str, Any]:
    """Return the URL's parameters. Refuse unknown ones: a typo must not widen a query."""
    by_name = {field.name: field for field in fields}
    params: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        if name not in by_name:
            raise Usage(f"unknown parameter {name!r}", hint=f"allowed: {', '.join(by_name) or 'none'}")
        schema = by_name[name].schema
        if schema["type"] == "array":
            params.setdefault(name, []).append(_parse_text(text, schema["items"], name))
        elif name in params:
            raise Usage(f"{name} is given twice", hint="give it once")
        else:
            params[name] = _parse_text(text, schema, name)
    for name, value in params.items():
        check_value(value, by_name[name].schema, name)
    return params


async def read_body(
    request: Request, fields: Iterable[Field], *, allow_unknown: bool = False
) -> dict[str, Any]:
    """Return the body's JSON object, empty if there is no body. Drop unknown members, or refuse them."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise RequestTooLarge(MAX_BODY_BYTES)
    by_name = {field.name: field for field in fields}
    try:
        members = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise Usage(f"the body is not JSON: {error}", hint="send a JSON object") from None
    if not isinstance(members, dict):
        raise Usage("the body is not a JSON object", hint="send a JSON object")
    members = {name: value for name, value in members.items() if name in by_name or not allow_unknown}
    for name, value in members.items():
        if name not in by_name:
            raise Usage(f"unknown field {name!r}", hint=f"allowed: {', '.join(by_name) or 'none'}")
        check_value(value, by_name[name].schema, name)
    for field in by_name.values():
        if field.required and field.name not in members:
            raise Usage(f"{field.name} is missing", hint=f"{field.name}: {field.description}")
    return members


def check_value(value: Any, schema: Mapping[str, Any], name: str) -> None:
    """Refuse a value that does not match its schema. Supports only the keywords that `operations.py` uses."""
    types = _PYTHON_TYPES[schema["type"]]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise Usage(f"{name}: {_abbreviate(value)} is not of type {schema['type']}", hint=HINT)
    if "enum" in schema and value not in schema["enum"]:
        raise Usage(f"{name}: {_abbreviate(value)} is not one of {', '.join(schema['enum'])}", hint=HINT)
    if isinstance(value, str):
        _check_text(value, schema, name)
    elif isinstance(value, int | float):
        minimum, maximum = schema.get("minimum", value), schema.get("maximum", value)
        if not minimum <= value <= maximum:
            raise Usage(f"{name}: {value} is not between {minimum} and {maximum}", hint=HINT)
    elif isinstance(value, list):
        for element in value:
            check_value(element, schema["items"], name)
    elif isinstance(value, dict) and "additionalProperties" in schema:
        for key, member in value.items():
            check_value(member, schema["additionalProperties"], f"{name}.{key}")


def _check_text(value: str, schema: Mapping[str, Any], name: str) -> None:
    if len(value) < schema.get("minLength", 0):
        raise Usage(f"{name} is empty", hint=HINT)
    if len(value) > schema.get("maxLength", len(value)):
        raise Usage(f"{name} is longer than {schema['maxLength']} characters", hint=HINT)
    if "pattern" in schema and not re.search(schema["pattern"].replace("$", r"\Z"), value):
        hint = f"for example {schema['examples'][0]}" if "examples" in schema else HINT
        raise Usage(f"{name}: {_abbreviate(value)} has the wrong format", hint=hint)


def _parse_text(text: str, schema: Mapping[str, Any], name: str) -> Any:
    if schema["type"] == "integer":
        if not text.isascii() or not text.isdecimal() or len(text) > 19:
            raise Usage(f"{name}: {_abbreviate(text)} is not a whole number", hint=HINT)
        return int(text)
    if schema["type"] == "boolean":
        if text not in ("true", "false"):
            raise Usage(f"{name}: {_abbreviate(text)} is neither true nor false", hint=HINT)
        return text == "true"
    return text


def _abbreviate(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
