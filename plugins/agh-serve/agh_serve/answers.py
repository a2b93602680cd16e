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
from agh_serve.errors import status_of

_FRESH = {"cache-control": "no-store"}


def document(value: Any, status: int = 200) -> Response:
    return text_document(orjson.dumps(value, default=str), status)


def text_document(text: str | bytes, status: int = 200) -> Response:
    """JSON that is text already."""
    return Response(text, status, _FRESH, "application/json")


def tagged(request: Request, value: Any) -> Response:
    """JSON that is not sent again to a client that has it."""
    body = orjson.dumps(value, default=str)
    tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, "application/json")


def failure(error: AghError) -> Response:
    response = document({"error": error.as_dict()}, status_of(error))
    if response.status_code == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


class _Stream(StreamingResponse):
    body_iterator: AsyncGenerator[bytes, None]

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self.body_iterator):  # whoever goes away stops listening at once
            await super().stream_response(send)


def stream(chunks: AsyncGenerator[bytes, None], kind: str = "text/event-stream", **headers: str) -> Response:
    headers = {"cache-control": "no-store", "x-accel-buffering": "no", **headers}
    return _Stream(chunks, headers=headers, media_type=kind)
