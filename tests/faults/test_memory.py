"""What a long frame costs its keeper, and a long line an import: a few times its size, whatever is in it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import Live, Session
from tests.support.processes import memory_of
from tests.support.wait import wait_until

MIB = 1 << 20
SIZE = 4 * MIB  # of a frame
LINE = 2 * MIB  # of an import
MOST = 6.0  # times the frame
VALUES = 80  # megabytes: the most that the values of a frame take as objects, however short they are

# Answers a prompt `EXPRESSION` with the frame that the expression makes of `n` characters.
AGENT = r"""
import json, sys
n = int(sys.argv[1])
def frame(*members): return '{"jsonrpc":"2.0",' + ",".join(members) + "}"
METHOD = '"method":"session/update"'
def usual(inner): return frame(METHOD, '"params":{"sessionId":"s","update":%s}' % inner)
def update(inner): return frame('"params":{"update":%s,"sessionId":"s"}' % inner, METHOD)
def middle(inner): return frame('"params":{"_meta":{},"update":%s,"sessionId":"s"}' % inner, METHOD)
def chunk(text): return '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}' % text
def tool(rest): return '{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"failed",%s}' % rest
def output(text): return tool('"rawOutput":{"stdout":"%s"},"content":[]' % text)
def printed(text): return tool('"content":[{"type":"content","content":{"type":"text","text":"%s"}}]' % text)
def nested(): return ('{"k":' * 150 + '"%s"' % ("v" * (n // 1900 - 900)) + "}" * 150 + ",") * 1900
def member(number): return '"key%06d":"%s",' % (number, "v" * (n // 280_000 - 15))
def members(): return "".join(map(member, range(280_000)))
def answer(id, result): print(json.dumps({"id": id, "result": result}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        answer(message["id"], {"protocolVersion": 1})
    elif message.get("method") == "session/new":
        answer(message["id"], {"sessionId": "s"})
    elif message.get("method") == "session/prompt":
        text = message["params"]["prompt"][0]["text"]
        if text != "hello":
            print(eval(text), flush=True)
        answer(message["id"], {"stopReason": "end_turn"})
"""
FRAMES = {
    "usual(chunk('x' * n))": "agent_message",
    "update(chunk('x' * n))": "agent_message",
    "middle(chunk('x' * n))": "agent_message",
    r"""update(chunk('\\"' * (n // 2)))""": "agent_message",
    r"""update(chunk('\\\\' * (n // 2)))""": "agent_message",
    r"""update(chunk('\\ud800' * (n // 6)))""": "agent_message",
    "update(chunk('[' * n))": "agent_message",
    "update(chunk('x' * n + chr(0x1F600)))": "agent_message",
    r"update(chunk('x' * n + '\\ud83d\\ude00'))": "agent_message",
    r"update(chunk('x' * n + chr(0x1F600) + '\\ud800'))": "agent_message",
    "update(output('x' * n))": "tool_result",
    "update(printed('x' * n))": "tool_result",
    "update(printed('x' * n + chr(0x1F600)))": "tool_result",
    "update(output('x' * n + chr(0x1F600)))": "tool_result",
    '\'{"params":{"a":"\' + \'x\' * n + \'"},"method":"x/y","id":"q"}\'': "system",
}
OF_MANY_VALUES = {
    """update('{"sessionUpdate":"x","a":[' + nested() + '0]}')""": "system",
    """update('{"sessionUpdate":"x",' + members() + '"z":0}')""": "system",
}

HEAD = {
    "schema": "agh.session.export.v1",
    "session": {
        "id": "sess-0mwk9w60rgjbwkss",
        "agent_name": "echo",
        "workspace_path": "/",
        "created_at": "2026-04-16T01:00:00.000Z",
        "updated_at": "2026-04-16T01:00:00.000Z",
    },
    "counts": {"events": 1},
}
ENVELOPE = '"sequence":1,"turn_id":"t","type":"agent_message","agent_name":"echo"'
LINES = {
    "as exported": f'{{{ENVELOPE},"content":%s,"timestamp":"2026-04-16T01:00:00.000Z"}}',
    "another order": f'{{"content":%s,"timestamp":"2026-04-16T01:00:00.000Z",{ENVELOPE}}}',
}
TEXTS = {
    "plain": "x" * LINE,
    "quotes": '\\"' * (LINE // 2),
    "backslashes": "\\\\" * (LINE // 2),
    "mixed": "x" * LINE + chr(0x1F600),
}
# A process has the peak of the one that started it, so that must be a small one.
PEAK = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss >> 10)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def start(live: Live, **options: Any) -> Session:
    """Start a session on the agent above that has had a turn."""
    command = shlex.join([sys.executable, "-c", AGENT, str(SIZE)])
    session = live.new(args=("--command", command, "--permissions", "approve-all"), **options)
    session.tell("hello")
    return session


@pytest.fixture(scope="module")
def module_idle(module_live: Live) -> tuple[Session, float]:
    session = start(module_live, env={"MALLOC_MMAP_THRESHOLD_": "131072"})  # what is freed is given back
    return session, memory_of(session.keeper, "VmHWM")


@pytest.fixture
def idle(shared_live: Live, module_idle: tuple[Session, float]) -> tuple[Session, float]:
    """Return a session for all frames, and the megabytes that its keeper took before it got any."""
    return module_idle


def growth(session: Session, idle: float, frame: str, type: str) -> float:
    """Send the frame; return how many megabytes its keeper then took at most beyond those of an idle one."""
    keeper = session.keeper
    ((last,),) = session.fetch("SELECT max(sequence) FROM events")
    Path(f"/proc/{keeper}/clear_refs").write_text("5")  # so that VmHWM is the peak from now on
    turn = session.send(frame)
    wait_until(lambda: session.fetch("SELECT 1 FROM events WHERE type = 'done' AND turn_id = ?", turn))
    peak = memory_of(keeper, "VmHWM")
    columns = "SELECT type, length(content) FROM events WHERE sequence > ?"
    rows = session.fetch(f"{columns} ORDER BY length(content) DESC LIMIT 1", last)
    assert rows[0][0] == type and rows[0][1] > 0.9 * SIZE, rows
    assert session.fetch("SELECT min(json_valid(content)) FROM events WHERE sequence > ?", last) == [(1,)]
    print(f"{frame}: {(peak - idle) * MIB / SIZE:.1f} times its size")
    return peak - idle


def growth_of_new(live: Live, frame: str, type: str) -> float:
    """Send the frame to a new session."""
    session = start(live)
    return growth(session, memory_of(session.keeper, "VmHWM"), frame, type)


@pytest.mark.parametrize("frame", FRAMES)
def test_a_long_frame_takes_a_few_times_its_size(idle: tuple[Session, float], frame: str) -> None:
    assert growth(*idle, frame, FRAMES[frame]) < MOST * SIZE / MIB


def test_a_long_file_is_written_whole_and_takes_a_few_times_its_size(live: Live) -> None:
    path = live.workspace / "long.txt"
    text = f"'{path}', 'x' * n + chr(0x1F600) + r'\\n\\ud83d\\ude00'"
    frame = """'{"id":"w","method":"fs/write_text_file","params":{"path":"%s","content":"%s"}}' % ("""
    assert growth_of_new(live, f"{frame}{text})", "permission") < MOST * SIZE / MIB
    wait_until(lambda: path.exists() and path.stat().st_size >= SIZE + 9)
    assert path.read_text() == "x" * SIZE + "\U0001f600\n\U0001f600"


@pytest.mark.parametrize("frame", OF_MANY_VALUES)
def test_many_values_take_what_their_number_allows(live: Live, frame: str) -> None:
    assert growth_of_new(live, frame, OF_MANY_VALUES[frame]) < MOST * SIZE / MIB + VALUES


def import_peak(path: Path, code: int = 0) -> tuple[int, str]:
    """Import the file; return the most megabytes that took, and what was said on stderr."""
    command = [sys.executable, "-c", PEAK, sys.executable, "-m", "agh", "session", "import", str(path)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert process.returncode == code, process.stderr
    return int(process.stdout.splitlines()[-1]), process.stderr


@pytest.fixture(scope="module")
def module_idle_import(tmp_path_factory: pytest.TempPathFactory) -> int:
    root = tmp_path_factory.mktemp("idle")
    small = root / "small.jsonl"
    small.write_text(json.dumps(HEAD) + "\n" + LINES["as exported"] % "{}" + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGH_HOME", str(root / "agh"))
        return import_peak(small)[0]


@pytest.fixture
def idle_import(module_idle_import: int, private_home: Path) -> int:
    """Return the megabytes that an import takes that has next to nothing to do."""
    return module_idle_import


@pytest.mark.parametrize("order", LINES)
@pytest.mark.parametrize("text", TEXTS)
def test_a_long_line_of_an_import_takes_a_few_times_its_size(
    idle_import: int, tmp_path: Path, order: str, text: str
) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps(HEAD) + "\n" + LINES[order] % f'{{"text":"{TEXTS[text]}"}}' + "\n")
    megabytes = import_peak(path)[0] - idle_import
    print(f"{megabytes * MIB / LINE:.1f} times its size")
    assert megabytes < MOST * LINE / MIB


def test_a_line_of_too_many_values_is_refused_unread(idle_import: int, tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text(
        json.dumps(HEAD) + "\n" + LINES["another order"] % ("[" + "[]," * (SIZE // 3) + "0]") + "\n"
    )
    peak, words = import_peak(path, 2)
    assert "line 2: too many values" in words
    assert peak - idle_import < MOST * SIZE / MIB


def test_a_line_without_an_end_is_refused(idle_import: int, tmp_path: Path) -> None:
    path = tmp_path / "endless.jsonl"
    path.write_text(json.dumps(HEAD) + "\n")
    os.truncate(path, 300 * MIB)
    peak, words = import_peak(path, 2)
    assert "line 2: it is longer than 128 MB" in words
    assert peak - idle_import < 3 * 128


def test_a_long_line_of_another_program(idle_import: int, tmp_path: Path) -> None:
    path = tmp_path / "0f2b5b4e-0000-4000-8000-000000000001.jsonl"
    at = "2026-04-16T01:00:00.000Z"
    prompt = {"type": "user", "cwd": "/", "timestamp": at, "message": {"content": "hi"}}
    answer = {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "@"}]}}
    line = json.dumps(answer).replace("@", "x" * SIZE + "\\ud800")
    path.write_text(json.dumps(prompt) + "\n" + line + "\n")
    command = [sys.executable, "-m", "agh", "session", "import", "--from", "claude", str(path)]
    process = subprocess.run(
        [sys.executable, "-c", PEAK, *command], capture_output=True, text=True, timeout=60
    )
    assert process.returncode == 0, process.stderr
    assert int(process.stdout.splitlines()[-1]) - idle_import < MOST * SIZE / MIB + 4
