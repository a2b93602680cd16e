"""Responses: JSON documents, errors in the form that the command line prints, event streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from hashlib import blake2b
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from agh.errors import AghError
from agh_serve.errors import get_status

_NOT_CACHED = {"cache-control": "no-store"}


def respond_with_json(value: Any, status: int = 200) -> Response:
    return respond_with_json_text(orjson.dumps(value, default=str), status)


def respond_with_json_text(text: str | bytes, status: int = 200) -> Response:
    """Return a response whose body is JSON text already."""
    return Response(text, status, _NOT_CACHED, "application/json")


def respond_unless_cached(request: Request, value: Any) -> Response:
    """Return the value as JSON, or 304 if the client has it already."""
    body = orjson.dumps(value, default=str)
    tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, "application/json")


def respond_with_error(error: AghError) -> Response:
    response = respond_with_json({"error": error.as_dict()}, get_status(error))
    if response.status_code == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


class _Stream(StreamingResponse):
    body_iterator: AsyncGenerator[bytes, None]

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self.body_iterator):  # stop following as soon as the client disconnects
            await super().stream_response(send)


def respond_with_stream(
    chunks: AsyncGenerator[bytes, None], media_type: str = "text/event-stream", **headers: str
) -> Response:
    headers = {**_NOT_CACHED, "x-accel-buffering": "no", **headers}
    return _Stream(chunks, headers=headers, media_type=media_type)
