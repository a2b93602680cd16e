"""The seal of a checkpoint: what is stored is what was made, to the last bit."""

from __future__ import annotations

import pytest

from agh.core.checkpoint import checkpoint, seal, unseal


def test_every_bit_of_it_is_sealed() -> None:
    made = checkpoint(
        "sess-00000000",
        budget_spent=1e-05,
        rounds_completed=1,
        elapsed_seconds=0.5,
        active_agents=[],
        pending_delegations=[{"target": "é", "message": "x", "round": 1, "status": "sent"}],
        transcript_replay_depth=50,
        last_sequence=3,
        created_at="2026-01-01T00:00:00.000Z",
    )
    sealed = seal(made)
    assert {key: value for key, value in unseal(sealed).items() if key != "sha256"} == made
    for bit in range(len(sealed) * 8):
        broken = bytearray(sealed)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError):
            unseal(bytes(broken))
    for nothing in (b"", b"{}", b"[]", b'{"sha256": 1}', b'{"sha256": ""}', sealed + b"{}"):
        with pytest.raises(ValueError):
            unseal(nothing)
