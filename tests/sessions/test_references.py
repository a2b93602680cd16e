"""The ways to name a session, and the ways that are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.build import Home
from tests.support.files import tree
from tests.support.output import error_of
from tests.support.program import Agh, in_process, shell

HOSTILE = [
    "../../etc/passwd",
    "..",
    ".",
    "/",
    "/etc/passwd",
    "sess-../../../../etc",
    "sess-aaaaaaaa/../../x",
    "sess-aaaaaaaa\n",
    "",
    " ",
    "-",
    "-x",
    "--",
    "sess-",
    "sess",
    "SESS-AAAAAAAAAA",
    "sess-" + "a" * 27,
    "@last",
    "@first",
    "*",
    "?",
    "sess-*",
    "~",
    "$HOME",
    "`id`",
    "%2e%2e%2f",
    "a" * 5000,
    "sess-" + "a" * 5000,
    "\u202e",
    "\x1b]52;c;aGk=\x07",
    "\udcff\udcfe",
    "sess-ａａａａａａａａａａ",
    "sess-٠١٢٣٤٥٦٧٨٩",
]


def found(agh: Agh, reference: object, cwd: Path | None = None) -> str:
    result = agh("session", "status", reference, "-o", "json", cwd=cwd)
    return str(json.loads(result.stdout)["session"]["id"])


def test_an_id_a_prefix_a_name(agh: Agh, home: Home) -> None:
    home.directory(id="sess-abc0000000", name="alpha")
    home.directory(id="sess-abd0000000", name="abc")
    assert found(agh, "sess-abc0000000") == "sess-abc0000000"
    assert found(agh, "sess-abc") == "sess-abc0000000"
    assert found(agh, "abd") == "sess-abd0000000"
    assert found(agh, "alpha") == "sess-abc0000000"
    assert found(agh, "abc") == "sess-abd0000000", "a name goes before a prefix"


def test_what_means_more_than_one(agh: Agh, home: Home) -> None:
    for number in range(7):
        home.directory(id=f"sess-abc000000{number}", name="twin" if number < 2 else None)
    for reference in ("sess-abc", "abc", "twin"):
        error = error_of(agh("session", "status", reference, "-o", "json", code=None), "ambiguous_session", 2)
        assert "sess-abc0000000" in error["message"]
    assert found(agh, "sess-abc0000003") == "sess-abc0000003"


def test_last_is_the_newest_of_this_workspace(agh: Agh, home: Home, tmp_path: Path) -> None:
    here, inside, beside = tmp_path / "repo", tmp_path / "repo" / "src" / "deep", tmp_path / "repository"
    for place in (inside, beside):
        place.mkdir(parents=True)
    home.directory(id="sess-aaa0000000", workspace_path=str(here))
    home.directory(id="sess-bbb0000000", workspace_path=str(here))
    home.directory(id="sess-ccc0000000", workspace_path=str(beside))
    damaged = home.directory(id="sess-ddd0000000", workspace_path=str(here))
    (damaged / "meta.json").write_text("")
    assert found(agh, "@last", cwd=here) == "sess-bbb0000000"
    assert found(agh, "@last", cwd=inside) == "sess-bbb0000000"
    assert found(agh, "@last", cwd=beside) == "sess-ccc0000000"
    error_of(agh("session", "status", "@last", "-o", "json", cwd=tmp_path, code=None), "session_not_found", 4)


def test_a_working_directory_that_is_gone(agh: Agh, home: Home, tmp_path: Path) -> None:
    home.directory(id="sess-aaa0000000")
    gone = tmp_path / "gone"
    gone.mkdir()
    leave = 'cd "$1" && rmdir "$1" && '
    error_of(shell(leave + '"$AGH" session status @last -o json', gone), "session_not_found", 4)
    gone.mkdir()
    assert "sess-aaa0000000" in shell(leave + '"$AGH" session list --all', gone).stdout


@pytest.mark.parametrize("reference", HOSTILE, ids=lambda text: ascii(text)[:30])
def test_hostile_references_are_refused_and_make_nothing(
    agh: Agh, home: Home, tmp_path: Path, reference: str
) -> None:
    home.session(id="sess-aaaaaaaaaa")
    home.session(id="sess-bbbbbbbbbb")
    before = tree(tmp_path)
    for command in ("status", "events", "repair", "recap"):
        command_line = ("session", command, reference)
        result = agh(*command_line, code=None) if command == "status" else in_process(*command_line)
        assert result.returncode in (2, 4), (result.returncode, result.stdout, result.stderr)
        assert result.stdout == ""
        assert result.stderr.startswith("agh: ")
        assert "\nhint: " in result.stderr
        assert "Traceback" not in result.stderr
    assert tree(tmp_path) == before


def test_a_mistyped_name_or_id_is_suggested(agh: Agh, home: Home) -> None:
    home.directory(id="sess-0abcdefghijk", name="fix-login")
    home.directory(id="sess-0zzzzzzzzzzz", name=None)
    for reference, meant in {
        "fix-logn": "fix-login",
        "fixlogin": "fix-login",
        "sess-0abcdefghijx": "sess-0abcdefghijk",
    }.items():
        error = error_of(agh("session", "status", reference, "-o", "json", code=4), "session_not_found", 4)
        assert error["hint"] == f"did you mean {meant}?"
    for reference in ("unlike-any", "sess-1yyyyyyyyyyy"):
        error = error_of(agh("session", "status", reference, "-o", "json", code=4), "session_not_found", 4)
        assert error["hint"] == "agh session list --all"


def test_a_damaged_session_does_not_spoil_the_suggestion(agh: Agh, home: Home) -> None:
    (home.directory(name="fix-logout") / "meta.json").write_text("{")
    home.directory(name="fix-login")
    error = error_of(agh("session", "status", "fix-logn", "-o", "json", code=4), "session_not_found", 4)
    assert error["hint"] == "did you mean fix-login?"
