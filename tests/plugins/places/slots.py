"""A stand-in for srun and scancel, of a cluster with few slots: a job holds the lock of a slot's file."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from tests.support.live import Live

SRUN = """#!/bin/sh
for word; do
  case $word in
    --job-name=*) name=${{word#*=}} ;;
    --partition=nowhere) echo 'srun: error: invalid partition' >&2; exit 1 ;;
  esac
done
while [ "$1" != /bin/sh ]; do shift; done
cd {folder}
echo $$ >"job-$name"
waits=
while :; do
  for slot in slot-*; do
    exec 9>>"$slot"
    if flock -n 9; then
      [ -z "$waits" ] || echo 'srun: job 7 has been allocated resources' >&2
      echo "$name" >>started
      exec "$@"
    fi
  done
  [ "$waits" ] || {says} >&2
  waits=1
  sleep 0.2
done
"""
SCANCEL = """#!/bin/sh
for word; do case $word in --name=*) name=${{word#*=}} ;; esac; done
kill "$(cat {folder}/"job-$name")" 2>/dev/null
"""
QUEUED = "echo 'srun: job 7 queued and waiting for resources'"


class Cluster:
    """The programs in a folder, with this many slots."""

    def __init__(self, folder: Path, slots: int, says: str = QUEUED) -> None:
        folder.mkdir()
        self.folder = folder
        for number in range(slots):
            (folder / f"slot-{number}").touch()
        for name, text in (("srun", SRUN), ("scancel", SCANCEL)):
            program = folder / name
            program.write_text(text.format(folder=shlex.quote(str(folder)), says=says))
            program.chmod(0o755)

    def name(self, live: Live, name: str = "cluster", **more: object) -> None:
        """Give the place a name in the settings."""
        fields = {"on": "slurm:batch", "command": [str(self.folder / "srun")], **more}
        lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
        live.configure("\n".join([f"[places.{name}]", *lines, ""]))

    def started(self) -> list[str]:
        """Return the names of the jobs that had a slot, in order."""
        path = self.folder / "started"
        return path.read_text().split() if path.exists() else []
