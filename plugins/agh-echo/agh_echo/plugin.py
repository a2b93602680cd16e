"""What agh learns from this package: an agent named `echo`, and how to start it.

The only module here that imports agh; the agent itself never does.
"""

import sys
from collections.abc import Callable

import agh


@agh.hookimpl
def agh_register_agents(register: Callable[[dict[str, object]], None]) -> None:
    register(
        {
            "name": "echo",
            "title": "Echo (scripted)",
            "argv": [sys.executable, "-m", "agh_echo"],
            "crosses": ["AGH_ECHO_*"],
        }
    )
