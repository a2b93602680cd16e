r"""The shapes of secrets that can be recognised wherever they stand: tokens by prefix, length and alphabet.

They are facts from the vendors' documentation, with looser lengths. Each shape has a hint, in lower case, and
is compiled only if the hint occurs: in a word long enough, or anywhere if it may stand apart from its secret.
If a pattern has a group `secret`, only that is hidden. Each pattern consumes all the letters and digits that
follow, so the remaining text never begins in the middle of a word, and repeats nothing without a bound but
possessively: its time is linear.

Importing this compiles nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agh.core.named_tuple import NamedTuple

ANYWHERE, WORD, LONG_WORD = 0, 12, 50  # characters of the word that a hint is in
_WORDS = rf"""[^\s"'`<>(){{}}\[\],;|]{{{WORD},}}+"""


class Shape(NamedTuple):
    """A kind of secret, the hint that it may be there, its pattern, and how long its word is at least."""

    kind: str
    hint: str
    pattern: str
    least: int = WORD


def _at_word_start(prefix: str) -> str:
    """Match the prefix unless a word runs into it (`task-`); escapes and colour codes may precede it."""
    n = len(prefix)
    return re.escape(prefix) + rf"(?:(?<![A-Za-z0-9].{{{n}}})|(?<=\\[nrt].{{{n}}})|(?<=[\d;\[]m.{{{n}}}))"


def _token(kind: str, prefix: str, body: str) -> Shape:
    """Describe a token by its prefix, at the start of a word, and the pattern of the rest."""
    return Shape(kind, prefix.lower(), _at_word_start(prefix) + body)


ASSIGN = r"""\\*+["'`]?+\]?+[ \t]*+[:=][ \t]*+\\*+["'`]?+"""
_COOKIE = r"""[\w.!#$%&*+^|~-]++=(?:"[^"\r\n]*+"|[^\s;"'`\\]*+)"""
_PEM = r"(?:[A-Z0-9]++ ){0,4}?PRIVATE KEY(?: BLOCK)?-----"
_PEM_BODY = r"(?=(?:[^\0-]|-(?!----)){0,400}?[A-Za-z0-9+/]{16})(?:[^\0-]++|-(?!----))*+-{5,6}END "
_PEM_NEWLINE = r"(?:[ \t\r]|\\[rt])*+(?:\n|\\n)(?:\s|\\[nrt])*+"
_PEM_LINE = _PEM_NEWLINE + r"(?:[A-Z][\w-]*+: [^\s\\\0]++|[A-Za-z0-9+/=]{16,}+|[A-Za-z0-9+/=]++\Z)"

_ALNUM, _HEX, _WORDY = "[A-Za-z0-9]", "[a-fA-F0-9]", r"[\w-]"
_UUID = r"[a-fA-F0-9]{8}-(?:[a-fA-F0-9]{4}-){3}[a-fA-F0-9]{12}\w*+"

# Kinds whose prefix alone says what they are, with the alphabet and the least length of what follows.
_PREFIXED = (
    ("1password", "ops_eyJ", _WORDY, 60),
    ("adafruit", "aio_", _ALNUM, 24),
    ("age", "AGE-SECRET-KEY-1", "[A-Z0-9]", 50),
    ("aiven", "AVNS_", _WORDY, 16),
    ("alibaba", "LTAI", _ALNUM, 17),
    ("atlassian", "ATATT3", r"[\w=-]", 60),
    ("atlassian", "ATBB", _ALNUM, 28),
    ("aws bedrock", "ABSK", r"[A-Za-z0-9+/=]", 60),
    ("buildkite", "bkua_", _ALNUM, 32),
    ("cargo", "cio", _ALNUM, 32),
    ("circleci", "CCIPAT_", r"\w", 32),
    ("clojars", "CLOJARS_", _ALNUM, 50),
    ("cloudflare", "v1.0-", "[a-fA-F0-9-]", 100),
    ("contentful", "CFPAT-", _WORDY, 40),
    ("databricks", "dapi", _HEX, 32),
    ("digitalocean", "dop_v1_", _HEX, 40),
    ("digitalocean", "doo_v1_", _HEX, 40),
    ("digitalocean", "dor_v1_", _HEX, 40),
    ("docker", "dckr_pat_", _WORDY, 20),
    ("docker", "dckr_oat_", _WORDY, 20),
    ("doppler", "dp.pt.", _ALNUM, 40),
    ("doppler", "dp.st.", r"[\w.-]", 40),
    ("dropbox", "sl.", _WORDY, 100),
    ("duffel", "duffel_live_", r"[\w=-]", 40),
    ("duffel", "duffel_test_", r"[\w=-]", 40),
    ("dynatrace", "dt0c01.", r"[A-Z0-9.]", 80),
    ("easypost", "EZAK", _ALNUM, 50),
    ("easypost", "EZTK", _ALNUM, 50),
    ("facebook", "EAAM", _ALNUM, 80),
    ("facebook", "EAAC", _ALNUM, 80),
    ("figma", "figd_", _WORDY, 30),
    ("flutterwave", "FLWSECK_TEST-", r"[\w-]", 12),
    ("flutterwave", "FLWSECK-", r"[\w-]", 20),
    ("fly", "fm2_", r"[\w+/=-]", 80),
    ("fly", "fo1_", _WORDY, 40),
    ("frame.io", "fio-u-", _WORDY, 50),
    ("gitlab", "gldt-", _WORDY, 16),
    ("gitlab", "glptt-", _WORDY, 16),
    ("gitlab", "glrt-", _WORDY, 16),
    ("gitlab", "glcbt-", _WORDY, 16),
    ("gitlab", "glft-", _WORDY, 16),
    ("gitlab", "glimt-", _WORDY, 16),
    ("gitlab", "glagent-", _WORDY, 40),
    ("gitlab", "gloas-", _WORDY, 40),
    ("gitlab", "glsoat-", _WORDY, 16),
    ("gitlab", "glffct-", _WORDY, 16),
    ("gitlab", "GR1348941", _WORDY, 16),
    ("google oauth", "GOCSPX-", _WORDY, 24),
    ("grafana", "glc_", r"[\w+/=-]", 32),
    ("grafana", "glsa_", r"\w", 32),
    ("groq", "gsk_", _ALNUM, 40),
    ("hashicorp vault", "hvs.", _WORDY, 20),
    ("hashicorp vault", "hvb.", _WORDY, 60),
    ("hashicorp vault", "hvr.", _WORDY, 20),
    ("heroku", "HRKU-AA", _WORDY, 40),
    ("huggingface", "api_org_", _ALNUM, 30),
    ("infracost", "ico-", _ALNUM, 32),
    ("intra42", "s-s4t2ud-", _HEX, 60),
    ("jfrog", "AKCp", _ALNUM, 60),
    ("jfrog", "cmVmd", _ALNUM, 55),
    ("langfuse", "sk-lf-", _WORDY, 30),
    ("langsmith", "lsv2_pt_", r"\w", 30),
    ("langsmith", "lsv2_sk_", r"\w", 30),
    ("linear", "lin_api_", _ALNUM, 36),
    ("linear", "lin_oauth_", _ALNUM, 36),
    ("mailgun", "key-", "[a-f0-9]", 32),
    ("mongodb atlas", "mdb_sa_sk_", _WORDY, 36),
    ("neon", "napi_", _ALNUM, 40),
    ("new relic", "NRAK-", "[A-Z0-9]", 25),
    ("new relic", "NRII-", _WORDY, 30),
    ("new relic", "NRJS-", "[a-f0-9]", 18),
    ("notion", "ntn_", _ALNUM, 40),
    ("notion", "secret_", _ALNUM, 42),
    ("npm", "npm_", _ALNUM, 20),
    ("nuget", "oy2", "[a-z0-9]", 43),
    ("nvidia", "nvapi-", _WORDY, 50),
    ("octopus deploy", "API-", "[A-Z0-9]", 25),
    ("openshift", "sha256~", _WORDY, 40),
    ("perplexity", "pplx-", _ALNUM, 40),
    ("pinecone", "pcsk_", r"\w", 40),
    ("planetscale", "pscale_tkn_", r"[\w.=-]", 30),
    ("planetscale", "pscale_pw_", r"[\w.=-]", 30),
    ("planetscale", "pscale_oauth_", r"[\w.=-]", 30),
    ("postman", "PMAK-", r"[a-fA-F0-9-]", 50),
    ("prefect", "pnu_", _ALNUM, 36),
    ("pulumi", "pul-", _HEX, 40),
    ("readme", "rdme_", _ALNUM, 60),
    ("replicate", "r8_", _ALNUM, 36),
    ("rubygems", "rubygems_", _HEX, 44),
    ("scalingo", "tk-us-", _WORDY, 44),
    ("brevo", "xkeysib-", r"[\w-]", 70),
    ("brevo", "xsmtpsib-", r"[\w-]", 70),
    ("sentry", "sntryu_", _HEX, 60),
    ("sentry", "sntrys_", r"[\w+/=-]", 60),
    ("settlemint", "sm_aat_", _ALNUM, 16),
    ("settlemint", "sm_pat_", _ALNUM, 16),
    ("shippo", "shippo_live_", _HEX, 40),
    ("shippo", "shippo_test_", _HEX, 40),
    ("shopify", "shpat_", _HEX, 32),
    ("shopify", "shpca_", _HEX, 32),
    ("shopify", "shppa_", _HEX, 32),
    ("shopify", "shpss_", _HEX, 32),
    ("snyk", "snyk_uat.", r"[\w.-]", 30),
    ("sonar", "sqp_", _HEX, 40),
    ("sonar", "squ_", _HEX, 40),
    ("sonar", "sqa_", _HEX, 40),
    ("sourcegraph", "sgp_", r"\w", 40),
    ("square", "sq0atp-", _WORDY, 22),
    ("square", "sq0csp-", _WORDY, 40),
    ("stripe", "whsec_", r"[A-Za-z0-9+/=]", 30),
    ("supabase", "sbp_", _HEX, 40),
    ("tailscale", "tskey-", _WORDY, 20),
    ("twilio", "SK", "[a-f0-9]", 32),
    ("typeform", "tfp_", r"[\w.=-]", 50),
    ("xai", "xai-", _WORDY, 70),
    ("yandex", "AQVN", _WORDY, 35),
    ("yandex", "t1.", r"[\w.=-]", 80),
)

SHAPES = (
    Shape(
        "private key", "private key", rf"-----BEGIN {_PEM}(?:{_PEM_BODY}{_PEM}|(?:{_PEM_LINE})++)", ANYWHERE
    ),
    Shape("jwt", "eyj", r"(?P<secret>eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+){0,3}+)|eyJ[\w-]*+"),
    Shape("anthropic", "sk-ant-", r"sk-ant-[\w-]{8,}+"),
    _token(
        "openai", "sk-", rf"(?:{_ALNUM}{{20}}|proj-[\w-]{{16}}|(?=[A-Za-z_-]{{0,40}}\d)[\w-]{{20}})[\w-]*+"
    ),
    Shape("github", "gh", r"gh[pousr]_[A-Za-z0-9]{20}\w*+"),
    Shape("github", "github_pat_", r"github_pat_\w{20,}+"),
    Shape("gitlab", "glpat-", r"glpat-[\w-]{16,}+(?:\.\w++)*+"),
    Shape("slack", "xox", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}+"),
    Shape("slack", "xapp-", r"xapp-\d-[A-Za-z0-9-]{20,}+"),
    Shape(
        "slack webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[\w/+-]{20,}+)",
    ),
    Shape("discord webhook", "/api/webhooks/", r"/api/webhooks/\d{8,20}/(?P<secret>[\w-]{40,}+)"),
    Shape(
        "teams webhook", "webhook.office.com/", r"webhook\.office\.com/webhookb2/(?P<secret>[\w@/-]{40,}+)"
    ),
    *(_token("aws", prefix, r"[A-Z0-9]{16}[A-Za-z0-9]*+") for prefix in ("AKIA", "ASIA", "ABIA", "ACCA")),
    _token("google", "AIza", r"[\w-]{30,}+"),
    Shape("google oauth", "ya29.", r"ya29\.[\w.-]{20,}+"),
    Shape("pypi", "pypi-", r"pypi-(?:AgE[\w-]{16}|\w{32})[\w-]*+"),
    Shape("huggingface", "hf_", r"hf_[A-Za-z0-9]{20,}+"),
    *(
        _token("stripe", prefix, r"[A-Za-z0-9]{16,}+")
        for prefix in ("sk_live_", "rk_live_", "sk_test_", "rk_test_", "sk_prod_", "rk_prod_")
    ),
    _token("elevenlabs", "sk_", r"[a-f0-9]{40}\w*+"),
    _token("sendgrid", "SG.", r"[\w-]{16,}+\.[\w-]{16,}+"),
    _token("airtable", "pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{40}\w*+"),
    _token("hashicorp vault", "s.", r"(?=[A-Za-z]{0,23}\d)[A-Za-z0-9]{24}\b"),
    Shape("terraform", ".atlasv1.", r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{50,}+"),
    _token("hubspot", "pat-", rf"(?:na|eu)\d-{_UUID}"),
    _token("launchdarkly", "api-", _UUID),
    _token("launchdarkly", "sdk-", _UUID),
    _token("plaid", "access-", rf"(?:sandbox|development|production)-{_UUID}"),
    _token("resend", "re_", r"(?=[A-Za-z]{0,30}[\d_])[A-Za-z0-9]{6,12}_[A-Za-z0-9]{20,}+"),
    _token("lob", "live_", r"[a-f0-9]{35}\w*+"),
    _token("lob", "test_", r"[a-f0-9]{35}\w*+"),
    _token("harness", "pat.", r"[\w-]{22}\.[a-f0-9]{24}\.[A-Za-z0-9]{16,}+"),
    _token("harness", "sat.", r"[\w-]{22}\.[a-f0-9]{24}\.[A-Za-z0-9]{16,}+"),
    Shape("mailchimp", "-us", r"-us\d(?<=(?<![A-Za-z0-9])(?P<secret>[a-f0-9]{32})-us\d)\d?\w*+"),
    Shape("maxmind", "_mmk", r"(?<![A-Za-z0-9])[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\w*+"),
    Shape("telegram", ":aa", r"(?<![A-Za-z0-9])\d{8,10}:AA[\w-]{32,}+"),
    Shape("azure", "8q~", r"(?<![\w~.-])[\w~.-]{3}8Q~[\w~.-]{30,}+"),
    Shape("discord", ".", r"(?<![\w-])[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}+", LONG_WORD),
    Shape("mapbox", "sk.eyj", r"sk\.eyJ[\w.-]{20,}+"),
    Shape("asana", "1/1", r"(?<![\w/])1/1\d{14,16}[:/](?P<secret>[a-f0-9]{32}\w*+)"),
    Shape("azure storage", "accountkey=", r"(?i:accountkey)=(?P<secret>[A-Za-z0-9+/]{40,}+={0,2}+)"),
    Shape("azure sas", "sig=", r"[?&;]sig=(?P<secret>[A-Za-z0-9%+/]{30,}+=*+)"),
    Shape("aws signature", "x-amz-signature=", r"(?i:x-amz-signature)=(?P<secret>[a-f0-9]{64}\w*+)"),
    Shape("putty", "private-mac:", r"(?i:private-mac):[ \t]*+(?P<secret>[a-f0-9]{40,}+)", ANYWHERE),
    *(
        _token(kind, prefix, rf"{alphabet}{{{least}}}{alphabet}*+\w*+")
        for kind, prefix, alphabet, least in _PREFIXED
    ),
    Shape("url", "://", r"""://[^\s/:@"'`<>\\\0]*+:(?P<secret>[^\s/"'`<>{}\\\0]+)(?=@)""", ANYWHERE),
    Shape("bearer", "bearer", r"(?i:bearer)[ \t]++(?=[\w.~+/-]*\d)(?P<secret>[\w.~+/-]{16,}+=*+)", ANYWHERE),
    Shape(
        "authorization",
        "authorization",
        rf"(?i:authorization){ASSIGN}[A-Za-z][\w-]*+[ \t]++"
        r"""(?P<secret>\w++=\\*+"?+[\w+/%][^\r\n]*+|(?=[\w.~+/:-]*\d)[\w.~+/:-]{8,}+=*+)""",
        ANYWHERE,
    ),
    Shape("cookie", "cookie", rf"(?i:cookie){ASSIGN}(?P<secret>{_COOKIE}(?:;[ \t]*+{_COOKIE})*+)", ANYWHERE),
)


# By where the hint must be: most texts have no long words, so most shapes need not be asked.
_PATTERNS = {
    least: [(shape.hint, shape.pattern) for shape in SHAPES if shape.least == least]
    for least in (ANYWHERE, WORD, LONG_WORD)
}


def find_shapes(s: str) -> Iterator[re.Pattern[str]]:
    """Yield the compiled pattern of every shape whose hint occurs in the text."""
    words = re.findall(_WORDS, s)
    texts = {
        ANYWHERE: s.lower(),
        WORD: " ".join(words).lower(),
        LONG_WORD: " ".join(word for word in words if len(word) >= LONG_WORD).lower(),
    }
    for least, patterns in _PATTERNS.items():
        if text := texts[least]:
            for hint, pattern in patterns:
                if hint in text:
                    yield re.compile(pattern)
