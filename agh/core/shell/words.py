"""Splitting a shell line into simple commands and their words. Pure; nothing is run or looked up.

Promises: every command that a POSIX shell, bash or zsh would run by the text itself is among those returned,
or the line is marked as `opaque`. It may return more: what is only data in one shell may be code in another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agh.core.shell.patterns import ANY

MAX_LENGTH, MAX_DEPTH, MAX_COMMANDS = 50_000, 20, 2_000
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_RUN, _QUOTED_RUN = re.compile(r"[\w./:=,@%+-]+"), re.compile(r'[^"\\$`]+')
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")


class Word:
    """A word without its quotes. `pattern` has ANY where the shell would put something in."""

    def __init__(self, pattern: str = "") -> None:
        self.text = ""
        self.pattern = pattern
        self.bare = ""  # the characters that were not quoted
        self.has_glob = False

    @property
    def is_literal(self) -> bool:
        """Tell whether the shell passes on the word as it is, but for file name patterns."""
        return self.pattern == self.text

    @property
    def expanded(self) -> str:
        """Return the pattern with ANY also for what a file name pattern may become."""
        if not self.has_glob:
            return self.pattern
        return "".join(ANY if character in "*?[" else character for character in self.pattern)


class Simple:
    """A simple command: its words, and the files that it reads from or writes to."""

    def __init__(self, words: Iterable[Word] = ()) -> None:
        self.words = list(words)
        self.targets: list[Word] = []

    def assignments(self) -> int:
        """Return how many words before the command's name set a variable."""
        number = 0
        while number < len(self.words) and _ASSIGNMENT.match(self.words[number].bare):
            number += 1
        return number


class Line:
    """A line in parts.

    `plain` means that it is nothing but simple commands with operators between them, so each of them is
    known. `opaque` means that it may run something that is not among its commands.
    """

    def __init__(self) -> None:
        self.commands: list[Simple] = []
        self.plain, self.opaque = True, False


def split(text: str, depth: int = 0) -> Line:
    """Split a shell line, which may have many lines, into its simple commands."""
    line = Line()
    if len(text) > MAX_LENGTH or depth > MAX_DEPTH or ANY in text:
        line.plain, line.opaque = False, True
        return line
    _Scanner(text, line, depth).scan(None)
    line.commands = [command for command in line.commands if command.words or command.targets]
    if len(line.commands) > MAX_COMMANDS:
        line.plain, line.opaque = False, True
        del line.commands[MAX_COMMANDS:]
    return line


class _Scanner:
    def __init__(self, text: str, line: Line, depth: int) -> None:
        self._text, self._line, self._depth = text, line, depth
        self._at = 0

    def scan(self, closing: str | None) -> None:
        """Read commands to the end of the text, or to the closing parenthesis that belongs to it."""
        command, word, is_target, depth = Simple(), None, False, 0

        def end_word() -> None:
            nonlocal word, is_target
            if word is not None:
                if _BRACES.search(word.bare):
                    word.pattern = ANY
                if closing and word.bare == word.text == "case":  # its parentheses are not balanced
                    self._line.opaque = True
                (command.targets if is_target else command.words).append(word)
            word, is_target = None, False

        def end_command() -> None:
            nonlocal command
            end_word()
            self._line.commands.append(command)
            command = Simple()

        while self._at < len(self._text) and len(self._line.commands) <= MAX_COMMANDS:
            character = self._text[self._at]
            if character in " \t":
                self._at += 1
                if not (is_target and word is None):
                    end_word()
            elif self._text.startswith("\\\n", self._at):
                self._at += 2
            elif character == "#" and word is None:
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif character in ";&|\n":
                self._at += 1
                end_command()
            elif character in "()":
                self._at += 1
                end_command()
                if character == closing and not depth:
                    return
                depth = depth + 1 if character == "(" else max(0, depth - 1)
                self._line.plain = False
            elif character in "<>":
                if word is not None and word.text.isdigit() and word.bare == word.text:
                    word = None  # the number of a descriptor
                end_word()
                is_target = self._redirect(command)
            else:
                word = word or Word()
                self._read(word)
        if closing is not None:
            self._line.plain, self._line.opaque = False, True
        end_command()

    def _redirect(self, command: Simple) -> bool:
        """Read a redirection's operator; return whether the next word is its target."""
        start = self._at
        while self._at < len(self._text) and self._text[self._at] in "<>&|" and self._at < start + 3:
            self._at += 1
        operator = self._text[start : self._at]
        if operator.startswith("<<") and operator != "<<<":
            self._line.plain, self._line.opaque = (
                False,
                True,
            )  # what follows is data, or code for another program
        if self._text[self._at : self._at + 1] == "(":
            self._line.plain = False
            self._at += 1
            _Nested(self).scan(")")
            command.words.append(Word(ANY))
            return False
        return True

    def _read(self, word: Word) -> None:
        """Read the next piece of a word: a quoted text, an expansion or one character."""
        character = self._text[self._at]
        if character == "'":
            end = self._text.find("'", self._at + 1)
            self._add(word, self._text[self._at + 1 : end if end >= 0 else None])
            self._line.opaque |= end < 0
            self._line.plain &= end >= 0
            self._at = len(self._text) if end < 0 else end + 1
        elif character == '"':
            self._at += 1
            self._read_double(word)
        elif character == "\\":
            self._add(word, self._text[self._at + 1 : self._at + 2])
            self._at += 2
        elif character in "$`":
            self._expand(word, quoted=False)
        else:
            piece = _RUN.match(self._text, self._at)
            text = piece[0] if piece else character
            word.bare += text
            word.has_glob = word.has_glob or text in "*?["
            self._add(word, text)
            self._at += len(text)

    def _read_double(self, word: Word) -> None:
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == '"':
                self._at += 1
                return
            if self._text.startswith("\\\n", self._at):
                self._at += 2
            elif character == "\\" and self._text[self._at + 1 : self._at + 2] in ("$", "`", '"', "\\"):
                self._add(word, self._text[self._at + 1])
                self._at += 2
            elif character in "$`":
                self._expand(word, quoted=True)
            else:
                piece = _QUOTED_RUN.match(self._text, self._at)
                text = piece[0] if piece else character
                self._add(word, text)
                self._at += len(text)
        self._line.plain, self._line.opaque = False, True  # the quote has no end

    def _expand(self, word: Word, *, quoted: bool) -> None:
        """Read `$…` or a command in backticks; its value is not known."""
        text, start = self._text, self._at
        following = text[start + 1 : start + 2]
        if text[start] == "`":
            self._read_backticks()
        elif following == "(":
            self._at += 2
            _Nested(self).scan(")")
        elif following == "{":
            self._read_braces()
        elif following == "'" and not quoted:
            end = text.find("'", start + 2)
            self._line.opaque |= end < 0 or text[end - 1] == "\\"  # where it ends depends on the shell
            self._at = len(text) if end < 0 else end + 1
        elif match := _NAME.match(text, start + 1):
            self._at = match.end()
        else:
            self._add(word, "$")
            self._at += 1
            return
        self._line.plain = False
        word.text += text[start : self._at]
        word.pattern += ANY

    def _read_backticks(self) -> None:
        end = self._at + 1
        while end < len(self._text) and self._text[end] != "`":
            end += 2 if self._text[end] == "\\" else 1
        inner = re.sub(r"\\([`$\\])", r"\1", self._text[self._at + 1 : end])
        self._line.opaque |= end >= len(self._text)
        self._at = min(end + 1, len(self._text))
        self._include(inner)

    def _read_braces(self) -> None:
        depth, end = 1, self._at + 2
        while end < len(self._text) and depth:
            depth += {"{": 1, "}": -1}.get(self._text[end], 0)
            end += 2 if self._text[end] == "\\" else 1
        inner = self._text[self._at + 2 : end]
        self._line.opaque |= depth > 0 or "'" in inner or '"' in inner
        self._at = min(end, len(self._text))
        if "$" in inner or "`" in inner:
            self._include(inner)

    def _include(self, inner: str) -> None:
        nested = split(inner, self._depth + 1)
        self._line.commands += nested.commands
        self._line.opaque |= nested.opaque
        self._line.plain = False

    def _add(self, word: Word, text: str) -> None:
        word.text += text
        word.pattern += text


class _Nested(_Scanner):
    """Reads what is in parentheses of an outer scanner, which then continues behind them."""

    def __init__(self, outer: _Scanner) -> None:
        super().__init__(outer._text, outer._line, outer._depth + 1)
        self._at, self._outer = outer._at, outer
        outer._line.plain = False

    def scan(self, closing: str | None) -> None:
        if self._depth > MAX_DEPTH:
            self._line.opaque = True
            self._at = len(self._text)
        else:
            super().scan(closing)
        self._outer._at = self._at
