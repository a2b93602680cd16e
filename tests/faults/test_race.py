"""Many commands at once: exactly one agent."""

from __future__ import annotations

from tests.support.live import Live
from tests.support.processes import carrying, kill
from tests.support.wait import wait_until

MANY = 10


def test_many_resumes_of_one_stopped_session(live: Live) -> None:
    session = live.new()
    session.tell("remember me")
    session.stop()
    crowd = [live.start("session", "resume", session.id) for _ in range(MANY)]
    ends = []
    for process in crowd:
        out, err = process.communicate(timeout=100)
        ends.append((process.returncode, out.decode(), err.decode()))
    assert [end for end in ends if end[0] != 0] == []
    assert {out for _, out, _ in ends} == {f"{session.id}  idle\n"}
    assert [err for _, _, err in ends if err] == [
        "resumed by native_resume: the agent remembers the session\n"
    ]
    assert session.count("session_resumed") == 1
    assert session.count("session_attached") == 1
    keepers = [process for process in live.processes() if "agh.keeper.main" in process.argv]
    assert [process.pid for process in keepers] == [session.keeper]
    assert {
        process.environ["AGH_LAUNCH"] for process in live.processes() if "AGH_LAUNCH" in process.environ
    } == {session.cookie}
    agents = [
        process
        for process in carrying(session.cookie)
        if "agh_echo" in process.argv and "leash.py" not in str(process)
    ]
    assert [agent.pid for agent in agents] == [session.agent]
    assert session.tell("what did I say?").startswith("SEEN 2")
    session.check_log()


def test_prompts_to_a_session_that_is_not_live_are_all_answered(live: Live) -> None:
    live.configure(f"[session]\nqueue_cap = {MANY}")
    session = live.new()
    session.kill_keeper()
    crowd = [session.start_prompt(f"/say number {n}", "-o", "text") for n in range(MANY)]
    for number, one in enumerate(crowd):
        out, err = one.communicate(timeout=100)
        assert (one.returncode, out.decode()) == (0, f"number {number}\n"), err
    assert session.count("session_resumed") == 1
    assert session.count("user_message") == session.count("done") == MANY
    session.check_log()


def test_a_stop_waits_for_its_own_keeper_only(live: Live) -> None:
    """Another command may resume the session at once: that is not what the stop waits for."""
    session = live.new("--deaf")
    agent = session.agent
    stopping = live.start("session", "stop", session.id)
    wait_until(lambda: session.meta()["state"] == "stopping")
    live.waits(session.start_prompt("/sleep 60"))
    kill(agent)
    wait_until(lambda: session.count("user_message"))
    assert stopping.wait(5) == 0
    session.kill_keeper()  # to stop a deaf agent would take all the graces


def test_a_name_is_given_once(live: Live) -> None:
    crowd = [live.start("session", "new", "--agent", "echo", "--name", "mine") for _ in range(MANY)]
    codes = []
    for process in crowd:
        process.communicate(timeout=100)
        codes.append(process.returncode)
    assert sorted(codes) == [0] + [6] * (MANY - 1)
    (session,) = live.sessions()
    assert session.meta()["name"] == "mine"
    assert session.tell("hello") == "echo: hello"
