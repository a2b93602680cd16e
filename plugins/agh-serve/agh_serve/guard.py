"""Access control: the Host that a request names, the Origin of the page that sends it, and its token.

A page of another site can make a browser send requests here, even under the site's own host name, if it makes
that name resolve to this machine (DNS rebinding). So the Host must be ours: a loopback name, an address, or a
name that was allowed. And the Origin, if there is one, must be the same host.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Iterable
from urllib.parse import parse_qs, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agh.errors import AghError
from agh_serve.errors import HostRefused, OriginRefused, RequestTooLarge, Unauthorized
from agh_serve.fields import MAX_BODY_BYTES
from agh_serve.responses import respond_with_error

_HOST_HEADER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]@/\\?#\s]+)(?::\d{1,5})?", re.ASCII)
_SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


def is_loopback(host: str) -> bool:
    """Tell whether a name or an address is out of reach of other machines."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _parse_origin(origin: str) -> str:
    """Return the origin's host and port, or nothing if it is malformed."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _token_in(query: bytes) -> bytes:
    """Return the token that a query has."""
    tokens = parse_qs(query.decode("latin-1")).get("token")
    return tokens[0].encode() if tokens else b""


def _has_long_body(content_length: bytes) -> bool:
    """Tell whether a request announces a body that no operation takes."""
    digits = content_length.strip()
    return digits.isdigit() and (len(digits) > 18 or int(digits) > MAX_BODY_BYTES)


class Guard:
    """An application that refuses requests which may not reach the one inside it."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None,
        bound_host: str | None,
        allowed_hosts: Iterable[str],
        allowed_origins: Iterable[str] = (),
        public_paths: Iterable[str],
    ) -> None:
        """Guard `app`.

        `bound_host` is the host that the server listens on, None for a Unix socket. Pages of
        `allowed_origins` may use the server too. `public_paths` need no token.
        """
        self._app, self._public_paths = app, frozenset(public_paths)
        self._token = None if token is None else f"Bearer {token}".encode()
        hosts = (*allowed_hosts, bound_host or "")
        self._allowed_hosts = {host.lower().strip("[]") for host in hosts if host}
        self._allowed_origins = {origin.lower().rstrip("/") for origin in allowed_origins}
        self._is_remote = bound_host is not None and not is_loopback(bound_host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                message["headers"] = [*message.get("headers", ()), *_SECURITY_HEADERS]
            await send(message)

        try:
            self._check(scope)
        except AghError as error:
            await respond_with_error(error)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _check(self, scope: Scope) -> None:
        names = [name for name, _ in scope["headers"]]
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host, origin = (headers.get(name, b"").decode("latin-1") for name in (b"host", b"origin"))
        if names.count(b"host") > 1 or not self._is_ours(host):
            raise HostRefused(repr(host))
        if names.count(b"origin") > 1 or names.count(b"authorization") > 1:
            raise OriginRefused(repr(origin))
        if _has_long_body(headers.get(b"content-length", b"")):
            raise RequestTooLarge(MAX_BODY_BYTES)
        if origin and _parse_origin(origin) != host.lower() and origin.lower() not in self._allowed_origins:
            raise OriginRefused(repr(origin))
        if self._token is None or scope["path"] in self._public_paths:
            return
        authorization = headers.get(b"authorization", b"")
        if scope["type"] == "websocket" and not authorization:  # browsers send no such header with these
            authorization = b"Bearer " + _token_in(scope["query_string"])
        if not secrets.compare_digest(authorization, self._token):
            raise Unauthorized()

    def _is_ours(self, host_header: str) -> bool:
        match = _HOST_HEADER.fullmatch(host_header)
        if match is None:
            return False
        host = match[1].lower().strip("[]")
        if host in self._allowed_hosts or is_loopback(host):
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return self._is_remote  # DNS rebinding needs a name: an address always is the machine it names
