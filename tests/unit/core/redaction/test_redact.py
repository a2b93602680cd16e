import importlib.util
import re
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agh.core.redaction import redact
from agh.core.redaction.redact import MARK, Redactor, redactor
from tests.support.cpu import cpu_seconds, is_faster

# Every secret is put together here, so that a scanner of this file finds none.
WORD = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bD2fG4hJ6"
LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
DASHES = "-" * 5
KNOWN = "kn0wn" + "-value-77"


def pem(kind: str = "RSA PRIVATE KEY", newline: str = "\n") -> str:
    return newline.join([f"{DASHES}BEGIN {kind}{DASHES}", LINE, LINE, f"{DASHES}END {kind}{DASHES}"])


JWT = ".".join(["eyJ" + "hbGciOiJIUzI1NiJ9", "eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0", "dozjgNryP4J3jVmNHl0w5N"])
SHAPED = {
    "pem": pem(),
    "pem pkcs8": pem("PRIVATE KEY"),
    "pem openssh": pem("OPENSSH PRIVATE KEY"),
    "pem pgp": pem("PGP PRIVATE KEY BLOCK"),
    "pem in json": pem(newline="\\n"),
    "pem cut short": pem().rpartition("\n")[0],
    "pem encrypted": pem().replace("\n", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0011\n\n", 1),
    "pem numbered": pem().replace("\n", "\n     2\t"),
    "pem deleted in a diff": pem().replace("\n", "\n-"),
    "jwt": JWT,
    "jwt without signature": JWT.rpartition(".")[0] + ".",
    "openai": "sk-" + WORD,
    "openai project": "sk-" + "proj-" + WORD,
    "openrouter": "sk-" + "or-v1-" + WORD,
    "anthropic": "sk-" + "ant-api03-" + WORD,
    "github personal": "ghp" + "_" + WORD,
    "github oauth": "gho" + "_" + WORD,
    "github user": "ghu" + "_" + WORD,
    "github server": "ghs" + "_" + WORD,
    "github refresh": "ghr" + "_" + WORD,
    "github fine-grained": "github" + "_pat_" + WORD + "_" + WORD,
    "gitlab": "glpat" + "-" + WORD[:20],
    "gitlab routable": "glpat" + "-" + WORD + ".01." + WORD[:9],
    "slack bot": "xoxb" + "-123456789012-" + WORD[:24],
    "slack rotated": "xoxe" + ".xoxp" + "-1-" + WORD,
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "aws temporary": "ASIA" + "IOSFODNN7EXAMPLE",
    "google": "AIza" + "Sy" + WORD[:33],
    "npm": "npm" + "_" + WORD,
    "pypi": "pypi" + "-AgEIcHlwaS5vcmc" + WORD + "-" + WORD,
    "hugging face": "hf" + "_" + WORD[:34],
    "stripe": "sk" + "_live_" + WORD[:24],
    "stripe restricted": "rk" + "_live_" + WORD[:24],
    "stripe test": "sk" + "_test_" + WORD[:24],
    "sendgrid": "SG" + "." + WORD[:22] + "." + WORD + WORD[:7],
    "google oauth": "ya29" + ".a0" + WORD,
}
# «» marks what must be hidden.
PLACED = [
    "postgres://user:«hunter2»@db.example/app",
    "redis://:«p@ss#w?rd»@localhost:6379",
    "https://x-access-token:«abc»@github.com/o/r.git",
    f"Authorization: Bearer «{WORD[:9]}»",
    "authorization: basic «dXNlcjpwYXNz»",
    "Proxy-Authorization: Basic «dXNlcjpwYXNzd29yZA==»",
    "Authorization: «0123456789abcdef»",
    "Authorization: Custom «abc12345»",
    'Authorization: Digest «username="Mufasa", response="6629fae4"»',
    "Authorization: AWS4-HMAC-SHA256 «Credential=a/b, SignedHeaders=host, Signature=fe5f80»\r\n",
    f'curl -H "Authorization: token «{WORD[:8]}»" https://api.example',
    f"'Authorization': 'Bearer «{WORD[:9]}»',",
    f'headers["Authorization"] = "Bearer «{WORD[:9]}»"',
    f"got Bearer «{WORD}» from the cache",
    "Cookie: «session=31d4d96e; theme=dark»",
    'Cookie: «a="b c"; d=e»\r\nHost: x',
    "Set-Cookie: «sid=31d4d96e407aad42; Path=/»; HttpOnly",
    "curl -H 'Cookie: «sid=31d4»' x",
    "API_KEY=«abc123»",
    "export DB_PASSWORD=«correcthorse»",
    "PASSWORD=«12345678» ./run",
    'TOKEN="«abc12345»"',
    '"api_key": "«abc123def456»"',
    r"{\"api_key\": \"«abc123def456»\", \"n\": 1}",
    "'clientSecret' => '«swordfish»',",
    "apiKey: '«abc123def456»',",
    "password: «hunter2secret»",
    "password: «hunter2secret».",
    "password: «P@ssword!»",
    "password: «aHVudGVyMg==»",
    'password = "«swordfish»"',
    'password = b"«swordfish»"',
    'password: str = "«swordfish»"',
    'const token: string = "«abc12345»";',
    'else: password = "«hunter2»"',
    'db.password="«hunter\'2»"',
    'password = "«cut-off-here1»',
    "aws_secret_access_key = «wJalrXUtnFEMI/K7MDENG+bPxRfiCY»",
    "AccountName=a;AccountKey=«abcd1234==»;Suffix=b",
    'os.environ["API_KEY"] = "«abc12345»"',
    "X-Api-Key: «abcd1234efgh»",
    "//registry.npmjs.org/:_authToken=«abcd-1234-efgh»",
    "GET /x?api_key=«abc12345x»&page=2",
    "--token «xyz12345» --verbose",
    "--api-key=«xyz12345»",
    "--password «hunter2»",
    "--password=«swordfish»",
    "--password '«swordfish»'",
    "login\\npassword=«hunter2secret»\\nok",
    'token = "set password=«hunter2secret» first"',
    f'password="«foo{KNOWN}bar»"',
]
ORDINARY = [
    "token = parser.next()",
    "password: str",
    "password: str | None = None",
    "max_tokens = 4096",
    '"max_tokens": 4096, "input_tokens": 12345678, "token_count": "12345678"',
    "token: Optional[str] = None",
    'api_key = os.environ["API_KEY"]',
    "api_key=os.environ.get('OPENAI_API_KEY')",
    "password = getpass()",
    "secret_key=config.secret_key",
    "token = self.tokens2.current",
    "token = utf8_token",
    "token = sha256_token",
    "token = tokens[12345678]",
    "token = 0xdeadbeef",
    "token = 12345678",
    "token: u64 = 12345678",
    "if token is None",
    'key = "name"',
    'token = "identifier"',
    "token: 'comment.line'",
    "credentials: 'include',",
    "auth_token: string;",
    "password: process.env.DB_PASSWORD!,",
    'password: "Enter your password"',
    '"password": "required"',
    'password="password"',
    'secret: "my-app-secret"',
    'token: "access_token"',
    'api_key = "YOUR_API_KEY"',
    'api_key="<your-api-key-1>"',
    'token = f"Bearer {token1234}"',
    'password = "${DB_PASSWORD_1}"',
    "password=$DB_PASSWORD",
    "token: ${{ secrets.GITHUB_TOKEN }}",
    "TOKEN := $(shell cat token1234)",
    '"private_key": "/etc/ssl/private/key1.pem"',
    "token_url: https://example.com/oauth2/token",
    "PublicKeyToken=b77a5c561934e089",
    'pad_token = "<pad>12345"',
    'next_page_token = "abc123456789"',
    "Token: '#000080',",
    "--max-tokens 4096 --token TOKEN",
    "pass --token to authenticate or --password option instead",
    'parser.add_argument("--token", required=True)',
    "'Authorization': 'Bearer ' + token",
    "Authorization: Bearer <token>",
    "Authorization: required",
    "authorization = request.headers.get('x')",
    "Bearer authentication and Basic authorization",
    "cookie: string;",
    "for cookie in cookies: print(cookie)",
    "https://user:${PASSWORD}@host",
    "http://localhost:8080/a@b",
    "git@github.com:owner/repo.git",
    "git commit abc",
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    '"integrity": "sha512-abc123def456=="',
    "sess-01hx5kz8q2v7w9 evt-000042",
    "task-0123456789abcdef012345 risk_test_environment1234567",
    "sk-circle-fade-dot-animation npm_config_registry hf_hub_download pypi-publish",
    f"if text.startswith('{DASHES}BEGIN PRIVATE KEY{DASHES}'):",
    f'A = "{DASHES}BEGIN PRIVATE KEY{DASHES}"\nB = "{DASHES}END PRIVATE KEY{DASHES}"',
    f"{DASHES}BEGIN CERTIFICATE{DASHES}\n{LINE}\n{DASHES}END CERTIFICATE{DASHES}",
    "eyJhbGciOiJIUzI1NiJ9 is a header",
    "",
]


@pytest.fixture(scope="module")
def known() -> Redactor:
    return redactor({"ANTHROPIC_API_KEY": KNOWN})


@pytest.mark.parametrize("secret", SHAPED.values(), ids=SHAPED)
@pytest.mark.parametrize(
    "around", ["{}", "see {} now", "({})", '"{}",', "x={}\n", "line\\n{}\\n", "\x1b[31m{}\x1b[0m"]
)
def test_a_shaped_token_is_hidden_wherever_it_stands(secret: str, around: str) -> None:
    hidden = redactor().text(around.format(secret))
    assert hidden == around.format(MARK)


def test_a_key_cut_off_in_mid_line_is_hidden_to_the_end() -> None:
    assert redactor().text("x " + pem().rpartition("\n")[0] + "\nAbC") == f"x {MARK}"


@pytest.mark.parametrize("marked", PLACED)
def test_only_the_secret_is_hidden(known: Redactor, marked: str) -> None:
    assert known.text(marked.replace("«", "").replace("»", "")) == re.sub("«.*?»", MARK, marked)


@pytest.mark.parametrize("code", ORDINARY)
def test_ordinary_code_is_untouched(known: Redactor, code: str) -> None:
    assert known.text(code) == code


def test_our_own_source_is_untouched() -> None:
    source = Path(redact.__file__).read_text(encoding="utf-8")
    assert redactor().text(source) == source


@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY",
        "OPENAI_KEY",
        "GH_TOKEN",
        "api_token_2",
        "MY_SECRET_THING",
        "PGPASSWORD",
        "AWS_CREDENTIALS",
    ],
)
def test_values_of_secret_variables_are_known(name: str) -> None:
    value = "Tr0ub4dor&3"
    assert redactor({name: f" {value}\n"}).text(f"a{value}b{value}") == f"a{MARK}b{MARK}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOME", "Tr0ub4dor&3"),
        ("SSH_PUBLIC_KEY", "Tr0ub4dor&3"),
        ("TOKENIZERS_PARALLELISM", "Tr0ub4dor&3"),
        ("A_TOKEN", "short"),
        ("A_TOKEN", "production"),
        ("A_TOKEN", "DEVELOPMENT"),
        ("A_TOKEN", "12345678.90"),
        ("A_TOKEN", "xxxxxxxxxxxx"),
        ("A_CREDENTIALS", "/home/me/.config/creds.json"),
        ("A_SECRET_DIR", "~/secrets"),
        ("A_SECRET_STORE", "https://vault.example:8200/v1"),
    ],
)
def test_other_variables_are_not_known(name: str, value: str) -> None:
    assert redactor({name: value}).text(f"see {value}.") == f"see {value}."


def test_overlapping_known_values_leave_nothing_behind() -> None:
    both = redactor({"A_KEY": "abcdefgh-12", "B_KEY": "gh-12345678", "C_KEY": "abcdefgh-12345678-longer"})
    assert both.text("<abcdefgh-12345678>") == f"<{MARK}>"
    assert both.text("<abcdefgh-12345678-longer>") == f"<{MARK}>"


def test_known_value_that_contains_the_mark_does_not_break_it() -> None:
    odd = redactor({"A_KEY": "d]abc123", "B_KEY": "xyz12345["})
    once = odd.text("AKIA" + "IOSFODNN7EXAMPLE" + " d]abc123 xyz12345[redacted]abc123")
    assert once == f"{MARK} {MARK} xyz12345{MARK}abc123"
    assert odd.text(once) == once


def test_extra_patterns_hide_the_match_or_its_secret_group() -> None:
    patterns = [r"ACME-\w+", r"pin is (?P<secret>\d+)|pin lost", "x*", "redact"]
    r = redactor({}, map(re.compile, patterns))
    assert r.text(f"ACME-1 pin is 1234, pin lost {MARK}") == f"{MARK} pin is {MARK}, pin lost {MARK}"


def test_json_hides_by_name_and_by_shape() -> None:
    token = SHAPED["github personal"]
    value = {
        "api_key": "short",
        "Authorization": ["Bearer a", "b"],
        "clientSecret": "with spaces too",
        "password": None,
        "secret": "",
        "nested": [{"db-password": "x"}, token, 7, 1.5, True, None],
        "env": [
            {"name": "API_KEY", "value": "abc"},
            {"name": "PATH", "value": "/bin"},
            {"name": [], "value": "y"},
        ],
        token: "a key",
        token + "x": "another",
        3: "three",
    }
    assert redactor().json(value) == {
        "api_key": MARK,
        "Authorization": [MARK, MARK],
        "clientSecret": MARK,
        "password": None,
        "secret": "",
        "nested": [{"db-password": MARK}, MARK, 7, 1.5, True, None],
        "env": [
            {"name": "API_KEY", "value": MARK},
            {"name": "PATH", "value": "/bin"},
            {"name": [], "value": "y"},
        ],
        MARK: "a key",
        f"{MARK} 9": "another",
        3: "three",
    }


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens",
        "token_count",
        "input_tokens",
        "tokens",
        "token_usage",
        "tokenizer",
        "password_policy",
        "key",
        "keys",
        "public_key",
        "cache_key",
        "nextPageToken",
        "progressToken",
        "pad_token",
        "secretary",
        "author",
        "monkey",
        "keyboard",
        "passwordless",
    ],
)
def test_json_leaves_ordinary_names_alone(name: str) -> None:
    assert redactor().json({name: "abc12345"}) == {name: "abc12345"}


def test_json_does_not_change_its_argument_and_goes_deep() -> None:
    value: object = {"token": "abc"}
    expected: object = {"token": MARK}
    for _ in range(125):
        value, expected = {"a": [value]}, {"a": [expected]}
    before = repr(value)
    assert redactor().json(value) == expected
    assert repr(value) == before


@pytest.mark.parametrize("secret", [*SHAPED.values(), KNOWN], ids=[*SHAPED, "known"])
def test_a_secret_split_anywhere_is_seen(known: Redactor, secret: str) -> None:
    for cut in range(1, len(secret)):
        assert known.chunks(["see ", secret[:cut], secret[cut:] + " now", "."]) == ["see ", MARK, " now", "."]
    assert known.chunks(list(secret)) == [MARK, *[""] * (len(secret) - 1)]


def test_chunks_keep_their_places() -> None:
    r = redactor()
    assert r.chunks([]) == []
    assert r.chunks(["", "a", "", "b"]) == ["", "a", "", "b"]
    parts = ["pass", "word: hun", "ter2", "secret", "\nnext: ", "1"]
    assert r.chunks(parts) == ["pass", f"word: {MARK}", "", "", "\nnext: ", "1"]


FRAGMENTS = st.one_of(
    st.sampled_from([*SHAPED.values(), KNOWN, MARK, "\0"]),
    st.sampled_from([p.replace("«", "").replace("»", "") for p in PLACED]),
    st.sampled_from(ORDINARY),
    st.sampled_from(
        ["password", "token", "secret", "api_key", "--token", "authorization", "cookie", "bearer", "Basic"]
    ),
    st.sampled_from(["sk-", "eyJ", "SG.", "://", "END", "PRIVATE", "KEY"]),
    st.sampled_from(
        [DASHES, "BEGIN PRIVATE KEY", LINE, WORD, "hunter2", "abc12345", "[redac", "ted]", "str", "f"]
    ),
    st.sampled_from(list(" \t\n\\\"'`:=;,.@/()[]{}<>|&$%#!-_~?a1A")),
    st.text(max_size=8),
)
TEXTS = st.lists(FRAGMENTS, max_size=12).map("".join)
REDACTORS = st.sampled_from(
    [redactor(), redactor({"ANTHROPIC_API_KEY": KNOWN}), redactor({"A_KEY": "d] hunter2["})]
)


@given(REDACTORS, TEXTS)
def test_redacting_twice_changes_nothing(r: Redactor, text: str) -> None:
    once = r.text(text)
    assert r.text(once) == once


@given(st.lists(FRAGMENTS, max_size=12), st.data())
def test_chunks_are_the_text_however_it_is_split(fragments: list[str], data: st.DataObject) -> None:
    r = redactor({"ANTHROPIC_API_KEY": KNOWN})
    text = "".join(fragments)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    for parts in (fragments, [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]):
        chunks = r.chunks(parts)
        assert len(chunks) == len(parts)
        assert "".join(chunks) == r.text(text)


@given(TEXTS, st.sampled_from([*SHAPED.values(), KNOWN]), TEXTS)
def test_a_secret_never_survives(before: str, secret: str, after: str) -> None:
    assume(secret not in before + after)  # there it may be a part of a longer word, which is none
    assert secret not in redactor({"ANTHROPIC_API_KEY": KNOWN}).text(f"{before} {secret} {after}")


JSON = st.recursive(
    TEXTS | st.integers() | st.none(), lambda v: st.lists(v) | st.dictionaries(TEXTS, v), max_leaves=8
)


def test_keys_that_become_the_same_are_all_there() -> None:
    tokens = [SHAPED["github personal"] + letter for letter in "abc"]
    clean = redactor().json({MARK: 0, **dict.fromkeys(tokens, 1), "API_KEY=abc123def456": 2, "plain name": 3})
    assert [*clean.values()] == [0, 1, 1, 1, 2, 3]
    assert not any(token in str(clean) for token in (*tokens, "abc123def456"))
    assert "plain name" in clean


def test_the_ends_of_a_text_are_cut_behind_its_secrets() -> None:
    token = SHAPED["github personal"]
    for at in range(len(token) + 2):
        text = "x" * 50 + " " + token + " " + "y" * 50
        assert not re.search("ghp_.", redactor().beginning(text, 50 + at))
        assert redactor().end(text, 50 + at).lstrip(" ") in ("y" * 50, f"{MARK} " + "y" * 50)


@given(JSON)
def test_json_twice_changes_nothing(value: object) -> None:
    once = redactor().json(value)
    assert redactor().json(once) == once


BEGIN = f"{DASHES}BEGIN PRIVATE KEY{DASHES}"


ADVERSARIAL = {
    "": [
        *["eyJ-", "SG.", "token='a\"", 'token="', "a-", "a--", "a=", "--token ", "token=\\", "token: "],
        *["cookie:a=b;", "cookie: a=", "authorization: b ", "bearer a", "://a:", "://a@"],
        *[BEGIN, f"{BEGIN}\n{LINE}", "\0", MARK, KNOWN],
    ],
    "password=": ["a", "a1", "!", "=", "a-", "a.a", "_a", "aB", "/", "."],
    'password="': ["a", "\\", "\\a", "${", "a-", "aB", "{"],
    f"{BEGIN}\n": ["A", "A-"],
    **{
        head: ["a", " "]
        for head in ["authorization: a ", "bearer ", "cookie: ", "://", "://a:", "eyJ", "token"]
    },
}


@pytest.mark.parametrize(
    ("head", "unit", "size"),
    [
        *(
            ("", unit, 500_000)
            for unit in ["a", "sk-", "eyJ", "://", f"{DASHES}BEGIN", "password=", '"key":"']
        ),
        *((head, unit, 200_000) for head, units in ADVERSARIAL.items() for unit in units),
    ],
)
def test_time_is_linear(head: str, unit: str, size: int) -> None:
    large = head + unit * (size // len(unit))
    small = large[: size // 4]
    # Four times the input takes four times as long, or sixteen if something backtracks.
    r = redactor({"ANTHROPIC_API_KEY": KNOWN})
    assert is_faster(lambda: r.text(large), 10 * cpu_seconds(lambda: r.text(small)) + 0.01)


def test_importing_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.find_spec("agh.core.redaction.redact")
    assert spec and spec.loader
    monkeypatch.setattr(re, "_compile", None)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
