"""The settings that make an editor use `agh acp`. Pure."""

from __future__ import annotations

import json
import shlex

EDITORS = ("zed", "jetbrains", "neovim", "emacs", "marimo")


def snippet(editor: str, arguments: list[str]) -> str:
    """Return the settings for an editor that starts agh with these arguments."""
    words = ["agh", *arguments]
    server = {"command": "agh", "args": arguments}
    if editor == "zed":
        entry = {"agent_servers": {"agh": {"type": "custom", **server, "env": {}}}}
        return f"// settings.json\n{json.dumps(entry, indent=2)}\n"
    if editor == "jetbrains":
        return f"// ~/.jetbrains/acp.json\n{json.dumps({'agent_servers': {'agh': server}}, indent=2)}\n"
    if editor == "neovim":
        command = ", ".join(json.dumps(word) for word in words)
        return _NEOVIM.replace("COMMAND", command)
    if editor == "emacs":
        return _EMACS.replace("ARGUMENTS", " ".join(json.dumps(word) for word in arguments))
    return _MARIMO.replace("COMMAND", shlex.quote(shlex.join(words)))


_MARIMO = """\
# run in a shell; agh then replaces marimo's Claude agent, which has port 3017
npx stdio-to-ws COMMAND --port 3017
# once, in marimo.toml (`marimo config show` prints its path):
#   [experimental]
#   external_agents = true
# in marimo: AI panel > Agents > New session > New Claude session
"""

_NEOVIM = """\
-- codecompanion.nvim
require("codecompanion").setup({
  adapters = {
    acp = {
      agh = function()
        return require("codecompanion.adapters").extend("gemini_cli", {
          name = "agh",
          formatted_name = "agh",
          commands = { default = { COMMAND } },
          defaults = { mcpServers = {}, timeout = 60000 },
          env = {},
          handlers = { auth = function() return true end },
        })
      end,
    },
  },
  interactions = { chat = { adapter = "agh" } },
})
"""

_EMACS = """\
;; agent-shell
(add-to-list 'agent-shell-agent-configs
             (agent-shell-make-agent-config
              :identifier 'agh
              :mode-line-name "agh"
              :buffer-name "agh"
              :shell-prompt "agh> "
              :shell-prompt-regexp "agh> "
              :client-maker (lambda (buffer)
                              (acp-make-client
                               :command "agh"
                               :command-params '(ARGUMENTS)
                               :context-buffer buffer))))
"""
