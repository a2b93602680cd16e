"""Settings in files: which file each value comes from, and changing one.

Promises: a change keeps the file's comments and layout, is checked before it is written, and replaces the
file whole. Never changes a file that has an error in it.
"""

from __future__ import annotations

import errno
import os
from typing import Any

import orjson

from agh import config
from agh.config import OWN_ONLY, SETTINGS, TABLES
from agh.core.named_tuple import NamedTuple
from agh.errors import ConfigInvalid, Usage
from agh.home import ensure_home, home_path, replace_file
from agh.store.sessions import lock_names

LISTS = ("mcp_servers", "permissions.rules", "hooks", "trusted_workspaces", *TABLES)
NOTIFY = "notify."  # how the keys inside that table begin


class EffectiveSetting(NamedTuple):
    """A setting's value as written, and the file it comes from (or `default`)."""

    key: str
    value: Any
    source: str


def check_key(key: str) -> None:
    """Raise Usage if there is no setting with this key."""
    if key.startswith(NOTIFY):
        _check_notify_key(key)
    elif key not in SETTINGS:
        raise Usage(f"there is no setting {key!r}", hint=config.suggest(key))


def settings(workspace: str | None) -> list[EffectiveSetting]:
    """List every setting, sorted by key."""
    effective = {key: EffectiveSetting(key, setting.default, "default") for key, setting in SETTINGS.items()}
    own_path, *others = config.config_files(workspace)
    for key, value in config.written(own_path).items():
        effective[key] = EffectiveSetting(key, value, own_path)
    for path in others:
        theirs = config.written(path)
        joined = config.layered({key: setting.value for key, setting in effective.items()}, theirs)
        for key in theirs:
            if joined[key] != effective[key].value:
                effective[key] = EffectiveSetting(key, joined[key], path)
    return [effective[key] for key in sorted(effective)]


def _check_notify_key(key: str) -> None:
    from agh.core.settings.notify import Notify
    from agh.core.suggest import closest

    name = key.removeprefix(NOTIFY)
    if name not in Notify._fields:
        close = closest(name, Notify._fields, cutoff=0.5)
        hint = f"did you mean {NOTIFY}{close}?" if close else f"known keys: {', '.join(Notify._fields)}"
        raise Usage(f"there is no setting {key!r}", hint=hint)


def table_of(key: str) -> str:
    """Return the setting that a key belongs to: `notify` for each key of that table, else itself."""
    return "notify" if key.startswith(NOTIFY) else key


def setting(workspace: str | None, key: str) -> EffectiveSetting:
    """Return one setting, or one key of `[notify]`."""
    check_key(key)
    table, name = table_of(key), key.removeprefix(NOTIFY)
    (value,) = [value for value in settings(workspace) if value.key == table]
    if table == key:
        return value
    from agh.core.settings.notify import Notify

    is_set = name in value.value
    inner = value.value[name] if is_set else Notify._field_defaults[name]
    return EffectiveSetting(key, inner, value.source if is_set else "default")


def change(path: str, key: str, value: str | None) -> Any:
    """Set a key in one file, or delete it if the value is None. Return the value written."""
    from agh.core.settings.toml_text import CannotEdit, set_value

    by_hand = f"edit it by hand: {path}"
    if key in LISTS or (key.partition(".")[0] in TABLES and not key.startswith(NOTIFY)):
        raise Usage(f"{key} is not a single value", hint=by_hand)
    check_key(key)
    if path != config.own_file() and (key in OWN_ONLY or key.startswith(NOTIFY)):
        raise Usage(f"{key} can only be set in your own {config.own_file()}", hint="leave out --workspace")
    new_value = None if value is None else _parse(key, value)
    ensure_home()
    with lock_names():
        config.written(path)
        try:
            with open(path, encoding="utf-8", newline="") as file:
                text = file.read()
        except (FileNotFoundError, NotADirectoryError):
            text = ""
        try:
            new_text = set_value(text, key, new_value)
        except CannotEdit:
            raise ConfigInvalid(
                path, f"{key} is written in a way that agh cannot edit", hint=by_hand
            ) from None
        if new_text != text:
            _write(path, new_text)
    return new_value


def _parse(key: str, text: str) -> str | bool | int | float | list[str]:
    """Return the text as a number if the setting accepts one, else as it is. Raise Usage if it is invalid."""
    if key.startswith(NOTIFY):
        return _parse_notify(key.removeprefix(NOTIFY), text)
    reasons = []
    for convert in (int, float, str):
        try:
            value = convert(text)
        except ValueError:
            continue
        try:
            SETTINGS[key].read(value)
            return value
        except ValueError as error:
            reasons.append(error)
    raise Usage(f"{key}: {reasons[0]}", hint=f"agh config show {key}")


def _parse_notify(name: str, text: str) -> str | bool | int | float | list[str]:
    """Return the text as what a key of `[notify]` takes: true or false, a number, a list, or as it is.

    A list is written as JSON, or as words with commas between them.
    """
    from agh.core.settings.notify import read_notify

    readings: list[Any] = [orjson.loads(text)] if text in ("true", "false") else []
    for convert in (int, float, orjson.loads):
        try:
            readings.append(convert(text))
        except ValueError:
            continue
    readings = [value for value in readings if not isinstance(value, dict)]
    reason: ValueError | None = None
    for value in (*readings, text, text.split(",")):
        try:
            read_notify({name: value})
            return value  # type: ignore[no-any-return]
        except ValueError as error:
            reason = reason or error if value is not text else error
    raise Usage(f"{NOTIFY}{reason}", hint="agh notify --help")


def _write(path: str, text: str) -> None:
    folder = os.path.dirname(path)
    in_home = folder == home_path()
    try:
        if not in_home:
            os.makedirs(folder, exist_ok=True)
        replace_file(path, text.encode(), mode=0o600 if in_home else 0o644)
    except OSError as error:
        hint = f"df -h {folder}" if error.errno in (errno.ENOSPC, errno.EDQUOT) else f"ls -ld {folder}"
        raise ConfigInvalid(path, error.strerror, hint=hint) from None
