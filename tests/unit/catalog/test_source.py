"""Where the list comes from: the network once a day, else the last copy, else agh's own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from agh.catalog import download, source
from agh.errors import AghError, CatalogInvalid, DownloadFailed
from agh.home import cache_path
from tests.unit.catalog.loopback import Shop, entry, serving


@pytest.fixture
def shop(private_home: Path) -> Iterator[Shop]:
    private_home.mkdir(mode=0o700)
    with serving() as shop:
        (private_home / "config.toml").write_text(f'catalog.url = "{shop.url}/registry.json"\n')
        yield shop


def copy() -> Path:
    return Path(cache_path()) / "catalog.json"


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def forget_attempt() -> None:
    (Path(cache_path()) / "catalog.attempt").unlink()


def test_a_download_adds_to_the_bundled_list(shop: Shop) -> None:
    shop.registry(entry("mine"), entry("gemini", "99.0.0"))
    listing = source.load_catalog()
    assert listing.remark == ""
    assert listing.entries["mine"].version == "1.0.0"
    assert listing.entries["gemini"].version == "99.0.0"
    assert "claude-acp" in listing.entries
    assert copy().stat().st_mode & 0o777 == 0o600


def test_a_day_passes_before_the_next_download(shop: Shop) -> None:
    shop.registry(entry("mine"))
    for _ in range(3):
        source.load_catalog()
    assert len(shop.requests) == 1
    forget_attempt()
    age(copy(), 23.9 * 3600)
    source.load_catalog()
    assert len(shop.requests) == 1
    age(copy(), 24.1 * 3600)
    shop.registry(entry("mine", "2.0.0"))
    assert source.load_catalog().entries["mine"].version == "2.0.0"
    assert len(shop.requests) == 2


def test_a_copy_from_the_future_is_old(shop: Shop) -> None:
    """A clock that was set back must not make a copy new for ever."""
    shop.registry(entry("mine"))
    source.load_catalog()
    forget_attempt()
    age(copy(), -3600)
    source.load_catalog()
    assert len(shop.requests) == 2


def test_a_refresh_does_not_wait_for_the_day(shop: Shop) -> None:
    shop.registry(entry("mine"))
    source.load_catalog()
    source.load_catalog(refresh=True)
    assert len(shop.requests) == 2


def test_offline_asks_nobody(shop: Shop) -> None:
    shop.registry(entry("mine"))
    assert "mine" not in source.load_catalog(refresh=False).entries
    assert shop.requests == []


def cut_off(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"version": "1.0.0", "agents": [')


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b" " * 65536)


def leave_https(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "file:///etc/passwd")
    handler.end_headers()


@pytest.mark.parametrize("page", [b"{", b"{}", b"<html>", cut_off, endless, leave_https, None])
def test_a_bad_answer_leaves_what_is_there(shop: Shop, page: object) -> None:
    shop.registry(entry("mine"))
    source.load_catalog()
    forget_attempt()
    age(copy(), 30 * 86400)
    before = copy().read_bytes()
    del shop.pages["/registry.json"]
    if page is not None:
        shop.put("/registry.json", page)  # type: ignore[arg-type]
    listing = source.load_catalog()
    assert "mine" in listing.entries
    assert "could not be refreshed" in listing.remark
    assert copy().read_bytes() == before
    with pytest.raises((CatalogInvalid, DownloadFailed)):
        source.load_catalog(refresh=True)


def leave_for_http(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "http://example.org/registry.json")
    handler.end_headers()


@pytest.mark.parametrize("page", [endless, leave_for_http])
def test_an_address_that_leads_nowhere_is_not_blamed_on_the_network(shop: Shop, page: object) -> None:
    shop.put("/registry.json", page)  # type: ignore[arg-type]
    with pytest.raises(DownloadFailed) as caught:
        source.load_catalog(refresh=True)
    assert "catalog.url" in caught.value.hint


def test_a_slow_answer_is_given_up(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST_SECONDS", 0.5)
    monkeypatch.setattr(download, "SILENCE", 5.0)

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b" ")
            time.sleep(0.01)

    shop.put("/registry.json", drip)
    began = time.monotonic()
    listing = source.load_catalog()
    assert time.monotonic() - began < 20
    assert "took longer than 0.5 s" in listing.remark
    assert "gemini" in listing.entries


def test_without_a_network_the_next_attempt_waits(shop: Shop, private_home: Path) -> None:
    (private_home / "config.toml").write_text('catalog.url = "http://127.0.0.1:1/registry.json"\n')
    assert "could not be refreshed" in source.load_catalog().remark
    assert source.load_catalog().remark == ""
    assert "gemini" in source.load_catalog().entries


def test_an_empty_setting_never_asks(shop: Shop, private_home: Path) -> None:
    (private_home / "config.toml").write_text('catalog.url = ""\n')
    assert source.load_catalog().remark == ""
    with pytest.raises(AghError, match="empty"):
        source.load_catalog(refresh=True)


def test_a_damaged_copy_is_as_good_as_none(shop: Shop) -> None:
    copy().parent.mkdir(parents=True)
    copy().write_bytes(b"\0\0")
    assert "gemini" in source.load_catalog(refresh=False).entries


def test_a_cache_that_cannot_be_written_is_done_without(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.registry(entry("mine"))
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert "mine" in source.load_catalog().entries
