"""Commands that plugins add to `agh`."""

from __future__ import annotations

import json

from agh.core.events import timestamp
from tests.support.build import Home
from tests.support.site import HEAD, Site, command


def test_a_command_is_found_and_in_the_help(site: Site) -> None:
    site.add("mine", command("greet", "click.echo('hello')"))
    assert site.agh("greet").stdout == "hello\n"
    help = site.agh("--help").stdout
    assert "greet" in help
    assert "From a plugin." in help
    assert "session" in help
    assert site.agh("greet", "--help").stdout.startswith("Usage: agh greet")
    assert "agh greet" in site.agh("gret", code=2).stderr
    site.agh("greet", code=2, env={"AGH_PLUGINS": ""})
    assert site.plugins()["mine"]["hooks"] == ["agh_register_commands"]


def test_a_built_in_command_cannot_be_replaced(site: Site, home: Home) -> None:
    home.session(name="talk", updated_at=timestamp())
    site.add("mine", command("session", "click.echo('stolen')"))
    assert "talk" in site.agh("session", "list").stdout
    help = site.agh("--help").stdout
    assert "From a plugin." not in help
    assert len([line for line in help.splitlines() if line.split()[:1] == ["session"]]) == 1


def test_a_failure_in_a_command_is_reported_like_any_other(site: Site) -> None:
    site.add("mine", command("fail", "from agh.errors import SessionBusy\nraise SessionBusy('sess-x')"))
    assert site.agh("fail", code=6).stderr.startswith("agh: session sess-x is in use")
    site.add("yours", command("crash", "raise ValueError('oh')"))
    assert "a bug in agh: ValueError: oh" in site.agh("crash", code=70).stderr


def test_one_that_cannot_add_its_commands_is_named_and_the_others_are_there(site: Site) -> None:
    site.add("broken", f"{HEAD}@hookimpl\ndef agh_register_commands(group):\n    raise RuntimeError('no')\n")
    site.add("zmine", command("greet"))
    result = site.agh("greet")
    assert result.stdout == "done\n"
    (warning,) = result.stderr.splitlines()
    assert "broken" in warning and "no" in warning
    site.agh("session", "list")
    assert "greet" in site.agh("--help").stdout


def test_an_unknown_command_is_still_an_error_in_json(site: Site) -> None:
    site.add("mine", command("greet"))
    error = json.loads(site.agh("nothing", "-o", "json", code=2).stderr)["error"]
    assert error["code"] == "usage"
