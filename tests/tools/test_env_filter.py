"""Commands inherit no credentials, under whatever name; the rest of the environment is theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.env_filter import filter_environment, is_secret
from tools.spool import Spool
from transcripts.masking import SecretMasks

from .bash_session import BashSession

OWN = "plain-words-that-no-pattern-knows"  # nothing in its form tells that it is a key


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_an_own_key_is_left_out_under_an_innocent_name_too(name: str) -> None:
    given = {name: OWN, "FAVOURITE": OWN, "OTHER": f"{OWN} and more", "PATH": "/bin"}
    kept = filter_environment(given)
    assert "FAVOURITE" not in kept and OWN not in kept.values()
    assert kept["OTHER"] == f"{OWN} and more" and kept["PATH"] == "/bin"
    assert filter_environment(given, ["FAVOURITE"])["FAVOURITE"] == OWN


def test_only_the_values_of_own_credentials_count_and_only_long_ones() -> None:
    given = {
        "ANTHROPIC_API_KEY": "1234567",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
        "GH_TOKEN": "somebody-elses",
        "COUNT": "1234567",
        "SERVER": "http://127.0.0.1:1",
        "FRIEND": "somebody-elses",
    }
    kept = filter_environment(given)
    assert {name: kept[name] for name in given if name in kept} == {
        "COUNT": "1234567",
        "SERVER": "http://127.0.0.1:1",
        "FRIEND": "somebody-elses",
    }
    assert "EIGHT" not in filter_environment({"ANTHROPIC_API_KEY": "12345678", "EIGHT": "12345678"})


def test_a_command_gets_an_own_key_under_no_name_and_what_it_prints_of_it_is_hidden(
    shell: BashSession,
) -> None:
    shell.context.environ = {**shell.context.environ, "ANTHROPIC_API_KEY": OWN, "FAVOURITE": OWN}
    shell.context.masks = SecretMasks((OWN,))
    assert shell.say("env | grep -c plain-words; echo ${FAVOURITE-unset}") == "0\nunset"
    first, second = OWN[:9], OWN[9:]
    assert shell.say(f"printf '%s' '{first}'; sleep 0.1; echo '{second}'") == "****"
    stored = shell.run(f"seq 40000; echo {OWN}").stored
    assert stored is not None
    assert OWN.encode() not in (shell.folder / stored.path).read_bytes()


def test_a_changed_environment_of_the_session_counts_from_the_next_command_on(shell: BashSession) -> None:
    assert shell.say("echo ${ADDED-unset} ${MY_TOKEN-unset}") == "unset unset"
    shell.context.environ = {**shell.context.environ, "ADDED": "1", "MY_TOKEN": "x"}
    assert shell.say("echo ${ADDED-unset} ${MY_TOKEN-unset}") == "1 unset"
    shell.context.pass_env = frozenset(("MY_TOKEN",))
    assert shell.say("echo ${ADDED-unset} ${MY_TOKEN-unset}") == "1 x"


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("GH_TOKENS", "x", True),
        ("MYTOKEN", "x", True),
        ("TOKENIZERS_PARALLELISM", "x", False),
        ("DB_PASSWORD_2", "x", True),
        ("aws_region", "x", True),
        ("MYSQL_PWD", "x", True),
        ("OLDPWD", "x", False),
        ("API_KEYS", "x", True),
        ("KEYBOARD", "x", False),
        ("X", "ghp_" + "a" * 20, True),
        ("X", "ghp_" + "a" * 19, False),
        ("X", "glpat-" + "a" * 16, True),
        ("X", "see ghp_" + "a" * 20, False),
        ("X", "a\n-----BEGIN RSA PRIVATE KEY-----\n", True),
    ],
)
def test_a_credential_is_told_by_its_name_or_its_form(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret
    assert (name in filter_environment({name: value})) is not secret


def test_start_up_files_of_shells_are_left_out_and_nothing_can_ask_or_page() -> None:
    steering = dict.fromkeys(("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "CDPATH", "GLOBIGNORE"), "x")
    kept = filter_environment({**steering, "POSIXLY_CORRECT": "1", "TERM": "xterm", "PAGER": "less"})
    assert kept.keys().isdisjoint({*steering, "POSIXLY_CORRECT"})
    assert (kept["TERM"], kept["PAGER"], kept["GIT_TERMINAL_PROMPT"]) == ("dumb", "cat", "0")
    assert "/bin" in kept["PATH"].split(":")


def test_an_output_without_masks_is_kept_as_it_is(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "1.txt", masks=SecretMasks())
    spool.feed(OWN.encode())
    assert spool.tail() == OWN.encode()
