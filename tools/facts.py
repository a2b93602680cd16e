"""Facts that the manual repeats for many commands: exit statuses, files, the environment."""

from __future__ import annotations

EXITS = {
    0: "It worked.",
    1: "The agent or the turn failed; a search found nothing; or the output cannot be written.",
    2: "Usage: the command line or a file of settings is wrong; nothing was changed.",
    3: "A limit on time passed.",
    4: "No such session, agent or workspace.",
    5: "A permission was refused or waits for an answer; or the home is not private.",
    6: "The session is busy, or cannot be attached to.",
    7: "The keeper or the agent died in the middle of a turn; the session can be resumed.",
    8: "Stored data is damaged, and agh cannot repair it.",
    9: "An agent, a plugin or an extra is not installed; or the agent is not logged in.",
    70: "A bug in agh.",
    130: "Interrupted from the keyboard.",
    141: "The reader of the output went away.",
}
OF_KEEPERS = (3, 6, 7, 9)
# Where a number means something else than in other commands.
EXITS_OF: dict[tuple[str, ...], dict[int, str]] = {
    ("session", "search"): {1: "Nothing was found; or the output cannot be written."},
}
ENVIRONMENT = {
    "AGH_HOME": "The home; the default is `~/.agh`.",
    "AGH_PLUGINS": "The plugins to load, separated by commas; the empty text loads none, unset loads all.",
    "AGH_DEBUG": "When set, a bug in agh shows its traceback.",
    "NO_COLOR": "When set, no colours on a terminal.",
    "TERM": "A `dumb` terminal gets plain text.",
    "COLUMNS": "The width of the terminal, where it differs from the real one.",
    "PATH": "Where agents are looked for.",
}
FOR_AGENTS = {
    "AGH_SESSION_ID": "Set for the agent and its tools: the session that they work in.",
    "AGH_LAUNCH": "Set for the agent and its tools: the mark by which processes that escaped are found.",
}
FILES = {
    "~/.agh/": "The home, `$AGH_HOME`. It belongs to one user: mode 0700, its files 0600.",
    "~/.agh/config.toml": "Settings. A trusted workspace's `.agh/config.toml` wins over it, flags over both.",
    "~/.agh/agents/NAME.toml": "Agents of your own; also `.agh/agents/NAME.toml` in a trusted workspace.",
    "~/.agh/workspaces.toml": "Directories that have a name.",
    "~/.agh/sessions/ID/meta.json": "What a session is and the last thing known of its state.",
    "~/.agh/sessions/ID/events.db": "Its event log, an SQLite database; see `agh-events`(7).",
    "~/.agh/sessions/ID/lock": "Held by the keeper while the session is live; never removed.",
    "~/.agh/sessions/ID/keeper.sock, keeper.log": "The keeper's control socket and its own remarks.",
    "~/.agh/logs/crash-bundles/": "One redacted file per failure.",
    "~/.cache/agh/": "What can be made again, such as the search index; it may be deleted.",
}
# By the first word of a command; other commands may touch any file.
FILES_OF = {
    "agent": {
        "~/.agh/config.toml": FILES["~/.agh/config.toml"],
        "~/.agh/agents/NAME.toml": "Agents of your own, and versions that `agh agent install` pinned; "
        "also `.agh/agents/NAME.toml` in a trusted workspace.",
        "~/.agh/agents/bin/": "What `agh agent install` installed, by agent and version.",
        "~/.cache/agh/": "The last copy of the public registry; it may be removed.",
    },
    "config": {name: FILES[name] for name in ("~/.agh/config.toml",)},
    "workspace": {name: FILES[name] for name in ("~/.agh/workspaces.toml", "~/.agh/config.toml")},
    "man": {"share/man/": "Where man(1) may find the same pages, below the prefix of the installation."},
    "plugins": {"site-packages/*.dist-info/entry_points.txt": "Where plugins are found: its group `agh`."},
    "completion": {
        "~/.local/share/bash-completion/completions/agh": "Written by --install, for bash.",
        "~/.local/share/zsh/site-functions/_agh": "For zsh.",
        "~/.config/fish/completions/agh.fish": "For fish.",
        "share/": "Where packages of agh put the same files, below the prefix of the installation.",
    },
}
ABOUT = """
agh runs coding agents that speak the Agent Client Protocol as durable sessions on local files. There is no
daemon. A session is a directory with an append-only event log; while it is live, a keeper process owns it,
holds its lock, runs its agent and is the only writer of its log. Everything that is shown is read from that
log, so it can be read while the agent works, after it ended, and after everything was killed.

Commands print data on standard output and remarks on standard error. `-o json` gives one document,
`-o jsonl` one object per line; errors are then one JSON object on standard error. Where a command takes an
ID it also takes a unique prefix of one, a session's name, or `@last`, the newest session of this directory.
"""
