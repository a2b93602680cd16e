"""Responses: JSON documents, errors in the form that the command line prints, event streams."""

from __future__ import annotations

import gzip
from collections.abc import AsyncGenerator
from contextlib import aclosing
from hashlib import blake2b
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from agh.errors import AghError
from agh_serve import threads
from agh_serve.errors import get_status

_NOT_CACHED = {"cache-control": "no-store"}
MIN_COMPRESSED = 1400  # bytes; a smaller body fits in one packet anyway
LEVEL = 1  # the fastest: the list of 1,000 sessions shrinks to a twentieth in 5 ms


def respond_with_json(value: Any, status: int = 200) -> Response:
    return respond_with_json_text(orjson.dumps(value, default=str), status)


def respond_with_json_text(text: str | bytes, status: int = 200) -> Response:
    """Return a response whose body is JSON text already."""
    return Response(text, status, _NOT_CACHED, "application/json")


def respond_unless_cached(request: Request, value: Any) -> Response:
    """Return the value as JSON, or 304 if the client has it already."""
    body = orjson.dumps(value, default=str)
    tag = f'W/"{blake2b(body, digest_size=12).hexdigest()}"'  # weak: the same value, compressed or not
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, "application/json")


async def compress(request: Request, response: Response) -> Response:
    """Compress the body of a response if it is long and the client understands that; leave streams alone."""
    if isinstance(response, StreamingResponse):
        return response
    response.headers["vary"] = "accept-encoding"
    if len(response.body) >= MIN_COMPRESSED and accepts_gzip(request.headers.get("accept-encoding", "")):
        response.body = await threads.run_read(gzip.compress, response.body, LEVEL)
        response.headers["content-encoding"] = "gzip"
        response.headers["content-length"] = str(len(response.body))
    return response


def accepts_gzip(header: str) -> bool:
    """Tell whether a client that sends this Accept-Encoding header understands gzip."""
    for choice in header.lower().split(","):
        name, *parameters = (part.strip() for part in choice.split(";"))
        if name == "gzip":
            weight = next((text[2:] for text in parameters if text.startswith("q=")), "1")
            return weight.strip("0.") != ""
    return False


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
