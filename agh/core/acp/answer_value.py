"""One value of an answer: read from text or JSON, and checked against what its field demands. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

_WORDS = {"true": True, "yes": True, "y": True, "false": False, "no": False, "n": False}
_LONGEST_TEXT = _LONGEST_PATTERN = 200  # of a check by pattern: an agent's pattern must not hang us
_MOST_REPEATS = 3
_WHOLE = range(-(1 << 63), 1 << 63)


def choices_of(shape: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the values that a field can be chosen from, each with its title."""
    items = shape.get("items")
    source = items if isinstance(items, dict) else shape
    options = source.get("oneOf") or source.get("anyOf") or source.get("enum")
    choices = []
    for option in options if isinstance(options, list) else ():
        if isinstance(option, str):
            choices.append({"value": option, "title": option})
        elif isinstance(option, dict) and isinstance(option.get("const"), str):
            title = option.get("title")
            choice = {"value": option["const"], "title": title if isinstance(title, str) else option["const"]}
            if isinstance(option.get("description"), str) and option["description"]:
                choice["description"] = option["description"]
            choices.append(choice)
    return choices


def check_value(field: Mapping[str, Any], value: Any) -> Any:
    """Return the value in its field's type; raise ValueError, which names the field, if it does not fit."""
    try:
        return _CHECKS[field["type"]](field, value)
    except ValueError as error:
        raise ValueError(f"{field['name']}: {error}") from None


def choose(field: Mapping[str, Any], text: str) -> str:
    """Return the choice that a text means: its value, its title, or its number in the list."""
    choices: Sequence[Mapping[str, str]] = field["choices"]
    for key in ("value", "title"):
        for choice in choices:
            if choice[key].casefold() == text.casefold():
                return choice["value"]
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= len(choices):
        return choices[int(text) - 1]["value"]
    raise ValueError(f"{text!r} is not one of {', '.join(choice['value'] for choice in choices)}")


def _check_string(field: Mapping[str, Any], value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("it must be a string")
    if field["choices"]:
        return choose(field, value)
    limits = field["limits"]
    _check_range(len(value), limits.get("min_length"), limits.get("max_length"), "characters")
    pattern = limits.get("pattern")
    if isinstance(pattern, str) and not _matches(pattern, value):
        raise ValueError(f"it does not match {pattern}")
    if (form := limits.get("format")) in _FORMATS and not _FORMATS[form](value):
        raise ValueError(f"it is not a valid {form}")
    return value


def _check_number(field: Mapping[str, Any], value: Any) -> int | float:
    number: int | float
    if isinstance(value, str):
        try:
            number = int(value) if re.fullmatch(r"(?a)\s*[+-]?\d{1,30}\s*", value) else float(value)
        except ValueError:
            raise ValueError(f"{value!r} is not a number") from None
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = value
    else:
        raise ValueError("it must be a number")
    if not math.isfinite(number):
        raise ValueError("it must be a number")
    if field["type"] == "integer":
        if number != int(number) or int(number) not in _WHOLE:
            raise ValueError(f"{number} is not a whole number")
        number = int(number)
    limits = field["limits"]
    _check_range(number, limits.get("minimum"), limits.get("maximum"))
    return number


def _check_boolean(field: Mapping[str, Any], value: Any) -> bool:
    if isinstance(value, str) and value.strip().lower() in _WORDS:
        return _WORDS[value.strip().lower()]
    if not isinstance(value, bool):
        raise ValueError("answer yes or no")
    return value


def _check_list(field: Mapping[str, Any], value: Any) -> list[str]:
    if isinstance(value, str):
        value = _split(field, value)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("it must be a list of strings")
    items = [choose(field, item) if field["choices"] else item for item in value]
    items = list(dict.fromkeys(items))
    limits = field["limits"]
    _check_range(len(items), limits.get("min_items"), limits.get("max_items"), "items")
    return items


def _split(field: Mapping[str, Any], text: str) -> list[str]:
    """Split a text at its commas, unless the whole of it is a choice."""
    if any(text == choice[key] for choice in field["choices"] for key in ("value", "title")):
        return [text]
    return [part.strip() for part in text.split(",") if part.strip()]


def _check_range(value: float, lowest: Any, highest: Any, unit: str = "") -> None:
    unit = f" {unit}" if unit else ""
    if isinstance(lowest, int | float) and value < lowest:
        raise ValueError(
            f"it needs at least {lowest}{unit} but has {value}" if unit else f"it must be at least {lowest}"
        )
    if isinstance(highest, int | float) and value > highest:
        raise ValueError(
            f"it may have at most {highest}{unit} but has {value}"
            if unit
            else f"it must be at most {highest}"
        )


def _matches(pattern: str, text: str) -> bool:
    """Tell whether a text matches; a pattern that could take forever, or is none here, is not checked."""
    repeats = len(re.findall(r"[*+]|\{\d*,\d*\}", pattern))
    if len(text) > _LONGEST_TEXT or len(pattern) > _LONGEST_PATTERN or repeats > _MOST_REPEATS:
        return True
    if re.search(r"\)[*+?{]|\\[1-9]|\(\?P=|\[\[|--|&&|\|\||~~", pattern):
        return True
    try:
        return re.search(pattern, text) is not None
    except (re.error, OverflowError, RecursionError):
        return True


def _is_date(text: str) -> bool:
    try:
        return len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    try:
        return "T" in text.upper() and bool(datetime.fromisoformat(text))
    except ValueError:
        return False


_FORMATS = {
    "email": lambda text: re.fullmatch(r"[^@\s]+@[^@\s]+", text) is not None,
    "uri": lambda text: re.fullmatch(r"(?a)[A-Za-z][A-Za-z0-9+.-]*:\S+", text) is not None,
    "date": _is_date,
    "date-time": _is_date_time,
}
_CHECKS = {
    "string": _check_string,
    "number": _check_number,
    "integer": _check_number,
    "boolean": _check_boolean,
    "array": _check_list,
}
