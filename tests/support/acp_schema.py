"""The schema of ACP as an oracle: whether a frame is valid, and which names the protocol has.

`schema/v1/schema.json` and `schema.unstable.json` of the npm package `@agentclientprotocol/sdk`. What agh
sends must be valid by the stable schema; what only the unstable one knows must be valid by that. A key that
neither knows is a mistake too, unless it is in `_meta`.

`python -m tests.support.acp_schema check SCHEMA FRAMES` checks frames that `acp_record` wrote; `names SCHEMA`
prints the names of methods, updates and capabilities, for `tests/interop/acp_names.json`; `compare SCHEMA`
says what is new.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

Message = dict[str, Any]
VARIABLE = "ACP_SCHEMA"
NAMES = Path(__file__).parents[1] / "interop" / "acp_names.json"
FILES = ("schema.json", "schema.unstable.json")
FREE_TEXTS = ("text", "sessionId", "toolCallId", "messageId", "terminalId", "title", "path", "cwd", "content")
# Gone from the schema, and still what many agents answer.
FORMER_METHODS = {"session/set_model"}
# What the echo agent gets wrong on purpose: the answers of real agents to session/load, and strange updates.
DELIBERATE = (
    "session/load (result)",
    "session/resume (result)",
    "nobody knows",
    "ext/",
    "the schema has no such method",
)
# Names that begin with an underscore belong to vendors.
SIDES = {"client": "ClientCapabilities", "agent": "AgentCapabilities"}


class Invalid(AssertionError):
    """A frame that the schema does not allow."""


class Oracle:
    """Both schemas. `used` counts the methods that were checked, by side and stability."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.documents = [json.loads((folder / name).read_text()) for name in FILES]
        self.definitions = [_make_strict(document["$defs"]) for document in self.documents]
        self.used: Counter[tuple[str, str, str]] = Counter()
        self._valid: dict[tuple[str, ...], str] = {}  # the stability of what was valid, by its shape

    def check(self, side: str, method: str, part: str, value: Any) -> None:
        """Check the params or result of a method that `side` implements; `part` is which of them."""
        if method.startswith("_") or method in FORMER_METHODS:
            return
        problems = []
        shape = (side, method, part, json.dumps(_shape(value)))
        if shape in self._valid:  # a stream has thousands of chunks that differ only in their text
            self.used[side, method, self._valid[shape]] += 1
            return
        for stability, document in zip(("stable", "unstable"), self.documents, strict=True):
            name = self._find(document, side, method, part)
            if name is None:
                continue
            problem = self._find_problem(stability, name, value)
            if problem is None:
                self.used[side, method, stability] += 1
                self._valid[shape] = stability
                return
            problems.append(f"{stability} {name}: {problem}")
        why = "; ".join(problems) or "the schema has no such method"
        raise Invalid(f"{method} ({part}): {why}\n{json.dumps(value)[:2000]}")

    def check_error(self, method: str, error: Any) -> None:
        problem = self._find_problem("stable", "Error", error)
        if problem is not None:
            raise Invalid(f"{method} (error): {problem}\n{json.dumps(error)[:2000]}")

    @staticmethod
    def _find(document: Any, side: str, method: str, part: str) -> str | None:
        endings = ("Response",) if part == "result" else ("Request", "Notification")
        for name, schema in document["$defs"].items():
            sides = (side, "protocol")
            if schema.get("x-method") == method and schema.get("x-side") in sides and name.endswith(endings):
                return str(name)
        return None

    def _find_problem(self, stability: str, name: str, value: Any) -> str | None:
        error = next(self._validator(stability, name).iter_errors(value), None)
        if error is None:
            return None
        best = error
        while best.context:  # of the alternatives, the one that came furthest
            best = max(best.context, key=lambda inner: len(inner.absolute_path))
        return f"{'.'.join(map(str, best.absolute_path)) or 'it'}: {best.message[:300]}"

    @cache  # noqa: B019
    def _validator(self, stability: str, name: str) -> Any:
        from jsonschema import Draft202012Validator

        definitions = self.definitions[stability == "unstable"]
        return Draft202012Validator({**_make_strict({"$ref": f"#/$defs/{name}"}), "$defs": definitions})


def _shape(value: Any) -> Any:
    """Return a value with its counts and free texts taken out, which no schema looks at."""
    if isinstance(value, dict):
        return {
            key: "" if key in FREE_TEXTS and isinstance(entry, str) else _shape(entry)
            for key, entry in value.items()
        }
    if isinstance(value, list):
        return list({json.dumps(entry): entry for entry in map(_shape, value)}.values())
    if isinstance(value, str):
        return value if len(value) < 40 else "long"
    return 1 if type(value) is int and value > 0 else value


def _make_strict(schema: Any, is_part: bool = False) -> Any:
    """Forbid keys that a definition does not have, wherever it is used as a whole and not as a part."""
    if isinstance(schema, list):
        return [_make_strict(item, is_part) for item in schema]
    if not isinstance(schema, dict):
        return schema
    composes = "properties" in schema or "allOf" in schema
    strict = {
        key: _make_strict(value, key == "allOf" or (key in ("oneOf", "anyOf") and composes))
        for key, value in schema.items()
    }
    is_whole = not is_part and (isinstance(schema.get("$ref"), str) or isinstance(schema.get("allOf"), list))
    return {**strict, "unevaluatedProperties": False} if is_whole else strict


class Conversation:
    """One launch of an agent: checks each frame, and remembers which request an answer belongs to."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.requests: dict[tuple[str, Any], str] = {}

    def check(self, sender: str, frame: Message) -> None:
        """Check a frame; `sender` is client or agent."""
        receiver = "agent" if sender == "client" else "client"
        if "method" in frame:
            if "id" in frame:
                self.requests[sender, frame["id"]] = frame["method"]
            self.oracle.check(receiver, frame["method"], "params", frame.get("params"))
            return
        method = self.requests.pop((receiver, frame.get("id")), None)
        if method is None or method.startswith("_"):
            return
        if "error" in frame:
            self.oracle.check_error(method, frame["error"])
        else:
            self.oracle.check(sender, method, "result", frame.get("result"))


@cache
def oracle() -> Oracle | None:
    """Return the oracle that ACP_SCHEMA names, if it names one."""
    folder = os.environ.get(VARIABLE)
    return Oracle(Path(folder)) if folder else None


def names(document: Any) -> dict[str, list[str]]:
    """List the methods, updates and capabilities of a schema."""
    definitions = document["$defs"]
    updates = [
        branch["properties"]["sessionUpdate"]["const"] for branch in definitions["SessionUpdate"]["oneOf"]
    ]
    methods = {schema["x-method"] for schema in definitions.values() if "x-method" in schema}
    found = {"methods": sorted(methods), "updates": sorted(updates)}
    for side, name in SIDES.items():
        found[f"{side} capabilities"] = sorted(_paths(definitions, name))
    return found


def _paths(definitions: Any, name: str, prefix: str = "", above: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the dotted paths of an object's properties, and of the objects inside."""
    for key, schema in definitions[name].get("properties", {}).items():
        if key == "_meta":
            continue
        inner = [schema, *schema.get("anyOf", []), *schema.get("allOf", []), *schema.get("oneOf", [])]
        below = [part["$ref"].rpartition("/")[2] for part in inner if "$ref" in part]
        paths = [
            path
            for other in below
            if other not in above
            for path in _paths(definitions, other, f"{prefix}{key}.", (*above, other))
        ]
        yield f"{prefix}{key}"
        yield from paths


def all_names(folder: Path) -> dict[str, dict[str, list[str]]]:
    """List the names of both schemas; of the unstable one only what it adds."""
    stable, unstable = (names(json.loads((folder / name).read_text())) for name in FILES)
    added = {kind: sorted(set(unstable[kind]) - set(stable[kind])) for kind in stable}
    return {"stable": stable, "unstable": added}


def check_recordings(folder: Path, recordings: Path) -> int:
    """Check every recorded frame; print what is wrong, each kind of mistake once. Return how many kinds."""
    judge, problems, frames = Oracle(folder), Counter[str](), 0
    paths = sorted(recordings.glob("*.jsonl"))
    for path in paths:
        conversation = Conversation(judge)
        for line in path.read_text(encoding="utf-8", errors="surrogatepass").splitlines():
            sender, frame = json.loads(line)
            frames += 1
            try:
                conversation.check(sender, frame)
            except Invalid as error:
                if sender == "agent" and any(words in str(error) for words in DELIBERATE):
                    continue
                problems[f"{sender}: {str(error)[:600]}"] += 1
    for problem, count in problems.most_common():
        print(f"{count} times {problem}\n")
    for (side, method, stability), count in sorted(judge.used.items()):
        print(f"{count:7}  {method}  ({side}, {stability})")
    print(f"{frames} frames of {len(paths)} launches, {len(problems)} mistakes")
    return len(problems) if frames else 1


def check_names(folder: Path) -> int:
    """Print the names in which the schema differs from those that were last looked at; return how many."""
    newest, former = all_names(folder), json.loads(NAMES.read_text())
    changes = [
        f"{word}: {status} {kind} {name}"
        for status, kinds in newest.items()
        for kind, found in kinds.items()
        for word, names in (
            ("new", set(found) - set(former[status][kind])),
            ("gone", set(former[status][kind]) - set(found)),
        )
        for name in sorted(names)
    ]
    print("\n".join(changes) or "the schema has no new names")
    if changes:
        print("make schema-names writes them down; then docs/acp.md needs a word for each")
    return len(changes)


def main() -> int:
    task, folder, *more = sys.argv[1:]
    if task == "names":
        print(json.dumps(all_names(Path(folder)), indent=1))
        return 0
    if task == "compare":
        return min(1, check_names(Path(folder)))
    return min(1, check_recordings(Path(folder), Path(*more)))


if __name__ == "__main__":
    sys.exit(main())
