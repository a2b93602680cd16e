"""Model, mode and options: chosen at the start, changed later, and chosen again on every resume."""

from __future__ import annotations

import pytest

from agh.keeper.agent.options import offered
from tests.support.live import Live, Session
from tests.support.resume import RECALL, SEEN, refused, restored

DEFAULT = "mode=ask model=small mcp="
CHOSEN = "mode=code model=large mcp="


@pytest.mark.parametrize(
    "args", [("--model", "large", "--mode", "code"), ("--option", "model=large", "--option", "mode=code")]
)
def test_chosen_at_the_start_and_again_on_resume(live: Live, args: tuple[str, ...]) -> None:
    session = live.new(args=args)
    assert session.say("/settings") == CHOSEN
    assert (session.status()["model"], session.status()["mode"]) == ("large", "code")
    session.kill_keeper()
    assert restored(session, "--caps load" if "--option" in args else "")["context_lost"] is False
    assert session.say("/settings") == CHOSEN


def test_changed_while_it_lives(talked: Session) -> None:
    restored(talked)
    assert talked.say("/settings") == DEFAULT
    assert talked.agh("set", "model=large", "mode=code").stdout == "model=large\nmode=code\n"
    assert talked.say("/settings") == CHOSEN
    talked.kill_keeper()
    restored(talked)
    assert talked.say("/settings") == CHOSEN


def test_changed_while_it_is_stopped(talked: Session) -> None:
    talked.agh("set", "mode=code")
    assert talked.status()["mode"] == "code"
    assert not talked.is_live()
    restored(talked, "--on-resume not-found")
    assert talked.say("/settings") == "mode=code model=small mcp="


def test_what_it_may_do_is_changed_while_it_lives_and_while_it_is_stopped(talked: Session) -> None:
    talked.agh("set", "permissions=deny-all")
    assert not talked.is_live()
    assert talked.say("/ask kind=read path=a.txt") == "permission: reject_once"
    talked.agh("set", "permissions=approve-all")
    assert talked.say("/ask path=a.txt") == "permission: allow_once"
    assert talked.meta()["permissions"] == "approve-all"
    before = talked.meta()
    assert "not one of deny-all" in talked.error("set", "permissions=all", code=2)["message"]
    talked.error("set", "permissions=deny-all", "nonsense", code=2)
    assert talked.meta() == before, "nothing is done before all of it is read"


def test_an_unknown_value_is_refused_while_it_lives(talked: Session) -> None:
    restored(talked)
    error = talked.error("set", "model=enormous", code=2)
    assert error["code"] == "option_unknown"
    assert error["message"] == "the agent does not offer model 'enormous'; it offers: small, large"
    assert "model, mode" in talked.error("set", "colour=red", code=2)["message"]
    assert (talked.meta()["model"], talked.meta()["options"]) == (None, {})
    assert talked.say("/settings") == DEFAULT


def test_an_unknown_value_of_a_stopped_session_is_refused_by_its_resume(talked: Session) -> None:
    token = talked.meta()["acp_session_id"]
    talked.agh("set", "model=enormous")
    error = refused(talked, code=2)
    assert "small, large" in error["message"]
    meta = talked.meta()
    assert (meta["state"], meta["acp_session_id"]) == ("stopped", token)
    assert talked.count("session_resumed") == 0
    talked.agh("set", "model=large")
    assert restored(talked)["strategy"] == "native_resume"
    assert talked.say(RECALL) == SEEN


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--model", "enormous"), "it offers: small, large"),
        (("--mode", "fly"), "it offers: ask, code"),
        (("--option", "colour=red"), "it offers: model, mode"),
        (("--option", "colour"), "KEY=VALUE"),
    ],
)
def test_an_unknown_value_makes_no_session(live: Live, args: tuple[str, ...], words: str) -> None:
    result = live.agh("session", "new", "--agent", "echo", *args, code=2)
    assert words in result.stderr
    assert result.stdout == ""
    assert live.sessions() == []
    assert live.agh("session", "list", "--all", "-o", "jsonl").stdout == ""


def test_an_unknown_value_leaves_nothing_behind(live: Live) -> None:
    live.agh("session", "new", "--agent", "echo", "--model", "enormous", code=2)
    assert [path for path in live.home.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("options", ["--caps load --on-load null", "--caps resume --on-resume null"])
def test_an_agent_that_says_nothing_of_its_options_is_resumed_all_the_same(
    talked: Session, options: str
) -> None:
    talked.agh("set", "model=large")
    assert restored(talked, options)["context_lost"] is False
    assert talked.say(RECALL) == SEEN


def test_what_is_not_a_choice_is_refused(talked: Session) -> None:
    assert "KEY=VALUE" in talked.error("set", "model", code=2)["message"]
    assert "KEY=VALUE" in talked.error("set", "=large", code=2)["message"]
    talked.agh("set", code=2)


MODEL = {
    "id": "llm",
    "category": "model",
    "type": "select",
    "options": [{"value": "s", "name": "S"}, {"value": "l", "name": "L"}],
}


def test_config_options_come_first() -> None:
    answer = {
        "configOptions": [MODEL],
        "models": {"availableModels": [{"modelId": "s"}, {"modelId": "xl"}]},
    }
    first, second = offered(answer)
    assert first == ("model", ["s", "l"], "session/set_config_option", {"configId": "llm"}, "value")
    assert second == ("model", ["s", "xl"], "session/set_model", {}, "modelId")


def test_older_agents_have_modes_and_models() -> None:
    answer = {
        "modes": {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "code"}]},
        "models": {"availableModels": [{"modelId": "s"}]},
    }
    assert [(offer.name, offer.values, offer.method, offer.value_key) for offer in offered(answer)] == [
        ("mode", ["ask", "code"], "session/set_mode", "modeId"),
        ("model", ["s"], "session/set_model", "modelId"),
    ]


def test_groups_and_switches() -> None:
    grouped = {
        **MODEL,
        "options": [
            {"group": "one", "name": "One", "options": [{"value": "a", "name": "A"}]},
            {"group": "two", "name": "Two", "options": [{"value": "b", "name": "B"}]},
        ],
    }
    switch = {"id": "web", "type": "boolean", "currentValue": False}
    model, web = offered({"configOptions": [grouped, switch]})
    assert model.values == ["a", "b"]
    assert (web.name, web.values, web.params) == (
        "web",
        ["true", "false"],
        {"configId": "web", "type": "boolean"},
    )


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"configOptions": None, "modes": None, "models": None},
        {"configOptions": "none", "modes": [], "models": 5},
        {"configOptions": [None, 1, "x"], "modes": {"availableModes": None}},
    ],
)
def test_nonsense_offers_nothing(answer: dict[str, object]) -> None:
    assert [offer for offer in offered(answer) if offer.values] == []


def test_a_switch_is_set_and_set_again_after_a_resume(live: Live) -> None:
    session = live.new("--switch", args=("--option", "brief=true"))
    assert session.tell("/settings").endswith(" brief")
    session.stop()
    session.revive()
    assert session.tell("/settings").endswith(" brief")
    session.agh("set", "brief=false")
    assert not session.tell("/settings").endswith(" brief")
    assert session.error("set", "brief=perhaps", code=2)["code"] == "option_unknown"
