"""Parsing a prompt into the steps it asks for. Pure.

A line that starts with `/name` is a step; each run of other lines is one step, `echo`.
Arguments are read from left to right: words, then key=value fields, then free text.
"""

Step = tuple[str, str]

REQUEST, INSTRUCTIONS = "=== CURRENT REQUEST ===", "=== INSTRUCTIONS ==="


def parse(text: str) -> list[Step]:
    """Return the steps of a prompt, each a name and the text after it."""
    steps: list[Step] = []
    for line in request(text).split("\n"):
        name, rest = parse_line(line)
        if name == "echo" and steps and steps[-1][0] == "echo":
            rest = f"{steps.pop()[1]}\n{rest}"
        steps.append((name, rest))
    return steps


def parse_line(line: str) -> Step:
    """Return the step that one line asks for."""
    if line.strip().lower() == "what did i say?":
        return "recall", ""
    name, rest = head(line.rstrip()) if line.startswith("/") else ("", "")
    is_step = name.islower() and name[1:].replace("-", "").isalpha()
    return (name[1:], rest) if is_step else ("echo", line)


def request(text: str) -> str:
    """Return the current request, without any history the client injected: its steps must not run again."""
    lines = text.replace("\r\n", "\n").split("\n")
    if REQUEST not in lines:
        return "\n".join(lines)
    lines = lines[len(lines) - lines[::-1].index(REQUEST) :]
    end = lines.index(INSTRUCTIONS) if INSTRUCTIONS in lines else len(lines)
    return "\n".join(lines[:end]).strip("\n")


def head(text: str) -> tuple[str, str]:
    """Return the first word and the rest. Raise ValueError if there is no word."""
    word, *rest = text.split(maxsplit=1)
    return word, "".join(rest)


def fields(text: str) -> tuple[dict[str, str], str]:
    """Return the leading key=value words, and the text after them."""
    values: dict[str, str] = {}
    while text.strip():
        word, rest = head(text)
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            break
        values[key], text = value, rest
    return values, text


def unescape(text: str) -> str:
    return text.replace("\\n", "\n")


def chunks(text: str, most: int = 8) -> list[str]:
    """Split a text after spaces into at most `most` chunks, which joined give the text again."""
    *spaced, last = text.split(" ")
    pieces = [f"{word} " for word in spaced] + [last] * bool(last)
    size = -(-len(pieces) // most) or 1
    return ["".join(pieces[i : i + size]) for i in range(0, len(pieces), size)]
