"""The application: the routes below both prefixes, the page's files, and one form for every error."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agh.adapters.html_page import style
from agh.adapters.web import WebApplication
from agh.errors import AghError, Bug, Usage
from agh_serve.broadcast import Broadcasts
from agh_serve.dispatch import Operation, dispatch
from agh_serve.errors import MethodUnknown, RouteUnknown
from agh_serve.guard import Guard
from agh_serve.openapi import build_openapi
from agh_serve.operations import OPERATIONS
from agh_serve.responses import compress, respond_with_error, respond_with_json

PREFIXES = ("/api", "/api/workspaces/{workspace:path}")
PAGE_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/transcript.css": ("", "text/css; charset=utf-8"),
}
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def build_application(
    broadcasts: Broadcasts,
    *,
    token: str | None,
    bound_host: str | None,
    allowed_hosts: Iterable[str] = (),
    allowed_origins: Iterable[str] = (),
    others: Iterable[WebApplication] = (),
) -> ASGIApp:
    """Return the application. `others` are those of plugins; the rest is for `Guard`."""
    routes = [Route(path, serve_page_file, methods=["GET"]) for path in PAGE_FILES]
    routes.append(Route("/api/openapi.json", serve_openapi, methods=["GET"]))
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    for prefix in PREFIXES:
        routes += [_build_route(prefix + path, methods, broadcasts) for path, methods in by_path.items()]
    handlers = {
        AghError: _handle_agh_error,
        HTTPException: _handle_http_error,
        OSError: _handle_system_error,
        Exception: _handle_bug,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    applications: dict[str, Any] = {other.path: other.app for other in others if other.path not in PAGE_FILES}

    async def choose(scope: Scope, receive: Receive, send: Send) -> None:
        await applications.get(scope["path"], app)(scope, receive, send)

    return Guard(
        choose,
        token=token,
        bound_host=bound_host,
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
        public_paths=PAGE_FILES,
    )


def _build_route(path: str, methods: dict[str, Operation], broadcasts: Broadcasts) -> Route:
    async def endpoint(request: Request) -> Response:
        if request.method == "HEAD" and methods["GET"].media_type != "application/json":
            return Response(media_type=methods["GET"].media_type)  # a stream might never end
        operation = methods["GET" if request.method == "HEAD" else request.method]
        return await compress(request, await dispatch(operation, request, broadcasts))

    return Route(path, endpoint, methods=list(methods))


async def serve_openapi(request: Request) -> Response:
    return await compress(request, respond_with_json(build_openapi(OPERATIONS)))


async def serve_page_file(request: Request) -> Response:
    body, media_type, tag = _load_page_file(request.url.path)
    headers = {"etag": tag, "cache-control": "no-cache", "content-security-policy": CONTENT_SECURITY_POLICY}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return await compress(request, Response(body, headers=headers, media_type=media_type))


@cache
def _load_page_file(path: str) -> tuple[bytes, str, str]:
    """Return the contents, the media type and the ETag. The transcript's style sheet has no file here."""
    name, media_type = PAGE_FILES[path]
    body = (Path(__file__).parent / "page" / name).read_bytes() if name else style().encode()
    return body, media_type, f'W/"{blake2b(body, digest_size=12).hexdigest()}"'


async def _handle_agh_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AghError)
    return respond_with_error(error)


async def _handle_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = repr(request.url.path)
    if error.status_code == 404:
        return respond_with_error(RouteUnknown(path))
    if error.status_code == 405:
        response = respond_with_error(MethodUnknown(path, request.method))
        response.headers.update(error.headers or {})
        return response
    return respond_with_error(Usage(error.detail))


async def _handle_system_error(request: Request, error: Exception) -> Response:
    from agh.keeper.failures import explain

    cause = explain(error)
    if cause is None:
        raise error
    return respond_with_error(cause)


async def _handle_bug(request: Request, error: Exception) -> Response:
    return respond_with_error(
        Bug(f"{type(error).__name__}: {error}", hint="the server's stderr has the traceback")
    )
