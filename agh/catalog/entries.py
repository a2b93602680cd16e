"""Entries of the catalog, in the format of the public ACP registry. Pure.

Promises: an entry that breaks the format, or that could lead out of its place (an id that is no file name, a
package that is a URL, an archive without https, a command outside its archive, a variable that changes how
programs start), is left out and named; the others are used. Never trusts the length or type of anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from agh.core.named_tuple import NamedTuple
from agh.errors import CatalogInvalid

MOST_ENTRIES, MOST_TEXT, MOST_WORDS = 2000, 2000, 64
PLATFORMS = tuple(
    f"{system}-{cpu}" for system in ("darwin", "linux", "windows") for cpu in ("aarch64", "x86_64")
)
ID = re.compile(r"[a-z][a-z0-9-]{0,63}")
VERSION = re.compile(r"[0-9][0-9A-Za-z.+-]{0,63}")
SHA256 = re.compile(r"[0-9a-fA-F]{64}")
COMMAND = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
NPM_PACKAGE = re.compile(
    r"((?:@[a-z0-9_~][a-z0-9._~-]*/)?[a-z0-9_~][a-z0-9._~-]*)(?:@([0-9][\w.+-]*))?", re.I
)
PYPI_PACKAGE = re.compile(
    r"([a-z0-9](?:[a-z0-9._-]*[a-z0-9])?(?:\[[a-z0-9,._-]+\])?)(?:(?:==|@)([0-9][\w.+!-]*))?", re.I
)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Variables that decide which program runs, or what it loads.
FORBIDDEN_VARIABLES = re.compile(
    r"(PATH|HOME|SHELL|NODE_OPTIONS|NODE_PATH|BASH_ENV|ENV|IFS|(LD|DYLD|PYTHON|AGH|UV|NPM|npm)_?.*)"
)
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Package(NamedTuple):
    """A package of npm or PyPI: its name without a version, and how it is run."""

    name: str
    version: str  # empty if the entry names none
    command: str  # the program in the package; empty for the one that the package is known for
    args: tuple[str, ...]
    env: Mapping[str, str]


class Binary(NamedTuple):
    """An archive for one platform; `command` is the program's path in it."""

    archive: str
    sha256: str  # empty if the entry has none
    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]


class Entry(NamedTuple):
    """An agent of the catalog."""

    id: str
    name: str
    version: str
    description: str
    license: str
    website: str
    npx: Package | None
    uvx: Package | None
    binaries: Mapping[str, Binary]

    def ways(self) -> list[str]:
        """List the ways in which it is distributed."""
        packages = [way for way, package in (("npx", self.npx), ("uvx", self.uvx)) if package]
        return [*packages, *(["binary"] if self.binaries else [])]


class Catalog(NamedTuple):
    """The entries by id, and what was wrong with those that were left out."""

    entries: dict[str, Entry]
    problems: list[str]


def read_catalog(data: bytes) -> Catalog:
    """Read a registry document; raise CatalogInvalid unless it has at least one entry that can be used."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CatalogInvalid(f"not JSON: {error}") from None
    agents = document.get("agents") if isinstance(document, dict) else None
    if not isinstance(agents, list):
        raise CatalogInvalid("it has no list of agents")
    if len(agents) > MOST_ENTRIES:
        raise CatalogInvalid(f"it has {len(agents)} agents; the maximum is {MOST_ENTRIES}")
    catalog = Catalog({}, [])
    for number, fields in enumerate(agents, 1):
        try:
            entry = _read_entry(fields)
        except ValueError as error:
            name = fields.get("id") if isinstance(fields, dict) else None
            catalog.problems.append(f"{name if isinstance(name, str) else f'entry {number}'}: {error}")
        else:
            catalog.entries.setdefault(entry.id, entry)
    if not catalog.entries:
        raise CatalogInvalid(f"it has no usable agent; {(catalog.problems or ['it is empty'])[0]}")
    return catalog


def _read_entry(fields: Any) -> Entry:
    if not isinstance(fields, dict):
        raise ValueError("it is not a JSON object")
    ways = fields.get("distribution")
    if not isinstance(ways, dict) or not ways.keys() & {"npx", "uvx", "binary"}:
        raise ValueError("it has no distribution")
    return Entry(
        id=_match(ID, fields.get("id"), "id"),
        name=_text(fields.get("name"), "name"),
        version=_match(VERSION, fields.get("version"), "version"),
        description=_text(fields.get("description", ""), "description"),
        license=_text(fields.get("license", ""), "license"),
        website=_text(fields.get("website") or fields.get("repository") or "", "website"),
        npx=_read_package(ways["npx"], NPM_PACKAGE) if "npx" in ways else None,
        uvx=_read_package(ways["uvx"], PYPI_PACKAGE) if "uvx" in ways else None,
        binaries=_read_binaries(ways["binary"]) if "binary" in ways else {},
    )


def _read_package(fields: Any, pattern: re.Pattern[str]) -> Package:
    if not isinstance(fields, dict):
        raise ValueError("a distribution is not a JSON object")
    match = pattern.fullmatch(_text(fields.get("package"), "package"))
    if match is None:
        raise ValueError(f"package {fields['package']!r} is not a valid package name")
    command = _match(COMMAND, fields["cmd"], "cmd") if fields.get("cmd") else ""
    return Package(match[1], match[2] or "", command, _read_args(fields), _read_env(fields))


def _read_binaries(fields: Any) -> dict[str, Binary]:
    if not isinstance(fields, dict):
        raise ValueError("binary is not a JSON object")
    return {
        platform: _read_binary(fields[platform])
        for platform in PLATFORMS
        if platform in fields and not platform.startswith("windows")
    }


def _read_binary(fields: Any) -> Binary:
    if not isinstance(fields, dict):
        raise ValueError("an entry of binary is not a JSON object")
    archive = _text(fields.get("archive"), "archive")
    if not is_safe_url(archive):
        raise ValueError(f"archive {archive!r} is not an https address")
    checksum = _match(SHA256, fields["sha256"], "sha256").lower() if fields.get("sha256") else ""
    command = _text(fields.get("cmd"), "cmd").removeprefix("./")
    if not is_inside(command):
        raise ValueError(f"cmd {command!r} points outside the archive")
    return Binary(archive, checksum, command, _read_args(fields), _read_env(fields))


def is_safe_url(url: str) -> bool:
    """Tell whether an address may be downloaded from: https, or this machine itself."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK))


def is_inside(path: str) -> bool:
    """Tell whether a relative path stays in its directory."""
    return (
        bool(path)
        and not path.startswith(("/", "-", "~"))
        and not {"\\", "\0"} & set(path)
        and ".." not in path.split("/")
    )


def _read_args(fields: Mapping[str, Any]) -> tuple[str, ...]:
    args = fields.get("args") or []
    if not isinstance(args, list) or len(args) > MOST_WORDS:
        raise ValueError(f"args must be a list of at most {MOST_WORDS} strings")
    return tuple(_text(word, "args") for word in args)


def _read_env(fields: Mapping[str, Any]) -> dict[str, str]:
    env = fields.get("env") or {}
    if not isinstance(env, dict) or len(env) > MOST_WORDS:
        raise ValueError(f"env must be an object with at most {MOST_WORDS} variables")
    for name in env:
        if not VARIABLE.fullmatch(name) or FORBIDDEN_VARIABLES.fullmatch(name):
            raise ValueError(f"env may not set {name!r}")
    return {name: _text(value, "env") for name, value in env.items()}


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str) or len(value) > MOST_TEXT or "\0" in value:
        raise ValueError(f"{key} must be a string of at most {MOST_TEXT} characters")
    return value


def _match(pattern: re.Pattern[str], value: Any, key: str) -> str:
    if not pattern.fullmatch(_text(value, key)):
        raise ValueError(f"{key} cannot be {value!r}")
    return str(value)
