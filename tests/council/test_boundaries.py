"""kill -9 of the council's keeper, or of a member's, before its n-th act: after `council resume` the fold of
the log is what it is without a death.

A sample of the boundaries by default; AGH_SOAK=full takes every one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.council.support import Council, profile
from tests.support.rounds import SOAK

HERE = str(Path(__file__).with_name("at_boundary"))
SAMPLE = {"council": (1, 3), "skeptic": (2,)}  # of four quarters


class Life:
    """One run of the council with a death in it."""

    def __init__(self, council: Council, victim: str, at: object, log: Path) -> None:
        self.council, self.log = council, log
        paths = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH")]))
        self.env = {
            "PYTHONPATH": paths,
            "AGH_TEST_VICTIM": victim,
            "AGH_TEST_KILL_AT": str(at),
            "AGH_TEST_BOUNDARIES": str(log),
        }

    def boundaries(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def run(self) -> None:
        """Run, and resume if it came to a death."""
        if self.start():
            assert self.council.resume()["phase"] == "completed"

    def start(self) -> bool:
        """Run; whether there is something to go on with."""
        council = self.council
        known = {one.id for one in council.live.sessions()}
        given, question = council.files(profile())
        command = ("council", "run", given, "--brief", question)
        done = council.live.agh(*command, code=None, env=self.env)
        made = [one for one in council.live.sessions() if one.id not in known]
        described = [one for one in made if (one.directory / "meta.json").exists()]
        (council.id,) = [one.id for one in described if one.meta().get("kind") == "council"]
        assert done.returncode in (0, 7), (done.returncode, done.stderr)
        return done.returncode == 7


def boundaries(council: Council, victim: str, path: Path) -> tuple[dict[str, object], int]:
    """What a run without a death comes to, and how many boundaries it has."""
    life = Life(council, victim, "never", path)
    life.run()
    assert council.state().rounds_completed == 4
    return council.outcome(), len(life.boundaries())


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("victim", ["council", "skeptic"])
def test_killed_before_its_nth_act(council: Council, tmp_path: Path, victim: str) -> None:
    whole, count = boundaries(council, victim, tmp_path / "whole")
    assert count > 40, "the keeper is not watched"
    chosen = range(1, count + 1) if SOAK else [count * part // 4 for part in SAMPLE[victim]]
    deaths = []
    for at in chosen:
        life = Life(council, victim, at, tmp_path / f"boundaries-{at}")
        life.run()
        last = life.boundaries()[-1]
        assert council.outcome() == whole, f"killed at {last}"
        council.session.check_log()
        for member in council.state().members:
            council.member(member).check_log()
        deaths += [line for line in life.boundaries() if line.endswith("KILLED")]
    assert len(deaths) >= len(chosen) - 5 * bool(SOAK), "the fault does not fire"
    print(f"{victim}: {len(deaths)} deaths of {count} boundaries")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not SOAK, reason="by `make soak`")
def test_killed_while_it_comes_back(council: Council, tmp_path: Path) -> None:
    """A second death, in the middle of the resume, changes nothing either."""
    whole, _ = boundaries(council, "council", tmp_path / "whole")
    for at in range(1, 40, 3):
        assert Life(council, "council", 45, tmp_path / f"first-{at}").start()
        again = Life(council, "council", at, tmp_path / f"second-{at}")
        done = council.agh("resume", env=again.env, code=None)
        assert done.returncode == 7 and again.boundaries()[-1].endswith("KILLED"), done.stderr
        assert council.resume()["phase"] == "completed"
        assert council.outcome() == whole, f"killed at {again.boundaries()[-1]}"
        council.session.check_log()
