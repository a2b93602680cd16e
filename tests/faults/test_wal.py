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
from tests.support.build import Home, Writer, child, held, says, tree
from tests.support.program import in_process
from tests.support.rounds import Rounds

HEADER, FRAME = 32, 24 + 4096
# Appends a few batches that go to the main file and then many that stay in the WAL; tells after each how long
# the WAL is and how many rows there are.
FILL = """
import os, sys, time
from pathlib import Path
from tests.support.build import Writer, held, says
log = Writer(held(Path(sys.argv[1])), "general")
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
        """The rows of the commits that lie wholly before this place of the WAL."""
        return max([50, *(last for size, last in self.commits if size <= place)])

    def copy(self, name: str, wal: bytes, keep_index: bool) -> Path:
        """A damaged copy under the same id: the metadata of a session names it."""
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
    """Some sectors never reached the disk: they are zeros, or what was there before."""
    data = bytearray(wal)
    places = sorted(chance.sample(range(0, len(wal), 512), chance.randrange(1, 6)))
    for place in places:
        length = len(data[place : place + 512])
        data[place : place + 512] = chance.choice((bytes(length), chance.randbytes(length)))
    return bytes(data), places[0]


def read(directory: Path) -> list[Row] | None:
    """Its rows; None where the damage is named."""
    try:
        with Reader(Session.at(directory)) as reader:
            return list(reader.rows())
    except EventsDamaged:
        return None


def without_index(directory: Path) -> dict[str, tuple[object, ...]]:
    """The -shm is SQLite's index of the WAL, the one file that a reader may make anew."""
    return {name: held for name, held in tree(directory).items() if not name.endswith("-shm")}


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
    for number, chance in rounds(60):
        wal, place = damage(wreck.wal, chance)
        directory = wreck.copy(str(number), wal, keep_index=chance.random() < 0.5)
        before = without_index(directory)
        found = read(directory)
        if found is not None:
            assert found == wreck.rows[: len(found)]
            assert len(found) >= wreck.committed_before(place), f"damage at {place}"
            shorter += len(found) < len(wreck.rows)
        monkeypatch.setenv("AGH_HOME", str(directory.parents[1]))
        for command in ("events", "transcript", "status"):
            done = in_process("session", command, directory.name)
            assert done.returncode in (0, 8), done.stderr
            assert command != "events" or found is None or len(done.stdout.splitlines()) == len(found)
        assert without_index(directory) == before, "reading changed a file"
        go_on(directory, found)
        shutil.rmtree(directory.parents[1])
    assert shorter > rounds.last / 4, "the damage was seen"


def go_on(directory: Path, found: list[Row] | None) -> None:
    """A repair, and a writer after it: they go on behind what reads, or refuse."""
    done = in_process("session", "repair", directory.name, "-o", "json")
    assert done.returncode in (0, 8), done.stderr
    if found is None:
        return
    assert json.loads(done.stdout)["persisted"] is True
    with held(directory) as owner, Writer(owner, "general") as log:
        log.append([says("and on")])
    after = read(directory)
    assert after is not None
    assert after[: len(found)] == found
    assert [row.sequence for row in after] == list(range(1, len(after) + 1))
    assert after[-1].parsed()["text"] == "and on"
