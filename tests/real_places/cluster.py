"""A real Slurm of one node, in a directory of its own: munged, slurmctld and slurmd, as root."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.wait import wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "scancel", "sinfo")

CONF = """
ClusterName=agh
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmctldPort={ctld}
SlurmdPort={slurmd}
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=64
SlurmdParameters=config_overrides
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
InactiveLimit=0
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=debug Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:16
PartitionName=batch Nodes={host} MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def missing() -> str:
    """Return what this machine lacks for it; empty when it has all."""
    if os.geteuid():
        return "slurm's daemons run as root"
    names = [name for name in PROGRAMS if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")]
    return f"not installed: {', '.join(names)} (apt-get install slurm-wlm munge)" if names else ""


@contextmanager
def running(folder: Path, cpus: int = 2, memory: int = 8192, shell: str = "") -> Iterator[dict[str, str]]:
    """Run the cluster for the block; yield the environment that its commands need.

    Its node claims these processors and megabytes, whatever the machine has. Its /bin/sh is `shell`, if any:
    a busybox that prefers its own applets is a whole userland.
    """
    host = socket.gethostname().partition(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)
    key, conf = folder / "munge.key", folder / "slurm.conf"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    ports = {"ctld": _free_port(), "slurmd": _free_port()}
    conf.write_text(CONF.format(host=host, folder=folder, cpus=cpus, memory=memory, **ports))
    environ = {**os.environ, "SLURM_CONF": str(conf), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    started: list[subprocess.Popen[bytes]] = []

    def start(*argv: str) -> None:
        with open(folder / f"{argv[0]}.out", "wb") as out:
            started.append(
                subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            )

    def says(*argv: str) -> str:
        return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=20).stdout

    try:
        own = [f"--{name}-file={folder}/munged.{name}" for name in ("pid", "log", "seed")]
        start("munged", "-F", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}", *own)
        wait_until((folder / "munge.socket").exists, what="munged")
        start("slurmctld", "-D", "-c")
        start(*(_with_shell(shell) if shell else ()), "slurmd", "-D", "-c")
        wait_until(lambda: "idle" in says("sinfo", "-h", "-o", "%t"), 60, what="a node that is idle")
        yield environ
        wait_until(lambda: not says("squeue", "-h").strip(), 30, what="no job is left")
    finally:
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _with_shell(shell: str) -> list[str]:
    """Return a command that runs another, in a mount namespace where /bin/sh is the shell."""
    mount = 'mount --bind "$0" "$1" && shift && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", mount, shell, os.path.realpath("/bin/sh")]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
