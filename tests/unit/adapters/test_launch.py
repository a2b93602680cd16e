"""Plugins that have a say in how an agent is started."""

from __future__ import annotations

import json

from tests.support.site import HEAD, Site

MOON = f"""{HEAD}@hookimpl
def agh_prepare_launch(launch):
    if launch.place == "moon":
        launch.elsewhere, launch.cwd = True, "/mare"
        launch.argv = ["env", "ON_THE_MOON=1", *launch.argv]
"""
WRAPPER = f"""{HEAD}@hookimpl
def agh_prepare_launch(launch):
    launch.argv = ["env", "WRAPPED=" + launch.agent.name, *launch.argv]
"""
BROKEN = f"""{HEAD}@hookimpl
def agh_prepare_launch(launch):
    raise RuntimeError("no rocket")
"""


def test_a_plugin_takes_an_agent_elsewhere(site: Site) -> None:
    site.add("moon", MOON)
    assert site.plugins()["moon"]["hooks"] == ["agh_prepare_launch"]
    agent = site.read("agent", "doctor", "echo", "--on", "moon")
    assert (agent["state"], agent["place"], agent["directory"]) == ("works", "moon", "/mare")
    error = json.loads(site.agh("agent", "doctor", "echo", "--on", "mars", "-o", "json", code=4).stderr)[
        "error"
    ]
    assert error["code"] == "place_unknown"


def test_a_plugin_wraps_every_launch(site: Site) -> None:
    site.add("wrapper", WRAPPER)
    assert site.read("agent", "doctor", "echo")["command"][:2] == ["env", "WRAPPED=echo"]


def test_an_agent_does_not_run_where_it_was_not_meant_to(site: Site) -> None:
    """Unlike other hooks this one is not skipped when it fails: it may be somebody's sandbox."""
    site.add("broken", BROKEN)
    result = site.agh("agent", "doctor", "echo", "-o", "json", code=1)
    message = json.loads(result.stderr)["error"]["message"]
    assert message == "agent echo failed: plugin broken: RuntimeError: no rocket"
