"""Following once for many: every listener gets every row, in order, however slow it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from agh_serve import broadcast
from agh_serve.broadcast import Broadcasts

from agh.home import Session
from agh.store.writer import Writer
from tests.support.build import Home, says, take_lock


async def sequences(broadcasts: Broadcasts, directory: Path, after: int, pause: float = 0) -> list[int]:
    received = []
    async with aclosing(broadcasts.stream_batches(Session.at(directory), after)) as batches:
        async for _, batch in batches:
            received += [framed.row.sequence for framed in batch]
            if pause:
                await asyncio.sleep(pause)
    return received


def with_writer(home: Home, work: Callable[[Broadcasts, Path, Writer], Coroutine[Any, Any, None]]) -> None:
    directory = home.session([says("first")], state="active", stop_reason=None)
    owner = take_lock(directory)

    async def run() -> None:
        broadcasts = Broadcasts()
        with owner, Writer(owner, "general") as writer:
            await asyncio.wait_for(work(broadcasts, directory, writer), 30)
        assert not broadcasts._by_session

    asyncio.run(run())


def test_everyone_gets_everything(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one who is slower than the window is long, and one who comes late."""
    monkeypatch.setattr(broadcast, "WINDOW_BYTES", 20_000)

    async def work(broadcasts: Broadcasts, directory: Path, writer: Writer) -> None:
        quick = [asyncio.create_task(sequences(broadcasts, directory, after)) for after in (0, 0, 5, 700)]
        slow = asyncio.create_task(sequences(broadcasts, directory, 0, pause=0.02))
        for number in range(300):
            writer.append([says(f"{number} {word}" + "x" * 200) for word in "abc"])
            await asyncio.sleep(0.001)
        late = asyncio.create_task(sequences(broadcasts, directory, 0))
        await asyncio.sleep(0.05)
        assert len(broadcasts._by_session) == 1
        window = broadcasts._by_session[Session.at(directory)]._window
        assert sum(len(framed.frame) for framed in window) <= 20_000
        writer.lock.release()
        everything = list(range(1, 902))
        for task, after in zip((*quick, slow, late), (0, 0, 5, 700, 0, 0), strict=True):
            assert await task == everything[after:]

    with_writer(home, work)


def test_silence_is_told_now_and_then(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "KEEP_ALIVE", 0.05)

    async def work(broadcasts: Broadcasts, directory: Path, writer: Writer) -> None:
        silences = 0
        async with aclosing(broadcasts.stream_batches(Session.at(directory), 1)) as batches:
            async for _, batch in batches:
                assert not batch
                silences += 1
                if silences == 5:
                    break

    with_writer(home, work)


def test_a_listener_that_leaves_disturbs_nobody(home: Home) -> None:
    async def work(broadcasts: Broadcasts, directory: Path, writer: Writer) -> None:
        staying = asyncio.create_task(sequences(broadcasts, directory, 0))
        leaving = asyncio.create_task(sequences(broadcasts, directory, 0))
        await asyncio.sleep(0.1)
        leaving.cancel()
        await asyncio.wait([leaving])
        assert leaving.cancelled()
        writer.append([says("more")])
        writer.lock.release()
        assert await staying == [1, 2]

    with_writer(home, work)


def test_a_server_that_ends_lets_everyone_go(home: Home) -> None:
    async def work(broadcasts: Broadcasts, directory: Path, writer: Writer) -> None:
        tasks = [asyncio.create_task(sequences(broadcasts, directory, 0)) for _ in range(3)]
        await asyncio.sleep(0.1)
        broadcasts.close()
        assert await asyncio.gather(*tasks) == [[1], [1], [1]]

    with_writer(home, work)
