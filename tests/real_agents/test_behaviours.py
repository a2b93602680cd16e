"""The newest build of each product, and eighteen behaviours of it; `docs/agents.md` has the results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real_agents.behaviours import BEHAVIOURS, Trial, try_all
from tests.real_agents.install import NEWEST, NODE, NotInstalled, folder_of, version_of
from tests.real_agents.standin import Standin
from tests.real_agents.table import frames_of, write_missing, write_results
from tests.support.live import Live

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(600)]


@pytest.mark.parametrize("agent", NEWEST)
def test_every_behaviour(
    live: Live, standin: Standin, agent: str, use_newest: Callable[[str, Path], None]
) -> None:
    """What the product itself gets wrong is a row of the table; what agh gets wrong fails."""
    product = NEWEST[agent]
    log = frames_of(product)
    for needed in (product, NODE):
        folder = folder_of(needed)
        if isinstance(folder, NotInstalled):
            write_missing(product, str(folder))
    use_newest(agent, log)
    results = dict(try_all(Trial(live, standin, agent, log)))
    write_results(product, version_of(product), results)
    faults = {name: result.remark for name, result in results.items() if result.status == "agh"}
    assert faults == {}
    assert list(results) == list(BEHAVIOURS)
