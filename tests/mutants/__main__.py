"""Are the tests worth anything? Each patch here breaks a promise; the tests that it names must fail.

`python -m tests.mutants [NAME…]`. A patch is a sentence, a line `Tests: …`, and a diff. It is applied to a
copy of the tree, never to the tree itself. The named tests must pass on a copy without it, too: a test that
fails anyway catches nothing. Exit 1 if a mutant survives, does not apply, or its tests fail without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "build", ".hypothesis")
LIMIT = 300.0
FAILED = 1  # pytest's exit number when tests were run and some failed


class Mutant(NamedTuple):
    path: Path
    says: str
    tests: list[str]

    @property
    def name(self) -> str:
        return self.path.stem


def mutants() -> list[Mutant]:
    found = []
    for path in sorted(HERE.glob("*.patch")):
        says, *lines = path.read_text().splitlines()
        (tests,) = [line.split()[1:] for line in lines if line.startswith("Tests: ")]
        found.append(Mutant(path, says, tests))
    return found


def applies(mutant: Mutant, tree: Path, *, check: bool = False) -> bool:
    """Apply the patch to a tree that is no checkout, or only see whether it could be."""
    command = ["git", "apply", *(["--check"] if check else []), str(mutant.path)]
    outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    return subprocess.run(command, cwd=tree, env=outside, capture_output=True).returncode == 0


def run(tree: Path, tests: list[str], *, show: bool = False) -> int:
    """Return pytest's exit number for these tests, with the tree's own agh; `show` its output."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider"]
    environ = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    output = None if show else subprocess.DEVNULL
    return subprocess.run(
        [*pytest, *tests],
        cwd=tree,
        env=environ,
        timeout=LIMIT,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
    ).returncode


def judge(mutant: Mutant, whole: Path) -> str:
    """`caught`, or why not."""
    with tempfile.TemporaryDirectory(prefix="agh-mutant-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(whole, tree)
        if not applies(mutant, tree):
            return "does not apply"
        ended = run(tree, mutant.tests)
    return {0: "SURVIVED", FAILED: "caught"}.get(ended, f"pytest ended with {ended}")


def main(names: list[str]) -> int:
    selected = [mutant for mutant in mutants() if not names or mutant.name in names]
    if not selected:
        print(f"no such mutant; there is {', '.join(mutant.name for mutant in mutants())}")
        return 1
    with tempfile.TemporaryDirectory(prefix="agh-mutants-") as folder:
        whole = Path(folder) / "tree"
        shutil.copytree(ROOT, whole, ignore=LEFT_OUT)
        if run(whole, sorted({test for mutant in selected for test in mutant.tests}), show=True) != 0:
            print("the tests fail without any mutant")
            return 1
        verdicts = []
        for one in selected:
            started = time.monotonic()
            verdicts.append(judge(one, whole))
            seconds = time.monotonic() - started
            print(f"{verdicts[-1]:<16} {seconds:5.1f} s  {one.name:<30} {one.says}", flush=True)
    caught = verdicts.count("caught")
    print(f"{caught} of {len(verdicts)} caught")
    return 0 if caught == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
