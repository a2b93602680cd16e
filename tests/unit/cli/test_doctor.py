from __future__ import annotations

import json
from typing import Any

from tests.support.build import Home, conversation, says, take_lock, user
from tests.support.files import tree
from tests.support.program import Agh


def doctor(agh: Agh, code: int = 0) -> dict[str, dict[str, Any]]:
    document = json.loads(agh("doctor", "-o", "json", code=code).stdout)
    assert list(document) == ["doctor"]
    assert all(list(check) == ["name", "ok", "detail"] for check in document["doctor"])
    return {check["name"]: check for check in document["doctor"]}


def test_no_home_yet_is_well(agh: Agh, home: Home) -> None:
    checks = doctor(agh)
    assert checks["home"]["detail"] == f"{home.path} (does not exist yet)"
    assert not home.path.exists()


def test_a_home_in_order(agh: Agh, home: Home) -> None:
    home.session(conversation())
    live = home.session([user("x")], state="active", stop_reason=None)
    before = tree(home.path)
    with take_lock(live):
        checks = doctor(agh)
    assert checks["sessions"] == {"name": "sessions", "ok": True, "detail": "2, 1 live"}
    assert all(value["ok"] for value in checks.values())
    assert "interrupted" not in checks
    assert tree(home.path) == before


def test_interrupted_sessions_are_named_with_the_cure(agh: Agh, home: Home) -> None:
    directory = home.session([user("x")], state="active", stop_reason=None)
    interrupted = doctor(agh)["interrupted"]
    assert directory.name in interrupted["detail"]
    assert "agh session repair --all" in interrupted["detail"]
    agh("session", "repair", "--all")
    assert "interrupted" not in doctor(agh)


def test_damaged_sessions_need_a_person(agh: Agh, home: Home) -> None:
    home.session(conversation(), id="sess-good000000")
    (home.session(id="sess-empty00000") / "events.db").write_bytes(b"")
    (home.session(id="sess-meta000000") / "meta.json").write_text("[]")
    before = tree(home.path)
    checks = doctor(agh, code=8)
    assert not checks["sess-empty00000"]["ok"]
    assert "events.db is empty" in checks["sess-empty00000"]["detail"]
    assert "meta.json cannot be read" in checks["sess-meta000000"]["detail"]
    assert "sess-good000000" not in checks
    assert checks["sessions"]["detail"] == "3, 0 live"
    assert tree(home.path) == before


def test_a_damaged_page_is_found(agh: Agh, home: Home) -> None:
    directory = home.session(says("x" * 500) for _ in range(100))
    log = directory / "events.db"
    data = bytearray(log.read_bytes())
    data[4096] ^= 0xFF
    log.write_bytes(data)
    agh("session", "events", directory.name, code=8)
    assert not doctor(agh, code=8)[directory.name]["ok"]


def test_a_home_that_others_may_write_to(agh: Agh, home: Home) -> None:
    home.session()
    home.path.chmod(0o770)
    checks = doctor(agh, code=8)
    assert not checks["home"]["ok"]
    assert f"chmod 700 {home.path}" in checks["home"]["detail"]


def test_for_people(agh: Agh, home: Home) -> None:
    (home.session(id="sess-empty00000") / "events.db").write_bytes(b"")
    lines = agh("doctor", code=8).stdout.splitlines()
    assert lines[0].startswith("ok    agh          0.")
    assert [line.split()[1] for line in lines if line.startswith("FAIL")] == ["sess-empty00000"]
