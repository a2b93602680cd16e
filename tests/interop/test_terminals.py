"""Terminals that an agent of the official SDK runs its commands in."""

from __future__ import annotations

from tests.interop.conftest import GONE, Session, step
from tests.support.wait import wait_until


def test_a_command_runs_to_its_end(permissive: Session) -> None:
    (permissive.workspace / "sub").mkdir()
    turn = permissive.prompt(
        step("create", command="sh", args=["-c", "echo out; exit 3"]),
        step("wait"),
        step("output"),
        step("release"),
        step("output"),
        step("create", command="sh", args=["-c", "echo $GREETING; pwd"], env={"GREETING": "hello"}),
        step("wait"),
        step("output"),
        step("create", command="pwd", args=[], cwd=f"{permissive.workspace}/sub"),
        step("wait"),
        step("output"),
    )
    _, waited, output, released, gone, *_ = turn.results
    assert waited == {"exitCode": 3, "signal": None}
    assert output == {"output": "out\n", "truncated": False, "exitStatus": {"exitCode": 3}}
    assert released == {}
    assert gone[0] == -32002
    assert turn.results[7]["output"] == f"hello\n{permissive.workspace}\n"
    assert turn.results[10]["output"] == f"{permissive.workspace}/sub\n"


def test_odd_commands(permissive: Session) -> None:
    turn = permissive.prompt(
        step("create", command="printf one; printf two"),  # a whole shell line
        step("wait"),
        step("output"),
        step("create", command="printf", args=["äääää"], output_byte_limit=5),
        step("wait"),
        step("output"),
        step("create", command="/no/such/program", args=["x"]),
        step("wait"),
        step("create", command="cat", args=[]),  # nobody will ever type
        step("wait"),
        step("create", command="sh", args=["-c", "sleep 1000 & echo started"]),
        step("wait"),
        step("output"),
    )
    assert turn.results[2]["output"] == "onetwo"
    assert turn.results[5]["truncated"] is True
    assert turn.results[5]["output"] == "ää"  # cut between characters
    assert turn.results[7] == {"exitCode": 127, "signal": None}
    assert turn.results[9] == {"exitCode": 0, "signal": None}
    assert turn.results[11] == {"exitCode": 0, "signal": None}
    assert turn.results[12]["output"] == "started\n"


def test_kill_and_release(permissive: Session) -> None:
    before = permissive.world.alive()
    turn = permissive.prompt(
        step("create", command="sh", args=["-c", "echo ready; sleep 1000"]),
        step("output", contains="ready"),
        step("kill"),
        step("output"),
        step("release"),
        step("kill"),
        step("create", command="sh", args=["-c", "sleep 1000"]),
        step("release"),
    )
    _, running, killed, after, released, unknown, *_ = turn.results
    assert running == {"output": "ready\n", "truncated": False}
    assert killed["exitCode"] is None
    assert killed["signal"] == "SIGKILL"
    assert after == {**running, "exitStatus": {"signal": killed["signal"]}}
    assert released == {}
    assert unknown[0] == -32002
    wait_until(lambda: permissive.world.alive() <= before, GONE)  # release ends what still runs


def test_output_is_in_order(permissive: Session) -> None:
    """As on a terminal: an error stands where it happened."""
    script = "for n in $(seq 200); do echo o$n; echo e$n >&2; done"
    turn = permissive.prompt(step("create", command="sh", args=["-c", script]), step("wait"), step("output"))
    assert turn.results[2]["output"].split() == [f"{kind}{n}" for n in range(1, 201) for kind in "oe"]
