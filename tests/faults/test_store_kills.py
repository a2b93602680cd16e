"""kill -9 of a writer at any moment: of opening, appending, checkpointing, closing.

What it acknowledged is in the log, gapless and unchanged; beyond that there is at most whole batches.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from agh.core.events import Row
from agh.home import Session
from agh.store.reader import Reader
from tests.support.build import Home, child, take_lock
from tests.support.rounds import Rounds

KILLS, TESTS = 160, 4
MOMENT = 0.003  # seconds at most, from its start or its n-th acknowledgement, until a writer is killed

# Reads orders [directory, seed, acknowledgements, seconds, checkpoint every so many pages]. For each a forked
# writer appends batches, acknowledges each on a pipe, closes the log now and then and opens it again; it is
# killed so many seconds after so many acknowledgements.
NURSERY = """
import json, os, random, select, signal, sys, time
from pathlib import Path
from tests.support.build import Writer, take_lock, says

def write(directory, seed, pages, pipe):
    chance = random.Random(seed)
    owner = take_lock(Path(directory))
    while True:
        with Writer(owner, "general") as log:
            log.connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
            for _ in range(chance.randrange(1, 15)):
                size = chance.randrange(1, 8)
                text = "x" * chance.choice((10, 200, 3000))
                log.append([says(f"{size} {place} {text}") for place in range(size)])
                os.write(pipe, log.last_sequence.to_bytes(8))

for line in sys.stdin:
    directory, seed, wanted, moment, pages = json.loads(line)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            write(directory, seed, pages, writing)
        finally:
            os._exit(1)
    os.close(writing)
    told = b"".join(os.read(reading, 8) for _ in range(wanted))
    time.sleep(moment)
    os.kill(pid, 9)
    status = os.waitpid(pid, 0)[1]
    with open(reading, "rb") as pipe:
        told += pipe.read()
    last = int.from_bytes(told[-8 - len(told) % 8 :][:8])
    print(json.dumps([os.waitstatus_to_exitcode(status), last]), flush=True)
"""


def check_batches(rows: list[Row]) -> None:
    """Check each batch says its size: none begins before the one before it is complete."""
    place = size = 0
    for row in rows:
        if place == size:
            place = 0
        size, stated = (int(word) for word in row.parsed()["text"].split()[:2])
        assert stated == place
        place += 1
    assert place == size


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("part", range(TESTS))
def test_a_writer_killed_at_any_moment(home: Home, rounds: Rounds, part: int) -> None:
    directory, known, hot = Path(), list[Row](), 0
    with child(NURSERY) as nursery:
        assert nursery.stdin and nursery.stdout
        for number, chance in rounds(KILLS // TESTS):
            if number % 50 == 1:
                check_whole(directory, known)
                directory, known = home.session(), []
            wanted, moment = max(0, chance.randrange(-3, 8)), chance.random() * MOMENT
            order = [str(directory), chance.random(), wanted, moment, chance.choice((5, 50, 1000))]
            nursery.stdin.write(json.dumps(order) + "\n")
            nursery.stdin.flush()
            exit_code, report = json.loads(nursery.stdout.readline())
            assert exit_code == -signal.SIGKILL, "it ended by itself"
            assert wanted == 0 or report > 0
            hot += (directory / "events.db-wal").exists()
            with Reader(Session.at(directory)) as reader:
                rows = list(reader.rows(after=len(known)))
            assert [row.sequence for row in rows] == list(range(len(known) + 1, len(known) + len(rows) + 1))
            assert len(known) + len(rows) >= report, f"of {report} acknowledged rows some are lost"
            check_batches(rows)
            known += rows
        nursery.stdin.close()
        assert nursery.wait(10) == 0
    check_whole(directory, known)
    take_lock(directory).release()
    assert hot > rounds.last / 2, "the writers were killed with a WAL in use"
    print(f"{rounds.last} kills, {hot} with a hot WAL")


def check_whole(directory: Path, known: list[Row]) -> None:
    """Nothing that was ever read has changed."""
    if known:
        with Reader(Session.at(directory)) as reader:
            assert list(reader.rows()) == known
