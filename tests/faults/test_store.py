"""A log that cannot be written: the keeper stops the agent and says so; it never goes on unrecorded."""

from __future__ import annotations

import resource

from tests.support.live import GONE_WITHIN, Live, Session, carrying, wait_until


def fill_the_disk(session: Session) -> None:
    """From now on the keeper cannot make its log any longer."""
    log = session.directory / "events.db-wal"
    size = log.stat().st_size
    resource.prlimit(session.keeper, resource.RLIMIT_FSIZE, (size, size))


def test_the_disk_is_full_in_the_middle_of_a_turn(live: Live) -> None:
    session = live.new()
    with session.start_prompt(
        "/say begun\n/sleep 1\n/stream 500 0 400\n/say unrecorded", "-o", "text"
    ) as watcher:
        session.said("begun")
        cookie = session.cookie
        fill_the_disk(session)
        out, err = watcher.communicate(timeout=30)
    assert watcher.returncode not in (0, 70), err
    assert b"unrecorded" not in out
    wait_until(lambda: not session.is_live())
    wait_until(lambda: not carrying(cookie), GONE_WITHIN)
    assert session.status()["state"] == "stopped"
    log = (session.directory / "keeper.log").read_text()
    assert "Traceback" not in log
    assert "cannot be written" in log
    before = session.events()
    assert session.say("what did I say?").startswith("SEEN 2 user texts"), "with room again it goes on"
    assert session.events()[: len(before)] == before
    session.check_log()


def test_a_prompt_that_cannot_be_stored_is_not_acknowledged(live: Live) -> None:
    session = live.new()
    session.tell("hello")
    fill_the_disk(session)
    done = session.prompt("x" * 60_000, "--detach", "-o", "json", code=None)
    assert done.returncode not in (0, 70), done.stderr
    wait_until(lambda: not session.is_live())
    wait_until(lambda: not live.processes(), GONE_WITHIN)
    assert len(session.inputs()) == 1
    assert session.say("what did I say?").startswith("SEEN 2")
    session.check_log()
