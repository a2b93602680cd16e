"""Codes and exit numbers are a contract with scripts; every message must be printable."""

from __future__ import annotations

import ast
import re
import string

import pytest

from agh import errors
from agh.errors import AghError
from tests.support.build import ROOT
from tools import facts

# The documented numbers of errors: 0, 130 and 141 are endings.
EXITS = set(facts.EXITS) - {0, errors.INTERRUPTED, errors.BROKEN_PIPE}


def _all(kind: type[AghError] = AghError) -> list[type[AghError]]:
    return [kind, *(below for one in kind.__subclasses__() for below in _all(one))]


# A relayed error stands for one of the others: it has no code of its own.
CLASSES = [kind for kind in _all() if kind.__module__ == errors.__name__ and kind is not errors.Relayed]


def _example(kind: type[AghError]) -> AghError:
    """One with an argument for every place in message and hint; a place with a format wants a number."""
    places = string.Formatter().parse(f"{kind.__doc__} {kind.hint}")
    args = {int(name): 7 if spec else f"<{name}>" for _, name, spec, _ in places if name}
    return kind(*(args.get(number, "") for number in range(max(args, default=-1) + 1)))


def test_codes_are_unique_and_snake_case() -> None:
    codes = [_example(kind).code for kind in CLASSES]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes), codes


def test_a_code_is_the_name_of_its_class() -> None:
    assert errors.SessionNotFound("x").code == "session_not_found"
    assert errors.EventsNotADatabase("x").code == "events_not_a_database"


@pytest.mark.parametrize("kind", CLASSES)
def test_exit_numbers_are_those_of_the_contract(kind: type[AghError]) -> None:
    assert kind.exit in EXITS


def _constructed() -> set[str]:
    """Return the names of everything that agh and its plugins call, outside of the errors' own module."""
    names = set()
    for path in [*(ROOT / "agh").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]:
        if path != ROOT / "agh" / "errors.py":
            calls = (
                node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
            )
            names |= {getattr(function, "attr", getattr(function, "id", "")) for function in calls}
    return names


def test_every_documented_exit_number_has_an_error_that_is_raised() -> None:
    used = _constructed()
    raised = {kind.exit for kind in CLASSES if kind.__name__ in used}
    assert raised == EXITS
    # Classes above others and the base of all are there to be caught.
    assert [
        kind.__name__ for kind in CLASSES if kind.__name__ not in used and not kind.__subclasses__()
    ] == []


def test_damaged_data_always_exits_8() -> None:
    assert {kind.exit for kind in _all(errors.DataDamaged)} == {8}
    assert (errors.INTERRUPTED, errors.BROKEN_PIPE) == (130, 141)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_message_and_hint_formats(kind: type[AghError]) -> None:
    assert kind.__doc__ and kind.__dict__.get("__doc__"), "the docstring is the message: none is inherited"
    error = _example(kind)
    assert error.message == str(error)
    assert all(str(arg) in f"{error.message} {error.hint}" for arg in error.args)
    assert error.message.strip() == error.message and "\n" not in error.message
    for text in (error.message, error.hint):
        assert "{" not in text and "}" not in text


# Where the whole message comes from the raiser, the hint does too.
@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind.__doc__ != "{0}"])
def test_every_failure_names_the_next_step(kind: type[AghError]) -> None:
    assert _example(kind).hint


def test_braces_in_an_argument_are_plain_text() -> None:
    error = errors.SessionNotFound("{1} {x} {")
    assert error.message == "no session matches {1} {x} {"
    assert errors.SessionBusy("{x}").hint == "agh session status {x}"


def test_braces_in_a_given_hint_are_plain_text() -> None:
    assert errors.Usage("bad", hint="try {name}").hint == "try {name}"


def test_the_dictionary_form() -> None:
    error = errors.SessionBusy("sess-1", pid=7)
    assert error.as_dict() == {
        "code": "session_busy",
        "message": "session sess-1 is in use by another command",
        "hint": "agh session status sess-1",
        "details": {"pid": 7},
    }
    assert errors.SessionBusy("sess-1", hint="wait").hint == "wait"
    assert errors.SessionBusy("sess-1", hint="").hint == ""


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_of_another_process_reads_the_same(kind: type[AghError]) -> None:
    error = _example(kind)
    relayed = errors.Relayed(error.for_relay())
    assert relayed.as_dict() == error.as_dict()
    assert relayed.exit == error.exit
    assert str(relayed) == str(error)
