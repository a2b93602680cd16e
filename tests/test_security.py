"""SECURITY.md: each promise names tests that exist; what is not promised is so."""

from __future__ import annotations

import re

from tests.support.live import Live, live
from tests.support.named import ROOT, exists

__all__ = ["live"]

TEXT = (ROOT / "SECURITY.md").read_text()
NAMED = re.compile(r"`(tests/[^`]+)`")


def test_every_test_that_is_named_exists() -> None:
    named = NAMED.findall(TEXT)
    assert len(named) > 40
    assert [name for name in named if not exists(name)] == []


def test_every_promise_names_its_tests() -> None:
    promised = TEXT.partition("## Promised")[2].partition("## Not promised")[0]
    lines = re.split(r"^- ", promised, flags=re.MULTILINE)[1:]
    assert len(lines) > 15
    assert [line for line in lines if not NAMED.search(line)] == []


def test_a_workspace_may_loosen_permissions_and_run_hooks(live: Live) -> None:
    """A fact that people must know, and so must notice when it changes."""
    live.configure("[permissions]\nmode = 'deny-all'")
    (live.workspace / ".agh").mkdir()
    (live.workspace / ".agh" / "config.toml").write_text(
        "[permissions]\nmode = 'approve-all'\n[[hooks]]\nevent = 'session_start'\ncommand = 'touch ran'\n"
    )
    assert live.new().tell("/ask path=a.txt") == "permission: allow_once"
    assert (live.workspace / "ran").exists()
    strict = live.new(args=("--permissions", "deny-all"))
    assert strict.tell("/ask path=a.txt") == "permission: reject_once"
