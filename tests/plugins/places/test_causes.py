"""Why a place is not reached: the words of each program, and the advice that agh makes of them."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest
from agh_places import causes
from agh_places.place import find_place

from agh.errors import PlaceGone
from tests.plugins.places.wire import Wire
from tests.support.live import Live


@pytest.mark.parametrize(
    ("address", "output", "sentence", "hint"),
    [
        ("docker:web", "Error: No such container: web", "no such container", "docker ps --all"),
        (
            "podman:web",
            'Error: inspecting object: no such container "web"',
            "no such container",
            "podman ps --all",
        ),
        ("docker:web", "false", "the container is stopped", "docker start web"),
        ("docker:run:a/b:1", "Error: No such image: a/b:1", "no such image", "docker pull a/b:1"),
        ("podman:run:x", "Error: inspecting object: x: image not known", "no such image", "podman pull x"),
        (
            "docker:web",
            "Cannot connect to the Docker daemon at unix:///run/docker.sock. Is the docker daemon running?",
            "the container engine is not running, or you are not allowed to use it",
            "docker info",
        ),
        (
            "podman:run:x",
            'Error: runc: runc create failed: exec: "sh": executable file not found in $PATH',
            "it has no shell",
            "use an image with a POSIX shell, such as busybox",
        ),
        (
            "kube:team/web",
            'Error from server (NotFound): pods "web" not found',
            "no such pod",
            "kubectl get pods --all-namespaces",
        ),
        (
            "kube:web",
            "The connection to the server localhost:8080 was refused - did you specify the right host?",
            "the cluster does not answer",
            "kubectl cluster-info",
        ),
        (
            "kube:web",
            "error: timed out waiting for the condition on pods/web",
            "the pod is not ready",
            "kubectl get pods --all-namespaces",
        ),
        ("slurm:gpu", "", "no such partition", "sinfo"),
        (
            "slurm",
            "slurm_load_partitions: Unable to contact slurm controller (connect failure)",
            "Slurm's controller does not answer",
            "scontrol ping",
        ),
        (
            "systemd",
            "Failed to connect to bus: No medium found",
            "your systemd user manager is not running",
            'loginctl enable-linger "$USER"',
        ),
        (
            "ssh:web1",
            "ssh: connect to host web1 port 22: No route to host",
            "the host does not answer",
            "check the network: ssh -v web1 true",
        ),
    ],
)
def test_the_cause_and_the_next_step(address: str, output: str, sentence: str, hint: str) -> None:
    place = find_place(address, {})
    assert place is not None
    error = causes.explain_check(place, output, ["program", "argument"])
    quote = f" ({output or 'program failed and printed nothing'})" if output != "false" else ""
    assert error.message == f"no connection to {address}: {sentence}{quote}"
    assert error.hint == hint


def test_other_words_are_quoted_with_the_command_to_try() -> None:
    place = find_place("ssh:web1", {})
    assert place is not None
    error = causes.explain_check(place, "first\nsomething odd\n", ["ssh", "web1", "a b"])
    assert (error.message, error.hint) == (
        "no connection to ssh:web1: something odd",
        "try it yourself: ssh web1 'a b'",
    )


def test_a_program_that_is_missing_here() -> None:
    place = find_place("docker:web", {})
    assert place is not None
    error = causes.explain_missing(place, "docker", "No such file or directory")
    assert isinstance(error, PlaceGone)
    assert "docker cannot be run here: No such file or directory" in error.message
    assert error.hint.startswith("install docker on this machine")


def doctor(live: Live, code: int, agent: tuple[str, ...] = ("echo",)) -> tuple[str, str, str]:
    """Return the code, the message and the hint of a doctor that fails."""
    result = live.agh("agent", "doctor", *agent, "--on", "box", "-o", "json", code=code)
    error = json.loads(result.stderr.splitlines()[-1])["error"]
    assert "doctor" not in error["hint"]
    return error["code"], error["message"], error["hint"]


def test_the_doctor_names_an_unknown_host(live: Live) -> None:
    live.configure('[places.box]\non = "ssh:no-such-host.invalid"\noptions = ["-F", "none"]\n')
    code, message, hint = doctor(live, 7)
    assert (code, "no such host (ssh: Could not resolve hostname" in message) == ("place_gone", True)
    assert hint == "check the name, or add the host to ~/.ssh/config"


def test_the_doctor_names_a_key_that_is_refused(live: Live, wire: Wire) -> None:
    (wire.folder / "user.pub").write_text("")
    wire.name(live)
    _, message, hint = doctor(live, 7)
    assert "it accepts none of your keys (" in message
    assert hint.startswith(f"ssh-copy-id {getpass.getuser()}@127.0.0.1")


def test_the_doctor_names_a_host_key_that_is_unknown(live: Live, wire: Wire) -> None:
    options = [option.replace("accept-new", "yes") for option in wire.options]
    wire.name(live, options=options)
    _, message, _ = doctor(live, 7)
    assert "its host key is not known here (" in message


def test_the_doctor_names_a_port_where_nothing_listens(live: Live) -> None:
    live.configure('[places.box]\non = "ssh:127.0.0.1"\noptions = ["-F", "none", "-p", "1"]\n')
    _, message, _ = doctor(live, 7)
    assert "no ssh server listens there (ssh: connect to host 127.0.0.1 port 1" in message


def test_the_doctor_names_what_is_missing_there(live: Live, wire: Wire, tmp_path: Path) -> None:
    wire.name(live)
    code, message, _ = doctor(live, 9, ("--command", "no-such-agent --acp"))
    assert (code, "no-such-agent is not on PATH in box" in message) == ("agent_not_installed", True)
    wire.name(live, dir=str(tmp_path / "nowhere"))
    code, message, _ = doctor(live, 4)
    assert (code, "nowhere in box" in message) == ("workspace_gone", True)


def test_the_doctor_names_an_agent_that_exits_at_once(live: Live, wire: Wire) -> None:
    wire.name(live)
    code, message, hint = doctor(live, 7, ("--command", "sh -c 'echo no license >&2; exit 3'"))
    assert hint == "run it yourself on box: sh -c 'echo no license >&2; exit 3'"
    assert (code, message) == (
        "agent_died",
        "agent sh exited with code 3 in box; its last output: no license",
    )


def test_the_doctor_names_a_program_that_is_missing_here(live: Live) -> None:
    live.configure('[places.box]\non = "docker:web"\ncommand = ["/nowhere/docker"]\n')
    _, message, hint = doctor(live, 7)
    assert "/nowhere/docker cannot be run here" in message
    assert hint.startswith("install docker on this machine")
