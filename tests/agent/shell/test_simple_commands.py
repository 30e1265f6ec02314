"""Command lines as bash reads them: each is parsed exactly, or not at all."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from agent.shell.line_reading import read_line
from agent.shell.simple_commands import Glob, parse_joined_commands, parse_simple_commands
from tests.tables import each_row

PARSED = [
    ("ls", [["ls"]]),
    ("ls '' \"a b\"", [["ls", "", "a b"]]),
    ("a && b|c; d\ne;", [["a"], ["b"], ["c"], ["d"], ["e"]]),
    ("\n\n a &&\n\n b ||\nc\n\n d |\ne;\n\n", [["a"], ["b"], ["c"], ["d"], ["e"]]),
    ("a;\n\nb", [["a"], ["b"]]),
    ("a || b", [["a"], ["b"]]),
    (r"a\;b \&\& \ c\'", [["a;b", "&&", " c'"]]),
    (r"find . \( -name 'a b' \) \!", [["find", ".", "(", "-name", "a b", ")", "!"]]),
    (r"""a "x\"y\\z\$v\`w\n" """, [["a", 'x"y\\z$v`w\\n']]),
    ("a b'c'\"d\"\\e''", [["a", "bcde"]]),
    ("a 'b\nc'\t\"d\ne\"", [["a", "b\nc", "d\ne"]]),
    ("ls \\a'(b)'", [["ls", "a(b)"]]),
    ("ls 'é'", [["ls", "é"]]),
    ("git show HEAD~2 HEAD^ @{u} a@{1}", [["git", "show", "HEAD~2", "HEAD^", "@{u}", "a@{1}"]]),
    ("a b#c b~ x=y a@b", [["a", "b#c", "b~", "x=y", "a@b"]]),
    ("a 2>&1 >/dev/null", [["a"]]),
    ("2>/dev/null a >>/dev/null &>/dev/null </dev/null x 1>&2 >&2|b", [["a", "x"], ["b"]]),
    ("a x2>/dev/null", [["a", "x2"]]),
    ("a&>/dev/null", [["a"]]),
    ("[ x ] && a {} \\; {}", [["[", "x", "]"], ["a", "{}", ";", "{}"]]),
]
REFUSED = [
    "", " ", "\n", "a\r\nb", "a;;b", "a; ;b", "; a", "a |\n", "a |", "| a", "&& a", "a &&", "a\n&& b",
    "a && && b", "a & b", "a &", "a |& b", "a ;& b", "ls é", "ls 'x", 'ls "x', "ls \\", "ls \\\nx",
    'a "x\\\ny"', "ls > f", "ls <f", "ls <<x", "ls <<<x", "a >|/dev/null", "a <>/dev/null", "a >&/dev/null",
    "a >&3", "a >&-", "a 2>&-", "a 3>/dev/null", "a 12>/dev/null", "a '2'>/dev/null", "a 2&>/dev/null",
    "a 2>&1x", "a 2>&1&", "a >/dev/nullx", "a >/dev/null/x", "a >/dev/null'x'", ">/dev/null",
    "a && >/dev/null\nb", ">/dev/null; a", "a && >/dev/null", "X=1 ls", "ls; X=1 ls", "a+=1 ls", "a[0]=1 ls",
    "a=", ">/dev/null a=b ls", "a'='b", "$x ls", "ls; $x", "a $x", 'a "$x"', 'a "`x`"', "a `x`", "a $'x'",
    'a $"x"', "ls '\\' $(rm x) '\\'",
    "ls 'x' $(rm x)", 'ls "x" $(rm x)', "'ls' $(rm x)", "ls \\' $(rm x) \\'",
    "a ~", "a ~/x", "a x=~/y", "a x:~/y", "a ''~/x", "a {b,c}", "a {1..2}", "a @{a,b}", "a {}x", "a x{}",
    "a {}{}", "a #x", "#x", "a ;&>/dev/null b",
    "echo 'it is' \\' #'", "if a", "! a", "a; then b", "time a", "{ a", "[[ x ]]", "coproc a", "(a)", "a (b)",
    "f() a", "[a] x", "[* x", "l* x", "?x", "'' x", "%1", "-n a", "+x",
    *(f"a{blank}b" for blank in "\v\f\r\0\x1c\x85\xa0\u1680\u2003\u2028\u3000\ufeff\u200b"),
    *(f"a '{blank}'" for blank in "\v\x1b\x7f\x85\u2028\u202e\ud800"),
    "a '" + "x" * 10_000 + "'",
]  # fmt: skip


@each_row(("line", "commands"), PARSED)
def test_a_plain_line_is_parsed_as_bash_reads_it(line: str, commands: list[list[str]]) -> None:
    assert parse_simple_commands(line) == commands


@each_row("line", REFUSED)
def test_any_other_line_is_not_parsed_at_all(line: str) -> None:
    assert parse_simple_commands(line) is None


def test_each_command_stands_with_the_joint_before_it() -> None:
    joined = parse_joined_commands("a && b ||\n\nc | d; e\n\nf;\n")
    assert joined == [
        ("", ["a"], []),
        ("&&", ["b"], []),
        ("||", ["c"], []),
        ("|", ["d"], []),
        (";", ["e"], []),
        ("\n", ["f"], []),
    ]


@each_row(
    ("line", "expected"),
    [
        ("tr a b < a.py", [("", ["tr", "a", "b"], ["a.py"])]),
        ("<'a b' cat -n <c | wc", [("", ["cat", "-n"], ["a b", "c"]), ("|", ["wc"], [])]),
        ("cat <a b", [("", ["cat", "b"], ["a"])]),
        ("cat <", None),
        ("cat < | wc", None),
        ("cat < >/dev/null a", None),
        ("cat < < a", None),
        ("cat <*.py", None),
        ("cat <~/a", None),
        ("cat <$x", None),
        ("cat 2<a", None),
        ("cat {x}<a", None),
        ("cat <>a", None),
        ("cat <<a", None),
        ("cat <<<a", None),
        ("cat <&3", None),
        ("cat <(ls)", None),
        ("<a", None),
        ("a=b <c", None),
    ],
)
def test_files_that_are_input_stand_beside_the_words(line: str, expected: Any) -> None:
    assert parse_joined_commands(line) == expected
    if expected is not None:
        assert parse_simple_commands(line) is None


def test_a_word_that_the_shell_may_replace_with_names_of_files_is_marked() -> None:
    (words,) = parse_simple_commands("a *.py '*.c' x\\?[ab]'[c]'") or [[]]
    assert words == ["a", "*.py", "*.c", "x?[ab][c]"]
    patterns = [word.pattern if isinstance(word, Glob) else None for word in words]
    assert patterns == [None, "*.py", None, "x[?][ab][[]c]"]


PIECES = ["((", "`", "$(", "'", '"', "\\", "a ", "2>&1", "&&", ";", "((a ", "a;", "<", "a' ", "*", "é"]


@each_row("piece", PIECES)
def test_the_work_grows_with_the_line_and_a_very_long_one_is_none(piece: str) -> None:
    def lines_run(line: str) -> int:
        steps = 0

        def count(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
            nonlocal steps
            steps += 1
            return count

        sys.settrace(count)
        try:
            parse_simple_commands(line)
        finally:
            sys.settrace(None)
        return steps

    assert lines_run(piece * (100_000 // len(piece))) < 50
    assert lines_run(piece * (9_000 // len(piece))) < 12 * lines_run(piece * (900 // len(piece))) + 100


@each_row(
    ("line", "opaque"),
    [
        ("cat a.py", False),
        ("cat a.py <", True),
        ("cat a.py > ; ls", True),
        ("ls >&", True),
        ("sh < x.sh", True),
        ("""echo "${x:-$'a'}\"""", True),
        ("""echo "${x:-'a'}\"""", True),
        ("echo ${x:-$'a'}", False),
        ("enable -n echo", False),
        ("enable -f ./x.so x", True),
    ],
)
def test_a_line_is_opaque_if_a_part_of_it_cannot_be_read(line: str, opaque: bool) -> None:
    assert read_line(line).opaque is opaque


@each_row(
    ("line", "words"),
    [
        (r"""echo "a \$x \"b\" \z \\" """, ("echo", 'a $x "b" \\z \\')),
        (r"""echo "\$(ls)" """, ("echo", "$(ls)")),
        ('echo "a\\\nb"', ("echo", "ab")),
    ],
)
def test_a_backslash_in_double_quotes_escapes_only_some_characters(line: str, words: tuple[str, ...]) -> None:
    assert [each.words for each in read_line(line).invocations] == [words]
