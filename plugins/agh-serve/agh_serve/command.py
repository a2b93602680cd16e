"""`agh serve`"""

from __future__ import annotations

import os
import socket
import stat
import sys

import click

from agh.console.output import talk, write_text
from agh.errors import INTERRUPTED
from agh_serve.errors import AddressTaken, AddressUnsafe
from agh_serve.token import ensure_token, token_path

LONGEST_SOCKET_PATH = 107


@click.command("serve", epilog="Example:  agh serve --port 0")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=2123, show_default=True, help="0 picks one.")
@click.option("--socket", "path", type=click.Path(), help="Listen on this Unix socket instead (0600).")
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help="Also answer for this host name.")
@click.option("--no-token", is_flag=True, help="Ask for no token; on this machine only.")
def serve_command(host: str, port: int, path: str | None, names: tuple[str, ...], no_token: bool) -> None:
    """Serve sessions over HTTP, and a page to watch them, until Ctrl-C.

    Nothing else needs this server, and sessions outlive it.
    """
    from agh_serve.guard import is_loopback

    if path is None and not is_loopback(host):
        if no_token:
            raise AddressUnsafe(host)
        talk(f"warning: {host} can be reached from other machines, and what is sent is not encrypted")
    token = None if no_token else ensure_token()
    listener, address = listen_at(path) if path else listen_on(host, port)
    from agh_serve.server import serve

    def ready() -> None:
        write_text(f"listening on {address}\n")
        if path is None:
            _tell_page(address, token)

    try:
        interrupted = serve(listener, token=token, bound=None if path else host, names=names, ready=ready)
    finally:
        listener.close()
        if path:
            os.unlink(path)
    if interrupted:
        raise click.exceptions.Exit(INTERRUPTED)


def _tell_page(address: str, token: str | None) -> None:
    """The token is shown to a person at a terminal; in a log there is only where to find it."""
    if token is None:
        talk(f"open {address}/ ; anyone on this machine can use it")
    elif sys.stderr.isatty():
        from urllib.parse import quote

        talk(f"open {address}/#token={quote(token, safe='')}")
    else:
        talk(f"open {address}/#token=TOKEN with the token in {token_path()}")


def listen_on(host: str, port: int) -> tuple[socket.socket, str]:
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, where = found[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise AddressTaken(host, error.strerror, hint="agh serve --host 127.0.0.1") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise AddressTaken(f"{host}:{port}", error.strerror) from None
    shown = f"[{host.strip('[]')}]" if family == socket.AF_INET6 else host
    return listener, f"http://{shown}:{listener.getsockname()[1]}"


def listen_at(path: str) -> tuple[socket.socket, str]:
    """A socket in the file system, for this user only. One that nobody listens on any more is replaced."""
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise AddressTaken(path, "the path is too long", hint="name a shorter path")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        if _is_abandoned(path):
            os.unlink(path)
        listener.bind(path)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise AddressTaken(path, error.strerror, hint="name another path") from None
    finally:
        os.umask(before)
    return listener, f"unix:{os.path.abspath(path)}"


def _is_abandoned(path: str) -> bool:
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(2)
            probe.connect(path)
    except FileNotFoundError:
        return False
    except ConnectionRefusedError:
        return True
    return False
