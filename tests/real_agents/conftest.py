"""Real agents in a home of the test's own, with a stand-in for their model on loopback.

They get a minimal environment with nothing of the user's in it, and the stand-in as their proxy, so that they
reach nothing else. These tests are not part of `make test`: run `make real-agents`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_agents.install import CACHE, PATH, PRODUCTS, version_of
from tests.real_agents.standin import MODEL, Standin

PASSED_ON = ("HOME", "AGH_HOME", "COLUMNS", "AGH_ECHO_HOME", "PYTEST_CURRENT_TEST")


@pytest.fixture
def standin(tmp_path: Path) -> Iterator[Standin]:
    """Yield a model that says what it was told. Its log is in the test's directory."""
    with Standin(tmp_path / "requests.jsonl") as model:
        yield model


@pytest.fixture(autouse=True)
def surroundings(
    private_home: Path, tmp_path: Path, standin: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment with nothing of the user's in it, and the configuration of every agent."""
    for name in set(os.environ) - set(PASSED_ON):
        monkeypatch.delenv(name)
    home = tmp_path / "user"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    folders = [str(CACHE / name / "node_modules" / ".bin") for name in PRODUCTS]
    node = shutil.which("node", path=PATH)
    if node is not None:
        folders.append(str(Path(node).parent))
    environ = {
        "PATH": os.pathsep.join([*folders, os.defpath]),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "HTTP_PROXY": standin.url,
        "HTTPS_PROXY": standin.url,
        "NO_PROXY": "127.0.0.1",
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        **_configure_opencode(home, standin.url),
        **_configure_codex(home, standin.url),
        **_configure_qwen(home, standin.url),
        **_configure_claude(home, standin.url),
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)


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


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = [f"{name} {version_of(name)}" for name in PRODUCTS if (CACHE / name).exists()]
    terminalreporter.write_line(f"agents in {CACHE}: {', '.join(found) or 'none'}")
