"""The plugin: registers an agent named `echo` with agh, and says how to start it.

This is the only module here that imports agh; the agent itself never does.
"""

import sys
from collections.abc import Callable

import agh

# `python -m agh_echo`, without what only runpy needs: that takes 4 ms of every start.
RUN = "import sys; del sys.argv[0]; from agh_echo.__main__ import run; run()"


@agh.hookimpl
def agh_register_agents(register: Callable[[dict[str, object]], None]) -> None:
    register(
        {
            "name": "echo",
            "title": "Echo (scripted)",
            "argv": [sys.executable, "-P", "-c", RUN, "agh_echo"],
            "crosses": ["AGH_ECHO_*"],
        }
    )
