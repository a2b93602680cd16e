"""kill -9 of the council's keeper, or of a member's, before its n-th act: after `council resume` the fold of
the log is what it is without a death.

A sample of the boundaries by default; AGH_SOAK=full takes every one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.council.support import Council, profile
from tests.support.boundaries import Boundaries
from tests.support.rounds import SOAK

ACTS = {"council": "commit replace spawn answer call", "skeptic": "commit replace spawn answer write"}
SAMPLE = {"council": (1, 3), "skeptic": (2,)}  # of four quarters


class Life:
    """One run of the council with a death in it."""

    def __init__(self, council: Council, victim: str, at: object, log: Path) -> None:
        self.council, self._boundaries = council, Boundaries(log, at, ACTS[victim], victim)
        self.env, self.boundaries = self._boundaries.environ, self._boundaries.lines

    def run(self) -> None:
        """Run the council, and resume it if a keeper was killed."""
        if self.start():
            assert self.council.resume()["phase"] == "completed"

    def start(self) -> bool:
        """Run the council; tell whether it was killed and can be resumed."""
        council = self.council
        earlier_ids = {session.id for session in council.live.sessions()}
        profile_path, brief_path = council.files(profile())
        command = ("council", "run", profile_path, "--brief", brief_path)
        process = council.live.agh(*command, code=None, env=self.env)
        new_sessions = [session for session in council.live.sessions() if session.id not in earlier_ids]
        described = [session for session in new_sessions if (session.directory / "meta.json").exists()]
        (council.id,) = [session.id for session in described if session.meta().get("kind") == "council"]
        assert process.returncode in (0, 7), (process.returncode, process.stderr)
        return process.returncode == 7


def boundaries(council: Council, victim: str, path: Path) -> tuple[dict[str, object], int]:
    """Return the outcome of a run without a death, and its number of boundaries."""
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
    boundaries_to_try = range(1, count + 1) if SOAK else [count * part // 4 for part in SAMPLE[victim]]
    deaths = []
    for at in boundaries_to_try:
        life = Life(council, victim, at, tmp_path / f"boundaries-{at}")
        life.run()
        last = life.boundaries()[-1]
        assert council.outcome() == whole, f"killed at {last}"
        council.session.check_log()
        for member in council.state().members:
            council.member(member).check_log()
        deaths += [line for line in life.boundaries() if line.endswith("KILLED")]
    assert len(deaths) >= len(boundaries_to_try) - 5 * bool(SOAK), "the fault does not fire"
    print(f"{victim}: {len(deaths)} deaths of {count} boundaries")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not SOAK, reason="by `make soak`")
def test_killed_while_it_comes_back(council: Council, tmp_path: Path) -> None:
    """Check that a second death, in the middle of the resume, changes nothing either."""
    whole, _ = boundaries(council, "council", tmp_path / "whole")
    for at in range(1, 40, 3):
        assert Life(council, "council", 45, tmp_path / f"first-{at}").start()
        again = Life(council, "council", at, tmp_path / f"second-{at}")
        process = council.agh("resume", env=again.env, code=None)
        assert process.returncode == 7 and again.boundaries()[-1].endswith("KILLED"), process.stderr
        assert council.resume()["phase"] == "completed"
        assert council.outcome() == whole, f"killed at {again.boundaries()[-1]}"
        council.session.check_log()
