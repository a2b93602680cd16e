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
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from agh.adapters import registry
from agh.sessions import start
from agh_serve import threads
from agh_serve.app import build_application
from agh_serve.broadcast import Broadcasts

REAP_EVERY = 1.0
SHUTDOWN_GRACE = 5
MAX_HEAD_BYTES = 64 << 10
MAX_SOCKET_MESSAGE = 32 << 20
_REFUSAL = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # we handle signals: uvicorn would raise them again, and nothing after it would run


class LimitedProtocol(HttpToolsProtocol):
    """HTTP that keeps no more of a head than MAX_HEAD_BYTES. The parser itself would keep any amount."""

    _head_bytes = 0
    _is_in_head = True

    def data_received(self, data: bytes) -> None:
        if self._is_in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._is_in_head and self._head_bytes > MAX_HEAD_BYTES:
            self.transport.write(_REFUSAL)
            self.transport.close()

    def on_message_begin(self) -> None:
        self._is_in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        super().on_headers_complete()


def serve(
    listener: socket.socket,
    *,
    token: str | None,
    bound_host: str | None,
    allowed_hosts: Iterable[str],
    allowed_origins: Iterable[str],
    on_ready: Callable[[], None],
) -> bool:
    """Serve until a signal. Return whether it was Ctrl-C."""
    gc.enable()  # off in short commands; this one runs for long
    others = list(registry.web_applications().values())
    broadcasts = Broadcasts()
    application = build_application(
        broadcasts,
        token=token,
        bound_host=bound_host,
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
        others=others,
    )

    def end_streams() -> None:
        threads.stop_reads()
        broadcasts.close()
        for other in others:
            other.close()

    return asyncio.run(_serve(listener, application, end_streams, on_ready))


async def _serve(
    listener: socket.socket,
    application: ASGIApp,
    end_streams: Callable[[], None],
    on_ready: Callable[[], None],
) -> bool:
    config = uvicorn.Config(
        application,
        http=LimitedProtocol,
        ws="websockets-sansio",
        ws_max_size=MAX_SOCKET_MESSAGE,
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
        end_streams()

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
