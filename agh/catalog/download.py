"""Downloading, with bounds: https only, so many bytes, so many seconds, however slowly they come."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from typing import Any, BinaryIO
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from agh import __version__
from agh.catalog.entries import is_safe_url
from agh.errors import DownloadFailed

CHUNK = 1 << 16
SILENCE = 20.0  # seconds without a byte
CHECK_ADDRESS = "check the address; it is from the registry, or from catalog.url in your config.toml"


class _SafeRedirects(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if not is_safe_url(newurl):
            fp.close()
            raise DownloadFailed(
                req.full_url, f"it redirects to {newurl}, which is not https", hint=CHECK_ADDRESS
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch(url: str, *, most: int, seconds: float) -> bytes:
    """Return what is at the address."""
    return b"".join(_chunks(url, most, seconds))


def save(url: str, file: BinaryIO, *, most: int, seconds: float) -> str:
    """Write what is at the address to the file; return its SHA-256."""
    checksum = hashlib.sha256()
    for chunk in _chunks(url, most, seconds):
        checksum.update(chunk)
        file.write(chunk)
    return checksum.hexdigest()


def _chunks(url: str, most: int, seconds: float) -> Iterator[bytes]:
    if not is_safe_url(url):
        raise DownloadFailed(url, "it is not an https address", hint=CHECK_ADDRESS)
    deadline, size = time.monotonic() + seconds, 0
    request = Request(url, headers={"User-Agent": f"agh/{__version__}"})
    try:
        with build_opener(_SafeRedirects).open(request, timeout=min(seconds, SILENCE)) as response:
            expected = response.headers.get("Content-Length")
            # read1 returns what has come: a server that sends one byte at a time cannot outlast the deadline.
            while chunk := response.read1(CHUNK):
                size += len(chunk)
                if size > most:
                    raise DownloadFailed(url, f"it is larger than {most} bytes", hint=CHECK_ADDRESS)
                if time.monotonic() > deadline:
                    raise DownloadFailed(url, f"it took longer than {seconds:g} s")
                yield chunk
    except HTTPError as error:
        raise DownloadFailed(url, f"the server says {error.code} {error.reason}") from None
    except URLError as error:
        raise DownloadFailed(url, str(error.reason)) from None
    except (OSError, ValueError) as error:
        raise DownloadFailed(url, str(error) or type(error).__name__) from None
    if expected is not None and expected.isdigit() and size < int(expected):
        raise DownloadFailed(url, f"it ended after {size} of {expected} bytes")
