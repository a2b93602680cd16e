"""Finding plugins: which are loaded, what each offers, and that a broken one harms nobody else."""

from __future__ import annotations

import pytest

from tests.support.build import Home, conversation
from tests.support.site import HEAD, OURS, Site, agents

BOT = {"name": "bot", "argv": ["bot", "--acp"], "title": "A bot"}

BROKEN = {
    "raises": "raise RuntimeError('no luck')",
    "does not compile": "def (",
    "needs what is not there": "import no_such_module",
    "unknown hook": f"{HEAD}@hookimpl\ndef agh_make_coffee(cups):\n    pass\n",
    "unknown parameter": f"{HEAD}@hookimpl\ndef agh_register_agents(cups):\n    pass\n",
}
WHY = {
    "raises": "RuntimeError: no luck",
    "does not compile": "SyntaxError",
    "needs what is not there": "no_such_module",
    "unknown hook": "agh_make_coffee",
    "unknown parameter": "agh_register_agents",
}


def test_a_plugin_is_found_and_described(site: Site) -> None:
    folder = site.add("mine", agents(BOT))
    plugins = site.plugins()
    assert plugins["mine"] == {
        "name": "mine",
        "module": "agh_mine",
        "distribution": folder.name.removesuffix(".dist-info"),
        "location": str(site.path),
        "hooks": ["agh_register_agents"],
        "error": None,
    }
    assert plugins["echo"]["hooks"] == ["agh_register_agents"], "the embedded agent is a plugin too"
    assert site.agents()["bot"]["source"] == "plugin mine"
    head, *rows = site.agh("plugins", "list").stdout.splitlines()
    assert head.split() == ["PLUGIN", "FROM", "OFFERS"]
    assert ["mine", "agh_mine-1.0", "agh_register_agents"] in [row.split() for row in rows]


def test_only_those_that_are_wanted(site: Site) -> None:
    site.add("mine", agents(BOT))
    site.add("yours", agents({**BOT, "name": "your-bot"}))
    assert set(site.plugins()) == {"mine", "yours"} | OURS
    assert set(site.plugins(env={"AGH_PLUGINS": "mine, echo"})) == {"mine", "echo"}
    none = {"AGH_PLUGINS": ""}
    assert site.plugins(env=none) == {}
    assert site.agh("plugins", "list", env=none).stdout == "no plugins are installed\n"
    found = site.agents(env=none)
    assert "claude" in found
    assert not {"bot", "your-bot", "echo"} & set(found)


def test_without_any_agent_a_run_says_so_and_how_to_get_one(site: Site) -> None:
    result = site.agh("run", "hello", env={"AGH_PLUGINS": "", "PATH": str(site.path)}, code=4)
    assert result.stderr == "agh: no agent is installed\nhint: agh agent list, then agh agent install NAME\n"


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_plugin_is_named_and_skipped(site: Site, kind: str) -> None:
    site.add("broken", BROKEN[kind])
    site.add("zmine", agents(BOT))
    result = site.agh("agent", "list")
    (warning,) = result.stderr.splitlines()
    assert warning.startswith("agh: plugin broken (agh_broken-1.0) is skipped: ")
    assert WHY[kind] in warning
    assert "bot" in result.stdout
    assert "claude" in result.stdout
    plugins = site.plugins()
    assert WHY[kind] in plugins["broken"]["error"]
    assert plugins["broken"]["hooks"] == []
    assert (plugins["zmine"]["hooks"], plugins["zmine"]["error"]) == (["agh_register_agents"], None)


def test_a_plugin_that_exits_is_skipped_too(site: Site) -> None:
    site.add("broken", "import sys\nsys.exit(3)")
    assert "claude" in site.agents()
    assert site.plugins()["broken"]["error"]


def test_the_warning_says_what_is_wrong(site: Site) -> None:
    site.add("broken", BROKEN["unknown parameter"])
    assert "cups" in site.plugins()["broken"]["error"]


@pytest.mark.parametrize(
    "args",
    [("list", "--all"), ("list", "-o", "json"), ("events", "talk"), ("repair", "talk"), ("repair", "--all")],
)
def test_a_broken_plugin_is_nothing_to_a_command_that_needs_none(
    site: Site, home: Home, args: tuple[str, ...]
) -> None:
    home.session(conversation(), name="talk")
    for kind, code in BROKEN.items():
        site.add(kind.replace(" ", "-"), code)
    with_them = site.agh("session", *args)
    without = site.agh("session", *args, env={"AGH_PLUGINS": ""})
    assert with_them.stderr == ""
    assert with_them.stdout == without.stdout


def test_what_a_hook_gets_wrong_is_named(site: Site) -> None:
    site.add("half", agents(BOT, {"name": "armless"}))
    site.add("odd", agents({**BOT, "name": "odd", "colour": "red"}))
    site.add("fails", f"{HEAD}@hookimpl\ndef agh_register_agents(register):\n    raise KeyError('x')\n")
    site.add("zgood", agents({**BOT, "name": "good"}))
    result = site.agh("agent", "list")
    half, odd, fails = (
        next(line for line in result.stderr.splitlines() if f"plugin {name}: " in line)
        for name in ("half", "odd", "fails")
    )
    assert "argv is missing or empty" in half
    assert "unknown key 'colour'" in odd
    assert "agh_register_agents failed" in fails
    assert len(result.stderr.splitlines()) == 3
    found = {line.split()[0] for line in result.stdout.splitlines()}
    assert {"bot", "good", "claude"} <= found
    assert not {"armless", "odd"} & found


def test_the_first_on_the_path_wins(site: Site, tmp_path_factory: pytest.TempPathFactory) -> None:
    site.add("mine", agents(BOT))
    second = Site(tmp_path_factory.mktemp("more") / "site", site.cwd)
    (second.path / "agh_other.py").write_text(agents({**BOT, "title": "Another bot"}))
    second.register("agh_mine-2.0", "[agh]\nmine = agh_other\n")
    both = {"PYTHONPATH": f"{site.path}:{second.path}:/no/such/place:{__file__}"}
    assert site.plugins(env=both)["mine"]["distribution"] == "agh_mine-1.0"
    assert site.agents(env=both)["bot"]["title"] == "A bot"
    other = {"PYTHONPATH": f"{second.path}:{site.path}"}
    assert site.agents(env=other)["bot"]["title"] == "Another bot"


def test_other_groups_and_lines_are_passed_over(site: Site) -> None:
    (site.path / "agh_mine.py").write_text(agents(BOT))
    site.register("a-1", "")
    site.register("b-1", "[console_scripts]\nmine = nothing:main\n")
    site.register(
        "c-1", "[agh.other]\nmine = nothing\n\n[agh]\n\nmine=agh_mine\n[pytest11]\nyours = nothing\n"
    )
    (site.path / "d-1.dist-info").mkdir()
    (site.path / "e-1.dist-info").write_text("a file")
    plugins = site.plugins()
    assert set(plugins) == {"mine"} | OURS
    assert plugins["mine"]["module"] == "agh_mine"


def test_a_comment_is_no_plugin(site: Site) -> None:
    (site.path / "agh_mine.py").write_text(agents(BOT))
    site.register("c-1", "[agh]\n# old = agh_old\n; older = agh_older\nmine = agh_mine\n")
    assert set(site.plugins()) == {"mine"} | OURS


def test_a_built_in_agent_is_not_replaced(site: Site) -> None:
    site.add("mine", agents({**BOT, "name": "claude"}))
    assert site.agents()["claude"]["source"] == "built-in"
    assert site.read("agent", "show", "claude")["argv"] == ["claude-agent-acp"]


def test_the_built_in_plugin_is_not_replaced(site: Site) -> None:
    site.add("built-in", agents(BOT))
    assert "claude" in site.agents()


def test_one_module_under_two_names_is_loaded_once(site: Site) -> None:
    site.add("mine", agents(BOT))
    site.register("again-1", "[agh]\nagain = agh_mine\n")
    plugins = site.plugins()
    assert sorted(bool(plugins[name]["error"]) for name in ("mine", "again")) == [False, True]
    assert "bot" in site.agents()


def test_the_mark_decides_and_not_the_name(site: Site) -> None:
    site.add(
        "unmarked", "def agh_register_agents(register):\n    register({'name': 'ghost', 'argv': ['ghost']})\n"
    )
    code = f"{HEAD}@hookimpl(specname='agh_register_agents')\ndef mine(register):\n    register({BOT!r})\n"
    site.add("renamed", code)
    found = site.agents()
    assert "bot" in found
    assert "ghost" not in found
