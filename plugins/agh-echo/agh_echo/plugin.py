"""The plugin: registers an agent named `echo` with agh, and says how to start it.

This is the only module here that imports agh; the agent itself never does.
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
            "argv": [sys.executable, "-P", "-m", "agh_echo"],
            "crosses": ["AGH_ECHO_*"],
        }
    )
