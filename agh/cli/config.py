"""`agh config`: the settings, where they come from, and changing them"""

from __future__ import annotations

import os
from typing import Any

import click
import orjson

from agh import config as settings_table
from agh.config import SETTINGS
from agh.console import terminal
from agh.console.output import columns, output_option, remark, write_result
from agh.errors import AghError, ConfigInvalid, Usage
from agh.store import settings, workspaces

workspace_option = click.option(
    "--workspace", metavar="W", help="Workspace whose settings apply (default: here)."
)
_target_option = click.option(
    "--workspace",
    metavar="W",
    help="Use .agh/config.toml of this workspace: a name, an id or a path.",
)
SECRETS = ("ntfy_token", "webhook", "apprise")  # keys of [notify] whose values may be secrets
HIDDEN = "(hidden; agh config get notify.KEY prints it)"


@click.group("config", epilog="Example:  agh config set permissions.mode deny-all --workspace .")
def config() -> None:
    """See and change settings. A trusted workspace can only make yours stricter; flags override both."""


@config.command("show", epilog="Example:  agh config show timeouts -o json | jq -r '.settings[].key'")
@click.argument("key", required=False)
@workspace_option
@output_option()
def show(key: str | None, workspace: str | None, output: str) -> None:
    """List settings, their values and where they come from.

    With KEY, lists only settings whose key starts with it.
    """
    directory = workspaces.find_existing(workspace).path
    rows = [
        _hide_secrets(describe(value)) for value in settings.settings(directory) if _is_below(value.key, key)
    ]
    if not rows:
        settings.check_key(str(key))
    write_result("settings", rows, output, lambda: _table(rows, bool(key)))
    tell_ignored(directory)


@config.command("get", epilog="Example:  agh config get permissions.mode")
@click.argument("key")
@workspace_option
@output_option()
def get(key: str, workspace: str | None, output: str) -> None:
    """Print the value of one setting."""
    settings.check_key(key)
    directory = workspaces.find_existing(workspace).path
    row = describe(settings.setting(directory, key))
    write_result("setting", row, output, lambda: terminal.clean(_text(row["value"])))
    tell_ignored(directory)


@config.command("set", epilog="Example:  agh config set session.idle_after 1h")
@click.argument("key")
@click.argument("value", required=False)
@click.option("--unset", is_flag=True, help="Delete the setting from the file.")
@_target_option
@output_option()
def set_value(key: str, value: str | None, unset: bool, workspace: str | None, output: str) -> None:
    """Change one setting in your config.toml, or in a workspace's.

    Keeps the file's comments and layout."""
    if (value is None) != unset:
        raise Usage("give a value, or --unset", hint=f"agh config set {key} VALUE")
    path = _file(workspace)
    new_value = settings.change(path, key, value)
    result = {"key": key, "value": new_value, "source": path}
    write_result("setting", result, output, lambda: path)
    if workspace is not None:
        tell_ignored(workspaces.find_existing(workspace).path)
    elif output == "human":
        _tell_if_hidden(key)


@config.command("path", epilog="Example:  $EDITOR $(agh config path)")
@_target_option
@output_option()
def show_path(workspace: str | None, output: str) -> None:
    """Print the path of your settings, or of a workspace's.

    The file may not exist yet.
    """
    path = _file(workspace)
    write_result("path", {"path": path, "exists": os.path.isfile(path)}, output, lambda: terminal.clean(path))


@config.command("validate", epilog="Example:  agh config validate && agh session list")
@workspace_option
@output_option()
def validate(workspace: str | None, output: str) -> None:
    """Check your settings and those of the workspace.

    Exits 2 if anything is wrong."""
    directory = workspaces.find_existing(workspace).path
    files = (settings_table.own_file(), settings_table.workspace_file(directory))
    reports = [check(path) for path in dict.fromkeys(files)]
    write_result("files", reports, output, lambda: "\n".join(_report(report) for report in reports))
    tell_ignored(directory)
    if not all(report["ok"] for report in reports):
        raise click.exceptions.Exit(ConfigInvalid.exit)


def check(path: str) -> dict[str, Any]:
    """Check one file: count its settings and list everything that is wrong with it."""
    values, problems = settings_table.examine(path)
    if values.get("env.file"):
        from agh.adapters import env_file  # few have one

        try:
            env_file.read(SETTINGS["env.file"].read(values["env.file"]))
        except AghError as error:
            problems.append(ConfigInvalid(path, f"env.file: {error.message}", hint=error.hint))
    messages = [{"message": str(problem.args[1]), "hint": problem.hint} for problem in problems]
    return {
        "path": path,
        "exists": os.path.exists(path),
        "settings": len(values),
        "ok": not messages,
        "problems": messages,
    }


def _file(workspace: str | None) -> str:
    if workspace is None:
        return settings_table.own_file()
    return settings_table.workspace_file(workspaces.find_existing(workspace).path)


def tell_ignored(workspace: str) -> None:
    """Say which files of a workspace are ignored because the workspace is not trusted."""
    if ignored := settings_table.untrusted_note(workspace):
        remark(ignored)


def _tell_if_hidden(key: str) -> None:
    """Warn about a change that has no effect in this workspace."""
    try:
        for path in settings_table.config_files(workspaces.find(None).path)[1:]:
            if key in settings_table.written(path):
                remark(f"note: {path} also sets {key}; to see which value applies here: agh config get {key}")
    except AghError:
        pass


def _is_below(key: str, prefix: str | None) -> bool:
    return not prefix or key == prefix or key.startswith(prefix.rstrip(".") + ".")


def describe(value: settings.EffectiveSetting) -> dict[str, Any]:
    setting = SETTINGS[settings.table_of(value.key)]
    return {**value._asdict(), "default": setting.default, "meaning": setting.meaning}


def _hide_secrets(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without tokens and URLs of notifiers: a list of settings is often shown to others."""
    if row["key"] != "notify" or not isinstance(row["value"], dict):
        return row
    value = {name: HIDDEN if name in SECRETS else inner for name, inner in row["value"].items()}
    return row | {"value": value}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _table(rows: list[dict[str, Any]], explained: bool) -> str:
    cells = [
        (
            row["key"],
            terminal.one_line(_text(row["value"]) or '""', 40),
            terminal.one_line(row["source"], 200),
            *([row["meaning"]] if explained else []),
        )
        for row in rows
    ]
    return columns(("KEY", "VALUE", "FROM", *(["MEANING"] if explained else [])), cells)


def _report(report: dict[str, Any]) -> str:
    if report["ok"]:
        return terminal.clean(f"ok    {report['path']}" + ("" if report["exists"] else " (no such file)"))
    lines = [
        f"FAIL  {report['path']}: {problem['message']}; {problem['hint']}" for problem in report["problems"]
    ]
    return terminal.clean("\n".join(lines))
