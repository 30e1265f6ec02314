import pytest

from transcripts.codec import decode_line, encode_fact, mask_line
from transcripts.facts import User
from transcripts.messages import TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, map_strings
from transcripts.secrets.masking import SecretMasks, mask, mask_output

# Put together here so that no scanner takes this file for a leak.
SECRETS = [
    "sk-" + "ant-api03-" + "Ab1_" * 20,
    "AKIA" + "ABCDEFGHIJ234567",
    "gh" + "p_" + "a1B2" * 9,
    "gh" + "s_" + "a1B2" * 9,
    "github" + "_pat_" + "11ABC_" * 8,
    "gl" + "pat-" + "x1Y2z3" * 4,
    "gl" + "rt-" + "x1Y2z3" * 4,
    "xo" + "xb-" + "1234567890-abcdef",
    "AI" + "za" + "Sy" + "a1" * 16 + "b",
    "ey" + "JhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0." + "c2lnbmF0dXJl",
    "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIEow\nabc+/=\n-----MAX_END_BYTES " + "RSA PRIVATE KEY-----",
    "-----BEGIN " + "OPENSSH PRIVATE KEY-----\\nb3BlbnNz\\n-----MAX_END_BYTES " + "OPENSSH PRIVATE KEY-----",
    "-----BEGIN " + "PRIVATE KEY-----\nMIIEow\nabc+/=\nQ2Vy",
    "sk-" + "proj-" + "Zy9x8W7v" * 4,
    "sk" + "_live_" + "Zy9x8W7v" * 4,
    "hooks.slack.com/services/T0" + "ABC/B0DEF/" + "x1Y2z3W4v5",
    "Authorization: " + "Bearer abc.DEF-123",
]


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret[:12])
@pytest.mark.parametrize(
    "around", ["{}", "KEY={}", "4\\t{}", "x\\n{}\\n", '"{}"', "before {} after", "({})\n"]
)
def test_a_secret_is_masked_wherever_it_stands(secret: str, around: str) -> None:
    masked = mask(around.format(secret))
    core = secret[-20:-4] if "PRIVATE" not in secret else "MIIEow"
    assert core not in masked and "masked]" in masked
    assert mask(masked) == masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:hunter22@host/x", "https://[password masked]@host/x"),
        ("postgres://app:p%40ss@db:5432/x", "postgres://[password masked]@db:5432/x"),
        ("redis://app:Zx9!kq:1@db:6379", "redis://[password masked]@db:6379"),
        ("https://host/a:b@c", "https://host/a:b@c"),
        ("see http://example.com:8080/@me", "see http://example.com:8080/@me"),
    ],
)
def test_a_password_in_an_address_is_masked_and_the_address_kept(text: str, shown: str) -> None:
    assert mask(text) == mask_output(text) == shown


@pytest.mark.parametrize(
    "innocent",
    [
        "eyJ is how they begin",
        "AKIA",
        "sk-ant-",
        "the glob gl*-x matches",
        "a.b.c",
        "-----BEGIN CERTIFICATE-----\nMII\n-----MAX_END_BYTES CERTIFICATE-----",
        "task-antelope-number-nine",
        "x" * 10_000,
    ],
)
def test_text_without_secrets_is_not_changed(innocent: str) -> None:
    assert mask(innocent) == innocent


def test_every_string_of_a_value_is_masked() -> None:
    value = {"a": [SECRETS[0], 5, None], "b": {"c": f"x {SECRETS[1]}"}}
    assert map_strings(value, mask, keys=False) == {
        "a": ["[Anthropic key masked]", 5, None],
        "b": {"c": "x [AWS key id masked]"},
    }


def test_exact_values_are_masked_the_longest_first() -> None:
    masks = SecretMasks(("longsecret", "longsecret-and-more", "short"))
    assert masks.text("longsecret-and-more longsecret short") == "**** **** short"


def test_a_line_of_the_record_holds_no_value_and_is_whole() -> None:
    masks = SecretMasks(("longsecret", 'with "quotes"'))
    use = ToolUseBlock("t", "bash", {"command": ["echo longsecret"], "longsecret": 1, "n": 'a with "quotes"'})
    result = ToolResultBlock("t", (TextBlock("a longsecret"),))
    line = mask_line(encode_fact(User(1, 0.0, (use, result)), "s"), masks)
    fact, _ = decode_line(line)
    assert isinstance(fact, User)
    assert fact.blocks[0] == ToolUseBlock("t", "bash", {"command": ["echo ****"], "****": 1, "n": "a ****"})
    assert fact.blocks[1] == ToolResultBlock("t", (TextBlock("a ****"),))


def test_a_line_without_a_value_and_thinking_stay_unchanged() -> None:
    masks = SecretMasks(("longsecret",))
    for block in (TextBlock("x"), ThinkingBlock("longsecret", "signature")):
        line = encode_fact(User(1, 0.0, (block,)), "s")
        assert mask_line(line, masks) == line


def test_the_numbers_times_and_kinds_of_a_line_are_never_masked() -> None:
    fact = User(1, 1_795_253_400.0, (TextBlock("20261121-0930 is user_2 of 2026-11-21"),))
    masks = SecretMasks(("20261121-0930", "2026-11-21", "s-20261121-0930"))
    line = mask_line(encode_fact(fact, "s-20261121-0930"), masks)
    decoded, sid = decode_line(line)
    assert (decoded.seq, decoded.ts, sid) == (1, fact.ts, "s-20261121-0930")
    assert isinstance(decoded, User) and decoded.blocks == (TextBlock("**** is user_2 of ****"),)
