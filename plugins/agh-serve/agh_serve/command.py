"""The command `agh serve`: check the address, prepare the token and the listener, and serve."""

from __future__ import annotations

import os
import socket
import stat
import sys
from contextlib import suppress

import click

from agh.console.output import remark, write_text
from agh.errors import INTERRUPTED
from agh.home import ensure_home, replace_private_file
from agh_serve.errors import AddressTaken, AddressUnsafe
from agh_serve.token import ensure_token, token_path

MAX_SOCKET_PATH = 107


@click.command("serve", epilog="Example:  agh serve --port 0")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    default=2123,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option("--socket", "socket_path", type=click.Path(), help="Listen on this Unix socket instead (0600).")
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Also accept requests to this host name.",
)
@click.option(
    "--allow-origin",
    "allowed_origins",
    multiple=True,
    metavar="URL",
    help="Also accept requests from this site, e.g. http://localhost:2718.",
)
@click.option("--no-token", is_flag=True, help="Require no token; only for loopback addresses.")
def serve_command(
    host: str,
    port: int,
    socket_path: str | None,
    allowed_hosts: tuple[str, ...],
    allowed_origins: tuple[str, ...],
    no_token: bool,
) -> None:
    """Serve sessions over HTTP, with a web page, until Ctrl-C.

    No other command needs this server, and sessions outlive it.
    """
    from agh.adapters.installation import require_extra

    require_extra("serve", "agh serve", ("httptools", "starlette", "uvicorn", "websockets"))
    from agh_serve.guard import is_loopback

    if socket_path is None and not is_loopback(host):
        if no_token:
            raise AddressUnsafe(host)
        remark(f"warning: {host} can be reached from other machines, and what is sent is not encrypted")
    token = None if no_token else ensure_token()
    listener, address = listen_at(socket_path) if socket_path else listen_on(host, port)
    from agh_serve.server import serve

    def announce() -> None:
        if socket_path is None:
            with suppress(OSError):  # only links in notifications need it
                replace_private_file(url_path(), f"{address}\n".encode(), sync=False)
        write_text(f"listening on {address}\n")
        if socket_path is None:
            _announce_page(address, token)

    try:
        interrupted = serve(
            listener,
            token=token,
            bound_host=None if socket_path else host,
            allowed_hosts=allowed_hosts,
            allowed_origins=allowed_origins,
            on_ready=announce,
        )
    finally:
        listener.close()
        if socket_path:
            os.unlink(socket_path)
        else:
            _forget_url(address)
    if interrupted:
        raise click.exceptions.Exit(INTERRUPTED)


def url_path() -> str:
    """Return the path of the file that has the page's URL while the server runs, for links to it."""
    return os.path.join(ensure_home(), "serve.url")


def _forget_url(address: str) -> None:
    """Delete the file with the URL, unless another server has written its own."""
    with suppress(OSError):
        with open(url_path(), encoding="utf-8") as file:
            is_ours = file.read().strip() == address
        if is_ours:
            os.unlink(url_path())


def _announce_page(address: str, token: str | None) -> None:
    """Print the page's link. It has the token only on a terminal; a log gets the path of the token's file."""
    if token is None:
        remark(f"open {address}/ ; anyone on this machine can use it")
    elif sys.stderr.isatty():
        from urllib.parse import quote

        remark(f"open {address}/#token={quote(token, safe='')}")
    else:
        remark(f"open {address}/#token=TOKEN with the token in {token_path()}")


def listen_on(host: str, port: int) -> tuple[socket.socket, str]:
    """Return a socket that listens on the host and port, and its URL."""
    bare_host = host.strip("[]")
    try:
        addresses = socket.getaddrinfo(bare_host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, socket_type, protocol, _, address = addresses[0]
        listener = socket.socket(family, socket_type, protocol)
    except OSError as error:
        raise AddressTaken(host, error.strerror, hint="agh serve --host 127.0.0.1") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise AddressTaken(f"{host}:{port}", error.strerror) from None
    url_host = f"[{bare_host}]" if family == socket.AF_INET6 else host
    return listener, f"http://{url_host}:{listener.getsockname()[1]}"


def listen_at(path: str) -> tuple[socket.socket, str]:
    """Return a Unix socket for this user only, and its address. Replace one that nobody listens on."""
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        raise AddressTaken(path, "the path is too long", hint="name a shorter path")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous_umask = os.umask(0o177)
    try:
        if _is_abandoned(path):
            os.unlink(path)
        listener.bind(path)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise AddressTaken(path, error.strerror, hint="name another path") from None
    finally:
        os.umask(previous_umask)
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
