"""A WAL that a dying machine left torn, cut short or with a bit flipped.

Whatever was committed before the damage reads, and nothing that is not a prefix of what was written; or the
damage has its own error. Reading changes no file. Afterwards the log goes on, without a gap.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agh.core.events import Row
from agh.errors import EventsDamaged
from agh.home import Session
from agh.store.reader import Reader
from tests.support.build import Home, Writer, child, says, take_lock
from tests.support.files import tree
from tests.support.program import in_process
from tests.support.rounds import Rounds

HEADER, FRAME = 32, 24 + 4096
# Appends a few batches that go to the main file and then many that stay in the WAL; tells after each how long
# the WAL is and how many rows there are.
FILL = """
import os, sys, time
from pathlib import Path
from tests.support.build import Writer, take_lock, says
log = Writer(take_lock(Path(sys.argv[1])), "general")
log.append([says("in the main file " + "x" * 100) for _ in range(50)])
log.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
for size in range(1, 40):
    log.append([says(f"{size} {place} " + "x" * size * 20) for place in range(size % 7 + 1)])
    print(os.stat(log.lock.session.directory + "/events.db-wal").st_size, log.last_sequence, flush=True)
time.sleep(60)
"""


class Wreck:
    """A session whose keeper was killed with a hot WAL, and copies of it to be damaged."""

    def __init__(self, home: Home) -> None:
        self.directory = home.session(state="active", stop_reason=None)
        with child(FILL, self.directory) as filling:
            assert filling.stdout
            told = [filling.stdout.readline().split() for _ in range(39)]
        self.commits = [(int(size), int(last)) for size, last in told]
        self.wal = (self.directory / "events.db-wal").read_bytes()
        assert len(self.wal) == self.commits[-1][0]
        with Reader(Session.at(self.directory)) as reader:
            self.rows = list(reader.rows())
        assert len(self.rows) == self.commits[-1][1]

    def committed_before(self, place: int) -> int:
        """Return the rows of the commits that lie wholly before this place of the WAL."""
        return max([50, *(last for size, last in self.commits if size <= place)])

    def copy(self, name: str, wal: bytes, keep_index: bool) -> Path:
        """Make a damaged copy with the same id, which the metadata of a session names."""
        copy = self.directory.parents[1] / name / "sessions" / self.directory.name
        shutil.copytree(self.directory, copy)
        (copy / "events.db-wal").write_bytes(wal)
        if not keep_index:
            (copy / "events.db-shm").unlink()
        return copy


def truncate(wal: bytes, chance: random.Random) -> tuple[bytes, int]:
    place = chance.choice((chance.randrange(len(wal)), HEADER + FRAME * chance.randrange(len(wal) // FRAME)))
    return wal[:place], place


def flip(wal: bytes, chance: random.Random) -> tuple[bytes, int]:
    place = chance.randrange(len(wal))
    if chance.random() < 0.3:  # where the structure is
        place = HEADER + FRAME * chance.randrange(len(wal) // FRAME) + chance.randrange(24)
    data = bytearray(wal)
    data[place] ^= 1 << chance.randrange(8)
    return bytes(data), place


def tear(wal: bytes, chance: random.Random) -> tuple[bytes, int]:
    """Replace sectors that never reached the disk by zeros, or by what was there before."""
    data = bytearray(wal)
    places = sorted(chance.sample(range(0, len(wal), 512), chance.randrange(1, 6)))
    for place in places:
        length = len(data[place : place + 512])
        data[place : place + 512] = chance.choice((bytes(length), chance.randbytes(length)))
    return bytes(data), places[0]


def read(directory: Path) -> list[Row] | None:
    """Return the rows of a log; None if it is reported as damaged."""
    try:
        with Reader(Session.at(directory)) as reader:
            return list(reader.rows())
    except EventsDamaged:
        return None


def without_index(directory: Path) -> dict[str, tuple[object, ...]]:
    """Return a directory's files except the -shm, SQLite's index of the WAL, which readers may make again.

    That changes the time of the directory itself, which is left out, too.
    """
    return {
        name: entry for name, entry in tree(directory).items() if name != "." and not name.endswith("-shm")
    }


@pytest.mark.soak
@pytest.mark.parametrize("damage", [truncate, flip, tear])
def test_a_damaged_wal(
    home: Home,
    rounds: Rounds,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[bytes, random.Random], tuple[bytes, int]],
) -> None:
    wreck = Wreck(home)
    shorter = 0
    for number, chance in rounds(25):
        wal, place = damage(wreck.wal, chance)
        directory = wreck.copy(str(number), wal, keep_index=chance.random() < 0.5)
        before = without_index(directory)
        rows = read(directory)
        if rows is not None:
            assert rows == wreck.rows[: len(rows)]
            assert len(rows) >= wreck.committed_before(place), f"damage at {place}"
            shorter += len(rows) < len(wreck.rows)
        monkeypatch.setenv("AGH_HOME", str(directory.parents[1]))
        for command in ("events", "transcript", "status"):
            result = in_process("session", command, directory.name)
            assert result.returncode in (0, 8), result.stderr
            assert command != "events" or rows is None or len(result.stdout.splitlines()) == len(rows)
        assert without_index(directory) == before, "reading changed a file"
        go_on(directory, rows)
        shutil.rmtree(directory.parents[1])
    assert shorter > rounds.last / 4, "the damage was seen"


def go_on(directory: Path, found: list[Row] | None) -> None:
    """Repair the log and write to it; both continue after what can be read, or refuse."""
    result = in_process("session", "repair", directory.name, "-o", "json")
    assert result.returncode in (0, 8), result.stderr
    if found is None:
        return
    assert json.loads(result.stdout)["persisted"] is True
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        log.append([says("and on")])
    after = read(directory)
    assert after is not None
    assert after[: len(found)] == found
    assert [row.sequence for row in after] == list(range(1, len(after) + 1))
    assert after[-1].parsed()["text"] == "and on"
