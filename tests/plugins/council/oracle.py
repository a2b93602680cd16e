"""The embedded agent with its answers given: the n-th prompt of a session runs the steps of the n-th entry of
a JSON list, whatever the prompt says; the last entry serves for all that follow."""

import json
import sys
from pathlib import Path

from agh_echo import __main__ as echo
from agh_echo import script, turn

ANSWERS = json.loads(Path(sys.argv.pop(1)).read_text())


class Scripted(turn.Turn):
    def run(self, prompt: str):  # type: ignore[no-untyped-def]
        count = len(self.session.user_texts())
        steps = script.parse(ANSWERS[min(count, len(ANSWERS) - 1)])
        real, turn.script.parse = turn.script.parse, lambda text: steps
        try:
            result = yield from super().run(prompt)
        finally:
            turn.script.parse = real
        return result


if __name__ == "__main__":
    from agh_echo import agent

    agent.Turn = Scripted  # type: ignore[misc]
    echo.main()
