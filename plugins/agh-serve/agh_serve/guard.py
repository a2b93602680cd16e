"""Who may ask: the Host a request names, the Origin of the page that sends it, the token it brings.

A page of another site can make a browser send requests here, also under a name of its own that it lets
point to this machine (DNS rebinding). So a request must name a host that is ours: a loopback name, an
address, or one that was allowed; and an Origin, where there is one, must be that same host.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agh.errors import AghError
from agh_serve.answers import failure
from agh_serve.errors import HostRefused, OriginRefused, Unauthorized

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]@/\\?#\s]+)(?::\d{1,5})?", re.ASCII)
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


def is_loopback(host: str) -> bool:
    """Whether a name or an address cannot be reached from other machines."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


class Guard:
    """Lets through what may pass; `public` are the paths that need no token."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None,
        bound: str | None,
        names: Iterable[str],
        public: Iterable[str],
    ) -> None:
        """`bound` is the host that is listened on, None for a socket in the file system."""
        self._app, self._public = app, frozenset(public)
        self._token = None if token is None else f"Bearer {token}".encode()
        self._names = {name.lower().strip("[]") for name in (*names, bound or "") if name}
        self._open = bound is not None and not is_loopback(bound)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        try:
            self._check(scope)
        except AghError as error:
            await failure(error)(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)

    def _check(self, scope: Scope) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host, origin = (headers.get(name, b"").decode("latin-1") for name in (b"host", b"origin"))
        if not self._is_ours(host):
            raise HostRefused(repr(host))
        if origin and _host_of(origin) != host.lower():
            raise OriginRefused(repr(origin))
        if self._token is None or scope["path"] in self._public:
            return
        if not secrets.compare_digest(headers.get(b"authorization", b""), self._token):
            raise Unauthorized()

    def _is_ours(self, header: str) -> bool:
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        name = found[1].lower().strip("[]")
        if name in self._names or is_loopback(name):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return self._open  # an address is nobody's name, so nobody can have made it point here
