"""A repair only adds, closes whatever is open, and has nothing left to do when it is done."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agh.core.events import TYPES, Draft, Row, draft
from agh.core.repair import Permission, Plan, plan
from tests.support.build import AT, calls, finishes, returns, rows, says, user

LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
TURNS = ("turn-1", "turn-2", "turn-3")

# Every type in every turn and outside of turns; tools and ends are likelier than the rest.
POOL = [
    *(draft(kind, turn_id=turn, text="x") for kind, turn in product(TYPES, ("", *TURNS))),
    *(
        draft(kind, turn_id=turn, tool_call_id=call, tool_name=name, agent_session="acp-1")
        for kind, turn, call, name in product(
            ("tool_call", "tool_call", "tool_result"), ("", *TURNS), ("c1", "c2", None), ("Read", None)
        )
    ),
    *(draft(kind, turn_id=turn) for kind, turn in product(("user_message", "done", "error"), TURNS)),
]
logs = st.lists(st.sampled_from(POOL), max_size=30).map(rows)


@st.composite
def requests(draw: Any, log: list[Row]) -> list[Permission]:
    """Requests that a keeper could have left: each in a turn of the log, or in none."""
    turns = sorted({row.turn_id for row in log} | {""})
    some = st.lists(st.tuples(st.sampled_from(turns), st.sampled_from([None, "c1"])), max_size=3)
    return [Permission(f"req-{n}", turn, call, "write", None) for n, (turn, call) in enumerate(draw(some))]


cases = logs.flatmap(lambda log: st.tuples(st.just(log), requests(log)))


def _applied(log: list[Row], made: Plan) -> list[Row]:
    return log + rows(made.drafts, len(log) + 1)


def _open_turns(log: list[Row]) -> list[str]:
    ended = {row.turn_id for row in log if row.type in ("done", "error")}
    return list(dict.fromkeys(row.turn_id for row in log if row.turn_id and row.turn_id not in ended))


def _calls(log: list[Row], turn: str) -> tuple[set[str], set[str]]:
    """Return the calls of a turn that never had a result, and those whose last word was not a result."""
    called, answered, last = set(), set(), {}
    for row in log:
        if row.turn_id == turn and row.type in ("tool_call", "tool_result"):
            call = row.parsed().get("tool_call_id") or row.id
            last[call] = row.type
            (called if row.type == "tool_call" else answered).add(call)
    return called - answered, {call for call, kind in last.items() if kind == "tool_call"}


@given(cases)
@LAW
def test_twice_is_once(case: tuple[list[Row], list[Permission]]) -> None:
    log, asked = case
    assert vars(plan(_applied(log, plan(log, AT, asked)), AT)) == vars(Plan())


@given(cases)
@LAW
def test_the_prefix_is_untouched_and_the_plan_is_a_pure_function(
    case: tuple[list[Row], list[Permission]],
) -> None:
    log, asked = case
    before = list(log)
    repair = plan(iter(log), AT, iter(asked))
    assert log == before
    assert vars(repair) == vars(plan(log, AT, asked))
    assert _applied(log, repair)[: len(log)] == before
    assert all(draft.timestamp == AT for draft in repair.drafts)


@given(cases)
@LAW
def test_every_open_turn_is_closed_and_only_those(case: tuple[list[Row], list[Permission]]) -> None:
    log, asked = case
    repair = plan(log, AT, asked)
    assert _open_turns(_applied(log, repair)) == []
    ends = [draft.turn_id for draft in repair.drafts if draft.type == "error"]
    assert sorted(ends) == sorted(_open_turns(log))


@given(cases)
@LAW
def test_every_dangling_call_gets_one_result_that_claims_nothing(
    case: tuple[list[Row], list[Permission]],
) -> None:
    log, asked = case
    repair = plan(log, AT, asked)
    for turn in sorted({row.turn_id for row in log} - {""}):
        mine = [draft for draft in repair.drafts if draft.turn_id == turn and draft.type != "permission"]
        results = rows(mine)
        if turn in _open_turns(log):
            end = results.pop()
            assert end.type == "error" and end.parsed()["error"]
            assert end.parsed()["stop_reason"] == "interrupted"
        assert [row.type for row in results] == ["tool_result"] * len(results)
        named = [row.parsed()["tool_call_id"] for row in results]
        never_answered, not_answered_last = _calls(log, turn)
        assert len(named) == len(set(named))
        assert never_answered <= set(named) <= not_answered_last
        for row in results:
            content = row.parsed()
            assert content["tool_error"] is True and content["outcome"] == "unknown"
            assert content["tool_result"]["error"]


@given(cases)
@LAW
def test_every_request_is_expired_before_its_turn_is_closed(case: tuple[list[Row], list[Permission]]) -> None:
    log, asked = case
    repair = plan(log, AT, asked)
    first = rows(repair.drafts[: len(asked)])
    assert [(row.type, row.turn_id) for row in first] == [("permission", one.turn_id) for one in asked]
    for row, one in zip(first, asked, strict=True):
        content = row.parsed()
        assert (content["request_id"], content["decision"], content["action"]) == (
            one.request_id,
            "expired",
            "write",
        )
        assert content.get("tool_call_id") == one.tool_call_id


@given(cases)
@LAW
def test_the_report_has_one_action_per_event_and_an_issue_for_each_thing_wrong(
    case: tuple[list[Row], list[Permission]],
) -> None:
    log, asked = case
    repair = plan(log, AT, asked)
    codes = {"permission": "expire_permission", "tool_result": "append_tool_result", "error": "append_error"}
    assert [action["code"] for action in repair.actions] == [codes[draft.type] for draft in repair.drafts]
    assert [action["turn_id"] for action in repair.actions] == [draft.turn_id for draft in repair.drafts]
    for action in repair.actions:
        assert list(action) == ["code", "turn_id", "event_id", "tool_call_id", "tool_name", "persisted"]
        assert action["persisted"] is False
    ids = {row.id for row in log} | {None}
    for issue in repair.issues:
        assert list(issue) == ["code", "severity", "turn_id", "event_id", "detail"]
        assert issue["event_id"] in ids and issue["severity"] in ("error", "warning")
    assert len(repair.issues) == len(repair.actions)


@given(logs)
@LAW
def test_the_rows_of_open_turns_and_open_calls_are_enough(log: list[Row]) -> None:
    open_now = _open_turns(log)
    ended = {row.turn_id for row in log} - {*open_now}
    needed = []
    for row in log:
        call = row.parsed().get("tool_call_id") or row.id
        dangles = row.type == "tool_call" and call in _calls(log, row.turn_id)[0]
        if row.turn_id in open_now or (row.turn_id and dangles):
            needed.append(row)
    assert vars(plan(needed, AT, ended=ended)) == vars(plan(log, AT))


def test_a_log_in_order_needs_nothing() -> None:
    assert vars(plan([], AT)) == vars(Plan())
    assert (
        plan(rows([user("a"), calls("c"), returns("c"), finishes(), draft("session_stopped")]), AT).drafts
        == []
    )


def test_not_only_the_last_turn() -> None:
    log = rows(
        [user("a"), calls("c"), user("b", turn="turn-2"), user("c", turn="turn-3"), finishes("turn-2")]
    )
    assert [(draft.type, draft.turn_id) for draft in plan(log, AT).drafts] == [
        ("tool_result", "turn-1"),
        ("error", "turn-1"),
        ("error", "turn-3"),
    ]


def test_the_result_carries_what_is_known_of_the_call() -> None:
    log = rows(
        [
            user("a", agent_session="acp-1"),
            calls("c", "Bash", title="ls", agent_session="acp-1"),
            draft("tool_call", turn_id="turn-1", tool_call_id="c", title="ls -l", agent_session="acp-1"),
        ]
    )
    result, end = rows(plan(log, AT).drafts)
    content = result.parsed()
    assert (content["tool_name"], content["title"], content["session_id"]) == ("Bash", "ls -l", "acp-1")
    assert end.parsed()["session_id"] == "acp-1"
    issues = plan(log, AT).issues
    assert [(issue["code"], issue["event_id"]) for issue in issues] == [
        ("open_turn", "evt-000003"),
        ("dangling_tool_call", "evt-000003"),
    ]


def test_late_news_does_not_open_a_turn_again() -> None:
    log = rows([user("a"), finishes(), says("late"), calls("c"), draft("usage", turn_id="turn-1")])
    assert [(draft.type, draft.turn_id) for draft in plan(log, AT).drafts] == [("tool_result", "turn-1")]


def test_a_call_that_an_ended_turn_left_open_gets_its_result() -> None:
    log = rows([user("a"), calls("c", "Bash"), calls("d"), returns("d"), finishes()])
    (result,) = rows(plan(log, AT).drafts)
    assert (result.type, result.parsed()["tool_call_id"], result.parsed()["tool_name"]) == (
        "tool_result",
        "c",
        "Bash",
    )
    assert [issue["code"] for issue in plan(log, AT).issues] == ["dangling_tool_call"]


def test_late_news_of_a_finished_call_does_not_make_its_outcome_unknown() -> None:
    log = rows([user("a"), calls("c"), returns("c"), calls("c", title="done in 2 s")])
    assert [draft.type for draft in plan(log, AT).drafts] == ["error"]


def test_the_same_call_id_in_two_turns_is_two_calls() -> None:
    log = rows([user("a"), calls("c"), returns("c", turn="turn-2"), user("b", turn="turn-2")])
    made: list[Draft] = plan(log, AT).drafts
    assert [(draft.type, draft.turn_id) for draft in made] == [
        ("tool_result", "turn-1"),
        ("error", "turn-1"),
        ("error", "turn-2"),
    ]
