"""The server: accept and answer requests; on a signal, end every stream and return."""

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
from agh_serve import threads
from agh_serve.app import build_application
from agh_serve.broadcast import Broadcasts
from agh_serve.head import LimitedProtocol

REAP_EVERY = 1.0
SHUTDOWN_GRACE = 5


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # we handle signals: uvicorn would raise them again, and nothing after it would run


def serve(
    listener: socket.socket,
    *,
    token: str | None,
    bound_host: str | None,
    allowed_hosts: Iterable[str],
    on_ready: Callable[[], None],
) -> bool:
    """Serve until a signal. Return whether it was Ctrl-C."""
    gc.enable()  # off in short commands; this one runs for long
    return asyncio.run(_serve(listener, token, bound_host, allowed_hosts, on_ready))


async def _serve(
    listener: socket.socket,
    token: str | None,
    bound_host: str | None,
    allowed_hosts: Iterable[str],
    on_ready: Callable[[], None],
) -> bool:
    broadcasts = Broadcasts()
    config = uvicorn.Config(
        build_application(broadcasts, token=token, bound_host=bound_host, allowed_hosts=allowed_hosts),
        http=LimitedProtocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_GRACE,
        backlog=1024,
    )
    server = _Server(config)
    signals: list[int] = []

    def shut_down(number: int) -> None:
        signals.append(number)
        server.should_exit = True
        server.force_exit = len(signals) > 1
        threads.stop_reads()
        broadcasts.close()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it, and a script's background jobs
            loop.add_signal_handler(number, shut_down, number)
    reaper = asyncio.create_task(_reap_keepers())
    on_ready()
    try:
        await server.serve(sockets=[listener])
    finally:
        reaper.cancel()
    return signal.SIGINT in signals


async def _reap_keepers() -> None:
    """Reap keepers that have ended. Those started here are our children, and outlive the request."""
    while True:
        await asyncio.sleep(REAP_EVERY)
        for pid in list(start.children):
            try:
                ended = os.waitpid(pid, os.WNOHANG)[0] == pid
            except ChildProcessError:
                ended = True
            if ended:
                start.children.remove(pid)
