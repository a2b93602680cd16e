"""A registry and a shop of archives on this machine, for tests of the catalog."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agh.catalog.plan import platform

Answer = Callable[[BaseHTTPRequestHandler], None]
SCRIPT = b'#!/bin/sh\necho ran "$@"\n'


class Shop:
    """What the server has: bytes, or a function that answers. `requests` are the paths asked for."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.pages: dict[str, bytes | Answer] = {}
        self.requests: list[str] = []

    def put(self, path: str, page: bytes | Answer) -> str:
        self.pages[path] = page
        return self.url + path

    def registry(self, *agents: Any) -> str:
        return self.put("/registry.json", json.dumps({"version": "1.0.0", "agents": agents}).encode())


@contextmanager
def serving() -> Iterator[Shop]:
    """Serve pages on loopback while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shop.requests.append(self.path)
            page = shop.pages.get(self.path)
            if page is None:
                self.send_error(404)
            elif isinstance(page, bytes):
                self.send_response(200)
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)
            else:
                try:
                    page(self)
                except OSError:
                    pass  # the client has seen enough

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    shop = Shop(f"http://127.0.0.1:{server.server_port}")
    try:
        yield shop
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def entry(id: str = "mine", version: str = "1.0.0", **distribution: Any) -> dict[str, Any]:
    """An agent as the registry describes it; without a distribution it is a npm package."""
    ways = distribution or {"npx": {"package": f"{id}-acp@{version}", "args": ["--acp"]}}
    return {
        "id": id,
        "name": id.title(),
        "version": version,
        "description": "An agent.",
        "distribution": ways,
    }


def binary(url: str, data: bytes, command: str = "./agent", **fields: Any) -> dict[str, Any]:
    """A distribution by archive for this machine, with the right checksum."""
    target = {"archive": url, "sha256": hashlib.sha256(data).hexdigest(), "cmd": command, **fields}
    return {platform(): target}


def tar(*members: tuple[str, bytes] | tarfile.TarInfo) -> bytes:
    """A .tar.gz with files, and with members as they are."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size, info.mode = len(member[1]), 0o755
                archive.addfile(info, io.BytesIO(member[1]))
    return stream.getvalue()


def link(name: str, target: str, type: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = type, target
    return info


def zipped(*members: tuple[str, bytes], mode: int = 0o100755) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, data)
    return stream.getvalue()


FAKE_TOOL = """#!{python} -S
import json, os, sys
tool, args = os.path.basename(sys.argv[0]), sys.argv[1:]
folder = {folder!r}
with open(folder + "/calls", "a") as file:
    print(tool, *args, file=file)
if {code}:
    print({error!r}, file=sys.stderr)
    sys.exit({code})
if tool == "npm":
    name = args[-1].rpartition("@")[0]
    top = args[args.index("--prefix") + 1] + "/node_modules"
    programs = {programs!r} or {{name.rpartition("/")[2]: "a.js"}}
    os.makedirs(top + "/" + name)
    json.dump({{"bin": programs}}, open(top + "/" + name + "/package.json", "w"))
    names, target = programs if isinstance(programs, dict) else [name], top + "/.bin"
else:
    names, target = [args[-1].partition("==")[0]], os.environ["UV_TOOL_BIN_DIR"]
os.makedirs(target)
for name in names:
    with open(target + "/" + name, "w") as file:
        file.write({script!r})
    os.chmod(target + "/" + name, 0o755)
"""


def fake_tools(
    folder: Path, code: int = 0, error: str = "", programs: Any = None, script: str = "#!/bin/sh\n"
) -> dict[str, str]:
    """A PATH with an npm and a uv that install a script; `folder`/calls is what they were asked."""
    folder.mkdir(exist_ok=True)
    for name in ("npm", "uv"):
        text = FAKE_TOOL.format(
            python=sys.executable,
            folder=str(folder),
            code=code,
            error=error,
            programs=programs,
            script=script,
        )
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.defpath}"}
