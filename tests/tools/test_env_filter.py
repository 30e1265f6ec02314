"""Commands inherit no credentials, under whatever name; what is withheld and what is masked is one table."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.secret_samples import INNOCENT, SECRETS, WITHHELD
from tests.tables import each_row
from tools.processes.env_filter import filter_environment
from tools.processes.spool import Spool
from transcripts.secrets.masking import SecretMasks, mask
from transcripts.secrets.secret_forms import SECRET_FORMS, SecretForm, secret_values

from .bash_session import BashSession

OWN = "plain-words-that-no-pattern-knows"  # its form does not reveal that it is a key


def masked(environ: dict[str, str], text: str) -> str:
    return SecretMasks(secret_values(environ)).text(text)


@each_row("name", SECRETS)
def test_a_secret_is_withheld_and_masked_under_its_name_and_in_other_variables(name: str) -> None:
    value, secret = SECRETS[name]
    environ = {name: value, "COPY": value, "MORE": f"x {secret} y", "OTHER": "stays", "PATH": "/bin"}
    kept = filter_environment(environ)
    assert kept.keys() & environ.keys() == {"OTHER", "PATH"}
    text = masked(environ, f"before {value} and '{secret}' after")
    assert secret not in text and "before" in text and "****' after" in text


@each_row("form", SECRET_FORMS)
def test_each_form_of_the_table_is_known_to_commands_records_exports_and_logs(form: SecretForm) -> None:
    held = {name: value for name, (value, _) in SECRETS.items() if re.search(form.pattern, value)}
    assert held, "SECRETS needs an example"
    for name, value in held.items():
        secret = SECRETS[name][1]
        assert filter_environment({"X": value}).get("X") is None
        assert secret not in masked({"X": value}, f"<{secret}>") and secret not in mask(f"X={value}")


@each_row(("name", "value"), WITHHELD)
def test_a_value_that_innocent_text_may_hold_is_withheld_but_not_masked(name: str, value: str) -> None:
    environ = {name: value, "OTHER": f"{value}/1", "PATH": "/bin"}
    assert name not in filter_environment(environ) and "OTHER" in filter_environment(environ)
    assert masked(environ, f"rm -rf cache/{value}") == f"rm -rf cache/{value}"


@each_row(("name", "value"), INNOCENT)
def test_a_variable_that_only_sounds_secret_is_neither_withheld_nor_masked(name: str, value: str) -> None:
    assert filter_environment({name: value})[name] == value
    assert masked({name: value}, f"<{value}>") == f"<{value}>"


def test_a_secret_that_is_part_of_the_users_name_or_directory_is_not_masked() -> None:
    environ = {"MY_PASSWORD": "ada-1815", "HOME": "/home/ada-1815", "USER": "ada-1815"}
    assert masked(environ, "/home/ada-1815/x") == "/home/ada-1815/x"
    assert filter_environment(environ)["HOME"] == "/home/ada-1815"


def test_what_a_user_passes_on_reaches_commands_and_is_masked_in_what_they_print(
    shell: BashSession,
) -> None:
    environ = {"DEPLOY_PAT": "fj39dk2Lq0Xz81", "FAVOURITE": OWN, "ANTHROPIC_API_KEY": OWN}
    shell.context.environ = {**shell.context.environ, **environ}
    shell.context.masks = SecretMasks(secret_values(environ))
    shell.context.pass_env = frozenset(("DEPLOY_PAT",))
    assert (
        shell.say("echo ${#DEPLOY_PAT} ${FAVOURITE-unset}; env | grep DEPLOY") == "14 unset\nDEPLOY_PAT=****"
    )
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


def test_start_up_files_of_shells_are_left_out_and_nothing_can_ask_or_page() -> None:
    steering = dict.fromkeys(("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "CDPATH", "GLOBIGNORE"), "x")
    kept = filter_environment({**steering, "POSIXLY_CORRECT": "1", "TERM": "xterm", "PAGER": "less"})
    assert kept.keys().isdisjoint({*steering, "POSIXLY_CORRECT"})
    assert (kept["TERM"], kept["PAGER"], kept["GIT_TERMINAL_PROMPT"]) == ("dumb", "cat", "0")
    assert "/bin" in kept["PATH"].split(":")


def test_an_output_without_masks_is_kept_unchanged(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "1.txt", masks=SecretMasks())
    spool.feed(OWN.encode())
    spool.flush()
    assert spool.tail() == OWN.encode()


WHAT_OTHERS_SEE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from tools.processes.env_filter import hide_own_environment
hide_own_environment()
assert os.environ["MY_TOKEN"] == "fj39dk2Lq0Xz81" and os.environ["OTHER"] == "stays"
import ctypes
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
print(open(f"/proc/{os.getpid()}/environ", "rb").read().replace(b"\\0", b" ").decode())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_root_finds_no_secret_in_what_we_were_started_with() -> None:
    root = str(Path(__file__).parents[2])
    environ = {"MY_TOKEN": "fj39dk2Lq0Xz81", "OTHER": "stays", "DB": "postgres://a:s3cr3tpw@h/x"}
    command = [sys.executable, "-c", WHAT_OTHERS_SEE, root]
    shown = subprocess.run(
        command, env=environ, capture_output=True, text=True, check=True, timeout=30
    ).stdout
    assert "OTHER=stays" in shown and "MY_TOKEN=" in shown
    assert "fj39dk2Lq0Xz81" not in shown and "s3cr3tpw" not in shown
