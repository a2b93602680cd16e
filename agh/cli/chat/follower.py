"""Follows a session's log in a thread and hands its rows to the event loop, batch after batch.

The thread waits until a batch is taken, so a slow terminal never piles rows up.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from agh.core.events import Row
from agh.home import Session
from agh.store.follow import follow
from agh.store.reader import EVERYTHING

TICK = 0.5  # seconds after which the thread notices that nobody follows any more


class Follower:
    """Reads rows after the position that `join` returns; `take` gets them in the loop, and [] at the end."""

    def __init__(self, session: Session, take: Callable[[list[Row]], None], join: Callable[[], int]) -> None:
        self._session, self._take, self._join = session, take, join
        self._is_over = False

    async def follow(self) -> None:
        """Follow until the session ends; raise what `take` or reading raises."""
        loop = asyncio.get_running_loop()
        end: asyncio.Future[None] = loop.create_future()

        def take(rows: list[Row], is_taken: threading.Event) -> None:
            try:
                if not end.done():
                    self._take(rows)
            except BaseException as error:
                end.set_exception(error)
            finally:
                is_taken.set()

        def finish(error: BaseException | None) -> None:
            if not end.done():
                end.set_exception(error) if error else end.set_result(None)

        def run() -> None:
            error: BaseException | None = None
            try:
                for _, rows in follow([(self._session, self._join())], EVERYTHING, tick=TICK):
                    if self._is_over:
                        return
                    if rows:
                        is_taken = threading.Event()
                        loop.call_soon_threadsafe(take, rows, is_taken)
                        while not is_taken.wait(TICK) and not self._is_over:
                            pass
                loop.call_soon_threadsafe(take, [], threading.Event())
            except BaseException as failure:
                error = failure
            try:
                loop.call_soon_threadsafe(finish, error)
            except RuntimeError:
                pass  # the loop is closed: the user has left

        threading.Thread(target=run, daemon=True).start()
        try:
            await end
        finally:
            self._is_over = True
