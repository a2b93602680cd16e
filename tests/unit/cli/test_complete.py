"""What the Tab key is offered: `agh __complete`, without a shell."""

from __future__ import annotations

import os
import subprocess

import pytest

from agh.cli import complete
from agh.cli.completion import FILES
from agh.cli.main import root
from agh.cli.tree import commands
from agh.config import SETTINGS
from agh.core.events import TYPES
from agh.home import Session
from agh.store.lock import take
from tests.support.build import ROOT, Home
from tests.support.imports import HEAVY, below, imported
from tests.support.program import AGH, Agh
from tests.support.site import Site, command


def offered(*words: str) -> dict[str, str]:
    return dict(complete.candidates(list(words)))


@pytest.fixture
def three(home: Home) -> Home:
    home.directory(id="sess-aaaa000001", name="fix-login", agent_name="claude", workspace_path="/src/app")
    home.directory(id="sess-aabb000002", agent_name="codex", stop_reason="error", workspace_id="ws-2")
    home.directory(id="sess-bbbb000003", name="two words", agent_name="echo", workspace_path="/src/app")
    return home


def test_every_command_is_offered_by_its_group() -> None:
    for path, one in commands(root):
        if path:
            offers = offered(*path[:-1], path[-1][:1])
            assert path[-1] in offers
            assert offers[path[-1]] == one.get_short_help_str(200)


def test_every_option_is_offered() -> None:
    offers = offered("session", "resume", "-")
    assert {"--latest", "--agent", "--fresh", "--ttl", "--output", "--help"} <= set(offers)
    assert offers["--steal"] == "Take over from another terminal or script."
    assert "--latest" not in offered("session", "resume", "--latest", "-")
    assert "--type" in offered("session", "events", "--type", "done", "-")
    assert offered("session", "resume", "--", "-") == {}


def test_sessions(three: Home) -> None:
    offers = offered("session", "status", "")
    assert offers["fix-login"] == "claude · stopped · sess-aaaa000001"
    assert offers["sess-aaaa000001"] == "fix-login · claude · stopped"
    assert offers["sess-aabb000002"] == "codex · failed"
    ids = ["sess-bbbb000003", "sess-aabb000002", "sess-aaaa000001"]
    assert list(offers) == ["@last", "two words", "fix-login", *ids]
    assert list(offered("session", "status", "sess-aa")) == ["sess-aabb000002", "sess-aaaa000001"]
    assert list(offered("session", "status", "two")) == ["two words"]
    assert offered("session", "status", "fix-login", "") == {}
    assert "fix-login" in offered("session", "events", "two words", "")  # takes many


def test_slash_commands_of_the_sessions_agent(three: Home) -> None:
    commands = [{"name": "review", "description": "Look it up"}, {"name": "compact", "hint": "what to keep"}]
    here = os.path.realpath(os.getcwd())
    three.directory(id="sess-cccc000004", name="with", workspace_path=here, commands=commands)
    both = {"/review": "Look it up", "/compact": "what to keep"}
    assert offered("session", "prompt", "with", "") == both
    assert offered("prompt", "with", "/re") == {"/review": "Look it up"}
    assert offered("prompt", "--detach", "@last", "/c") == {"/compact": "what to keep"}
    assert offered("prompt", "--continue", "/") == both
    assert offered("session", "prompt", "two words", "/") == {}
    assert offered("prompt", "with", "/review", "") == {}


def test_a_name_is_offered_once_for_the_session_it_means_here(three: Home) -> None:
    three.directory(id="sess-cccc000004", name="fix-login", agent_name="echo", workspace_path=os.getcwd())
    three.directory(id="sess-cccc000005", name="fix-login", workspace_path=os.getcwd(), archived=True)
    assert offered("session", "status", "fix") == {"fix-login": "echo · stopped · sess-cccc000004"}
    assert [word for word, _ in complete.candidates(["status", ""])][:3] == [
        "@last",
        "fix-login",
        "two words",
    ]


def test_of_many_the_newest_are_described(three: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complete, "DESCRIBED", 1)
    assert list(offered("session", "status", "")) == ["@last", "two words", "sess-bbbb000003"]
    offers = offered("session", "status", "s")
    assert list(offers) == ["sess-bbbb000003", "sess-aabb000002", "sess-aaaa000001"]
    assert offers["sess-aaaa000001"] == ""
    assert offered("session", "status", "fix") == {"fix-login": "claude · stopped · sess-aaaa000001"}
    assert "/src/app" in offered("session", "list", "--workspace", "")


def test_a_live_session_says_so(three: Home) -> None:
    directory = three.directory(id="sess-cccc000004", state="active", stop_reason=None, agent_name="echo")
    assert offered("session", "stop", "sess-c")["sess-cccc000004"] == "echo · failed"  # nobody holds it
    with take(Session.at(directory)) or pytest.fail():
        assert offered("session", "stop", "sess-c")["sess-cccc000004"] == "echo · idle"


def test_a_session_that_cannot_be_read(three: Home) -> None:
    (three.path / "sessions/sess-aabb000002/meta.json").write_text("{")
    assert offered("session", "delete", "sess-aab") == {"sess-aabb000002": "unknown"}


def test_agents() -> None:
    offers = offered("run", "--agent", "")
    assert offers["echo"].endswith("installed")
    assert "claude" in offers
    assert list(offered("agent", "show", "ec")) == ["echo"]
    assert list(offered("run", "--agent=ec")) == ["--agent=echo"]
    assert "echo" in offered("session", "resume", "fix-login", "--agent", "e")


def test_workspaces(three: Home) -> None:
    offers = offered("session", "list", "--workspace", "")
    assert offers["/src/app"] == "repo-alpha"
    assert offers[""] == "dir"
    entry = '[[workspaces]]\nid = "ws-1"\nname = "shop"\npath = "/src/shop"\n'
    (three.path / "workspaces.toml").write_text(entry)
    assert offered("run", "--workspace", "sh") == {"shop": "/src/shop", "": "dir"}
    (three.path / "workspaces.toml").write_text("[[workspaces]]\nbroken")
    assert "/src/app" in offered("run", "--workspace", "")


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["session", "events", "--type", ""], set(TYPES)),
        (["session", "wait", "x", "--until", ""], {"idle", "turn", "stopped", "permission", "question"}),
        (["session", "resume", "x", "-o", ""], {"human", "json", "jsonl"}),
        (["run", "--permissions", ""], {"deny-all", "approve-reads", "approve-all"}),
        (["completion", ""], set(FILES)),
        (["run", "--file", ""], {""}),
        (["run", "--max-time", ""], set()),
        (["run", ""], set()),
        (["nonsense", ""], set()),
        (["session", "nonsense", ""], set()),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_values(words: list[str], values: set[str]) -> None:
    assert set(offered(*words)) == values


def test_keys_of_the_settings_are_known() -> None:
    """The command that takes them may be named as it likes; its argument is `key`."""
    from agh.cli.tree import BY_NAME

    takes = BY_NAME["config", "key"]
    assert isinstance(takes, list)
    assert dict(takes) == {name: one.meaning for name, one in SETTINGS.items()}


@pytest.mark.parametrize(
    "words", [[""], ["session", ""], ["session", "status", ""], ["session", "events", "--type", ""]]
)
def test_nothing_heavy_is_imported(three: Home, words: list[str]) -> None:
    modules = imported("__complete", *words)
    assert "agh.cli.complete" in modules
    assert [name for name in sorted(modules) if below(name, (*HEAVY, "click", "sqlite3"))] == []


def test_the_answer_is_plain_text(agh: Agh, three: Home) -> None:
    three.directory(id="sess-dddd000005", name="Grüße", agent_name="evil\x1b]0;x\x07\tagent\nline")
    result = agh("__complete", "session", "status", "sess-d", env={**os.environ, "LC_ALL": "C"})
    assert result.stdout == "sess-dddd000005\tGrüße · evil\\x1b]0;x\\x07 agent line · stopped\n"
    assert result.stderr == ""


@pytest.mark.parametrize("trouble", ["unsafe", "file", "none"])
def test_trouble_is_silence(agh: Agh, home: Home, trouble: str) -> None:
    if trouble == "unsafe":
        home.session()
        home.path.chmod(0o777)
    elif trouble == "file":
        home.path.write_text("x")
    result = agh("__complete", "session", "status", "")
    assert (result.stdout, result.stderr) == ("", "")
    assert agh("__complete").stdout.startswith("acp\t")
    assert home.path.exists() == (trouble != "none")


def test_commands_of_a_plugin(site: Site) -> None:
    assert "sing" not in site.agh("__complete", "").stdout
    site.add("singer", command("sing"))
    assert "sing\tFrom a plugin.\n" in site.agh("__complete", "").stdout
    assert "session\t" in site.agh("__complete", "").stdout
    assert site.agh("__complete", "sing", "--h").stdout.startswith("--help\t")
    assert "sing" not in site.agh("__complete", "", env={"AGH_PLUGINS": ""}).stdout


@pytest.mark.parametrize("shell", FILES)
def test_the_script(agh: Agh, shell: str) -> None:
    stored = ROOT / "completions" / FILES[shell]
    assert agh("completion", shell).stdout == stored.read_text()


def test_a_shell_that_is_not_known(agh: Agh) -> None:
    assert "hint: did you mean fish?" in agh("completion", "fsh", code=2).stderr


def test_a_reader_that_went_away() -> None:
    result = subprocess.run(
        ["bash", "-c", f"{AGH} __complete session '' | :"], capture_output=True, text=True, timeout=20
    )
    assert (result.returncode, result.stderr) == (0, "")
