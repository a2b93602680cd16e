r"""Hide secrets in text before it is stored or shown.

Three searches, each of which sees the holes left by the one before: values of secret-looking environment
variables, searched verbatim; tokens with a recognisable shape (secret_shapes.py); values assigned to a
secret-looking name. They look at the text as it stands, and as its reader gets it (plain_text.py).

Bias: a shaped token is always hidden. A named value is hidden only if it looks like a literal, because a log
in which `token = parser.next()` is blotted out is useless. Quoted text, `UPPER=value` and flags count as
literals; anything else needs a digit, an inner symbol or base64 padding, and must not look like an
identifier, an attribute, a call, a path or a template.

Promises: `text(text(s)) == text(s)`; time linear in the input; text outside a secret and the structure of
JSON stay unchanged, even where a key is a secret. A plugin's pattern keeps the first two promises if it is
linear itself and does not look at the characters around its match.

Never: reads the environment, decodes base64 or percent signs, guesses by entropy. It misses bare
plain-word passwords (`password: swordfish`), quoted phrases with spaces, positional secrets (`curl -u a:b`),
and the rest of a secret whose beginning is not in the text, so pass all the parts to `chunks`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from agh.core.redaction.plain_text import plain_text

MARK = "[redacted]"

# Replaces each hidden character before the next search. A pattern may run over a hole but must not need one
# to match, so a second pass, which sees more holes, finds nothing new.
_HOLE = "\0"


_WORDS = ("passw", "passphrase", "pwd", "secret", "token", "credential", "key", "authorization", "cookie")
_PHRASE = r"(?:passw(?:or)?d|passphrase|(?:^|_)pwd|secret)"
_SECRET_NAME = (
    rf"(?:{_PHRASE}|token|credentials?|authorization|cookie"
    r"|(?:api|access|secret|private|signing|encryption|auth|account|client|master|shared|ssh|deploy|service)_?key)"
    r"(?:_?(?:value|data|hash|raw|b64|base64|\d+))?$"
)
_OTHER_NAME = (
    r"public|(?:^|_)(?:max|min|num|total|next|prev|first|last|current|start|end|stop|page|sync|continuation"
    r"|progress|cancel|pad|eos|bos|unk|sep|cls|mask|special)_token"
)
_ENVIRON_NAME = (
    r"(?!.*public).*(?:secret|passw|passphrase|credential|(?:token|(?:^|_|api)key|_pwd|_pat)_?\d*$)"
)

# A name up to its value: `--flag value`, `"name": "value"`, `x["name"] = "value"`, `name: type = "value"`.
_NAME = (
    r"\b(?<!\w-)(?<!://)(?P<flag>(?<=--))?(?P<name>\w++(?:-\w++)*+)(?P<sep>(?(flag)(?:=|[ \t]++)"
    r"""|\\*+["'`]?+\]?+[ \t]*+(?::[ \t]*+[\w.&|\[\]]{1,40}+[ \t]*+=[ \t]*+(?=["'`])"""
    r"|(?:=>|={1,3}+|:=|:(?!:))[ \t]*+)))"
)
# A bare value is consumed whole, even if it is then rejected: names inside it are not searched again.
_BARE = r"""\s"'`,;(){}\[\]<>|&\\"""
_VALUE = (
    r"""(?:[bBrRuU]?\\*+(?P<quote>["'`]))?"""
    r"(?P<scheme>(?i:bearer|basic|token|digest|negotiate|apikey|oauth|bot|ssws|aws4[\w-]*+)[ \t]++)?"
    r"(?P<value>(?(quote)(?:(?!(?P=quote))[^\s\\]|\\++(?!(?P=quote))[^\s\\])++(?=\\*+(?P=quote)|\Z)"
    rf"|[^{_BARE}]*[^{_BARE}.]))\.*+(?P<call>[(\[{{])?"
)
_PATH = r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w.@/\\ -]*|\w+://[^\s?=@]*"
_DULL = (  # filler, paths, colours, references, templates, names of secrets, stock words
    rf"(.)\1*|{_PATH}|#[\da-fA-F]{{3,8}}|[$%:@][A-Za-z_]+%?|[$#%{{]?[{{(<\[].*|.*(?:\$\{{|\{{\{{|#\{{).*"
    r"|(?:[A-Za-z]++[_-])*+(?i:passw(?:or)?d|secret|token|key|credential)s?"
    r"|_*[A-Za-z][a-z]*(?:[A-Z][a-z]+)*(?:Password|Secret|Token|Key)"
    r"|(?i:string|number|integer|boolean|required|optional|undefined|disabled|enabled|default|changeme|example)"
)
_ORDINARY = rf"(.)\1*|{_PATH}|[A-Z]?[a-z]{{0,20}}|[A-Z]{{0,20}}|[-+\d.,:_]*"
_CODE = (  # a hexadecimal number; identifiers joined by dots and the like, with few digits
    r"0[xX][\da-fA-F_]+"
    r"|[$@&*!-]*+[A-Za-z_]++(?:(?:\d{1,3}_++|\d{0,3}(?:\.|::|\?\.))[A-Za-z_]++)*+\d{0,2}+[:?!]?"
)
# A digit and a letter, a symbol between word characters, or base64 padding.
_RANDOM = r"^(?=\D*+\d)[^A-Za-z]*+[A-Za-z]|\w[!@#$%^~]++\w|=$"

LONGEST = 16_000  # characters; part of a longer secret may be visible where a text is cut
_SHORT, _MOST_KNOWN = 40, 4000  # characters and number of the strings whose spans are remembered
_SHORTEST = 8  # characters of a secret from the environment; no vendor's token is shorter
_Span = tuple[int, int]


class Redactor:
    """Hides given secrets, what plugins' patterns match, and what the tables of this module describe."""

    __slots__ = ("_extra", "_known", "_secrets")

    def __init__(self, secrets: Iterable[str], extra: Iterable[re.Pattern[str]]) -> None:
        self._secrets, self._extra = tuple(secrets), tuple(extra)
        self._known: dict[str, list[_Span]] = {}  # of short strings, most of which are keys

    def text(self, s: str) -> str:
        return self.chunks((s,))[0]

    def json(self, value: Any, texts: Mapping[int, str] | None = None) -> Any:
        """Return a redacted copy of a JSON value. `{"name": N, "value": V}` is treated as `{N: V}`.

        `texts` are those of its content blocks, from `block_texts`; by default the blocks of a list belong
        together.
        """
        return self._redact_json(value, False, texts)

    def beginning(self, s: str, length: int) -> str:
        """Return the redacted beginning of a text; a secret that extends beyond it is hidden too."""
        return self.text(s[: length + LONGEST])[:length]

    def end(self, s: str, length: int) -> str:
        """Return the redacted end of a text; nothing is left of a secret that begins before it."""
        start = max(0, len(s) - length)
        return self.chunks((s[max(0, start - LONGEST) : start], s[start:]))[1]

    def chunks(self, parts: Sequence[str], *, each: bool = False) -> list[str]:
        """Redact the joined parts; each mark goes to the part in which its secret begins.

        With `each`, search each part by itself, too: its beginning may run into the end of the one before.
        """
        joined = "".join(parts)
        all_spans = self._spans(joined)
        if each and len(parts) > 1:
            all_spans = _merge([*all_spans, *self._part_spans(parts)])
        if not all_spans:
            return list(parts)
        spans = iter(all_spans)
        span, redacted_parts, pos, end = next(spans, None), list[str](), 0, 0
        for part in parts:
            end += len(part)
            pieces: list[str] = []
            while span and span[0] < end:
                pieces += joined[pos : span[0]], MARK
                pos, span = span[1], next(spans, None)
            pieces.append(joined[pos:end])
            pos = max(pos, end)
            redacted_parts.append("".join(pieces))
        return redacted_parts

    def _part_spans(self, parts: Sequence[str]) -> Iterator[_Span]:
        position = 0
        for part in parts:
            if len(part) >= _SHORTEST or self._extra:
                yield from ((position + start, position + end) for start, end in self._spans(part))
            position += len(part)

    def _redact_json(self, value: Any, secret: bool, texts: Mapping[int, str] | None) -> Any:
        if isinstance(value, str):
            return MARK if secret and value else self.text(value)
        if isinstance(value, list | tuple):
            if texts is None and any(type(item) is dict for item in value):
                texts = self.block_texts(list(text_blocks(value)))
            return [self._redact_json(item, secret, texts) for item in value]
        if isinstance(value, dict):
            is_secret_pair = _is_secret_name(value.get("name"))
            clean: dict[Any, Any] = {}
            for key, item in value.items():
                clean_key = self._redact_key(key, clean)
                is_secret = _is_secret_name(key) or (is_secret_pair and key == "value")
                if key == "text" and texts and not is_secret and id(value) in texts:
                    clean[clean_key] = texts[id(value)]
                else:
                    clean[clean_key] = self._redact_json(item, is_secret, texts)
            return clean
        return value

    def block_texts(self, blocks: Sequence[Mapping[str, Any]]) -> dict[int, str]:
        """Return the redacted texts of content blocks, by `id`; a secret may be split over several."""
        texts = self.chunks([block["text"] for block in blocks], each=True)
        return {id(block): text for block, text in zip(blocks, texts, strict=True)}

    def _redact_key(self, key: Any, used_keys: dict[Any, Any]) -> Any:
        """Return the key without its secrets; add a number if the result is already used."""
        if not isinstance(key, str) or (len(key) < _SHORTEST and not self._extra):
            return key
        unique = clean = self.text(key)
        number = len(used_keys)
        while unique in used_keys:
            number += 1
            unique = f"{clean} {number}"
        return unique

    def _spans(self, s: str) -> list[_Span]:
        if s in self._known:  # a recap of 2,000 events takes 180 ms instead of 400
            return self._known[s]
        spans = self._search(s)
        if plain := plain_text(s):
            spans += map(plain.origin, self._search(plain.text))
        spans = _merge(spans)
        if len(s) <= _SHORT and len(self._known) < _MOST_KNOWN:
            self._known[s] = spans
        return spans

    def _search(self, s: str) -> list[_Span]:
        holed = s.replace(MARK, _HOLE * len(MARK))
        all_spans: list[_Span] = []
        for find in (self._find_secrets, self._find_shaped, _find_named):
            if spans := _merge(find(holed)):
                holed = _punch(holed, spans)
                all_spans += spans
        return _merge(all_spans)

    def _find_secrets(self, s: str) -> Iterator[_Span]:
        for secret in self._secrets:
            if secret in s:
                yield from (m.span() for m in re.finditer(re.escape(secret), s))

    def _find_shaped(self, s: str) -> Iterator[_Span]:
        from agh.core.redaction.secret_shapes import find_shapes  # only when there is something to redact

        for pattern in (*find_shapes(s), *self._extra):
            for m in pattern.finditer(s):
                yield m.span("secret" if "secret" in pattern.groupindex else 0)


def text_blocks(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the content blocks in a JSON value that have a text, in order."""
    if isinstance(value, dict):
        if isinstance(value.get("text"), str):
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict | list):
                yield from text_blocks(item)


def secret_variables(environ: Mapping[str, str]) -> list[str]:
    """List the names of the variables whose values count as secrets."""
    return sorted(name for name in environ if re.match(_ENVIRON_NAME, name.lower()))


def redactor(environ: Mapping[str, str] = {}, extra: Iterable[re.Pattern[str]] = ()) -> Redactor:
    """Make a redactor for this environment; if an extra pattern has a group `secret`, only that is hidden."""
    values = {environ[name].strip() for name in secret_variables(environ)}
    secrets = sorted(v for v in values if len(v) >= _SHORTEST and not re.fullmatch(_ORDINARY, v))
    return Redactor(secrets, extra)


def _find_named(s: str) -> Iterator[_Span]:
    lower = s.lower()
    if not any(word in lower for word in _WORDS):
        return
    names, values = re.compile(_NAME, re.ASCII), re.compile(_VALUE)
    pos = 0
    while name := names.search(s, pos):
        if not _is_secret_name(name["name"]):
            pos = name.end("name")
            continue
        pos = name.end()
        if value := values.match(s, pos):
            pos = value.end()
            if _is_literal(name, value):
                yield value.span("value")


def _is_secret_name(name: object) -> bool:
    return isinstance(name, str) and _is_secret_ending(name[-64:])


@lru_cache(1024)
def _is_secret_ending(name: str) -> bool:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|-", "_", name).strip("_").lower()
    return bool(re.search(_SECRET_NAME, snake)) and not re.search(_OTHER_NAME, snake)


def _is_literal(name: re.Match[str], match: re.Match[str]) -> bool:
    value, quoted, scheme = match["value"], match["quote"], match["scheme"]
    if match["call"] or _HOLE in value:
        return not match["call"]
    is_flag = name["flag"] is not None
    is_explicit = quoted or scheme or is_flag or (name["sep"] == "=" and name["name"].isupper())
    if len(value) < (6 if is_explicit else 8) or re.fullmatch(_DULL, value):
        return False
    if not quoted and re.fullmatch(_CODE, value) and ("." in value or not is_explicit):
        return False
    if re.search(_RANDOM, value):
        return True
    if not is_explicit:
        return False
    may_be_prose = is_flag and not quoted and name["sep"] != "="
    is_passphrase = re.search(rf"{_PHRASE}_?\d*$", name["name"].lower()) and not may_be_prose
    return bool(is_passphrase or (scheme and not value.islower()) or re.search("[A-Za-z]{16}", value))


def _merge(spans: Iterable[_Span]) -> list[_Span]:
    merged: list[_Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        elif start < end:
            merged.append((start, end))
    return merged


def _punch(s: str, spans: list[_Span]) -> str:
    pieces: list[str] = []
    pos = 0
    for start, end in spans:
        pieces += s[pos:start], _HOLE * (end - start)
        pos = end
    return "".join(pieces) + s[pos:] if pieces else s
