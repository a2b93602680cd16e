"""The pictures of the documents: all are there, and they show no machine and fetch nothing."""

from __future__ import annotations

import re

import pytest

from tests.support.build import ROOT
from tools.pictures.__main__ import PICTURES, SCRATCH, TABLE


def test_every_picture_is_there_for_light_and_dark() -> None:
    names = {f"{name}-{background}.svg" for name in TABLE for background in ("light", "dark")}
    names |= {"page-light.png", "page-dark.png"}
    assert {path.name for path in PICTURES.iterdir()} == names


def test_a_picture_is_quick_to_load() -> None:
    assert {path.name for path in PICTURES.iterdir() if path.stat().st_size > 200_000} == set()


@pytest.mark.parametrize("path", sorted(PICTURES.glob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_shows_no_machine_and_fetches_nothing(path: object) -> None:
    text = (PICTURES / str(path)).read_text()
    assert set(re.findall(r"https?://[^\"' )]+", text)) == {"http://www.w3.org/2000/svg"}
    for word in (SCRATCH, "/tmp", "/root", str(ROOT)):
        assert word not in text
