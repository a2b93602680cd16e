"""Errors name a session as its user does, where that name means the session."""

from __future__ import annotations

import os

from agh.cli.guide.names import use_names
from tests.support.build import Home
from tests.support.program import Agh

ID = "sess-aaa0000000"


def test_the_name_stands_for_the_id(home: Home) -> None:
    home.directory(id=ID, name="fix-login", workspace_path=os.path.realpath("."))
    text = f"agh: session {ID} is archived\nhint: agh session archive {ID} --undo"
    named = "agh: session fix-login is archived\nhint: agh session archive fix-login --undo"
    assert use_names(text) == named


def test_an_id_stays_if_the_name_means_another_session(home: Home) -> None:
    home.directory(id=ID, name="fix-login", workspace_path="/elsewhere")
    home.directory(id="sess-bbb0000000", name="fix-login", workspace_path=os.path.realpath("."))
    assert use_names(f"agh: session {ID} is archived") == f"agh: session {ID} is archived"


def test_an_id_stays_beside_its_name_and_in_lists(home: Home) -> None:
    home.directory(id=ID, name="fix-login", workspace_path=os.path.realpath("."))
    taken = f"agh: the name fix-login is already taken in this workspace, by session {ID}"
    rows = f"agh: stop needs a session. Recent ones here:\nNAME ID\nfix {ID}"
    assert [use_names(text) for text in (taken, rows)] == [taken, rows]


def test_an_unknown_session_and_one_without_a_name(home: Home) -> None:
    home.directory(id=ID, name=None)
    text = f"agh: session {ID} is archived; sess-0000000000 is not"
    assert use_names(text) == text


def test_people_see_the_name_and_programs_the_id(agh: Agh, home: Home) -> None:
    home.directory(id=ID, name="fix-login", workspace_path=os.path.realpath("."), archived=True)
    assert "session fix-login is archived" in agh("session", "resume", "fix-login", code=6).stderr
    assert ID in agh("session", "resume", "fix-login", "-o", "json", code=6).stderr
