"""Addresses, names and argv of every kind of place. Nothing is run: for kubernetes this is all there is."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from agh_places import far
from agh_places.place import redirect_launch

from agh.adapters.agents import AgentRecord
from agh.adapters.launch import Launch
from agh.errors import PlaceInvalid
from tests.support.live import Live
from tests.support.wait import wait_until

RECORD = AgentRecord(
    "bot", ("bot-acp", "--acp"), env={"BOT_QUIET": "1"}, crosses=("BOT_*",), package="@bot/acp"
)
SHELL = ["sh", "-c", 'eval "$(dd bs=1 count=$0 2>/dev/null)"']
SECRET = "s3cret"
ID = "sess-0123456789abcdef"
MARKS = {"AGH_LAUNCH": "c00c1e", "AGH_SESSION_ID": ID}


def placed(place: str, record: AgentRecord = RECORD, workspace: str = "/work/app", **options: Any) -> Launch:
    launch = Launch(
        record,
        ["/here/bot-acp", "--acp"],
        {"BOT_TOKEN": SECRET, "OTHER": "no", "HOME": "/home/me", **MARKS},
        workspace,
        place=place,
        session_id=ID,
        **options,
    )
    redirect_launch(launch)
    return launch


def wire(place: str, **options: Any) -> list[str]:
    """Return the argv up to the far shell, after checking the rest."""
    launch = placed(place, **options)
    assert launch.elsewhere
    assert SECRET not in " ".join(launch.argv)
    *argv, size = launch.argv
    assert int(size) == len(launch.preamble)
    assert argv[-2:] == SHELL[-2:]
    return argv[:-2]


def named(**options: Any) -> dict[str, dict[str, Any]]:
    return {"mine": options}


def test_ssh() -> None:
    launch = placed("ssh:me@web1:/srv/app")
    assert launch.cwd == "/srv/app"
    assert launch.argv[:2] == ["ssh", "-T"]
    assert launch.argv[-3:-1] == ["--", "me@web1"]
    assert shlex.split(launch.argv[-1]) == [*SHELL, str(len(launch.preamble))]
    for option in ("BatchMode=yes", "ServerAliveInterval=15", "ControlMaster=no"):
        assert option in launch.argv
    assert placed("ssh:web1").cwd == "/work/app"
    assert placed("ssh:[::1]:/srv").argv[-2] == "::1"
    assert placed("ssh:me@[fe80::1]").argv[-2] == "me@fe80::1"


def test_the_users_ssh_options_come_first() -> None:
    """Of two options with the same name ssh takes the first."""
    argv = placed("mine", places=named(on="ssh:web1", options=["-p", "2222", "-o", "BatchMode=no"])).argv
    assert argv.index("BatchMode=no") < argv.index("BatchMode=yes")


def test_docker_exec() -> None:
    assert wire("docker:web") == ["docker", "exec", "-i", "web", "sh"]
    mine = named(on="podman:web", command=["podman", "--remote"], options=["-u", "me"])
    assert wire("mine", places=mine) == ["podman", "--remote", "exec", "-i", "-u", "me", "web", "sh"]


def test_docker_run() -> None:
    argv = wire("docker:run:node:22")
    assert argv[:6] == ["docker", "run", "--rm", "-i", "--name", f"agh-{ID}"]
    assert argv[-3:] == ["--entrypoint", "sh", "node:22"]
    assert "type=bind,source=/work/app,target=/work/app" in argv
    mine = named(on="podman:run:img", dir="/w", memory="2g", cpus=1.5, options=["--network", "none"])
    argv = wire("mine", places=mine, directories=("/work/repo.git",))
    assert argv[argv.index("--memory") :][:6] == ["--memory", "2g", "--cpus", "1.5", "--network", "none"]
    assert "type=bind,source=/work/app,target=/w" in argv
    assert "type=bind,source=/work/repo.git,target=/work/repo.git" in argv, "a worktree needs its repository"


def test_what_agh_obeys_is_read_only_in_a_container(
    tmp_path: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent in a container that could write it would have its hooks run on the host."""
    work, home = tmp_path / "work", tmp_path / "work" / "state" / "agh"
    work.mkdir()
    mine = named(on="docker:run:img", dir="/w")

    def read_only() -> list[str]:
        argv = wire("mine", places=mine, workspace=str(work))
        *others, last = (word for word in argv if word.endswith((",readonly", ":ro")))
        assert argv.index(f"type=bind,source={work},target=/w") < argv.index(last), "it goes on top"
        return [*others, last]

    assert not any(
        word.endswith((",readonly", ":ro")) for word in wire("mine", places=mine, workspace=str(work))
    )
    private_home.mkdir(mode=0o700)
    (private_home / "config.toml").write_text(f'trusted_workspaces = ["{work}"]')
    assert read_only() == ["/w/.agh:ro"], "else the agent could make one"
    (work / ".agh").mkdir()
    assert read_only() == [f"type=bind,source={work}/.agh,target=/w/.agh,readonly"]
    (private_home / "config.toml").unlink()
    assert read_only() == [f"type=bind,source={work}/.agh,target=/w/.agh,readonly"]
    home.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("AGH_HOME", str(home))
    assert read_only()[1:] == [f"type=bind,source={home},target=/w/state/agh,readonly"]
    pin = f"type=bind,source={work}/state,target=/w/state"
    assert pin in wire("mine", places=mine, workspace=str(work)), "else it could be renamed"
    (work / "lib").mkdir()
    (home / "config.toml").write_text(f'trusted_workspaces = ["{work}/lib"]')
    assert "/w/lib/.agh:ro" in read_only(), "a workspace in the workspace"


def test_git_settings_are_read_only_in_a_container(tmp_path: Path, private_home: Path) -> None:
    """A hook or a filter that an agent adds there would run on the host."""
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    (work / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (work / ".git" / "config").write_text("")

    def read_only(**settings: object) -> list[str]:
        mine = named(on="docker:run:img", dir="/w", **settings)
        argv = wire("mine", places=mine, workspace=str(work))
        return [word for word in argv if word.endswith((",readonly", ":ro"))]

    config = f"type=bind,source={work}/.git/config,target=/w/.git/config,readonly"
    assert read_only() == ["/w/.git/hooks:ro", config]
    (work / ".git" / "hooks").mkdir()
    assert f"type=bind,source={work}/.git/hooks,target=/w/.git/hooks,readonly" in read_only()
    assert f"type=bind,source={work}/.git,target=/w/.git" in wire(
        "mine", places=named(on="docker:run:img", dir="/w"), workspace=str(work)
    ), "else it could be renamed"
    assert read_only(writable_git=True) == []
    shutil.rmtree(work / ".git")
    (work / ".git").write_text("gitdir: /repository/.git/worktrees/work\n")
    assert read_only() == [f"type=bind,source={work}/.git,target=/w/.git,readonly"], "a worktree"


def test_kube() -> None:
    assert wire("kube:agent-0") == ["kubectl", "exec", "-i", "agent-0", "--", "sh"]
    mine = named(on="kube:team/agent-0", options=["-c", "main"])
    assert wire("mine", places=mine)[2:] == ["-i", "-n", "team", "-c", "main", "agent-0", "--", "sh"]


def test_kube_run() -> None:
    pod = [f"agh-{ID}", "--image=node:22", f"--labels=agh.session={ID}"]
    attach = ["--restart=Never", "--rm", "-i", "--quiet", "--pod-running-timeout=1h"]
    assert wire("kube:run:node:22") == ["kubectl", "run", *pod, *attach, "--command", "--", "sh"]
    mine = named(on="kube:team/run:example.org/a/img:3", memory="4G", cpus=2, options=["--context=west"])
    argv = wire("mine", places=mine)
    assert argv[2:6] == [f"agh-{ID}", "-n", "team", "--image=example.org/a/img:3"]
    assert argv[-4:] == ["--context=west", "--command", "--", "sh"]
    (overrides,) = [word.partition("=")[2] for word in argv if word.startswith("--overrides=")]
    limits = {"limits": {"memory": "4G", "cpu": "2"}}
    container = {"name": f"agh-{ID}", "resources": limits}
    assert json.loads(overrides) == {"spec": {"containers": [container]}}


def test_slurm() -> None:
    job = [f"--job-name=agh-{ID}", "--ntasks=1", "--export=NONE", "--chdir=/"]
    assert wire("slurm") == ["srun", *job, "/bin/sh"]
    mine = named(on="slurm:gpu", memory="8G", cpus=4, options=["--gres=gpu:1"])
    limits = ["--partition=gpu", "--mem=8G", "--cpus-per-task=4", "--gres=gpu:1"]
    assert wire("mine", places=mine) == ["srun", *job, *limits, "/bin/sh"]
    assert b"HOME=/home/me" in placed("slurm").preamble, "the nodes share the homes, and srun brings nothing"
    assert b"HOME=" not in placed("ssh:web1").preamble


def test_systemd() -> None:
    """Our own child, in a scope: nothing is far, the agent's argv is the one of here."""
    mine = named(on="systemd", memory="4G", cpus=2)
    launch = placed("mine", places=mine)
    assert launch.argv[:5] == ["systemd-run", "--user", "--scope", "--quiet", "--collect"]
    assert launch.argv[launch.argv.index("-p") :] == [
        *["-p", "MemoryMax=4G", "-p", "CPUQuota=200%", "--"],
        *["/here/bot-acp", "--acp"],
    ]
    assert launch.preamble == b""
    assert launch.environ["BOT_TOKEN"] == SECRET
    error = launch.explain({"exit": 1, "signal": None}, "Failed to connect to bus: No such file or directory")
    assert error is not None and error.code == "place_gone"
    assert launch.explain({"exit": 3, "signal": None}, "bot: bad day") is None


def test_what_crosses() -> None:
    script = placed("ssh:web1", record=RECORD).preamble.decode()
    assert f"BOT_TOKEN={SECRET}" in script
    assert "BOT_QUIET=1" in script
    assert f"AGH_SESSION_ID={ID}" in script
    assert f"AGH_PLACE_RUN={ID}:c00c1e" in script
    assert "OTHER" not in script
    assert "agh_package=@bot/acp\n" in script, "where the program is missing its package can stand in"


def test_a_value_is_never_taken_for_a_part_of_the_script() -> None:
    hostile = "'; }\n$(exit 3) `exit 3`\non_disconnect() { exit 3; }\n"
    record = AgentRecord("bot", ("bot", hostile), env={"A": hostile, "B C": "x"}, package=hostile)
    script = placed("ssh:web1", record=record, workspace=hostile).preamble
    header = script.removesuffix(Path(far.__file__).with_name("far.sh").read_bytes())
    assert header != script, "the script is sent as it is"
    assert b"B C" not in header, "that cannot be the name of a variable"
    report = b'export_environment; on_disconnect; printf "%s|" "$A" "$1" "$2" "$agh_package" "$agh_directory"'
    result = subprocess.run(["sh"], input=header + report, capture_output=True, timeout=20)
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.decode().split("|") == [hostile, "bot", hostile, hostile, hostile, ""]


@pytest.mark.parametrize(
    "address",
    [
        "ssh:",
        "ssh:-oProxyCommand=x",
        "ssh:@host",
        "ssh:me@",
        "ssh:web1:relative",
        "ssh:-x@web1",
        "docker:",
        "docker:run:",
        "docker:-v",
        "podman:run:-x",
        "kube:",
        "kube:/pod",
        "kube:ns/",
        "kube:-n",
        "kube:run:",
        "kube:ns/run:",
        "kube:/run:img",
        "kube:run:-x",
        "slurm:-p",
        "systemd:x",
    ]
    + ["ssh:a b", "podman:a b", "slurm:a b"],
)
def test_an_address_that_makes_no_sense(address: str) -> None:
    with pytest.raises(PlaceInvalid) as caught:
        placed(address)
    assert caught.value.exit == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs an address"),
        ({"on": "ssh:x", "mem": "1G"}, "unknown key 'mem'; allowed: on, dir"),
        ({"on": "ssh:x", "memory": "1G"}, "ssh cannot limit memory"),
        ({"on": "docker:web", "cpus": 1}, "cannot be set for a running"),
        ({"on": "kube:agent-0", "cpus": 1}, "cannot be set for a running"),
        ({"on": "kube:run:img", "cpus": 1, "options": ["--overrides={}"]}, "put them into the overrides"),
        ({"on": "ssh:x", "options": "-p 22"}, "options must be a list of strings, not '-p 22'"),
        ({"on": "ssh:x", "options": ["-p", 22]}, "list of non-empty strings"),
        ({"on": "ssh:x", "cpus": True}, "cpus must be a number, not True"),
        ({"on": "web1"}, "is not an address"),
        ({"on": "ssh:x", "dir": "~/app"}, "not an absolute path"),
        ({"on": "ssh:x", "env": ["A B=1"]}, "'A B' is not the name of a variable"),
    ],
)
def test_a_named_place_that_makes_no_sense(options: dict[str, Any], words: str) -> None:
    with pytest.raises(PlaceInvalid) as caught:
        placed("mine", places=named(**options))
    assert words in caught.value.message
    assert "mine" in caught.value.message


def test_a_directory_that_cannot_be_mounted() -> None:
    with pytest.raises(PlaceInvalid, match="comma"):
        placed("docker:run:img", directories=("/work/a,b",))


def test_bad_places_are_refused_before_anything_is_made(live: Live) -> None:
    live.configure('[places.odd]\non = "ssh:web1"\nmem = "1G"\n')
    odd = (("nowhere", "place_unknown", 4), ("ssh:", "place_invalid", 2), ("odd", "place_invalid", 2))
    commands = (["session", "new", "--agent", "echo"], ["agent", "doctor", "echo"], ["run", "hello"])
    for (place, code, exit), command in zip(odd, commands, strict=True):
        result = live.agh(*command, "--on", place, "-o", "json", code=exit)
        assert json.loads(result.stderr)["error"]["code"] == code
    assert live.sessions() == []


def test_without_the_plugin_no_place_is_known(live: Live) -> None:
    result = live.agh(
        "session", "new", "--agent", "echo", "--on", "ssh:x", env={"AGH_PLUGINS": "echo"}, code=4
    )
    assert "no place is called ssh:x" in result.stderr


def test_a_workspace_adds_places_to_those_of_the_home(live: Live) -> None:
    live.trust('[places.a]\non = "systemd:nonsense"\n')
    (live.workspace / ".agh").mkdir()
    places = '[places.a]\non = "ssh:a"\n[places.b]\non = "systemd:nonsense"\n'
    Path(live.workspace, ".agh", "config.toml").write_text(places)
    result = live.agh("agent", "doctor", "echo", "--on", "a", code=2)
    assert "nothing can follow systemd" in result.stderr, "the user's own wins"
    result = live.agh("agent", "doctor", "echo", "--on", "b", code=2)
    assert "nothing can follow systemd; write it as systemd" in result.stderr
    assert "allowed:" not in result.stderr


def test_a_scope_runs_the_agent_with_our_environment_and_its_own_hands(live: Live, tmp_path: Path) -> None:
    """There is not a systemd everywhere: a program in its place drops what belongs to it."""
    scope = tmp_path / "scope"
    scope.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    scope.chmod(0o755)
    live.configure(
        f'[places.tight]\non = "systemd"\ncommand = ["{scope}"]\nmemory = "1G"\nenv = ["MORE=1"]\n'
    )
    session = live.new(args=("--on", "tight", "--permissions", "approve-all"), env={"MINE": "yes"})
    reply = session.tell("/env MINE\n/env MORE\n/env AGH_HOME\n/write x.txt text")
    assert f"MINE=yes\nMORE=1\nAGH_HOME={live.home}\n" in reply
    assert "error -32601" in reply
    session.send("/crash")
    wait_until(lambda: not session.is_live())
    assert session.meta()["failure"]["kind"] == "process_exit"
