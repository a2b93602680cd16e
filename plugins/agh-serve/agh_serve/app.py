"""The application: the routes of both path families, the page's files, and one form for every failure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from agh.adapters.html_page import style
from agh.errors import AghError, Bug, Usage
from agh_serve.answers import document, failure
from agh_serve.calls import Operation, answer
from agh_serve.errors import MethodUnknown, RouteUnknown
from agh_serve.feed import Feeds
from agh_serve.guard import Guard
from agh_serve.openapi import openapi
from agh_serve.operations import OPERATIONS

FAMILIES = ("/api", "/api/workspaces/{workspace:path}")
PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/transcript.css": ("", "text/css; charset=utf-8"),
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def application(feeds: Feeds, *, token: str | None, bound: str | None, names: Iterable[str] = ()) -> ASGIApp:
    routes = [Route(path, page_file, methods=["GET"]) for path in PAGE]
    routes.append(Route("/api/openapi.json", _openapi, methods=["GET"]))
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    for family in FAMILIES:
        routes += [_route(family + path, methods, feeds) for path, methods in by_path.items()]
    made = Starlette(
        routes=routes, exception_handlers={AghError: _failed, HTTPException: _unknown, Exception: _broken}
    )
    made.router.redirect_slashes = False
    return Guard(made, token=token, bound=bound, names=names, public=PAGE)


def _route(path: str, methods: dict[str, Operation], feeds: Feeds) -> Route:
    async def endpoint(request: Request) -> Response:
        if request.method == "HEAD" and methods["GET"].kind != "application/json":
            return Response(media_type=methods["GET"].kind)  # a stream might never end
        return await answer(methods["GET" if request.method == "HEAD" else request.method], request, feeds)

    return Route(path, endpoint, methods=list(methods))


async def _openapi(request: Request) -> Response:
    return document(openapi(OPERATIONS))


async def page_file(request: Request) -> Response:
    body, kind, tag = _page(request.url.path)
    headers = {"etag": tag, "cache-control": "no-cache", "content-security-policy": POLICY}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=kind)


@cache
def _page(path: str) -> tuple[bytes, str, str]:
    name, kind = PAGE[path]
    body = (Path(__file__).parent / "page" / name).read_bytes() if name else style().encode()
    return body, kind, f'"{blake2b(body, digest_size=12).hexdigest()}"'


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, AghError)
    return failure(error)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = repr(request.url.path)
    if error.status_code == 404:
        return failure(RouteUnknown(path))
    if error.status_code == 405:
        response = failure(MethodUnknown(path, request.method))
        response.headers.update(error.headers or {})
        return response
    return failure(Usage(error.detail))


async def _broken(request: Request, error: Exception) -> Response:
    return failure(Bug(f"{type(error).__name__}: {error}", hint="the server's stderr has the traceback"))
