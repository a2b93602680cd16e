"""Hooks as pluggy calls them: parameters left out, order, wrappers, and a failure that harms nobody else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.site import Site, agents, command

HEAD = "import agh\nimport click\n\n"
BOT = {"name": "bot", "argv": ["bot"]}
TRACE = "    open('order', 'a').write({name!r} + ' ')\n"


def hook(name: str, body: str, options: str = "", parameters: str = "") -> str:
    """Return the code of a plugin that implements the hook `name`."""
    return f"{HEAD}@agh.hookimpl{options}\ndef {name}({parameters}):\n{body}"


def wrapper(name: str, parameters: str, before: str = "pass", after: str = "return result") -> str:
    body = f"    {before}\n    result = yield\n    {after}\n"
    return hook(name, body, "(wrapper=True)", parameters)


def warnings(site: Site, *args: str) -> list[str]:
    return site.agh(*args).stderr.splitlines()


def test_an_implementation_may_leave_out_its_parameters(site: Site) -> None:
    site.add("bare", hook("agh_register_agents", "    print('called')\n"))
    site.add("zmine", agents(BOT))
    result = site.agh("agent", "list")
    assert result.stderr == ""
    assert "called" in result.stdout
    assert "bot" in result.stdout


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("agh_register_agents", ("agent", "list")),
        ("agh_register_commands", ("--help",)),
        ("agh_prepare_launch", ("agent", "doctor", "echo")),
    ],
)
def test_hooks_are_called_by_name_then_order(site: Site, name: str, args: tuple[str, ...]) -> None:
    for plugin, options in (
        ("a-last", "(trylast=True)"),
        ("b", ""),
        ("c", ""),
        ("d-first", "(tryfirst=True)"),
    ):
        site.add(plugin, hook(name, TRACE.format(name=plugin), options))
    assert warnings(site, *args) == []
    assert (site.cwd / "order").read_text().split() == ["d-first", "b", "c", "a-last"]


def test_a_wrapper_runs_around_all_others(site: Site) -> None:
    trace = "open('order', 'a').write"
    around = wrapper("agh_register_agents", "", f"{trace}('before ')", f"{trace}('after '); return result")
    site.add("m-wrapper", around)
    for plugin in ("b", "z"):
        site.add(plugin, hook("agh_register_agents", TRACE.format(name=plugin)))
    assert warnings(site, "agent", "list") == []
    assert (site.cwd / "order").read_text().split() == ["before", "b", "z", "after"]


def test_a_wrapper_sees_and_changes_what_the_others_did(site: Site) -> None:
    site.add("mine", command("greet", "click.echo('hello')"))
    site.add(
        "wrapper", wrapper("agh_register_commands", "group", after="group.commands['greet'].help = 'Bow.'")
    )
    help = site.agh("--help").stdout
    assert "Bow." in help
    assert "From a plugin." not in help


def test_a_wrapper_sees_and_changes_what_the_others_returned(site: Site) -> None:
    site.add("inner", hook("agh_register_agents", "    return 'inner'\n"))
    twice = "return [*result, 'middle']"
    site.add("middle", wrapper("agh_register_agents", "", after=twice))
    site.add(
        "outer",
        hook(
            "agh_register_agents",
            "    result = yield\n    print(result)\n    return result\n",
            "(wrapper=True, tryfirst=True)",
        ),
    )
    assert site.agh("agent", "list").stdout.startswith("['inner', 'middle']\n")


def test_a_wrapper_has_the_last_word_on_a_launch(site: Site) -> None:
    change = "launch.argv = ['env', '{}=1', *launch.argv]"
    site.add("b-wrapper", wrapper("agh_prepare_launch", "launch", after=change.format("OUTER")))
    site.add("z", hook("agh_prepare_launch", f"    {change.format('INNER')}\n", parameters="launch"))
    assert site.read("agent", "doctor", "echo")["command"][:4] == ["env", "OUTER=1", "env", "INNER=1"]


def test_what_a_wrapper_registers_is_its_own_and_never_replaces_a_built_in(site: Site) -> None:
    register = "register({'name': 'claude', 'argv': ['x']}); register({'name': 'early', 'argv': ['x']})"
    late = "register({'name': 'late', 'argv': ['x']})"
    site.add("wrapper", wrapper("agh_register_agents", "register", register, late))
    site.add("first", hook("agh_register_agents", f"    {register}\n", "(tryfirst=True)", "register"))
    sources = {name: agent["source"] for name, agent in site.agents().items()}
    assert sources["claude"] == "built-in"
    assert sources["early"] == sources["late"] == "plugin wrapper"
    assert next(iter(sources)) == "claude", "the built-in agents come first"


@pytest.mark.parametrize("options", ["(wrapper=True)", "(hookwrapper=True)"])
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("    raise RuntimeError('too early')\n    yield\n", "too early"),
        ("    yield\n    raise RuntimeError('too late')\n", "too late"),
        ("    return\n    yield\n", "did not yield"),
        ("    yield\n    yield\n", "second yield"),
    ],
)
def test_a_wrapper_that_fails_is_named_and_skipped(site: Site, options: str, body: str, why: str) -> None:
    site.add("broken", hook("agh_register_agents", body, options))
    site.add("another", wrapper("agh_register_agents", "register", after=f"register({BOT!r})"))
    site.add("zmine", agents({**BOT, "name": "zbot"}))
    result = site.agh("agent", "list")
    (warning,) = result.stderr.splitlines()
    assert warning.startswith("agh: plugin broken: agh_register_agents failed: ")
    assert why in warning
    names = {line.split()[0] for line in result.stdout.splitlines()}
    assert {"bot", "zbot", "claude"} <= names


def test_an_implementation_that_fails_is_unseen_by_a_wrapper(site: Site) -> None:
    site.add("broken", hook("agh_register_agents", "    raise KeyError('x')\n"))
    site.add("wrapper", wrapper("agh_register_agents", "register", after=f"register({BOT!r})"))
    result = site.agh("agent", "list")
    (warning,) = result.stderr.splitlines()
    assert warning == "agh: plugin broken: agh_register_agents failed: 'x'"
    assert "bot" in result.stdout


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_wrapper_that_fails_stops_the_launch(site: Site, when: str) -> None:
    site.add("broken", wrapper("agh_prepare_launch", "", **{when: "raise RuntimeError('no rocket')"}))
    error = json.loads(site.agh("agent", "doctor", "echo", "-o", "json", code=1).stderr)["error"]
    assert error["message"] == "agent echo failed: plugin broken: RuntimeError: no rocket"


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ("(wrapper=True)", "    try:\n        yield\n    except Exception:\n        pass\n"),
        ("(wrapper=True)", "    try:\n        yield\n    finally:\n        raise KeyError\n"),
        ("(hookwrapper=True)", "    outcome = yield\n    outcome.force_result([])\n"),
    ],
)
def test_a_wrapper_cannot_hide_that_a_launch_was_stopped(site: Site, options: str, body: str) -> None:
    """The plugin that failed may have been somebody's sandbox."""
    site.add("optimist", hook("agh_prepare_launch", body, options))
    site.add("sandbox", hook("agh_prepare_launch", "    raise RuntimeError('no walls')\n"))
    site.add("zlater", hook("agh_prepare_launch", TRACE.format(name="zlater")))
    error = json.loads(site.agh("agent", "doctor", "echo", "-o", "json", code=1).stderr)["error"]
    assert error["message"] == "agent echo failed: plugin sandbox: RuntimeError: no walls"
    assert not (site.cwd / "order").exists(), "nobody after it was called"


def test_a_wrapper_that_cannot_yield_is_refused_when_it_is_loaded(site: Site) -> None:
    site.add("broken", hook("agh_register_agents", "    return None\n", "(wrapper=True)"))
    assert "not a generator function" in site.plugins()["broken"]["error"]


def test_a_misspelt_hook_is_named(site: Site) -> None:
    site.add("broken", hook("agh_register_agent", "    pass\n"))
    site.add("zmine", agents(BOT))
    result = site.agh("agent", "list")
    (warning,) = result.stderr.splitlines()
    assert warning.startswith("agh: plugin broken (agh_broken-1.0) is skipped: ")
    assert "unknown hook 'agh_register_agent'" in warning
    assert "bot" in result.stdout


def test_a_hook_may_use_what_other_hooks_offer(site: Site) -> None:
    body = "    from agh.adapters import registry\n    print(*registry.agents())\n    1 / 0\n"
    site.add("curious", hook("agh_register_commands", body))
    site.add("broken", hook("agh_register_agents", "    raise KeyError('x')\n"))
    result = site.agh("--help")
    assert "claude" in result.stdout
    assert result.stderr.splitlines() == [
        "agh: plugin broken: agh_register_agents failed: 'x'",
        "agh: plugin curious: its commands are skipped: division by zero",
    ]


def test_agh_offers_hookimpl_and_costs_nothing_until_it_is_used() -> None:
    code = (
        "import sys; before = set(sys.modules); import agh; added = set(sys.modules) - before;"
        "print(*added); print(agh.hookimpl.project_name); agh.nonsense"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert result.stdout.splitlines() == ["agh", "agh"]
    assert "AttributeError: module 'agh' has no attribute 'nonsense'" in result.stderr
