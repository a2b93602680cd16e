"""Settings as they stand in files: where each value comes from, and changing one.

A change keeps the comments and the layout of the file, is checked before it is written, and replaces
the file whole. A file that has anything wrong with it is not changed.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from agh import config
from agh.config import SETTINGS, TABLES
from agh.errors import ConfigInvalid, Usage
from agh.home import ensure_home, home_path
from agh.store.replace import replace_file
from agh.store.sessions import naming

LISTS = ("mcp_servers", "permissions.rules", "hooks", "trusted_workspaces", *TABLES)


class Found(NamedTuple):
    """A setting's value as it is written, and the file it is in (or `default`)."""

    key: str
    value: Any
    source: str


def check_key(key: str) -> None:
    if key not in SETTINGS:
        raise Usage(f"there is no setting {key!r}", hint=config.suggest(key))


def settings(workspace: str | None) -> list[Found]:
    """Every setting, by its key."""
    found = {key: Found(key, setting.default, "default") for key, setting in SETTINGS.items()}
    for path in config.config_files(workspace):
        for key, value in config.written(path).items():
            found[key] = Found(key, found[key].value | value if key in TABLES else value, path)
    return sorted(found.values())


def change(path: str, key: str, value: str | None) -> Any:
    """Set a key in one file, or take it out when the value is None; what was written."""
    from agh.core.toml_text import CannotEdit, changed

    by_hand = f"edit it by hand: {path}"
    if key in LISTS or key.partition(".")[0] in TABLES:
        raise Usage(f"{key} is not set by a single value", hint=by_hand)
    check_key(key)
    wanted = None if value is None else _read(key, value)
    ensure_home()
    with naming():
        config.written(path)
        try:
            with open(path, encoding="utf-8", newline="") as file:
                text = file.read()
        except (FileNotFoundError, NotADirectoryError):
            text = ""
        try:
            new = changed(text, key, wanted)
        except CannotEdit:
            raise ConfigInvalid(
                path, f"{key} stands there in a way that cannot be edited", hint=by_hand
            ) from None
        if new != text:
            _write(path, new)
    return wanted


def _read(key: str, text: str) -> str | int | float:
    """A value as its setting wants it: a number where it takes one, else the text itself."""
    reasons = []
    for kind in (int, float, str):
        try:
            value = kind(text)
        except ValueError:
            continue
        try:
            SETTINGS[key].read(value)
            return value
        except ValueError as error:
            reasons.append(error)
    raise Usage(f"{key}: {reasons[0]}", hint=f"agh config show {key}")


def _write(path: str, text: str) -> None:
    folder = os.path.dirname(path)
    in_home = folder == home_path()
    try:
        if not in_home:
            os.makedirs(folder, exist_ok=True)
        replace_file(path, text.encode(), mode=0o600 if in_home else 0o644)
    except OSError as error:
        raise ConfigInvalid(path, error.strerror, hint=f"ls -ld {folder}") from None
