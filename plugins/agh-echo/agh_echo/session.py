"""A live session: the agent's memory of one conversation, and its settings.

Mode and model last as long as the process; a restored session starts with the defaults again.
"""

from agh_echo.kinds import Frame
from agh_echo.loop import Task
from agh_echo.memory import Memory
from agh_echo.wire import Failure

MODES = ("ask", "code")
MODELS = ("small", "large")


class Session:
    """One conversation, whose records are stored as they are made."""

    def __init__(
        self,
        memory: Memory,
        session_id: str,
        params: Frame,
        records: list[Frame],
        has_switches: bool = False,
    ) -> None:
        self.memory = memory
        self.id = session_id
        self.cwd: str = params["cwd"]
        self.mcp_servers: list[Frame] = params.get("mcpServers") or []
        self.records = records
        self.mode, self.model = MODES[0], MODELS[0]
        self.has_switches, self.brief = has_switches, False
        self.start_params = {
            key: params[key] for key in ("systemPrompt", "additionalDirectories", "_meta") if key in params
        }
        self.failures = 0
        self.is_stored = True
        self.turn: Task | None = None

    def remember(self, *records: Frame) -> None:
        """Append records, and store them if the session is stored."""
        self.records += records
        if self.is_stored:
            self.memory.append(self.id, list(records))

    def user_texts(self) -> list[str]:
        return [record["user"] for record in self.records if "user" in record]

    def spent(self) -> tuple[int, float]:
        """Return the tokens and the cost of all finished turns."""
        usages = [record["usage"] for record in self.records if "usage" in record]
        return sum(usage["tokens"] for usage in usages), sum(usage["cost"] for usage in usages)

    def settings(self) -> Frame:
        """Return the modes and options that a client can set, with their values."""
        modes = [{"id": mode, "name": mode.title()} for mode in MODES]
        model = {
            "id": "model",
            "name": "Model",
            "category": "model",
            "type": "select",
            "currentValue": self.model,
            "options": [{"value": model, "name": model.title()} for model in MODELS],
        }
        brief = {"id": "brief", "name": "Brief answers", "type": "boolean", "currentValue": self.brief}
        options = [model, *([brief] if self.has_switches else [])]
        return {"modes": {"currentModeId": self.mode, "availableModes": modes}, "configOptions": options}

    def set(self, name: str, value: str) -> None:
        """Set the mode or the model."""
        offered = MODES if name == "mode" else MODELS
        if value not in offered:
            raise Failure(-32602, f"Invalid params: no {name} {value!r}; there is {', '.join(offered)}")
        setattr(self, name, value)
