"""Packages, an index on this machine, and fresh environments to install from it."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PLUGIN = (ROOT / "docs/plugins.md").read_text()
PLUGINS = sorted((ROOT / "plugins").iterdir())
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PIP", "UV_", "PYTHON", "AGH_", "XDG_", "VIRTUAL_ENV"))
}


def run(*argv: object, code: int | None = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        list(map(str, argv)),
        **{"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 110, **options},
    )
    assert code is None or result.returncode == code, (argv, result.returncode, result.stdout, result.stderr)
    return result


def build(source: Path, target: Path, *kinds: str) -> None:
    """Build the project's packages, without network: hatchling is a tool of this repository."""
    argv = [sys.executable, "-m", "hatchling", "build", "-d", str(target)]
    for kind in kinds:
        argv += ["-t", kind]
    run(*argv, cwd=source)


def write_plugin(folder: Path, requirement: str = "") -> Path:
    """Write the plugin of docs/plugins.md; `requirement` replaces what it depends on."""
    folder.mkdir()
    files = dict(re.findall(r"^```\w+\n# ([\w.]+\.(?:toml|py))\n(.*?)^```$", PLUGIN, re.M | re.S))
    for name, text in files.items():
        if requirement:
            text = re.sub(r"^dependencies = .*$", f'dependencies = ["{requirement}"]', text, flags=re.M)
        (folder / name).write_text(text)
    return folder


def write_stranger(folder: Path) -> Path:
    """Write a wheel like the index's `agh` 1.0.0: another product with the same command and import name."""
    info = "agh-1.0.0.dist-info"
    files = {
        "agh/__init__.py": "",
        "agh/__main__.py": "def main():\n    print('I am a stranger')\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: agh\nVersion: 1.0.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nagh = agh.__main__:main\n",
    }
    rows = [f"{name},sha256={_digest(text)},{len(text)}" for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    path = folder / "agh-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@contextmanager
def serve_index(folder: Path) -> Iterator[str]:
    """Serve a directory of wheels and sdists as a simple index on loopback; yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            *_, above, name = self.path.rstrip("/").split("/")
            files = sorted(folder.iterdir())
            if above == "files":
                body = (folder / name).read_bytes() if (folder / name) in files else b""
            else:
                own = [file.name for file in files if normalize(file.name.split("-")[0]) == normalize(name)]
                body = "".join(f'<a href="/files/{file}">{file}</a>\n' for file in own).encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html" if above != "files" else "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/simple"
    finally:
        server.shutdown()
        thread.join(20)
        server.server_close()


def link_distributions(folder: Path, *names: str) -> None:
    """Link installed distributions and what they need into a folder: an offline stand-in for installing."""
    folder.mkdir(exist_ok=True)
    pending, seen = list(names), set()
    while pending:
        name = normalize(pending.pop())
        if name in seen:
            continue
        seen.add(name)
        distribution = metadata.distribution(name)
        base = Path(str(distribution.locate_file("")))
        for top in {file.parts[0] for file in distribution.files or [] if ".." not in file.parts}:
            if top != "__pycache__" and not (folder / top).exists():
                (folder / top).symlink_to(base / top)
        for requirement in distribution.requires or []:
            if ";" not in requirement:
                pending += re.findall(r"^[\w.-]+", requirement)


def core_requirements() -> list[str]:
    """Return the distributions that agh needs without extras."""
    lines = metadata.requires("agh-cli") or []
    return [re.findall(r"^[\w.-]+", line)[0] for line in lines if "extra ==" not in line]


class Environment:
    """A fresh virtual environment, a fresh user in it, and the programs that they have."""

    def __init__(self, folder: Path, *, with_pip: bool = False) -> None:
        self.folder, self.path = folder, folder / "venv"
        self.bin = self.path / "bin"
        self.user = folder / "user"
        if not self.path.exists():
            self.user.mkdir(parents=True)
            run(sys.executable, "-m", "venv", *([] if with_pip else ["--without-pip"]), self.path)
        self.variables = {
            **CLEAN,
            "HOME": str(self.user),
            "AGH_HOME": str(folder / "agh-home"),
            "PATH": f"{self.bin}{os.pathsep}/usr/local/bin{os.pathsep}/usr/bin{os.pathsep}/bin",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_COMPILE": "1",
            "COLUMNS": "100",
        }

    def copy_to(self, folder: Path) -> Environment:
        """Copy the environment with what is installed in it, but for a user who has done nothing yet."""
        for part in ("venv", "linked"):
            shutil.copytree(self.folder / part, folder / part, symlinks=True)
        (folder / "user").mkdir()
        copy = Environment(folder)
        for path in (*copy.bin.iterdir(), *copy.site.glob("*.pth")):  # they name the folder
            if not path.is_symlink():
                path.write_text(path.read_text().replace(f"{self.folder}/", f"{folder}/"))
        return copy

    @property
    def site(self) -> Path:
        return next((self.path / "lib").glob("python3*/site-packages"))

    def add_path(self, folder: Path) -> None:
        """Let the environment find what is in another folder too."""
        (self.site / f"{folder.name}.pth").write_text(f"{folder}\n")

    def run(self, *argv: object, env: Mapping[str, str] | None = None, **options: Any) -> Any:
        return run(*argv, env={**self.variables, **(env or {})}, **{"cwd": self.user, **options})

    def pip(self, *args: object, **options: Any) -> Any:
        return self.run(self.bin / "python", "-m", "pip", *args, **options)

    def agh(self, *args: object, **options: Any) -> Any:
        return self.run(self.bin / "agh", *args, **options)
