"""How agh was installed decides what adds to it: the records of pipx and uv, and the system's own mark."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from agh.adapters import installation
from agh.adapters.installation import CONSTRAINTS, extra_line, plugin_command, require_extra, shipped_path
from agh.errors import EnvironmentManaged, ExtraMissing, InstallerMissing


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH on which only what the test puts there is found."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for variable in ("UV_TOOL_DIR", "PIPX_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return folder


def add_program(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def prefix(monkeypatch: pytest.MonkeyPatch, path: Path) -> Path:
    path.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(path))
    return path


def test_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/my env/bin/python")
    assert extra_line("serve") == "'/my env/bin/python' -m pip install 'agh-cli[serve]'"
    assert plugin_command("agh-hello").argv == [
        *("/my env/bin/python", "-m", "pip", "install"),
        *("--constraint", CONSTRAINTS, "agh-hello"),
    ]


@pytest.mark.parametrize(
    ("source", "spec"),
    [
        ("agh-cli", "agh-cli[serve]"),
        ("agh-cli==0.1.0", "agh-cli[serve]==0.1.0"),
        ("agh-cli[x]>=0.1", "agh-cli[serve,x]>=0.1"),
        ("agh-cli[serve]", "agh-cli[serve]"),
        ("/a b/agh_cli-0.1.0-py3-none-any.whl", "/a b/agh_cli-0.1.0-py3-none-any.whl[serve]"),
        ("/src/agh[x]", "/src/agh[serve,x]"),
        ("agh-cli @ https://example.org/a.whl", "agh-cli[serve] @ https://example.org/a.whl"),
    ],
)
def test_pipx(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch, source: str, spec: str
) -> None:
    own = prefix(monkeypatch, Path.home() / ".local/share/pipx/venvs/agh-cli")
    (own / "pipx_metadata.json").write_text(json.dumps({"main_package": {"package_or_url": source}}))
    assert shlex.split(extra_line("serve")) == ["pipx", "install", "--force", spec]
    with pytest.raises(InstallerMissing):
        plugin_command("agh-hello")
    add_program(programs, "pipx")
    command = plugin_command("/x/hello")
    assert command.argv == ["pipx", "inject", "agh-cli", "/x/hello"]
    assert command.variables == {"PIP_CONSTRAINT": CONSTRAINTS, "UV_CONSTRAINT": CONSTRAINTS}


def test_pipx_elsewhere(tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = prefix(monkeypatch, tmp_path / "pipx/venvs/agh-cli-2")
    (own / "pipx_metadata.json").write_text("not JSON")
    assert extra_line("all") == f"PIPX_HOME={tmp_path}/pipx pipx install --force 'agh-cli[all]'"
    monkeypatch.setenv("PIPX_HOME", str(tmp_path / "pipx"))
    assert extra_line("all") == "pipx install --force 'agh-cli[all]'"


RECEIPT = """
[tool]
requirements = [
    { name = "agh-cli", %s },
    { name = "requests", specifier = ">=2" },
    { name = "agh-one", directory = "/x/o ne" },
    { name = "agh-two", editable = "/x/two" },
    { name = "agh-three", url = "https://example.org/three.whl" },
]
python = "3.13"
entrypoints = [{ name = "agh", install-path = "/x/bin/agh", from = "agh-cli" }]
"""
OTHERS = ["--with", "requests>=2", "--with", "agh-one @ file:///x/o%20ne", "--with-editable", "/x/two"]
OTHERS += ["--with", "agh-three @ https://example.org/three.whl", "--python", "3.13"]


@pytest.mark.parametrize(
    ("source", "plain", "extended"),
    [
        ('extras = ["x"]', ["agh-cli[x]"], ["agh-cli[serve,x]"]),
        ('specifier = "<2"', ["agh-cli<2"], ["agh-cli[serve]<2"]),
        ('path = "/a.whl"', ["agh-cli @ file:///a.whl"], ["agh-cli[serve] @ file:///a.whl"]),
        ('editable = "/src"', ["--editable", "/src"], ["--editable", "/src[serve]"]),
    ],
)
def test_uv_keeps_what_the_receipt_lists(
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    plain: list[str],
    extended: list[str],
) -> None:
    own = prefix(monkeypatch, Path.home() / ".local/share/uv/tools/agh-cli")
    (own / "uv-receipt.toml").write_text(RECEIPT % source)
    add_program(programs, "uv")
    assert shlex.split(extra_line("serve")) == ["uv", "tool", "install", *extended, *OTHERS]
    command = plugin_command("agh-hello")
    assert command.argv == ["uv", "tool", "install", *plain, *OTHERS, "--with", "agh-hello"]
    assert command.variables == {"UV_CONSTRAINT": CONSTRAINTS}


@pytest.mark.parametrize(
    "more",
    [
        'options = { resolution = "lowest" }',
        'options = { index = [{ url = "http://127.0.0.1/a", explicit = true }] }',
        'constraints = [{ name = "rich", specifier = "<15" }]',
        'requirements = [{ name = "agh-cli", git = "https://example.org/agh?rev=main#abc" }]',
        'requirements = [{ name = "agh-cli", specifier = "<2", index = "https://example.org" }]',
        "requirements = []",
        "not TOML",
    ],
)
def test_uv_leaves_alone_what_it_could_not_repeat(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    own = prefix(monkeypatch, tmp_path / "tools/agh-cli")
    base = "" if "requirements" in more else 'requirements = [{ name = "agh-cli" }]\n'
    (own / "uv-receipt.toml").write_text(f"[tool]\n{base}{more}\n")
    assert "ensurepip" in extra_line("serve")
    add_program(programs, "uv")
    argv = ["uv", "pip", "install", "--python", sys.executable]
    assert shlex.split(extra_line("serve")) == [*argv, "agh-cli[serve]"]
    assert plugin_command("agh-hello").argv == [*argv, "--constraint", CONSTRAINTS, "agh-hello"]


def test_uv_keeps_the_indexes(tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = prefix(monkeypatch, Path.home() / ".local/share/uv/tools/agh-cli")
    default = '{ url = "http://127.0.0.1/a", explicit = false, default = true }'
    more = '{ name = "work", url = "http://127.0.0.1/b", explicit = false, default = false }'
    receipt = '[tool]\nrequirements = [{ name = "agh-cli" }]\n[tool.options]\n'
    (own / "uv-receipt.toml").write_text(f"{receipt}index = [{default}, {default}, {more}]\n")
    start = "uv tool install 'agh-cli[serve]'"
    ours = "--default-index http://127.0.0.1/a --index work=http://127.0.0.1/b"
    assert extra_line("serve") == f"{start} {ours}"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1/a")
    assert extra_line("serve") == start


def test_uv_elsewhere(tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = prefix(monkeypatch, tmp_path / "tools/agh-cli")
    constraint = 'constraints = [{ name = "agh", specifier = "<0" }]'
    (own / "uv-receipt.toml").write_text(f'[tool]\nrequirements = [{{ name = "agh-cli" }}]\n{constraint}\n')
    assert extra_line("serve") == f"UV_TOOL_DIR={tmp_path}/tools uv tool install 'agh-cli[serve]'"


def test_an_environment_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    monkeypatch.setattr(installation.sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(EnvironmentManaged) as caught:
        plugin_command("agh-hello")
    assert "the system's package manager" in caught.value.message
    assert extra_line("serve") == "pipx install 'agh-cli[serve]'"


def test_an_extra_is_there_or_named() -> None:
    require_extra("serve", "agh serve", ("json",))
    with pytest.raises(ExtraMissing) as caught:
        require_extra("serve", "agh serve", ("json", "no_such_module"))
    assert caught.value.message == "agh serve needs packages that are not installed: no_such_module"
    assert caught.value.hint.endswith("'agh-cli[serve]'")


def test_files_that_come_along() -> None:
    assert Path(shipped_path("man", "man1", "agh.1")).is_file()
    assert Path(shipped_path("completions", "agh.bash")).is_file()
    assert Path(CONSTRAINTS).read_text().splitlines()[-1] == "agh<0"
