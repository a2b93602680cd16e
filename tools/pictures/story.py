"""What the pictures show: a small project that does not exist, and agents that play their parts in it.

A scene is a list of steps that the scripted agent (agent.py) takes for a prompt.
"""

from __future__ import annotations

from typing import Any

Step = tuple[Any, ...]

FILES = {
    "tidebook/tides.py": '''"""Heights of the tide, from the harmonic constants of a station."""

from math import cos, radians


def height(constants, hours):
    """Return the height of the tide, in metres."""
    total = 0
    for name, amplitude, speed, phase in constants:
        total += amplitude * cos(radians(speed * hours + phase))
    return total


def is_spring(age):
    return age in (0, 15)
''',
    "tidebook/stations.py": """STATIONS = {
    "brest": (48.38, -4.49),
    "cuxhaven": (53.87, 8.72),
}
""",
}
_SPRING = FILES["tidebook/tides.py"].partition("def is_spring")[2]
_OLD_SPRING = f"def is_spring{_SPRING}"
_NEW_SPRING = '''SYNODIC_MONTH = 29.530588  # days


def is_spring(age):
    """Tell whether the moon's age, in days, makes a spring tide: two days around new and full moon."""
    phase = age % (SYNODIC_MONTH / 2)
    return min(phase, SYNODIC_MONTH / 2 - phase) <= 1
'''
_TEST = """import pytest

from tidebook.tides import is_spring


@pytest.mark.parametrize("age", [0, 0.9, 14.77, 29.2])
def test_springs(age):
    assert is_spring(age)
"""
_STATIONS = FILES["tidebook/stations.py"]
_NEW_STATIONS = _STATIONS.replace('    "cuxhaven"', '    "bremerhaven": (53.55, 8.57),\n    "cuxhaven"')

MEND, STATION, REVIEW, DOCS, RELEASE = (
    "Spring tides are missing from the almanac for March. Why?",
    "Add Bremerhaven to the stations",
    "Review the last three commits",
    "Write a page about neap tides",
    "Cut release 1.4",
)
SCENES: dict[str, list[Step]] = {
    MEND: [
        ("think", "The almanac asks is_spring for each day. Let me see how it decides."),
        ("plan", [("Find how spring tides are decided", 2), ("Mend it", 1), ("Test it", 0)]),
        ("tool", "Read tidebook/tides.py", "read", FILES["tidebook/tides.py"]),
        ("edit", "Edit tidebook/tides.py", "tidebook/tides.py", _OLD_SPRING, _NEW_SPRING),
        ("edit", "Write tests/test_springs.py", "tests/test_springs.py", None, _TEST),
        (
            "tool",
            "pytest -q tests/test_springs.py",
            "execute",
            "....                                            [100%]\n4 passed in 0.02s",
        ),
        (
            "say",
            "`is_spring` compared the moon's age with two **whole numbers**, so it missed every day on which "
            "the age was, say, 14.77:\n\n"
            "```python\nreturn age in (0, 15)   # never true for 14.77\n```\n\n"
            "Now a day counts if it is within a day of new or full moon:\n\n"
            "| date | moon's age | before | now |\n|---|--:|---|---|\n"
            "| 3 March | 14.2 | no | **spring** |\n| 18 March | 29.4 | no | **spring** |\n\n"
            "1. `tidebook/tides.py` has the new rule\n2. `tests/test_springs.py` holds it\n\n"
            "All four tests pass.\n",
        ),
        ("usage", 31200, 0.14),
    ],
    STATION: [
        ("say", "Bremerhaven lies at 53.55° N, 8.57° E. I add it in alphabetical order.\n"),
        ("ask", "Edit tidebook/stations.py", "tidebook/stations.py", _STATIONS, _NEW_STATIONS),
        ("say", "Bremerhaven is in the list.\n"),
    ],
    REVIEW: [
        ("say", "I read the three commits one after the other.\n"),
        ("usage", 18400, 0.08),
        ("tool_open", "git show HEAD~1", "execute"),
        ("wait",),
    ],
    DOCS: [
        ("say", "The page is in `docs/neap.rst`, with a drawing of the moon's quarters.\n"),
        ("usage", 9100, 0.03),
    ],
    RELEASE: [("say", "I tag the release.\n"), ("usage", 12000, 0.05), ("crash", "out of memory")],
}
# The sessions, in the order in which they are made: name, agent, model, prompt.
SESSIONS = (
    ("release-1.4", "codex", "gpt-5", RELEASE),
    ("neap-page", "gemini", "gemini-pro", DOCS),
    ("spring-tides", "claude", "opus", MEND),
    ("review", "codex", "gpt-5", REVIEW),
    ("bremerhaven", "claude", "opus", STATION),
)
MODELS = {agent: model for _, agent, model, _ in SESSIONS}
# How long ago each of them was active, in seconds.
AGES = {"release-1.4": 7500, "neap-page": 3900, "spring-tides": 720, "review": 200, "bremerhaven": 130}
