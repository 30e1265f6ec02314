"""Substitution in the text of a command, and the parts that are never substituted."""

from agent.extensions.skills.substitution import CommandLine, GivenValues, counts_from_one, fill_in
from tests.tables import each_row


def filled(text: str, arguments: str = "", names: tuple[str, ...] = ()) -> str:
    """The text; command lines in angle brackets."""
    variables = {"CLAUDE_SKILL_DIR": "/skills/x", "CLAUDE_SESSION_ID": "s1"}
    pieces = fill_in(text, GivenValues(arguments, names, variables))
    return "".join(f"<{piece.line}>" if isinstance(piece, CommandLine) else piece for piece in pieces)


@each_row(
    ("text", "arguments", "expected"),
    [
        ("all: $ARGUMENTS", """a "b  c" 'd""", """all: a "b  c" 'd"""),
        ("$0, $1, $2", 'a "b c"', "a, b c, $2"),
        ("$ARGUMENTS[1] and $ARGUMENTS[7]", 'a "b c"', "b c and $ARGUMENTS[7]"),
        ("first $1, second $2, third $3", "a b", "first a, second b, third $3"),
        ("first $1", "it's", "first it's"),
        ("it costs $100", "a", "it costs $100\n\nARGUMENTS: a"),
        ("no place", "a b", "no place\n\nARGUMENTS: a b"),
        ("no place", "", "no place"),
        ("empty: $ARGUMENTS.", "", "empty: ."),
        (r"\$1 and \$ARGUMENTS and $1", "a", "$1 and $ARGUMENTS and a"),
        ("$HOME ${HOME} $ARGUMENTSX", "a", "$HOME ${HOME} $ARGUMENTSX\n\nARGUMENTS: a"),
        ("${CLAUDE_SKILL_DIR}/run ${CLAUDE_SESSION_ID}", "", "/skills/x/run s1"),
    ],
)
def test_places_are_filled_in(text: str, arguments: str, expected: str) -> None:
    assert filled(text, arguments) == expected


def test_named_places_take_the_arguments_in_their_order() -> None:
    assert filled("$issue on $branch, $other", "12 main", ("issue", "branch")) == "12 on main, $other"
    assert filled("$issue on $branch", "12", ("issue", "branch")) == "12 on $branch"


@each_row(
    ("text", "expected"),
    [
        ("Status: !`git status`", "Status: <git status>"),
        ("- !`git diff $1` and !`ls`", "- <git diff x> and <ls>"),
        ("```!\ngit log\ngit show $1\n```\nend", "<git log\ngit show x>\nend"),
        ("KEY=!`date`", "KEY=!`date`"),
        ("wow!`date`", "wow!`date`"),
        ("write `` !`date` `` so", "write `` !`date` `` so"),
    ],
)
def test_command_lines_are_found_on_lines_of_their_own(text: str, expected: str) -> None:
    assert filled(text, "x").partition("\n\nARGUMENTS")[0] == expected


@each_row("place", ["$ARGUMENTS", "$0", "$ARGUMENTS[0]", "$what", "no place"])
@each_row("value", ["!`rm`", "```!\nrm\n```", "$1", "${CLAUDE_SKILL_DIR}", r"\$0"])
def test_what_is_filled_in_is_never_looked_at_again(place: str, value: str) -> None:
    pieces = fill_in(f"a {place} b", GivenValues(f"'{value}' second", ("what",), {"CLAUDE_SKILL_DIR": "/d"}))
    assert not any(isinstance(piece, CommandLine) for piece in pieces)
    assert value in "".join(map(str, pieces))


def test_a_value_within_a_command_line_defines_no_further_line() -> None:
    pieces = fill_in("see !`show $0`", GivenValues("'`; !`rm`'"))
    assert [piece for piece in pieces if isinstance(piece, CommandLine)] == [
        CommandLine("show `; !`rm`", True)
    ]


@each_row(
    ("text", "from_one"),
    [("$1", True), ("$0 $1", False), ("$ARGUMENTS[0] $1", False), ("$ARGUMENTS", False), (r"\$1", False)],
)
def test_older_files_count_from_one(text: str, from_one: bool) -> None:
    assert counts_from_one(text) is from_one


def test_amounts_are_no_placeholders() -> None:
    text = "At $150/hour or $1.50, $1,000 in all; the first is $1."
    assert "".join(map(str, fill_in(text, GivenValues("Ann")))) == text.replace("is $1.", "is Ann.")
    assert not counts_from_one("It costs $150 or $5/month.")
