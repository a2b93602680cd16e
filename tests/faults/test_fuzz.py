"""Messages of every method, made from the schema of the protocol and spoiled: no keeper dies or hangs.

The suite has a share of them; `make fuzz` sends 100,000 messages and makes 2,000 handshakes.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agh.errors import AghError, Bug, KeeperDied, KeeperGone
from tests.support.build import ROOT
from tests.support.fuzz import ANSWERS, Maker
from tests.support.live import Live
from tests.support.processes import is_alive, memory_of
from tests.support.wait import wait_until

FULL = os.environ.get("AGH_FUZZ") == "full"
FRAMES, HANDSHAKES = (100_000, 2_000) if FULL else (2_000, 12)
PARTS = 2
PER_TURN = 500
MOST_MEMORY = 200  # megabytes
AGENT = ROOT / "tests" / "support" / "fuzz_agent.py"
SETTINGS = """
[permissions]
timeout = '0.05s'
[timeouts]
initialize = '5s'
new = '5s'
[session.supervision]
prompt_deadline = '60s'
timeout_cancel_grace = '1s'
[session.limits]
max_turn_bytes = 0
max_bytes = 0
"""


def text_of(value: Any) -> str:
    """JSON as an agent could write it: lone surrogates as they are, numbers of any size."""
    return json.dumps(value, ensure_ascii=False)


def write_script(path: Path, answers: dict[str, str], frames: list[str]) -> str:
    """Write what the agent says; the command that starts it."""
    lines = [*answers.items(), *(("frame", frame) for frame in frames)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return shlex.join([sys.executable, "-I", "-S", str(AGENT), str(path)])


def good_answers() -> dict[str, str]:
    results = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "fuzz"}}
    return {method: text_of_answer(result) for method, result in results.items()}


def text_of_answer(result: Any) -> str:
    return f'{{"jsonrpc":"2.0","id":ID,"result":{text_of(result)}}}'


@pytest.mark.timeout(3600 if FULL else 300)
@pytest.mark.parametrize("part", range(PARTS))
def test_frames_of_every_method(live: Live, tmp_path: Path, part: int) -> None:
    live.configure(SETTINGS)
    for name in ("dir", "b"):
        (live.workspace / name).mkdir()
    maker = Maker(random.Random(part), str(live.workspace))
    frames = [text_of(maker.frame()) for _ in range(FRAMES // PARTS)]
    command = write_script(tmp_path / "script", good_answers(), frames)
    live.agh("session", "new", "--command", command, "--permissions", "approve-all")
    (session,) = live.sessions()
    keeper, most = session.keeper, 0.0
    for first in range(0, len(frames), PER_TURN):
        turn = session.send(f"{first} {first + PER_TURN}")
        wait_until(lambda turn=turn: session.has_ended(turn) or not is_alive(keeper), 120, what=first)
        log = (session.directory / "keeper.log").read_text()
        assert is_alive(keeper), f"the keeper is gone after frames {first}: {log[-800:]}"
        assert session.events("done", "error", turn=turn)[0].content["stop_reason"] == "end_turn"
        most = max(most, memory_of(keeper, "VmHWM"))
    assert most <= MOST_MEMORY, f"{most:.0f} MB"
    assert "Traceback" not in (session.directory / "keeper.log").read_text()
    last = session.fetch("SELECT max(sequence), count(*) FROM events")[0]
    assert last[0] == last[1] > len(frames) / 4
    print(f"{len(frames)} frames, {last[0]} events, {most:.0f} MB at most")


@pytest.mark.slow
@pytest.mark.timeout(7200 if FULL else 300)
@pytest.mark.parametrize("part", range(PARTS))
def test_handshakes(live: Live, tmp_path: Path, part: int) -> None:
    live.configure(SETTINGS.replace("'5s'", "'2s'").replace("60s", "2s"))
    chance = random.Random(1000 + part)
    codes: dict[str, int] = {}
    longest = 0.0
    for number in range(HANDSHAKES // PARTS):
        maker = Maker(chance, str(live.workspace))
        answers = good_answers()
        for method in chance.sample(list(ANSWERS), chance.choice([1, 1, 2])):
            answers[method] = spoiled_answer(maker, method, chance)
        command = write_script(tmp_path / f"script{number}", answers, [])
        started = time.monotonic()
        code = shake_hands(live, command)
        longest = max(longest, time.monotonic() - started)
        codes[code] = codes.get(code, 0) + 1
        assert code != Bug("").code, (number, answers)
        assert longest < 60, "it hangs"
    assert codes.get("ok"), codes
    print(f"{HANDSHAKES // PARTS} handshakes: {codes}, {longest:.1f} s at most")


def spoiled_answer(maker: Maker, method: str, chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.7:
        return text_of_answer(maker.answer(method))
    if kind < 0.85:
        error = maker.spoil({"code": -32000, "message": "no", "data": {"a": 1}})
        return f'{{"jsonrpc":"2.0","id":ID,"error":{text_of(error)}}}'
    whole = {"jsonrpc": "2.0", "id": "ID", "result": maker.answer(method)}
    return text_of(maker.spoil(whole)).replace('"ID"', "ID")


def shake_hands(live: Live, command: str) -> str:
    """Make a session, send a prompt, end it; how that went, `ok` or the code of the error."""
    before = {session.id for session in live.sessions()}
    try:
        session = live.new(args=("--command", command))
    except AghError as error:
        code = error.code
    else:
        code = "ok"
        keeper = session.keeper
        try:
            turn = session.send("0 0")
            wait_until(lambda: session.has_ended(turn) or not is_alive(keeper), 30)
        except AghError as error:
            code = error.code
        log = (session.directory / "keeper.log").read_text()
        assert is_alive(keeper) or "Traceback" not in log, log
        with suppress(KeeperGone, KeeperDied):  # stopped for a prompt that was never answered
            session.call("stop")
    for session in live.sessions():
        if session.id not in before:
            log = session.directory / "keeper.log"
            assert not log.exists() or "Traceback" not in log.read_text(), log.read_text()[-800:]
            live.agh("session", "delete", session.id, "--keep-agent-session", code=None)
    return code
