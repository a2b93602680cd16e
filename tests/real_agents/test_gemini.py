"""Gemini creates a file once it may, and a session of it survives five stops: it forgets, and is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real_agents.behaviours import Trial, check_approve
from tests.real_agents.standin import Standin
from tests.real_agents.steps import tellings
from tests.support.live import Live

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(300)]


@pytest.fixture
def trial(live: Live, standin: Standin, use_newest: Callable[[str, Path], None], tmp_path: Path) -> Trial:
    log = tmp_path / "frames.jsonl"
    use_newest("gemini", log)
    return Trial(live, standin, "gemini", log)


def test_it_creates_a_file_after_approval(trial: Trial) -> None:
    assert check_approve(trial) == ""
    assert (trial.live.workspace / "approved.txt").read_text() == "written"
    trial.stop()


def test_the_fifth_stop_and_prompt(trial: Trial) -> None:
    """Each time the model is sent all that was said, by Gemini itself or by agh, which then says so."""
    words, losses = [trial.say().texts[-1]], 0
    for number in range(1, 6):
        trial.stop()
        request = trial.say()
        text = "\n".join(request.texts)
        assert [word for word in words if word not in text] == [], f"stop {number}"
        strategy = trial.main.events("session_resumed")[-1].content["strategy"]
        assert strategy in ("native_load", "inject_history")
        losses += strategy == "inject_history"
        assert trial.main.markers().count("context_reset") == losses
        assert strategy == "native_load" or tellings(request)
        words.append(trial.last_words[-1])
    assert len(trial.main.events("session_resumed")) == 5
    assert trial.main.text().count(f'SEEN 1 user texts: "{words[0]}"') == 1, "a replay was stored"
    trial.main.check_log()
    trial.stop()
