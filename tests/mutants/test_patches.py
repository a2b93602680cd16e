"""Every mutant still applies to the tree as it is, and names tests that there are."""

from __future__ import annotations

import pytest

from tests.mutants.__main__ import ROOT, Mutant, applies, mutants
from tests.support.named import exists


@pytest.mark.parametrize("mutant", mutants(), ids=lambda one: one.name)
def test_a_patch_applies_and_its_tests_exist(mutant: Mutant) -> None:
    assert applies(mutant, ROOT, check=True)
    assert mutant.tests
    assert [test for test in mutant.tests if not exists(test)] == []


def test_there_are_mutants() -> None:
    assert len(mutants()) >= 15
