"""A pod of a session's own. No kubelet runs here: a stand-in for kubectl runs pods as processes.

What a real kubectl would ask an API server for is tested where there is one on PATH.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from agh_places.place import redirect_launch

from agh.adapters.agents import AgentRecord
from agh.adapters.launch import Launch
from tests.support.live import Live, Session
from tests.support.processes import is_alive
from tests.support.wait import wait_until

# A pod outlives its kubectl, has the only name of its kind, and stays until it is deleted.
KUBECTL = """#!/bin/sh
cd {folder}
echo "$@" >>calls
case $1 in
  run)
    name=$2
    while [ "$1" != -- ]; do shift; done
    shift
    if [ -e "pods/$name" ]; then
      echo "Error from server (AlreadyExists): pod $name already exists" >&2
      exit 1
    fi
    exec 3<&0
    setsid sh -c 'echo $$ >"pods/$0"; exec "$@"' "$name" "$@" <&3 &
    exec 3<&-
    wait $!
    code=$?
    rm "pods/$name"
    exit $code
    ;;
  delete)
    for word; do case $word in agh-*) name=$word ;; esac; done
    [ ! -e "pods/$name" ] || {{ kill -KILL -- "-$(cat "pods/$name")"; rm "pods/$name"; }} 2>/dev/null
    ;;
  auth) echo yes ;;
esac
"""


class Pods:
    """The stand-in, and the pods that are there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pods").mkdir(parents=True)
        self.program = folder / "kubectl"
        self.program.write_text(KUBECTL.format(folder=shlex.quote(str(folder))))
        self.program.chmod(0o755)

    def names(self) -> list[str]:
        return sorted(os.listdir(self.folder / "pods"))

    def calls(self) -> str:
        return (self.folder / "calls").read_text()


@pytest.fixture
def pods(live: Live, tmp_path: Path) -> Pods:
    pods = Pods(tmp_path / "kube")
    live.configure(f'[places.box]\non = "kube:team/run:img"\ncommand = ["{pods.program}"]\n')
    return pods


def at_work(session: Session) -> list[int]:
    """Return the agent and a process that it has detached, in a turn that is under way."""
    agent = int(session.tell("/pid").partition("pid: ")[2])
    session.send("/spawn-setsid 300\n/stream 600 0.05")
    session.wait_for_text("chunk 3 ")
    return [agent, int(session.text().partition("spawned: ")[2].split("chunk")[0])]


def test_the_pod_is_removed_at_the_end(live: Live, pods: Pods) -> None:
    session = live.new(args=("--on", "box"))
    assert pods.names() == [f"agh-{session.id}"]
    session.tell("remember the lighthouse")
    session.stop()
    wait_until(lambda: not pods.names(), what="no pod is left")
    assert "lighthouse" in session.say("what did I say?")
    assert pods.names() == [f"agh-{session.id}"]


def test_repair_removes_the_pod_of_a_keeper_that_was_killed(live: Live, pods: Pods) -> None:
    session = live.new(args=("--on", "box"))
    there = at_work(session)
    session.kill_keeper()
    wait_until(lambda: not any(map(is_alive, there)), 10, "nothing runs in the pod")
    live.agh("session", "repair", "--all")
    assert pods.names() == []
    assert f"delete pod -n team agh-{session.id} --ignore-not-found --now" in pods.calls()
    assert session.say("what did I say?").startswith("SEEN 3")


def test_the_next_prompt_removes_it_too(live: Live, pods: Pods) -> None:
    session = live.new(args=("--on", "box"))
    at_work(session)
    before = (pods.folder / "pods" / f"agh-{session.id}").read_text()
    session.kill_keeper()
    assert session.say("hello").startswith("echo: hello")
    assert (pods.folder / "pods" / f"agh-{session.id}").read_text() != before, "another pod"
    assert len(pods.names()) == 1


def test_doctor_leaves_no_pod(live: Live, pods: Pods) -> None:
    agent = json.loads(live.agh("agent", "doctor", "echo", "--on", "box", "-o", "json").stdout)["agent"]
    assert agent["state"] == "works"
    assert "auth can-i create pods -n team" in pods.calls()
    assert pods.names() == []


class _Api(BaseHTTPRequestHandler):
    """As much of an API server as kubectl needs to ask for a pod; it gets none."""

    posted: list[dict[str, Any]]
    deleted: list[str]

    def do_GET(self) -> None:
        pod = {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod"}
        documents: dict[str, dict[str, Any]] = {
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1": {
                "kind": "APIResourceList",
                "groupVersion": "v1",
                "resources": [pod | {"verbs": ["create", "get", "delete", "list", "watch"]}],
            },
        }
        self._answer(documents.get(self.path.partition("?")[0]) or self._failure(404, "NotFound"))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.posted.append({"path": self.path.partition("?")[0], "pod": json.loads(body)})
        self._answer(self._failure(403, "Forbidden"))

    def do_DELETE(self) -> None:
        self.deleted.append(self.path.partition("?")[0])
        self._answer(self._failure(404, "NotFound"))

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def _failure(self, code: int, reason: str) -> dict[str, Any]:
        fields = {"status": "Failure", "code": code, "reason": reason, "message": reason}
        return {"kind": "Status", "apiVersion": "v1", **fields}

    def _answer(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(document.get("code") or 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_what_a_real_kubectl_asks_for(tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("needs kubectl: apt-get install kubernetes-client")
    _Api.posted, _Api.deleted = [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = [f"--server=http://127.0.0.1:{server.server_port}", f"--cache-dir={tmp_path}"]
    place = {"on": "kube:team/run:img", "command": [kubectl, *options], "memory": "4G", "cpus": 1.5}
    agent = AgentRecord("bot", ("bot",))
    launch = Launch(
        agent, ["bot"], {}, "/work", place="box", places={"box": place}, session_id="sess-00000000"
    )
    redirect_launch(launch)
    try:
        run = subprocess.run(
            launch.argv, input=launch.preamble, capture_output=True, timeout=60, cwd=tmp_path
        )
        launch.clear()
    finally:
        server.shutdown()
        server.server_close()
    assert b"Forbidden" in run.stderr, run.stderr
    (request,) = _Api.posted
    assert request["path"] == "/api/v1/namespaces/team/pods"
    assert request["pod"]["metadata"]["name"] == "agh-sess-00000000"
    assert request["pod"]["metadata"]["labels"] == {"agh.session": "sess-00000000"}
    assert request["pod"]["spec"]["restartPolicy"] == "Never"
    (container,) = request["pod"]["spec"]["containers"]
    assert container["image"] == "img"
    assert container["command"][:2] == ["sh", "-c"]
    assert (container["stdin"], container["stdinOnce"]) == (True, True), "its end is seen in the pod"
    assert container["resources"]["limits"] == {"memory": "4G", "cpu": "1500m"}
    assert _Api.deleted == ["/api/v1/namespaces/team/pods/agh-sess-00000000"]
