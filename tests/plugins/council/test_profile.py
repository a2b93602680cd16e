"""Profiles: what is accepted, and what is said about the rest."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from agh_council.profile import Bounds, Perspective, read_profile

from tests.plugins.council.support import perspective, profile
from tests.support.program import Agh

EXAMPLE = """
name = "review"
orchestrator = "scripted"
transcript_replay_depth = 40
[[perspectives]]
id = "advocate"
agent = "echo"
role = "Argue for the change."
required = true
speaks_last = false
[[perspectives]]
id = "skeptic"
agent = "echo"
[delegation]
default = "broadcast"
opening_rounds = 1
tension_pairs = [["advocate", "skeptic"]]
bias_limit = 5
max_depth = 2
[constraints]
rounds = { min = 2, max = 4 }
budget = { max = 5.0 }
time = { max = "60m" }
[failure]
on_agent_failure = "skip"
[expertise]
enabled = true
[output]
memo = "memo.md"
[[gates]]
after_round = 2
prompt = "Go on?"
"""


def test_the_example() -> None:
    council_profile = read_profile(tomllib.loads(EXAMPLE))
    assert council_profile.orchestrator is None and council_profile.transcript_replay_depth == 40
    assert council_profile.perspectives[0] == Perspective(
        "advocate", "echo", role="Argue for the change.", required=True
    )
    assert council_profile.constraints.time == Bounds(0, 3600.0)
    assert council_profile.last_round() == 4
    assert council_profile.gates[0].after_round == 2
    nested = profile("[constraints]\ntranscript_replay_depth = 7\n")
    assert read_profile(tomllib.loads(nested)).transcript_replay_depth == 7
    led = read_profile(tomllib.loads(profile(head='orchestrator = "claude"\n')))
    assert led.orchestrator == Perspective("orchestrator", agent="claude")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name = 'x'", "at least one"),
        (profile("[failure]\non_agent_failur = 'skip'\n"), "did you mean on_agent_failure"),
        (profile("[failure]\non_agent_failure = 'cry'\n"), "not one of skip, abort_round, pause"),
        (profile(perspectives=(perspective("a"), perspective("a"))), "the id 'a' is used twice"),
        (profile(perspectives=(perspective("orchestrator"),)), "the id 'orchestrator' is reserved"),
        (profile(perspectives=(perspective("../x"),)), "letters, digits"),
        (profile(perspectives=(perspective("a", colour="red"),)), "number 1: unknown key 'colour'"),
        (
            profile("[delegation]\ntension_pairs = [['advocate', 'nobody']]\n"),
            "unknown name 'nobody'; allowed: ",
        ),
        (profile("[delegation]\ntension_pairs = [['advocate']]\n"), "pairs of different members"),
        (profile("[constraints]\nrounds = { min = 5, max = 4 }\n"), "not below min"),
        (profile("[constraints]\ntime = { max = 'soon' }\n"), "not a time span"),
        (profile("[constraints]\nbudget = 5\n"), "constraints.budget: must be a table such as"),
        (profile("[output]\nmemo = '../memo.md'\n"), "inside the workspace"),
        (profile("[[gates]]\nafter_round = 9\n"), "there is no round 9"),
        (profile("[[gates]]\n"), "gates: number 1: a gate needs after_round or after_step"),
        (profile("[[gates]]\nafter_step = 'x'\n"), "unknown name 'x'; allowed: none"),
        (profile("[expertise]\nenabled = 'yes'\n"), "neither true nor false"),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        read_profile(tomllib.loads(text))


def test_validate(agh: Agh, tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    path.write_text(EXAMPLE)
    assert agh("council", "validate", path).stdout == f"{path}: ok\n"
    path.write_text(EXAMPLE.replace('"echo"', '"ecko"'))
    assert "did you mean echo?" in agh("council", "validate", path, code=4).stderr
    path.write_text("name = ")
    assert agh("council", "validate", path, code=2).stderr.startswith(f"agh: {path}: ")
    agh("council", "validate", tmp_path / "missing.toml", code=2)
    brief = tmp_path / "brief.md"
    brief.write_text("x")
    agh("council", "run", tmp_path / "missing.toml", "--brief", brief, code=2)
    path.write_text(EXAMPLE)
    for bad, why in ((" \n", "empty"), ("x" * 70_000, "70000 bytes")):
        brief.write_text(bad)
        assert why in agh("council", "run", path, "--brief", brief, code=2).stderr
    assert not (tmp_path / "agh").exists(), "nothing was made"


def test_a_session_that_is_no_council(agh: Agh, tmp_path: Path) -> None:
    assert "councils" in agh("council", "list", "-o", "json").stdout
    agh("council", "status", "@last", code=4, cwd=tmp_path)
    agh("council", "status", "sess-00000000", code=4)
