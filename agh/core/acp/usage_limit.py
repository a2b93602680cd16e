"""Usage limits of a provider, which pass by themselves: when an agent's error says that they reset. Pure.

An error counts only if it speaks of a usage limit or a quota and says when that resets: as a moment (seconds
since 1970 or ISO 8601), as a span (`21h53m56s`, `5 days 22 hours`) or as a time of the day (`8pm
(Europe/Berlin)`, `Aug 8th, 2026 12:42 AM`), which is local time if no zone is named. A moment that has
passed already is not believed: the limit is still there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import orjson

SOON = 60.0  # seconds to wait if the moment has passed already
_LONGEST = 366 * 86400.0
_DEPTH = 8
_LIMIT = (
    r"(?i)usage[ _-]?limit|usage exceeded|hit your (?:\w+ ){0,3}limit|limit reached|quota"
    r"|exhausted your (?:capacity|daily)|(?:session|weekly|daily|monthly|hour) limit"
)
_MOMENT_KEYS = ("resets_at", "resetsat", "reset_at", "resetat", "quotaresettimestamp", "resettime")
_SPAN_KEYS = (
    *("resets_in_seconds", "resetsinseconds", "quotaresetdelay", "retrydelay"),
    *("retryafter", "retry_after", "retry-after", "retryafterseconds", "retry_after_seconds"),
)
_EPOCH = r"limit reached\|(\d{9,13})\b"
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_UNIT = r"(?:ms|milliseconds?|w(?:eeks?)?|d(?:ays?)?|h(?:(?:ou)?rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)"
_PART = rf"(\d+(?:\.\d+)?)\s*({_UNIT})(?![a-z])"
_SPAN = rf"(?:\d+(?:\.\d+)?\s*{_UNIT}(?:,?\s+|(?=\d)|\b))+"
_IN = rf"(?i)(?:resets?|try again|retry(?:ing)?)\s+(?:in|after)\s+({_SPAN})"
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_AT = (
    r"(?i)(?:resets?|try again)(?:\s+at|\s+on)?\s+"
    rf"(?:(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+"
    r"(?:(?P<year>20\d\d),?\s+)?(?:at\s+)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>[ap]m)?(?![\w:])(?:\s*\((?P<zone>[\w/+-]+)\))?"
)
_NOTICE = r"(?i)\W*(?:you(?:['’]ve| have) hit your|claude (?:ai )?usage limit reached)\b.{0,300}"


def reset_in_error(error: Mapping[str, Any], now: datetime) -> datetime | None:
    """Return when the usage limit of a JSON-RPC error resets; None if it is none, or does not say when."""
    leaves = list(_leaves("", {"message": error.get("message"), "data": error.get("data")}, 0))
    text = " ".join(value for _, value in leaves if isinstance(value, str))
    if not re.search(_LIMIT, text):
        return None
    moment = _find_moment(leaves, now) or _find_span(leaves, now) or _read_text(text, now)
    return _believed(moment, now)


def reset_in_words(words: str, now: datetime) -> datetime | None:
    """Return when the usage limit resets that an agent's words speak of; None if they do not."""
    return reset_in_error({"message": words}, now)


def is_notice(words: str) -> bool:
    """Tell whether an agent's message is nothing but the notice of a usage limit."""
    return re.fullmatch(_NOTICE, words.strip()) is not None


def _believed(moment: datetime | None, now: datetime) -> datetime | None:
    if moment is None or (moment - now).total_seconds() > _LONGEST:
        return None
    return moment if moment > now else now + timedelta(seconds=SOON)


def _leaves(key: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield every plain value at any depth, also of JSON inside a text, with its key in lower case."""
    if depth > _DEPTH:
        return
    if isinstance(value, Mapping):
        for child_key, child in value.items():
            yield from _leaves(str(child_key).lower(), child, depth + 1)
    elif isinstance(value, list):
        for child in value:
            yield from _leaves(key, child, depth + 1)
    else:
        yield key, value
        if isinstance(value, str) and (start := value.find("{")) >= 0:
            try:
                inner = orjson.loads(value[start : value.rfind("}") + 1])
            except orjson.JSONDecodeError:
                return
            yield from _leaves(key, inner, depth + 1)


def _find_moment(leaves: list[tuple[str, Any]], now: datetime) -> datetime | None:
    for key, value in leaves:
        if key not in _MOMENT_KEYS:
            continue
        if isinstance(value, int | float) or (isinstance(value, str) and value.isdigit()):
            return _from_epoch(float(value))
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None


def _find_span(leaves: list[tuple[str, Any]], now: datetime) -> datetime | None:
    for key, value in leaves:
        if key not in _SPAN_KEYS or isinstance(value, bool):
            continue
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            seconds = _seconds_in(str(value))
        if 0 < seconds < _LONGEST:
            return now + timedelta(seconds=seconds)
    return None


def _read_text(text: str, now: datetime) -> datetime | None:
    if match := re.search(_EPOCH, text):
        return _from_epoch(float(match[1]))
    if match := re.search(_IN, text):
        seconds = _seconds_in(match[1])
        return now + timedelta(seconds=seconds) if seconds < _LONGEST else None
    for match in re.finditer(_AT, text):
        if match["half"] or match["minute"] or match["month"]:
            return _read_clock(match, now)
    return None


def _from_epoch(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds / 1000 if seconds > 1e11 else seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _seconds_in(span: str) -> float:
    total = 0.0
    for amount, unit in re.findall(rf"(?i){_PART}", span):
        unit = unit.lower()
        total += float(amount) * _UNITS["ms" if unit.startswith(("ms", "milli")) else unit[0]]
    return total


def _read_clock(match: re.Match[str], now: datetime) -> datetime | None:
    """Return the next moment with this time of the day, or the date that is named, in its zone."""
    here = now.astimezone(_zone(match["zone"]))
    hour = int(match["hour"])
    if match["half"]:
        hour = hour % 12 + (12 if match["half"].lower() == "pm" else 0)
    try:
        moment = here.replace(hour=hour, minute=int(match["minute"] or 0), second=0, microsecond=0)
        if match["month"]:
            month, day = _MONTHS.index(match["month"][:3].lower()) + 1, int(match["day"])
            moment = moment.replace(year=int(match["year"] or here.year), month=month, day=day)
            if not match["year"] and moment < here - timedelta(days=180):
                moment = moment.replace(year=here.year + 1)
        elif moment <= here:
            moment += timedelta(days=1)
    except ValueError:
        return None
    return moment.astimezone(UTC)


def _zone(name: str | None) -> tzinfo | None:
    """Return the zone that is named; None, the local one, if none is or nobody knows it."""
    if not name:
        return None
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, LookupError, OSError):
        return None
