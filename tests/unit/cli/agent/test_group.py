"""What `agh agent doctor` and `agh agent show` print for people."""

from __future__ import annotations

from tests.support.program import Agh


def test_capabilities_are_named_once_with_what_belongs_to_them(agh: Agh) -> None:
    (line,) = [line for line in agh("agent", "doctor", "echo").stdout.splitlines() if "loadSession" in line]
    assert "loadSession, promptCapabilities (image, no audio, embeddedContext)" in line
    assert "sessionCapabilities (resume, list" in line
