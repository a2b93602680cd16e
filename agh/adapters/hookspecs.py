"""The whole plugin contract. A plugin is a package with an entry point in group `agh`.

    [project.entry-points.agh]
    mine = "my_package.plugin"

The module implements any of these functions, marked with `@hookimpl` from this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pluggy

hookspec = pluggy.HookspecMarker("agh")
hookimpl = pluggy.HookimplMarker("agh")


@hookspec
def agh_register_agents(register: Callable[[dict[str, Any]], None]) -> None:
    """Offer agents.

    :param register: call it once per agent with the keys of `agh.adapters.agents.AgentRecord`; `name`
        and `argv` are required.
    """
