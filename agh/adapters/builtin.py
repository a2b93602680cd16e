"""The built-in plugin: agents, restore strategies, exporters and importers.

What is noted about an agent was observed by running it; comments explain what is surprising. A record is laid
over the agent's entry in the catalog (`agh/catalog`), which says which versions there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agh.adapters.hookspecs import hookimpl

if TYPE_CHECKING:
    from agh.adapters.restore import Strategy
    from agh.core.exchange import Exporter, Importer

AGENTS: tuple[dict[str, Any], ...] = (
    {
        "name": "claude",
        "title": "Claude Code",
        "argv": ["claude-agent-acp"],
        "package": "@agentclientprotocol/claude-agent-acp",
        "catalog": "claude-acp",
        "login": "claude auth login",
        "install": "npm install -g @agentclientprotocol/claude-agent-acp",
        "crosses": ["ANTHROPIC_*", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_*"],
        "drop_env": ["CLAUDECODE"],  # set inside Claude Code: it would think it runs inside itself
        "session_meta": {
            "system_prompt": "systemPrompt",
            "append_system_prompt": "systemPrompt.append",
            "allowed_tools": "claudeCode.options.allowedTools",
            "fork_at": "jetbrains.air.fork",
        },
    },
    {
        "name": "codex",
        "title": "Codex",
        "argv": ["codex-acp"],
        "package": "@agentclientprotocol/codex-acp",
        "catalog": "codex-acp",
        "login": "codex login",
        "install": "npm install -g @agentclientprotocol/codex-acp",
        "crosses": ["CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"],
        "session_meta": {"fork_at": "jetbrains.air.fork"},
    },
    {
        "name": "gemini",
        "title": "Gemini CLI",
        "argv": ["gemini", "--acp"],
        "package": "@google/gemini-cli",
        "login": "gemini",
        "install": "npm install -g @google/gemini-cli",
        "crosses": ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_*"],
        "quiet_after_load": 1.0,  # most of its replay comes after the reply
        "hands": ["terminal"],  # with fs it reads a file before it writes it, so it cannot create one
    },
    {
        "name": "opencode",
        "title": "OpenCode",
        "argv": ["opencode", "acp"],
        "package": "opencode-ai",
        # At a usage limit it waits for the reset inside the turn, and says so only in its log.
        "env": {"OPENCODE_PRINT_LOGS": "1", "OPENCODE_LOG_LEVEL": "ERROR"},
        "error_log": r'message="stream error" .*\bsmall=false .*\berror\.error="(?:\w+: )?(.*)"',
        "login": "opencode auth login",
        "install": "npm install -g opencode-ai",
        "crosses": [
            "ANTHROPIC_API_KEY",
            "GEMINI_API_KEY",
            "OPENAI_API_KEY",
            "OPENCODE_API_KEY",
            "OPENROUTER_API_KEY",
        ],
    },
    {
        "name": "copilot",
        "title": "GitHub Copilot",
        "argv": ["copilot", "--acp"],
        "package": "@github/copilot",
        "catalog": "github-copilot-cli",
        "login": "copilot login",
        "install": "npm install -g @github/copilot",
        "crosses": ["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"],
    },
    {
        "name": "qwen",
        "title": "Qwen Code",
        "argv": ["qwen", "--acp"],
        "package": "@qwen-code/qwen-code",
        "catalog": "qwen-code",
        "login": "qwen",
        "install": "npm install -g @qwen-code/qwen-code",
        "crosses": ["DASHSCOPE_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"],
    },
    {
        "name": "auggie",
        "title": "Augment",
        "argv": ["auggie", "--acp"],
        "package": "@augmentcode/auggie",
        "env": {"AUGMENT_DISABLE_AUTO_UPDATE": "1"},  # else it replaces itself under a live session
        "login": "auggie login",
        "install": "npm install -g @augmentcode/auggie",
        "crosses": ["AUGMENT_*"],
    },
    {
        "name": "amp",
        "title": "Amp",
        "argv": ["amp-acp"],
        "catalog": "amp-acp",
        "login": "amp login",
        "install": "agh agent install amp",
        "crosses": ["AMP_API_KEY"],
    },
    {
        "name": "cursor",
        "title": "Cursor",
        "argv": ["cursor-agent", "acp"],
        "login": "cursor-agent login",
        "install": "see https://cursor.com/cli",
        "crosses": ["CURSOR_API_KEY"],
    },
    {
        "name": "goose",
        "title": "Goose",
        "argv": ["goose", "acp"],
        "login": "goose configure",
        "install": "agh agent install goose",
        "crosses": ["ANTHROPIC_API_KEY", "GOOSE_MODEL", "GOOSE_PROVIDER", "OPENAI_API_KEY"],
    },
    {
        "name": "kimi",
        "title": "Kimi Code",
        "argv": ["kimi", "acp"],
        "package": "@moonshot-ai/kimi-code",
        "catalog": "kimi-code",  # `kimi` there is the older Kimi CLI
        "login": "kimi login",
        "install": "npm install -g @moonshot-ai/kimi-code",
        "crosses": ["KIMI_API_KEY", "KIMI_BASE_URL", "MOONSHOT_API_KEY"],
    },
    {
        "name": "vibe",
        "title": "Mistral Vibe",
        "argv": ["vibe-acp"],
        "python_package": "mistral-vibe",
        "catalog": "mistral-vibe",
        "login": "vibe --setup",
        "install": "pip install mistral-vibe",
        "crosses": ["MISTRAL_API_KEY"],
    },
    {
        "name": "pi",
        "title": "Pi",
        "argv": ["pi-acp"],
        "package": "pi-acp",
        "catalog": "pi-acp",
        "login": "pi",
        "install": "npm install -g pi-acp @earendil-works/pi-coding-agent",
        "crosses": ["ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY"],
    },
    {
        "name": "kilo",
        "title": "Kilo Code",
        "argv": ["kilo", "acp"],
        "package": "@kilocode/cli",
        "login": "kilo auth login",
        "install": "npm install -g @kilocode/cli",
        "crosses": ["ANTHROPIC_API_KEY", "KILO_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"],
    },
    {
        "name": "cline",
        "title": "Cline",
        "argv": ["cline", "--acp"],
        "package": "cline",
        "login": "cline auth",
        "install": "npm install -g cline",
        "crosses": ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"],
    },
    {
        "name": "fast-agent",
        "title": "fast-agent",
        "argv": ["fast-agent-acp", "-x"],
        "python_package": "fast-agent-acp",
        "login": "fast-agent setup",
        "install": "pip install fast-agent-acp",
        "crosses": ["ANTHROPIC_API_KEY", "FAST_AGENT_MODEL", "GOOGLE_API_KEY", "OPENAI_API_KEY"],
        "restore_skip": ["native_resume"],  # it replays the history on resume, which a resume must not
    },
    {
        "name": "openhands",
        "title": "OpenHands",
        "argv": ["openhands", "acp"],
        "python_package": "openhands",
        "login": "openhands login",
        "install": "pip install openhands",
        "crosses": ["LLM_API_KEY", "LLM_BASE_URL", "LLM_MODEL"],
    },
)


@hookimpl
def agh_register_agents(register: Callable[[dict[str, Any]], None]) -> None:
    for fields in AGENTS:
        register(fields)


@hookimpl
def agh_restore_strategies(register: Callable[[Strategy], None]) -> None:
    from agh.adapters.restore import STRATEGIES

    for strategy in STRATEGIES:
        register(strategy)


@hookimpl
def agh_register_exporters(register: Callable[[Exporter], None]) -> None:
    from agh.adapters.exporters import EXPORTERS

    for exporter in EXPORTERS:
        register(exporter)


@hookimpl
def agh_register_importers(register: Callable[[Importer], None]) -> None:
    from agh.adapters.importers import IMPORTERS

    for importer in IMPORTERS:
        register(importer)
