from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agh.adapters import html_page
from agh.core.html import page
from agh.core.html import text as html_text
from agh.core.transcript import Message

AT = "2026-03-14T09:12:04.120Z"
FRAME = {
    "html",
    "head",
    "meta",
    "link",
    "title",
    "style",
    "body",
    "header",
    "h1",
    "dl",
    "div",
    "dt",
    "dd",
    "nav",
}
FRAME |= {"main", "footer", "ol", "li"}
PARTS = {"article", "a", "time", "bdi", "h2", "details", "summary", "div", "span", "b", "i", "p", "figure"}
PARTS |= {"figcaption", "pre", "code", "ins", "del"}
MARKDOWN = {"h3", "h4", "h5", "h6", "strong", "em", "s", "ul", "ol", "li", "blockquote", "br", "hr", "table"}
MARKDOWN |= {"thead", "tbody", "tr", "th", "td"}
VOID = {"meta", "link", "br", "hr"}


class Page(HTMLParser):
    """Reads strictly: every element is closed in its turn, and every attribute is one we know."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        assert tag != "a" or "a" not in self.open
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    handle_pi = handle_comment

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.texts)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def check_inert(text: str, allowed: set[str] = PARTS | MARKDOWN) -> Page:
    read = Page(text)
    for tag, attrs in read.tags:
        assert tag in allowed, tag
        assert not [name for name in attrs if name.startswith("on") or name in ("src", "srcset", "action")]
        assert re.fullmatch(r"text-align:(left|right|center)", attrs.get("style") or "text-align:left")
        href = attrs.get("href") or ""
        assert tag == "link" or re.match(r"(#|https?://|mailto:|$)", href, re.IGNORECASE), href
    assert not html_text._ODD.search(text)
    text.encode()
    return read


def said(role: str, number: int = 1, **fields: Any) -> Message:
    return {"id": f"evt-{number:06d}", "role": role, "timestamp": AT, **fields}


def answer(content: str) -> Page:
    return check_inert(page.fragment(said("assistant", content=content)))


def tool(result: Any = None, given: Any = None, **fields: Any) -> str:
    call = said("tool_call", 1, tool_call_id="c1", tool_name="Bash", tool_input=given)
    return page.article([call, said("tool_result", 2, tool_call_id="c1", tool_result=result, **fields)])


CONVERSATION = [
    said("user", 1, content="Fix <the> list"),
    said("assistant", 2, content="I **look**.", thinking="hm", thinking_complete=True),
    said("tool_call", 3, tool_call_id="a", tool_name="Read", title="Read x.py", tool_input={"path": "x.py"}),
    said("tool_result", 4, tool_call_id="a", tool_result={"content": "x = 1"}),
    said("marker", 5, kind="context_reset", severity="warning", summary="the agent forgot"),
]
SESSION = {
    "id": "sess-01abcdefgh",
    "name": "faster-list",
    "title": "Make it fast",
    "agent_name": "claude",
    "model": "sonnet",
    "workspace_path": "/home/mara/src",
    "worktree": {"branch": "agh/fast"},
    "badge": "failed",
    "stop_reason": "agent_crashed",
    "failure": {"summary": "keeper ended"},
    "created_at": AT,
    "updated_at": "2026-03-14T10:00:00.000Z",
}


def test_page_is_self_contained_and_says_what_it_shows() -> None:
    text = html_page.page(SESSION, CONVERSATION, generated_at=AT)
    read = check_inert(text, FRAME | PARTS | MARKDOWN)
    policy = next(meta["content"] for meta in read.all("meta") if "http-equiv" in meta)
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    assert text.index("Content-Security-Policy") < text.index("<style>")
    assert read.all("html") == [{"lang": "en"}]
    assert ("title", "Make it fast · agh") in read.texts
    assert not re.search(r"url\(|@import|https?:", html_page.style())
    for fact in (
        "sess-01abcdefgh",
        "faster-list",
        "claude",
        "sonnet",
        "/home/mara/src",
        "agh/fast",
        "failed",
    ):
        assert fact in read.text
    for fact in ("1 prompt", "1 answer", "1 tool call", "1 notice", "2026-03-14 10:00:00", "keeper ended"):
        assert fact in read.text


def test_same_messages_give_the_same_bytes() -> None:
    first, second = (html_page.page(SESSION, CONVERSATION, generated_at=AT) for _ in range(2))
    assert first == second
    assert page.article(CONVERSATION) in first


def test_an_empty_session_has_a_page() -> None:
    text = html_page.page({}, [], generated_at=AT)
    assert "Nothing has been said yet." in check_inert(text, FRAME | PARTS).text


def test_every_message_has_its_anchor_and_a_time_that_links_to_it() -> None:
    read = Page(page.article(CONVERSATION))
    anchors = {attrs["id"] for _, attrs in read.tags if "id" in attrs}
    assert anchors == {message["id"] for message in CONVERSATION}
    assert {link["href"] for link in read.all("a")} == {f"#{anchor}" for anchor in anchors}
    assert {time["datetime"] for time in read.all("time")} == {AT}


def test_prompts_are_listed_when_there_are_several() -> None:
    prompts = [said("user", number, content=f"prompt <{number}>\nmore") for number in range(1, 4)]
    assert "<nav>" not in html_page.page({}, prompts[:2], generated_at=AT)
    text = html_page.page({}, prompts, generated_at=AT)
    assert '<li><a href="#evt-000002"><bdi>prompt &lt;2&gt; more</bdi></a></li>' in text


def test_a_new_day_is_marked() -> None:
    later = said("user", 2, content="b") | {"timestamp": "2026-03-15T00:00:01.000Z"}
    text = page.article([said("user", content="a"), later, later])
    assert re.findall(r'class="day"><time>([^<]*)', text) == ["2026-03-15"]


def test_user_text_is_plain_and_assistant_text_is_markdown() -> None:
    assert '<div class="plain">**a**\n  b</div>' in page.fragment(said("user", content="**a**\n  b"))
    text = page.fragment(said("assistant", content="# A\n**b** *c* `d`\n\n- e\n\n> f\n\n|g|\n|-|\n|h|\n"))
    for part in (
        "<h3>A</h3>",
        "<strong>b</strong>",
        "<em>c</em>",
        "<code>d</code>",
        "<li>e</li>",
        "<th>g</th>",
    ):
        assert part in text
    assert '<pre data-lang="py title"><code>x &lt; 1</code></pre>' in page.fragment(
        said("assistant", content="```py title\nx < 1\n```")
    )


def test_thinking_is_folded_and_says_when_it_was_cut_off() -> None:
    done = page.fragment(said("assistant", content="a", thinking="*t*", thinking_complete=True))
    assert '<details class="thinking"><summary>Thinking</summary>' in done
    open_ended = page.fragment(said("assistant", content="", thinking="t", thinking_complete=False))
    assert "Thinking, not finished" in open_ended


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!-- a comment --> <?php ?> <![CDATA[x]]>",
    "</div></article></main><h1>Fake</h1>",
    "[x](javascript:alert(1))",
    "[x](java&#115;cript:alert(1))",
    "[x](JaVaScRiPt&colon;alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](data:image/png;base64,AAAA)",
    "[x](vbscript:x) [y](file:///etc/passwd) [z](//evil.example)",
    "<javascript:alert(1)> <data:text/html,x>",
    '[x](https://a.example "onmouseover=alert(1)")',
    "![x](https://tracker.example/pixel.png)",
    "![x](data:image/svg+xml;base64,AAAA)",
    "![<script>x</script>](https://a.example/p.png)",
    "![a ![b](http://c.example) d](javascript:e)",
    "[![x](https://a.example/i.png)](https://b.example)",
    '```"><script>\nx\n```',
    "[a]: https://a.example 'hidden'\n\n[a]",
    '|a|b|\n|:-:|-|\n|<b onclick="x">|y|',
    "&lt;script&gt; &#60;b&#62; &#x202e; &ZeroWidthSpace;",
    '" onfocus="alert(1)" x="',
    "$title ${article} $$",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_inert_everywhere(text: str) -> None:
    roles = ("user", "assistant", "tool_call", "tool_result", "marker", text)
    fields = dict.fromkeys(
        ("id", "content", "thinking", "tool_name", "title", "kind", "summary", "diagnostic", "severity"), text
    )
    messages = [
        {
            **fields,
            "role": role,
            "timestamp": text,
            "tool_input": {text: text},
            "tool_result": {"stdout": text},
        }
        for role in roles
    ]
    session = dict.fromkeys(SESSION, text)
    read = check_inert(html_page.page(session, messages, generated_at=text), FRAME | PARTS | MARKDOWN)
    assert len(read.all("h1")) == 1


def test_images_are_links_and_odd_targets_are_named_not_linked() -> None:
    text = page.fragment(said("assistant", content="![pic](https://a.example/p.png) [file](src/a.py:3)"))
    assert 'href="https://a.example/p.png" rel="noopener noreferrer">[image: pic]</a>' in text
    assert '<span title="src/a.py:3">file</span>' in text


@pytest.mark.parametrize(
    "hidden", ["[a]: http://x.example 'HIDDEN'", ">" * 200 + " HIDDEN", "- " * 150 + "HIDDEN"]
)
def test_markdown_does_not_swallow_text(hidden: str) -> None:
    assert "HIDDEN" in answer(hidden).text


@pytest.mark.parametrize(
    ("odd", "shown"),
    [
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩"),
        ("a\x1b]8;;x\x07b\0\x7f\x9b", "a␛]8;;x␇b␀⟨U+007F⟩⟨U+009B⟩"),
        ("zero\u200bwidth\ufeff\u2060", "zero⟨U+200B⟩width⟨U+FEFF⟩⟨U+2060⟩"),
        ("tags\U000e0041", "tags⟨U+E0041⟩"),
        ("half \ud800", "half ⟨U+D800⟩"),
        ("10%\r20%\r\nend", "10%␍20%\nend"),
        ("join a\u200db, 👩\u200d💻, می\u200cخواهم", "join a⟨U+200D⟩b, 👩\u200d💻, می\u200cخواهم"),
        ("tab\tand\nline", "tab\tand\nline"),
    ],
)
def test_characters_that_hide_or_reorder_are_shown(odd: str, shown: str) -> None:
    assert shown in Page(page.fragment(said("user", content=odd))).text


def test_entities_cannot_bring_them_back() -> None:
    assert "a⟨U+202E⟩b" in answer("a&#x202e;b").text


def test_call_and_result_are_one_card() -> None:
    calls = [
        said("tool_call", n, tool_call_id=f"c{n}", tool_name=f"T{n}", tool_input={"n": n}) for n in (1, 2)
    ]
    results = [
        said("tool_result", n + 2, tool_call_id=f"c{n}", tool_result={"stdout": f"out{n}"}) for n in (1, 2)
    ]
    text = page.article([*calls, *results])
    cards = text.split("<article ")[1:]
    assert len(cards) == 2
    for number, card in enumerate(cards, 1):
        assert f"<bdi>T{number}</bdi>" in card and f"out{number}" in card
        assert f'id="evt-00000{number}"' in card and f'id="evt-00000{number + 2}"' in card


def test_an_id_that_is_used_again_belongs_to_the_later_call() -> None:
    call, result = said("tool_call", 1, tool_call_id="c"), said("tool_result", 2, tool_call_id="c")
    cards = page.article([call, result, call | {"id": "evt-000003"}, result | {"id": "evt-000004"}]).split(
        "<article "
    )
    assert [re.findall(r'id="evt-0*(\d)"', card) for card in cards[1:]] == [["1", "2"], ["3", "4"]]


def test_a_result_without_its_call_stands_alone() -> None:
    text = page.fragment(
        said("tool_result", tool_call_id="c", tool_name="Bash", tool_result={"stdout": "hello"})
    )
    assert text.startswith('<article class="tool ok" id="evt-000001">') and "hello" in text


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "ok"),
        ({"tool_error": False, "tool_result": {"error": "only a warning"}}, "ok"),
        ({"tool_error": True}, "failed"),
        ({"tool_result": {"error": "no such file"}}, "failed"),
        ({"tool_error": True, "outcome": "unknown"}, "unknown outcome"),
    ],
)
def test_state_of_a_tool_card(fields: dict[str, Any], state: str) -> None:
    result = said("tool_result", 2, tool_call_id="c", **fields)
    assert f"</span> {state}</span></summary>" in page.fragment(said("tool_call", tool_call_id="c"), result)


def test_a_second_result_stands_alone() -> None:
    call, result = said("tool_call", 1, tool_call_id="c"), said("tool_result", 2, tool_call_id="c")
    cards = page.article([call, result, result | {"id": "evt-000003"}]).split("<article ")
    assert [re.findall(r'id="evt-0*(\d)"', card) for card in cards[1:]] == [["1", "2"], ["3"]]


def test_a_call_alone_has_no_result() -> None:
    assert "</span> no result</span></summary>" in page.fragment(said("tool_call", tool_call_id="c"))


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"title": "Read x.py"}, "x.py"),
        ({"title": "Look at <x>"}, "Look at &lt;x&gt;"),
        ({"tool_input": {"path": "src", "pattern": "a b"}}, "a b"),
        ({"title": "Read", "tool_input": {"command": "ls\n-l"}}, "ls -l"),
        ({"title": "x" * 1000}, "x" * 299 + "…"),
        ({"tool_input": "text"}, ""),
    ],
)
def test_title_of_a_tool_card(fields: dict[str, Any], title: str) -> None:
    text = page.fragment(said("tool_call", tool_name="Read", **fields))
    assert f'<b><bdi>Read</bdi></b> <span class="title"><bdi>{title}</bdi></span>' in text


def test_input_is_pretty_json_and_texts_of_several_lines_are_set_apart() -> None:
    text = tool(given={"timeout": 5, "command": "a\nb <c>"})
    assert "{\n  &quot;timeout&quot;: 5\n}" in text
    assert '<figcaption>command</figcaption><pre tabindex="0"><code>a\nb &lt;c&gt;</code>' in text


def test_output_shows_each_stream_and_nothing_twice() -> None:
    text = tool(
        {"stdout": "out\n", "stderr": "\x1b[31mred\x1b[0m", "raw_output": {"all": "RAW"}, "exit_code": 3}
    )
    assert "<code>out</code>" in text and '<figure class="stderr">' in text and "<code>red</code>" in text
    assert "&quot;exit_code&quot;: 3" in text and "RAW" not in text
    assert "RAW" in tool({"raw_output": "RAW", "stdout": "", "file_path": "x.py"})
    assert "RAW" in tool({"raw_output": "RAW", "error": "the tool failed"}, tool_error=True)
    assert tool({"error": "no such file", "content": "no such file"}).count("no such file") == 1
    assert "No output." in tool({}) and "No output." in tool(None)


def test_contents_may_be_nested_lists_or_plain_values() -> None:
    block = {"type": "content", "content": {"type": "text", "text": "hello"}}
    assert "<code>hello</code>" in tool({"content": [block]})
    assert "<code>hello</code>" in tool([block]) and "<code>hello</code>" in tool("hello")
    assert "&quot;terminalId&quot;" in tool({"content": [{"type": "terminal", "terminalId": "t"}]})
    assert "<code>false</code>" in tool({"content": False})
    assert "10 more parts are left out" in tool({"content": [block] * 60})


def test_old_and_new_text_become_a_coloured_diff() -> None:
    change = {"type": "diff", "path": "a.py", "oldText": "a\n<b>\nc\n", "newText": "a\nd\nc\n"}
    for result in ({"structured_patch": [change]}, {"structured_patch": change}, {"content": [change]}):
        text = tool(result)
        assert "<b>--- a.py\n</b><b>+++ a.py\n</b><b>@@ -1,3 +1,3 @@\n</b> a\n" in text
        assert "<del>-&lt;b&gt;\n</del><ins>+d\n</ins> c\n" in text
    assert "<b>--- /dev/null\n</b>" in tool(
        {"content": [{"type": "diff", "path": "n", "oldText": None, "newText": "x"}]}
    )
    edited = tool(given={"file_path": "a.py", "old_string": "x", "new_string": ""})
    assert "<figcaption>change</figcaption>" in edited and "<del>-x\n</del>" in edited
    assert "old_string" not in edited and "&quot;file_path&quot;" in edited


def test_hunks_become_a_coloured_diff() -> None:
    hunk = {"oldStart": 4, "oldLines": 1, "newStart": 4, "newLines": 1, "lines": ["-a", "+b"]}
    assert "<b>@@ -4 +4 @@\n</b><del>-a\n</del><ins>+b\n</ins>" in tool({"structured_patch": [hunk, hunk]})


def test_only_the_lines_of_a_diff_are_coloured() -> None:
    diff = "- a list\n+ of things\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n"
    diff += "@@ -1 +1 @@ def f():\n-a\n+b\n\\ No newline\nend\n-z"
    text = tool({"stdout": diff})
    assert re.findall(r"<(?:ins|del)>(.*)\n", text) == ["-a", "+b"]
    assert re.findall(r"<b>(?!<)(.*)\n", text) == ["--- a/x", "+++ b/x", "@@ -1 +1 @@ def f():"]
    assert "<ins>+b\n</ins>" in page.fragment(said("assistant", content=f"```diff\n{diff}\n```"))
    assert "<del>" not in tool({"stdout": "- a\n- b\n--- c"})


def test_texts_too_long_to_compare_are_shown_as_replaced() -> None:
    old, new = ("\n".join(f"{word} {n}" for n in range(3000)) for word in ("old", "new"))
    text = tool({"structured_patch": {"path": "x", "oldText": old, "newText": new}})
    assert "@@ all lines @@" in text and "<del>-old 0\n" in text and "<ins>+new 2999\n" in text


def test_a_long_result_loses_its_middle_and_says_so() -> None:
    text = tool({"stdout": "START" + "x" * 50_000 + "END"})
    assert "START" in text and "END" in text and "30,008 characters are left out" in text
    assert len(text) < html_text.LONGEST + 2_000
    assert "left out" not in tool({"stdout": "x" * html_text.LONGEST})
    diff = tool({"stdout": "@@ -1 +1 @@\n" + "-a\n+b\n" * 5_000})
    assert diff.rindex("<ins>+b") > diff.index("left out") and Page(diff)


def test_nesting_too_deep_for_json_is_named() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert "nested too deeply" in tool({"stdout": "x", "other": deep})
    content: Any = "x"
    for _ in range(50):
        content = {"type": "content", "content": content}
    check_inert(tool({"content": content}))


def test_markers_have_a_severity_and_may_have_a_diagnostic() -> None:
    text = page.fragment(CONVERSATION[-1])
    assert '<article class="marker warning"' in text
    assert "<b><bdi>context reset</bdi></b> <bdi>the agent forgot</bdi></p>" in text
    text = page.fragment(said("marker", kind="x", severity="odd", redacted=True, diagnostic={"a": "<b>"}))
    assert '<article class="marker info"' in text and "<i>redacted</i>" in text and "&lt;b&gt;" in text


@pytest.mark.parametrize("text", ["[" * 50_000, "![" * 50_000, "[a](" * 20_000, "> " * 5_000])
def test_markdown_that_takes_too_long_or_goes_too_deep_is_plain_text(text: str) -> None:
    assert {"class": "plain"} in answer(text).all("div")


def test_importing_it_loads_no_markdown_parser() -> None:
    code = "import sys, agh.core.html.page; sys.exit('markdown_it' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


ODD_TEXT = st.one_of(
    st.text(st.characters(categories=None), max_size=40),
    st.text(st.sampled_from("<>&\"'[]()!`*_~#>|-:+@\\/ \n\tab1&;=.\u202e\u200d\0\r"), max_size=60),
    st.sampled_from(HOSTILE),
    st.lists(
        st.sampled_from([*HOSTILE, "\n", "\n\n", "> ", "- ", "```\n", "| ", "![", "]("]), max_size=6
    ).map("".join),
)
KEYS = [
    "type",
    "content",
    "text",
    "oldText",
    "newText",
    "lines",
    "path",
    "stdout",
    "stderr",
    "error",
    "file_path",
]
KEYS += ["structured_patch", "raw_output", "command", "old_string", "new_string"]
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        ODD_TEXT,
        st.sampled_from(["diff", "content", "text"]),
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.one_of(st.sampled_from(KEYS), ODD_TEXT), inner, max_size=5)
    ),
    max_leaves=8,
)
CHANGES = st.one_of(
    st.fixed_dictionaries({"type": st.just("diff"), "path": JSON, "oldText": JSON, "newText": ODD_TEXT}),
    st.fixed_dictionaries({"oldStart": JSON, "newStart": JSON, "lines": st.lists(JSON, max_size=4)}),
)
RESULTS = st.fixed_dictionaries(
    {},
    optional={
        "stdout": ODD_TEXT,
        "stderr": JSON,
        "error": JSON,
        "file_path": JSON,
        "content": st.one_of(JSON, st.lists(CHANGES, max_size=3)),
        "structured_patch": st.one_of(JSON, CHANGES, st.lists(CHANGES, max_size=3)),
        "raw_output": JSON,
    },
)
FIELDS = ["id", "timestamp", "content", "thinking", "thinking_complete", "tool_call_id", "tool_name", "title"]
FIELDS += [
    "tool_input",
    "tool_result",
    "tool_error",
    "outcome",
    "kind",
    "severity",
    "summary",
    "diagnostic",
    "redacted",
]
ROLES = st.sampled_from(["user", "assistant", "tool_call", "tool_result", "marker"])
MESSAGES = st.lists(
    st.one_of(
        st.builds(
            lambda fields, role: {**fields, "role": role},
            st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8),
            st.one_of(ROLES, JSON),
        ),
        st.builds(
            lambda role, given, result: said(
                role, tool_call_id="c", tool_name="T", tool_input=given, tool_result=result
            ),
            st.sampled_from(["tool_call", "tool_result"]),
            st.one_of(JSON, CHANGES),
            RESULTS,
        ),
    ),
    max_size=4,
)


@given(MESSAGES, st.dictionaries(st.sampled_from([*SESSION, "stop_detail"]), JSON), ODD_TEXT)
@settings(max_examples=60, deadline=None)
def test_any_messages_give_an_inert_page(messages: list[Message], session: dict[str, Any], at: str) -> None:
    text = html_page.page(session, messages, generated_at=at)
    read = check_inert(text, FRAME | PARTS | MARKDOWN)
    assert text == html_page.page(session, messages, generated_at=at)
    assert len(read.all("h1")) == len(read.all("main")) == len(read.all("style")) == 1


@given(ODD_TEXT)
@settings(max_examples=60, deadline=None)
def test_user_text_is_all_there(text: str) -> None:
    read = Page(page.fragment(said("user", content=text)))
    assert read.text == f"09:12:04\nUser\n{html_text.visible(text)}\n" if text else "User" in read.text


@given(ODD_TEXT)
@settings(max_examples=60, deadline=None)
def test_assistant_text_is_inert(text: str) -> None:
    answer(text)
