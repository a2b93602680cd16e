"""What an installation would do, and why it cannot be done."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agh.adapters.agents import AgentRecord
from agh.adapters.builtin import AGENTS
from agh.catalog.entries import Entry, read_catalog
from agh.catalog.plan import agent_names, make_plan, platform, programs_path
from agh.catalog.source import read_bundled
from agh.errors import AgentNotInstallable, AgentUnlisted, AghError, Usage
from tests.unit.catalog.loopback import binary, entry, fake_tools

RECORDS = {
    "claude": AgentRecord("claude", ("claude-agent-acp",), catalog="claude-acp", env={"MODE": "own"}),
    "kimi": AgentRecord("kimi", ("kimi", "acp"), catalog="kimi-code"),
}


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", fake_tools(tmp_path / "bin")["PATH"])
    return tmp_path / "bin"


def entries(*agents: Any) -> dict[str, Entry]:
    return read_catalog(json.dumps({"agents": agents}).encode()).entries


def npx(package: str, **fields: Any) -> dict[str, Any]:
    return {"npx": {"package": package, **fields}}


def test_every_built_in_agent_of_the_bundled_list_can_be_found() -> None:
    listed = read_bundled().entries
    ids = {fields.get("catalog", fields["name"]) for fields in AGENTS}
    assert ids - set(listed) == {"cursor"}, "its archives have no checksum"


def test_agh_s_own_record_is_laid_over_the_entry() -> None:
    listed = entries(
        entry("claude-acp", **npx("claude-pkg@3.0.0", args=["--other"], env={"MODE": "x", "NEW": "y"}))
    )
    plan = make_plan("claude", listed, RECORDS)
    assert (plan.name, plan.extends, plan.argv) == ("claude", "claude", ("claude-agent-acp",))
    assert plan.env == {"NEW": "y"}
    assert plan.pin["package"] == "claude-pkg@3.0.0"
    assert plan.command == [f"{programs_path('claude')}/3.0.0/node_modules/.bin/claude-agent-acp"]
    assert make_plan("claude-acp", listed, RECORDS) == plan, "the catalog's own name works too"


def test_an_agent_that_only_the_catalog_has() -> None:
    plan = make_plan("mine", entries(entry("mine", **npx("@scope/tool@1.2.3", args=["acp"]))), RECORDS)
    assert (plan.extends, plan.argv) == ("", ("tool", "acp"))
    assert plan.pin["package"] == "@scope/tool@1.2.3"
    assert plan.command == [f"{programs_path('mine')}/1.2.3/node_modules/.bin/tool", "acp"]


def test_a_program_of_a_package() -> None:
    listed = entries(entry("mine", uvx={"package": "tool==1.0", "cmd": "tool-acp", "args": ["-x"]}))
    assert make_plan("mine", listed, {}).command == [f"{programs_path('mine')}/1.0/bin/tool-acp", "-x"]


def test_a_version_of_one_s_own() -> None:
    plan = make_plan("mine", entries(entry("mine")), {}, version="0.9.0")
    assert plan.pin["package"] == "mine-acp@0.9.0"
    assert plan.pin["exact"] is True
    assert "exact" not in make_plan("mine", entries(entry("mine")), {}).pin


def test_an_entry_of_the_same_name_as_another_agent_of_ours_is_hidden() -> None:
    listed = entries(entry("kimi"), entry("kimi-code", "2.0.0"), entry("other"))
    assert agent_names(listed, RECORDS) == {"kimi-code": "kimi", "other": "other"}
    assert make_plan("kimi", listed, RECORDS).pin["version"] == "2.0.0"


def test_the_bundled_entry_steps_in_for_one_that_cannot_be_installed() -> None:
    target = {platform(): {"archive": "https://x.example/a.tgz", "cmd": "./a"}}
    newer, bundled = entries(entry("mine", "2.0.0", binary=target)), entries(entry("mine", "1.0.0"))
    assert make_plan("mine", newer, {}, bundled=bundled).pin["version"] == "1.0.0"


NO_CHECKSUM = {platform(): {"archive": "https://x.example/a.tgz", "cmd": "./a"}}


@pytest.mark.parametrize(
    ("distribution", "options", "kind", "message", "hint"),
    [
        ({"binary": NO_CHECKSUM}, {}, AgentNotInstallable, "no checksum", "--sha256"),
        (
            {"binary": {"darwin-x86_64": {"archive": "https://x.example/a", "cmd": "a"}}},
            {},
            AgentNotInstallable,
            "darwin",
            "",
        ),
        (npx("a@1.0.0"), {"via": "uvx"}, AgentNotInstallable, "not available via uvx", "--via npx"),
        (
            {"binary": binary("https://x.example/a", b"")},
            {"version": "7.0"},
            AgentNotInstallable,
            "only for version 1.0.0",
            "install",
        ),
        (npx("a@1.0.0"), {"version": "lat est"}, Usage, "not a version", "agh agent install"),
        (npx("a@1.0.0"), {"version": "-c"}, Usage, "not a version", "agh agent install"),
        (npx("a@1.0.0"), {"sha256": "12"}, Usage, "64 hex", "agh agent install"),
    ],
)
def test_what_cannot_be_done_says_why_and_what_to_do(
    distribution: Any, options: Any, kind: type[AghError], message: str, hint: str
) -> None:
    with pytest.raises(kind, match=message) as error:
        make_plan("mine", entries(entry("mine", **distribution)), {}, **options)
    assert hint in error.value.hint


def test_a_missing_tool_is_named(tools: Path) -> None:
    (tools / "npm").unlink()
    os.environ["PATH"] = str(tools)
    with pytest.raises(AgentNotInstallable, match="npm is not on PATH") as error:
        make_plan("mine", entries(entry("mine")), {})
    assert "Node.js" in error.value.hint


def test_an_unknown_name_is_guessed() -> None:
    with pytest.raises(AgentUnlisted) as error:
        make_plan("cluade", entries(entry("mine")), RECORDS)
    assert error.value.hint == "did you mean claude?"


def test_an_agent_of_ours_that_the_list_lacks_says_how_it_is_installed() -> None:
    records = {"ours": AgentRecord("ours", ("ours",), install="its own installer")}
    with pytest.raises(AgentUnlisted) as error:
        make_plan("ours", entries(entry("mine")), records)
    assert error.value.hint == "install it: its own installer"


def test_a_checksum_of_one_s_own() -> None:
    plan = make_plan("mine", entries(entry("mine", binary=NO_CHECKSUM)), {}, sha256="AB" * 32)
    assert plan.pin["sha256"] == "ab" * 32
