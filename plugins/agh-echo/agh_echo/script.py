"""From the text of a prompt to the steps it asks for. Pure.

A line that starts with `/name` is a step; each run of other lines is one step, `echo`.
Arguments read from left to right: words, then key=value fields, then free text.
"""

Step = tuple[str, str]

REQUEST, INSTRUCTIONS = "=== CURRENT REQUEST ===", "=== INSTRUCTIONS ==="


def parse(text: str) -> list[Step]:
    steps: list[Step] = []
    for line in request(text).split("\n"):
        name, rest = parse_line(line)
        if name == "echo" and steps and steps[-1][0] == "echo":
            rest = f"{steps.pop()[1]}\n{rest}"
        steps.append((name, rest))
    return steps


def parse_line(line: str) -> Step:
    if line.strip().lower() == "what did i say?":
        return "recall", ""
    name, rest = head(line.rstrip()) if line.startswith("/") else ("", "")
    is_step = name.islower() and name[1:].replace("-", "").isalpha()
    return (name[1:], rest) if is_step else ("echo", line)


def request(text: str) -> str:
    """What is asked now: the old steps in a history that the client injects must not run again."""
    lines = text.replace("\r\n", "\n").split("\n")
    if REQUEST not in lines:
        return "\n".join(lines)
    lines = lines[len(lines) - lines[::-1].index(REQUEST) :]
    end = lines.index(INSTRUCTIONS) if INSTRUCTIONS in lines else len(lines)
    return "\n".join(lines[:end]).strip("\n")


def head(text: str) -> tuple[str, str]:
    """The first word, which must be there, and the rest."""
    word, *rest = text.split(maxsplit=1)
    return word, "".join(rest)


def fields(text: str) -> tuple[dict[str, str], str]:
    """The leading key=value words, and the text after them."""
    found: dict[str, str] = {}
    while text.strip():
        word, rest = head(text)
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            break
        found[key], text = value, rest
    return found, text


def unescape(text: str) -> str:
    return text.replace("\\n", "\n")


def chunks(text: str, most: int = 8) -> list[str]:
    """The text in a few pieces, cut after spaces; joined again they are the text."""
    *words, last = text.split(" ")
    words = [f"{word} " for word in words] + [last] * bool(last)
    size = -(-len(words) // most) or 1
    return ["".join(words[i : i + size]) for i in range(0, len(words), size)]
