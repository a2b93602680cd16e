"""Facts about all commands, which agh(1) lists: exit statuses, files, the environment."""

from __future__ import annotations

EXITS = {
    0: "Success.",
    1: "The agent or the turn failed, or the output cannot be written.",
    2: "Usage error: the command line or a settings file is wrong. Nothing was changed.",
    3: "Timed out.",
    4: "No such session, agent or workspace.",
    5: "Not allowed: a permission was refused, a council waits at a gate, or the home is not private.",
    6: "The session is busy, or cannot be attached to.",
    7: "The keeper or the agent died during a turn. The session can be resumed.",
    8: "Stored data is damaged, and agh cannot repair it.",
    9: "An agent, a plugin or an extra is not installed, or the agent is not logged in.",
    10: "A usage limit was reached; the prompt stays in the queue until it resets (--park).",
    70: "A bug in agh.",
    130: "Interrupted from the keyboard.",
    141: "The program reading the output exited.",
}
# Where a number means something else than in other commands.
EXITS_OF: dict[tuple[str, ...], dict[int, str]] = {
    ("inbox",): {1: "the inbox is empty."},
    ("session", "search"): {1: "there was no match."},
}
ENVIRONMENT = {
    "AGH_HOME": "The home; the default is `~/.agh`.",
    "AGH_PLUGINS": "Plugins to load, separated by commas. Empty loads none; unset loads all.",
    "AGH_DEBUG": "When set, a bug in agh shows its traceback.",
    "NO_COLOR": "When set, output has no colours.",
    "TERM": "A `dumb` terminal gets plain text.",
    "PAGER": "The pager for long text on a terminal; `less` if it is not set, none if it is empty.",
    "COLORFGBG": "Says whether the terminal's background is light or dark, if `ui.theme` is `auto`.",
    "COLUMNS": "Overrides the width of the terminal.",
    "PATH": "Where agh looks for agents.",
    "AGH_SESSION_ID": "Set for the agent and its tools: the session that they work in.",
    "AGH_LAUNCH": "Set for the agent and its tools: a mark by which agh finds processes that escaped.",
}
FILES = {
    "~/.agh/": "The home, `$AGH_HOME`. It belongs to one user: mode 0700, its files 0600.",
    "~/.agh/config.toml": "Settings; see `agh-config`(5).",
    "~/.agh/agents/NAME.toml": "Agents that you define, and versions that `agh agent install` pinned; "
    "also `.agh/agents/NAME.toml` in a trusted workspace.",
    "~/.agh/agents/bin/": "What `agh agent install` installed, by agent and version.",
    "~/.agh/workspaces.toml": "The registered workspaces and their names.",
    "~/.agh/sessions/ID/meta.json": "What a session is, and its last known state.",
    "~/.agh/sessions/ID/events.db": "Its event log, an SQLite database; see `agh-events`(7).",
    "~/.agh/sessions/ID/lock": "Held by the keeper while the session is live; never removed.",
    "~/.agh/sessions/ID/keeper.sock, keeper.log": "The keeper's control socket and its own messages.",
    "~/.agh/logs/crash-bundles/": "One redacted file per failure.",
    "~/.cache/agh/": "Derived data: the search index, the database of `agh db query`, the last copy of the "
    "agent registry. Safe to delete.",
    "share/man/, share/bash-completion/, share/zsh/, share/fish/": "Manual pages and completion scripts, "
    "below the prefix of the installation.",
    "~/.local/share/bash-completion/completions/agh, ~/.local/share/zsh/site-functions/_agh, "
    "~/.config/fish/completions/agh.fish": "Written by `agh completion --install`.",
    "site-packages/*.dist-info/entry_points.txt": "Where plugins are found: the group `agh`.",
}
ABOUT = """
An agent is any program that speaks the Agent Client Protocol. A session is a directory with an append-only
event log. While it is live, one keeper process owns it: it holds the lock, runs the agent and writes the log.
There is no daemon. All output is read from the log, so you can read it while the agent works, after it has
ended, and after everything was killed. `agh-tutorial`(7) is the place to start.

Commands print data on standard output and messages on standard error. `-o json` prints one document,
`-o jsonl` one object per line; an error is then one JSON object on standard error. Where a command takes an
ID, it also takes a unique prefix, a session's name, or `@last`, the newest session of this directory.
"""
