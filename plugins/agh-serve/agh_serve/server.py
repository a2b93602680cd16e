"""The server's life: accept, answer, and at a signal let every stream end and leave."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import uvicorn

from agh.sessions import start
from agh_serve.app import application
from agh_serve.feed import Feeds

REAP_EVERY = 1.0
GRACE = 5


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals are ours: uvicorn would raise them again, and nothing after it would run


def serve(
    listener: socket.socket,
    *,
    token: str | None,
    bound: str | None,
    names: Iterable[str],
    ready: Callable[[], None],
) -> bool:
    """Serve until a signal; whether it was Ctrl-C."""
    gc.enable()  # this command is not short
    return asyncio.run(_serve(listener, token, bound, names, ready))


async def _serve(
    listener: socket.socket,
    token: str | None,
    bound: str | None,
    names: Iterable[str],
    ready: Callable[[], None],
) -> bool:
    feeds = Feeds()
    config = uvicorn.Config(
        application(feeds, token=token, bound=bound, names=names),
        http="httptools",
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        backlog=1024,
    )
    server = _Server(config)
    caught: list[int] = []

    def leave(number: int) -> None:
        caught.append(number)
        server.should_exit = True
        server.force_exit = len(caught) > 1
        feeds.close()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup, or in the background of a script
            loop.add_signal_handler(number, leave, number)
    reaping = asyncio.create_task(_reap())
    ready()
    try:
        await server.serve(sockets=[listener])
    finally:
        reaping.cancel()
    return signal.SIGINT in caught


async def _reap() -> None:
    """Keepers that were started here are our children, and outlive a request; wait for those that ended."""
    while True:
        await asyncio.sleep(REAP_EVERY)
        for pid in list(start.children):
            try:
                ended = os.waitpid(pid, os.WNOHANG)[0] == pid
            except ChildProcessError:
                ended = True
            if ended:
                start.children.remove(pid)
