"""The settings that point each agent at the stand-in: files in a home of the test's own, and variables."""

from __future__ import annotations

import json
from pathlib import Path

from tests.real_agents.standin import MODEL


def configure(home: Path, url: str) -> dict[str, str]:
    """Write the settings of every agent; return the variables that they need."""
    return {
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        **_configure_opencode(home, url),
        **_configure_codex(home, url),
        **_configure_qwen(home, url),
        **_configure_claude(home, url),
        **_configure_gemini(home, url),
        **_configure_vibe(home, url),
        **_configure_kimi(home, url),
        **_configure_goose(home, url),
    }


def _configure_opencode(home: Path, url: str) -> dict[str, str]:
    model = {"tool_call": True, "limit": {"context": 200000, "output": 8192}}
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "model": f"standin/{MODEL}",
        "small_model": f"standin/{MODEL}",
        "enabled_providers": ["standin"],
        "permission": {"edit": "ask", "bash": "ask"},
        "provider": {
            "standin": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": f"{url}/v1", "apiKey": "x"},
                "models": {MODEL: model},
            }
        },
    }
    _write(home / ".config" / "opencode" / "opencode.json", json.dumps(settings))
    off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return {f"OPENCODE_DISABLE_{name}": "1" for name in off}


def _configure_codex(home: Path, url: str) -> dict[str, str]:
    _write(
        home / ".codex" / "config.toml",
        f"""
model = "gpt-5.5"
model_provider = "standin"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.standin]
name = "standin"
base_url = "{url}/v1"
env_key = "STANDIN_KEY"
wire_api = "responses"
requires_openai_auth = false
request_max_retries = 0
stream_max_retries = 0
""",
    )
    return {"CODEX_HOME": str(home / ".codex"), "STANDIN_KEY": "x"}


def _configure_qwen(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
    }
    _write(home / ".qwen" / "settings.json", json.dumps(settings))
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "x", "OPENAI_MODEL": MODEL}


def _configure_claude(home: Path, url: str) -> dict[str, str]:
    off = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY")
    return {
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "x",
        **dict.fromkeys(off, "1"),
    }


def _configure_gemini(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "model": {"disableLoopDetection": True},  # the stand-in repeats itself
    }
    _write(home / ".gemini" / "settings.json", json.dumps(settings))
    # A model by name: else it asks another model first which to take.
    return {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "x", "GEMINI_MODEL": "gemini-2.5-flash"}


def _configure_vibe(home: Path, url: str) -> dict[str, str]:
    _write(
        home / ".vibe" / "config.toml",
        f"""
active_model = "{MODEL}"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false
[[providers]]
name = "standin"
api_base = "{url}/v1"
api_key_env_var = "STANDIN_KEY"
api_style = "openai"
backend = "generic"
[[models]]
name = "{MODEL}"
provider = "standin"
alias = "{MODEL}"
""",
    )
    return {"VIBE_HOME": str(home / ".vibe"), "MISTRAL_API_KEY": "x"}


def _configure_kimi(home: Path, url: str) -> dict[str, str]:
    folder = home / ".kimi-code"
    _write(folder / "config.toml", "telemetry = false\n")
    return {
        "KIMI_CODE_HOME": str(folder),
        "KIMI_CODE_NO_AUTO_UPDATE": "1",
        "KIMI_MODEL_NAME": MODEL,
        "KIMI_MODEL_API_KEY": "x",
        "KIMI_MODEL_PROVIDER_TYPE": "openai",
        "KIMI_MODEL_BASE_URL": f"{url}/v1",
    }


def _configure_goose(home: Path, url: str) -> dict[str, str]:
    return {
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": MODEL,
        "GOOSE_MODE": "approve",
        "GOOSE_DISABLE_KEYRING": "1",
        "GOOSE_TELEMETRY_ENABLED": "false",
        "OPENAI_HOST": url,
    }


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
