"""The newest build of each product, and eighteen behaviours of it. `docs/agents.md` is made of the results."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.real_agents.behaviours import BEHAVIOURS, Trial, try_all
from tests.real_agents.install import NEWEST, NODE, NotInstalled, folder_of, version_of
from tests.real_agents.standin import Standin
from tests.real_agents.table import frames_of, write_missing, write_results
from tests.real_agents.tap import install_tap
from tests.support.live import Live

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(600)]


@pytest.fixture
def newest(agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the newest build of the agent on PATH, with a tap; return the tap's log."""
    product = NEWEST[agent]
    folder, node = folder_of(product), folder_of(NODE)
    for reason in (folder, node):
        if isinstance(reason, NotInstalled):
            write_missing(product, str(reason))
            pytest.skip(str(reason))
    log = frames_of(product)
    install_tap(tmp_path / "tap", Path(str(folder)) / product.program, log)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "tap"), str(node), os.defpath]))
    return log


@pytest.mark.parametrize("agent", NEWEST)
def test_every_behaviour(live: Live, standin: Standin, agent: str, newest: Path) -> None:
    """What the product itself gets wrong is a row of the table; what agh gets wrong fails."""
    results = dict(try_all(Trial(live, standin, agent, newest)))
    write_results(NEWEST[agent], version_of(NEWEST[agent]), results)
    faults = {name: result.remark for name, result in results.items() if result.status == "agh"}
    assert faults == {}
    assert list(results) == list(BEHAVIOURS)
