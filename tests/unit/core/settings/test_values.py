"""Values as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from agh.core.settings import values


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (5, 5.0),
        (0, 0.0),
        (0.5, 0.5),
        ("5", 5.0),
        ("90s", 90.0),
        ("1.5m", 90.0),
        ("2 h", 7200.0),
        ("3d", 259_200.0),
        ("1w", 604_800.0),
    ],
)
def test_time_spans(value: Any, seconds: float) -> None:
    assert values.seconds(value) == seconds


@pytest.mark.parametrize("value", ["", "s", "-5s", "5 s s", "5ms", "1h30m", None, [], {}, "1e3", "∞"])
def test_what_is_no_time_span(value: Any) -> None:
    with pytest.raises(ValueError, match="time span"):
        values.seconds(value)
