"""Schemathesis against the OpenAPI document: what it says holds for whatever is sent, and nothing breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.plugins.serve.server import Server, serve
from tests.support.build import Home, conversation
from tests.support.live import Live

PROGRAM = Path(
    os.environ.get("SCHEMATHESIS", Path(sys.executable).parents[1] / "schemathesis/bin/schemathesis")
)
EXAMPLES = os.environ.get("EXAMPLES", "10")


def describe(server: Server, path: Path, ids: dict[str, str]) -> Path:
    """The server's document with a session in place of the path's parameters: a made-up one leads nowhere."""
    document = server.get("/api/openapi.json")
    for template, methods in list(document["paths"].items()):
        for operation in methods.values():
            operation["parameters"] = [
                parameter for parameter in operation["parameters"] if parameter["in"] != "path"
            ]
        document["paths"][template.format(**ids)] = document["paths"].pop(template)
    path.write_text(json.dumps(document))
    return path


def fuzz(server: Server, document: Path, directory: Path) -> None:
    argv = [PROGRAM, "run", document, "--url", f"http://127.0.0.1:{server.port}"]
    argv += ["-H", f"Authorization: Bearer {server.token}", "-n", EXAMPLES, "--no-color", "--max-time", "200"]
    argv += ["--phases", "examples,coverage,fuzzing", "--request-timeout", "20", "--continue-on-failure"]
    # A request that the schema allows may still be refused: a session that is stopped cannot be attached to.
    argv += ["--exclude-checks", "positive_data_acceptance", "--generation-database", "none"]
    result = subprocess.run(list(map(str, argv)), cwd=directory, capture_output=True, text=True, timeout=280)
    print(result.stdout[-12000:], result.stderr[-2000:])
    assert result.returncode == 0, result.returncode


def test_nothing_breaks(live: Live, home: Home, tmp_path: Path) -> None:
    live.configure('agent = "echo"\n')
    home.session(conversation(), name="talk", updated_at="2999-01-01T00:00:00.000Z")
    server = serve(live)
    ids = {"id": "talk", "workspace": "repo-alpha"}
    fuzz(server, describe(server, tmp_path / "openapi.json", ids), tmp_path)
    server.end()
    assert server.process.stderr is not None
    assert "Traceback" not in server.process.stderr.read().decode()
