"""`agh plugins install`: what cannot be a plugin is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.build import ROOT
from tests.support.program import Agh


@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        ("agh-echo", "agh-echo is already installed: it is part of agh-cli"),
        ("Agh_Serve>=1", "agh-serve is already installed: it is part of agh-cli"),
        (str(ROOT / "plugins/agh-echo"), "agh-echo is already installed: it is part of agh-cli"),
        ("agh", "agh is not a plugin"),
        ("agh_cli", "agh-cli is not a plugin"),
        (str(ROOT), "agh-cli is not a plugin"),
        (str(ROOT / "docs"), "docs is not a package"),
        ("./nothing", "./nothing is not a package"),
        ("--index-url=x", "no such option"),
        ("a b", "'a b' is neither a package name nor a path"),
        ("a; import_os", "is neither a package name nor a path"),
    ],
)
def test_what_is_no_plugin_is_refused(agh: Agh, tmp_path: Path, plugin: str, why: str) -> None:
    result = agh("plugins", "install", plugin, cwd=tmp_path, code=2)
    assert why in result.stderr.replace("No such", "no such")
    assert "+ " not in result.stderr


def test_a_project_file_that_cannot_be_read(agh: Agh, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project\n")
    assert "pyproject.toml: " in agh("plugins", "install", ".", cwd=tmp_path, code=2).stderr
