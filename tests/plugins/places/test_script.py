"""The script of the far side as a file: free of the mistakes that shellcheck knows, and in the wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from agh_places import far

from tests.support.build import ROOT

SCRIPT = Path(far.__file__).with_name("far.sh")
PLUGIN = ROOT / "plugins" / "agh-places"


def test_shellcheck_finds_nothing() -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("needs shellcheck: apt-get install shellcheck")
    result = subprocess.run([shellcheck, SCRIPT], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_it_unsets_the_mark_that_python_sets() -> None:
    assert f"unset {far.MARK}\n" in SCRIPT.read_text()


def test_the_wheel_has_it(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=PLUGIN,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert zipfile.ZipFile(wheel).read("agh_places/far.sh") == SCRIPT.read_bytes()
