"""The format of the registry: what is used, what is left out, what is refused whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agh.catalog.entries import MOST_ENTRIES, read_catalog
from agh.catalog.source import SNAPSHOT
from agh.errors import CatalogInvalid
from tests.unit.catalog.loopback import binary, entry

HASH = "0" * 64


def document(*agents: Any) -> bytes:
    return json.dumps({"version": "1.0.0", "agents": agents}).encode()


def test_the_bundled_copy_is_valid_and_every_version_is_pinned() -> None:
    with open(SNAPSHOT, "rb") as file:
        catalog = read_catalog(file.read())
    assert catalog.problems == []
    assert len(catalog.entries) >= 20
    for item in catalog.entries.values():
        assert all(package.version for package in (item.npx, item.uvx) if package), item.id
        assert all(target.sha256 for target in item.binaries.values()), item.id
        assert item.description and item.license and item.website.startswith("https://"), item.id


def test_an_entry_of_each_kind() -> None:
    ways = {
        "npx": {"package": "@scope/name@1.2.3-beta.1", "args": ["--acp"], "env": {"QUIET": "1"}},
        "uvx": {"package": "name[extra]==1.2", "cmd": "name-acp"},
        "binary": {
            "linux-x86_64": {"archive": "https://x.example/a.tgz", "cmd": "./bin/a", "sha256": HASH.upper()}
        },
    }
    item = read_catalog(document(entry("mine", **ways))).entries["mine"]
    assert item.npx and item.uvx
    assert item.npx[:4] == ("@scope/name", "1.2.3-beta.1", "", ("--acp",))
    assert item.npx.env == {"QUIET": "1"}
    assert item.uvx[:3] == ("name[extra]", "1.2", "name-acp")
    assert item.binaries["linux-x86_64"][:3] == ("https://x.example/a.tgz", HASH, "bin/a")
    assert item.ways() == ["npx", "uvx", "binary"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b'{"agents": {}}',
        b'{"agents": []}',
        b"\xff\xfe",
        b"[" * 100_000,
        document(1, None, "x"),
        document(*[entry()] * (MOST_ENTRIES + 1)),
    ],
    ids=range(10),
)
def test_what_is_no_catalog_is_refused(data: bytes) -> None:
    with pytest.raises(CatalogInvalid):
        read_catalog(data)


def npx(package: Any, **fields: Any) -> dict[str, Any]:
    return entry("bad", npx={"package": package, **fields})


def archive(url: Any, command: Any = "./a", **fields: Any) -> dict[str, Any]:
    return entry("bad", binary={"linux-x86_64": {"archive": url, "cmd": command, **fields}})


@pytest.mark.parametrize(
    "bad",
    [
        {**entry(), "id": "../up"},
        {**entry(), "id": "Up"},
        {**entry(), "id": "a" * 65},
        {**entry(), "id": 7},
        {**entry(), "name": None},
        {**entry(), "name": "x" * 5000},
        {**entry(), "version": "latest"},
        {**entry(), "version": "1; rm"},
        {**entry(), "distribution": {}},
        {**entry(), "distribution": []},
        npx("git+https://x.example/y.git"),
        npx("https://x.example/y.tgz"),
        npx("file:../y"),
        npx("-c"),
        npx("--package=x"),
        npx("name@latest"),
        npx("name with space"),
        npx(None),
        npx("name", args="--acp"),
        npx("name", args=[1]),
        npx("name", args=["\0"]),
        npx("name", env={"LD_PRELOAD": "x"}),
        npx("name", env={"PATH": "x"}),
        npx("name", env={"NODE_OPTIONS": "x"}),
        npx("name", env={"AGH_HOME": "x"}),
        npx("name", env={"A=B": "x"}),
        npx("name", env={"A": 1}),
        npx("name", cmd="../x"),
        npx("name", cmd="-x"),
        entry("bad", uvx={"package": "name @ https://x.example/y.whl"}),
        entry("bad", uvx={"package": "./name"}),
        archive("http://x.example/a.tgz"),
        archive("file:///etc/passwd"),
        archive("https://"),
        archive("https://x.example/a.tgz", "../a"),
        archive("https://x.example/a.tgz", "/bin/sh"),
        archive("https://x.example/a.tgz", "a/../../b"),
        archive("https://x.example/a.tgz", sha256="abc"),
    ],
)
def test_a_bad_entry_is_left_out_and_named(bad: dict[str, Any]) -> None:
    catalog = read_catalog(document(bad, entry("good")))
    assert list(catalog.entries) == ["good"]
    assert len(catalog.problems) == 1


def test_the_first_of_two_entries_with_one_id_counts() -> None:
    catalog = read_catalog(document(entry("mine", "1.0.0"), entry("mine", "2.0.0")))
    assert catalog.entries["mine"].version == "1.0.0"


def test_loopback_may_do_without_https() -> None:
    ways = {"binary": binary("http://127.0.0.1:8/a.tgz", b"")}
    assert read_catalog(document(entry("mine", **ways))).entries["mine"].binaries
