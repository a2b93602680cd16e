"""The checkpoint of a council: refused when it is damaged, and the same again from the log."""

from __future__ import annotations

from tests.plugins.council.support import Council, perspective, profile
from tests.support.checkpoint import DAMAGED, checkpoint_of, flip


def test_a_damaged_checkpoint_of_a_council_is_refused_and_rebuilt(council: Council) -> None:
    text = profile(
        "[delegation]\n[[gates]]\nafter_round = 1\n[expertise]\nenabled = true\n",
        perspectives=(perspective("a"),),
    )
    council.run(text, code=5)
    path = council.session.directory / "checkpoint.json"
    sound = path.read_bytes()
    checkpoint = council.checkpoint()
    assert checkpoint["active_agents"][0]["session_id"] == council.member("a").id
    path.unlink()
    checkpoint_of(council.session, "--rebuild")
    assert path.read_bytes() == sound, "the log gives the same bytes"
    flip(path, 1001)
    council.agh("gate approve", "--later")
    error = council.error("resume", code=DAMAGED)
    assert error["code"] == "checkpoint_damaged" and "--rebuild" in error["hint"]
    assert not council.session.is_live()
    rebuilt = checkpoint_of(council.session, "--rebuild")
    assert rebuilt["rounds_completed"] == 1 and path.read_bytes() != sound, "a decision has come since"
    assert council.resume()["phase"] == "completed"
    assert len(list(council.session.directory.glob("*checkpoint*"))) == 1
