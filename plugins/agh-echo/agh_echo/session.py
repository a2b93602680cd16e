"""A live session: what the agent knows of one conversation, and its settings.

Mode and model live as long as the process; a restored session starts with the defaults again.
"""

from agh_echo.kinds import Frame
from agh_echo.loop import Task
from agh_echo.memory import Memory
from agh_echo.wire import Failure

MODES = ("ask", "code")
MODELS = ("small", "large")


class Session:
    def __init__(self, memory: Memory, session_id: str, params: Frame, records: list[Frame]) -> None:
        self.memory = memory
        self.id = session_id
        self.cwd: str = params["cwd"]
        self.mcp_servers: list[Frame] = params.get("mcpServers") or []
        self.records = records
        self.mode, self.model = MODES[0], MODELS[0]
        self.given = {key: params[key] for key in ("systemPrompt", "_meta") if key in params}
        self.failures = 0
        self.is_stored = True
        self.turn: Task | None = None

    def remember(self, *records: Frame) -> None:
        self.records += records
        if self.is_stored:
            self.memory.append(self.id, list(records))

    def user_texts(self) -> list[str]:
        return [record["user"] for record in self.records if "user" in record]

    def spent(self) -> tuple[int, float]:
        """Tokens and cost of all turns that have ended."""
        spent = [record["usage"] for record in self.records if "usage" in record]
        return sum(usage["tokens"] for usage in spent), sum(usage["cost"] for usage in spent)

    def settings(self) -> Frame:
        modes = [{"id": mode, "name": mode.title()} for mode in MODES]
        model = {
            "id": "model",
            "name": "Model",
            "category": "model",
            "type": "select",
            "currentValue": self.model,
            "options": [{"value": model, "name": model.title()} for model in MODELS],
        }
        return {"modes": {"currentModeId": self.mode, "availableModes": modes}, "configOptions": [model]}

    def set(self, name: str, value: str) -> None:
        """name: mode or model."""
        offered = MODES if name == "mode" else MODELS
        if value not in offered:
            raise Failure(-32602, f"Invalid params: no {name} {value!r}; there is {', '.join(offered)}")
        setattr(self, name, value)
