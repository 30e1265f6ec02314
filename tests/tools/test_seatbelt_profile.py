"""The profile of the sandbox on macOS: its rules are in the right order, and no path can add one."""

import re
from fnmatch import fnmatch
from typing import Any

import pytest

from tests.tables import each_row
from tools.sandbox.supervisor.profile_message import ProfileMessage
from tools.sandbox.supervisor.seatbelt import quoted, seatbelt_profile

from .profile_messages import NAMES_NOTHING

PROFILE: ProfileMessage = {
    **NAMES_NOTHING,
    "folder": "/Users/me/work",
    "scratch": "/private/var/folders/x/walled",
    "writable": ["/Users/me/other"],
    "read_only": ["/Users/me/work/.git/hooks", "/Users/me/work/.git/config"],
    "hidden": ["/Users/me/.ssh"],
    "records": ["/Users/me/work/.transcripts"],
    "project_writable": True,
}


def parsed(text: str) -> list[Any]:
    """The forms of a profile, as a reader of its language takes them: lists, symbols, strings in a tuple."""
    stack: list[list[Any]] = [[]]
    for token in re.findall(r'"(?:[^"\\]|\\.)*"|[()]|[^\s()"]+|"', text):
        if token == "(":
            stack.append([])
        elif token == ")":
            form = stack.pop()
            stack[-1].append(form)
        else:
            is_text = token.startswith('"')
            stack[-1].append((re.sub(r"\\(.)", r"\1", token[1:-1]),) if is_text else token)
    assert len(stack) == 1
    return stack[0]


def verdict(text: str, operation: str, path: str) -> str:
    """Return the verdict of the rules for paths: the last one that matches decides."""
    found = "none"
    for decision, *rest in parsed(text):
        operations = [word for word in rest if isinstance(word, str)]
        places = [(word[0], word[1][0]) for word in rest if word[0] in ("subpath", "literal")]
        named = any(operation == each or fnmatch(operation, each) for each in operations)
        here = any(
            path == place or (kind == "subpath" and path.startswith(f"{place}/")) for kind, place in places
        )
        if named and (here or len(operations) == len(rest)):
            found = decision
    return found


def test_what_is_protected_and_hidden_is_denied_after_all_that_is_allowed() -> None:
    text = seatbelt_profile(PROFILE)
    allowed = {
        ("file-read-data", "/usr/bin/env"),
        ("file-read-data", "/Users/me/work/.git/hooks/x"),
        ("file-write-create", "/Users/me/work/new"),
        ("file-write-create", "/Users/me/other/new"),
        ("file-write-create", "/private/var/folders/x/walled/new"),
        ("file-write-unlink", "/Users/me/work/src"),
        ("file-write-data", "/dev/null"),
    }
    denied = {
        ("file-write-create", "/Users/me/new"),
        ("file-write-create", "/private/var/folders/x/prelude"),
        ("file-write-create", "/Users/me/work2/new"),
        ("file-write-create", "/Users/me/work/.git/hooks/x"),
        ("file-write-data", "/Users/me/work/.git/config"),
        ("file-write-unlink", "/Users/me/work/.git"),
        ("file-write-unlink", "/Users/me/work"),
        ("file-read-data", "/Users/me/.ssh/id"),
        ("file-read-data", "/Users/me/work/.transcripts/s.jsonl"),
        ("file-write-create", "/Users/me/work/.transcripts/x"),
    }
    assert {each for each in allowed if verdict(text, *each) != "allow"} == set()
    assert {each for each in denied if verdict(text, *each) == "allow"} == set()
    assert text.startswith("(version 1)\n(deny default)\n")


def test_a_read_only_project_is_left_out_of_what_may_be_written() -> None:
    text = seatbelt_profile({**PROFILE, "project_writable": False})
    assert verdict(text, "file-write-create", "/Users/me/work/new") == "none"
    assert verdict(text, "file-write-create", "/Users/me/other/new") == "allow"


def test_the_only_network_is_the_port_of_the_proxy() -> None:
    assert "remote" not in seatbelt_profile(PROFILE)
    (line,) = [each for each in seatbelt_profile(PROFILE, 4711).splitlines() if "remote" in each]
    assert line == '(allow network-outbound (remote ip "localhost:4711"))'
    (line,) = [
        each for each in seatbelt_profile({**PROFILE, "ports": ["/x/5432"]}).splitlines() if "remote" in each
    ]
    assert line == '(allow network-outbound (remote ip "localhost:5432"))'


def test_a_profile_that_names_nothing_makes_no_rule_without_a_place() -> None:
    text = seatbelt_profile({**NAMES_NOTHING, "folder": PROFILE["folder"], "scratch": PROFILE["scratch"]})
    assert verdict(text, "file-write-create", "/x") == "none"
    assert "(deny file-write" not in text


HOSTILE = [
    '/p")) (allow default) (deny file-read* (subpath "/x',
    '/p\\")) (allow default) ("',
    "/p\\",
    '/p"',
    "/p;comment",
    "/p (allow default)",
    "/p#|x|#",
]


@each_row("path", HOSTILE)
def test_a_path_cannot_add_a_rule(path: str) -> None:
    def forms(folder: str) -> list[Any]:
        return parsed(seatbelt_profile({**PROFILE, "folder": folder, "hidden": [f"{folder}/s"]}))

    def moved(form: Any) -> Any:
        if isinstance(form, list):
            return [moved(each) for each in form]
        return (path + form[0][2:],) if form in (("/P",), ("/P/s",)) else form

    assert forms(path) == moved(forms("/P"))


@each_row("path", ["/a\nb", "/a\tb", "/a\x1b", "/a\u2028b", "/a\udcff", "relative", ""])
def test_a_path_that_a_profile_cannot_hold_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="cannot contain the path"):
        quoted(path)
