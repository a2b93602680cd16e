from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agh.console.when import age, parse_duration, parse_time
from agh.core.events import timestamp
from agh.errors import Usage

NOW = datetime(2026, 4, 16, 1, 10, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("2h", 7200), ("3d", 259200), ("1.5h", 5400), ("45", 45)]
)
def test_spans(text: str, seconds: float) -> None:
    assert parse_duration(text, "--timeout") == seconds


@pytest.mark.parametrize("text", ["", "x", "-5m", "5M", "m", "nan", "inf", "1e999", "5m5s", " "])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(Usage, match="--timeout"):
        parse_duration(text, "--timeout")


@pytest.mark.parametrize(
    "text",
    ["2026-04-16T01:10:06Z", "2026-04-16T03:10:06+02:00", "2026-04-16T01:10:06.000Z", "20260416T011006Z"],
)
def test_moments(text: str) -> None:
    assert parse_time(text, "--since") == "2026-04-16T01:10:06.000Z"


def test_how_long_ago() -> None:
    before, after = (timestamp(datetime.now(UTC) - timedelta(minutes=5, seconds=off)) for off in (1, -5))
    assert before <= parse_time("5m", "--since") <= after


@pytest.mark.parametrize("text", ["", "now", "2026-04-16T01:10:06", "2026-13-01T00:00:00Z", "-5m", "5x"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(Usage, match="--since"):
        parse_time(text, "--since")


@pytest.mark.parametrize(
    "text", ["99999999999999d", "0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:00", "900000d"]
)
def test_moments_outside_the_calendar(text: str) -> None:
    with pytest.raises(Usage, match="--since"):
        parse_time(text, "--since")


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (timedelta(0), "0s"),
        (timedelta(seconds=59), "59s"),
        (timedelta(minutes=59), "59m"),
        (timedelta(hours=23), "23h"),
        (timedelta(days=6), "6d"),
        (timedelta(days=70), "10w"),
        (timedelta(hours=-1), "0s"),
    ],
)
def test_ages(before: timedelta, words: str) -> None:
    assert age(timestamp(NOW - before), NOW) == words


@pytest.mark.parametrize("at", [None, "", "yesterday"])
def test_no_age(at: str | None) -> None:
    assert age(at, NOW) == "-"
