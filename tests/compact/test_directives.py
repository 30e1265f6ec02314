"""Sentences are told apart by what they bind: mood, modality, negation, shape; in several languages."""

import pytest

from compact.directives import FACT, LASTING, REQUEST, REST, WISH, commitments, weighed_sentences

from .side_constraints import CODE_LIKE_CONSTRAINTS


def weighed(text):
    return [(text[each.start : each.end], each.weight) for each in weighed_sentences(text)]


@pytest.mark.parametrize(
    ("sentence", "weight"),
    [
        ("Before you run a migration, wait for my go-ahead.", LASTING),
        ("End every reply with a summary line.", LASTING),
        ("Whenever you touch the parser, rerun the fuzz corpus.", LASTING),
        ("Use metric units.", REQUEST),
        ("Also, please sprinkle the docs with examples.", REQUEST),
        ("Carefully check the plan.", REQUEST),
        ("Once the build is green, tell me.", REQUEST),
        ("I'd like commit messages in the past tense.", REQUEST),
        ("Could you look at it?", REQUEST),
        ("My manager wants weekly updates.", REQUEST),
        ("Bitte antworte auf Deutsch.", REQUEST),
        ("不要修改 config 目录。", REQUEST),
        ("Не трогай папку billing.", REQUEST),
        ("Utilisez des unités métriques.", WISH),
        ("No emojis.", WISH),
        ("- tabs", WISH),
        ("Amounts go out in Swiss francs.", WISH),
        ("Nobody but me merges into trunk.", WISH),
        ("My staging box is read-only for you.", WISH),
        ("It is important that the CLI keeps its exit codes.", REQUEST),
        ("The order of the columns matters.", REQUEST),
        ("Fixtures belong in their own folder.", REQUEST),
        ("The deadline is Friday.", REQUEST),
        ("This is a public repository, so no internal names.", WISH),
        ("Under Windows nothing may break.", REQUEST),
        ("The word is banned from the docs.", REQUEST),
        ("One commit per bug.", WISH),
        ("Short answers.", WISH),
        ("The fewer dependencies the better.", WISH),
        ("Why is it slow?", WISH),
        ("The handler does not retry.", FACT),
        ("The cache has 40 rows.", FACT),
        ("The parser reads tokens from the stream.", REST),
        ("The test is red.", REST),
        ("12.", REST),
        ("word " * 130, REST),
    ],
)
def test_a_sentence_weighs_by_what_it_binds(sentence, weight):
    assert weighed(sentence) == [(sentence.strip(), weight)]


def test_sentences_end_at_stops_but_not_at_abbreviations_and_wrapped_lines_are_joined():
    text = 'It is old, e.g. the cache. "Use tabs." Before you push,\nask me!\n\n1. Run it\n2. Stop it'
    assert [sentence for sentence, _ in weighed(text)] == [
        "It is old, e.g. the cache.",
        '"Use tabs."',
        "Before you push,\nask me!",
        "1. Run it",
        "2. Stop it",
    ]


def test_of_what_was_dictated_without_a_full_stop_the_clauses_are_sentences():
    story = "and then the thing moved over there " * 30
    text = f"{story}and do not delete the staging bucket {story}"
    assert ("and do not delete the staging bucket", LASTING) in weighed(text)


def test_sentences_of_languages_without_spaces_are_told_apart():
    assert [sentence for sentence, _ in weighed("好。请用中文。")] == ["好。", "请用中文。"]


@pytest.mark.parametrize(
    "line",
    [
        "return value;",
        "const never = 1",
        "import always",
        "$ run never",
        "2026-01-02T03:04:05 do not panic",
        "ERROR never happens",
        "if (must) {",
        "    assert x == always()",
    ],
)
def test_programs_and_logs_bind_nothing(line):
    assert weighed(line) == [(line, REST)] or weighed(line) == [(line.strip(), REST)]
    assert weighed(f"```\nNever push\n```\n{line}\nUse it.")[-1] == ("Use it.", REQUEST)
    assert weighed(f"```\nNever push\n```\n{line}")[1] == ("Never push", REST)


@pytest.mark.parametrize("line", CODE_LIKE_CONSTRAINTS)
def test_what_reads_as_a_sentence_binds_whatever_it_ends_with(line):
    text = f"The queue is long.\n{line}\nThe cache has 40 rows."
    assert dict(weighed(text))[line] >= REQUEST
    assert dict(weighed(f"foo.bar();\n\n{line}\n\nreturn x;"))[line] >= REQUEST


@pytest.mark.parametrize(
    "text",
    [
        "Rules:\n  * never push\n  * never deploy",
        "See main():\n* never push",
        "WARNING: never push",
        "Public API: never push it",
        "Final note: never push;",
        "# Rules\n- never push;",
        "no force, never push;",
        "<important>never push it</important>",
        "/* never push it */",
        "Bitte niemals push() verwenden;",
    ],
)
def test_marks_of_lists_headings_and_labels_are_no_signs_of_code(text):
    assert [each for each, weight in weighed(text) if "push" in each and weight >= REQUEST]


@pytest.mark.parametrize(
    "code",
    [
        "return x;",
        "if (a) {",
        "foo.bar();",
        "return never;",
        "use strict;",
        "let mut only = 1;",
        "assert_never(value);",
        'throw new Error("You must not call this");',
        "import { always } from './must';",
        "} // do not remove",
        "x = 1;\n# do not remove",
        "/**\n * Do not call this.\n */\nvoid f();",
        "// Never inline this.\nint f(void);",
        "    # always keep this\n    y = 2",
        "diff --git a/x b/x\n@@ -1,2 +1,2 @@\n-# never do this\n+# Always do that",
        'at never.call(main.js:1)\n  File "x.py", line 1',
        "[INFO] do not panic",
        "src/a.c:12:3: warning: f must not be called",
        "DROP TABLE users;",
        "ALTER TABLE ONLY users ADD CONSTRAINT must;",
        '"description": "Never call this",',
        "<p>You must not do this</p>",
        "$ please run always",
        "declare function f(): never;",
    ],
)
def test_lines_of_programs_diffs_and_logs_bind_nothing(code):
    assert [each for each in weighed(f"It has 40 rows.\n\n{code}\n\nIt is old.") if each[1] >= REQUEST] == []


@pytest.mark.parametrize(
    ("sentence", "acts", "kind", "weight"),
    [
        ("I will not touch billing.", True, "promise", LASTING),
        ("I'll use metric units.", False, "promise", REQUEST),
        ("Understood: metric units everywhere.", False, "promise", REQUEST),
        ("The lock file stays untouched.", False, "promise", WISH),
        ("Ich werde die Datenbank nicht anfassen.", False, "promise", REQUEST),
        ("I chose SQLite over Postgres because one process writes.", True, "decision", REQUEST),
        ("I went with a queue.", True, "decision", WISH),
        ("I tried a cache, but it made the diff unstable.", True, "rejected", WISH),
        ("That approach does not work because the file is locked.", True, "rejected", REQUEST),
        ("Let's not use Celery: it needs a broker.", True, "rejected", WISH),
        ("Going forward, every commit gets its own test.", True, "promise", REQUEST),
        ("The public interface will remain unchanged.", True, "promise", REQUEST),
        ("No file outside of src/ will be modified.", True, "promise", REQUEST),
        ("We agreed on cents for all amounts.", True, "decision", WISH),
    ],
)
def test_promises_decisions_and_what_was_given_up_are_found(sentence, acts, kind, weight):
    found = list(commitments(f"It has 40 lines. {sentence}", acts))
    assert [(each.kind, each.text, each.weight) for each in found] == [(kind, sentence, weight)]


@pytest.mark.parametrize(
    "sentence",
    [
        "I'll read the file now.",
        "Let me look at it.",
        "I don't see why.",
        "The tests pass.",
        "Shall I go on?",
    ],
)
def test_the_next_step_of_a_reply_that_acts_is_no_promise(sentence):
    assert list(commitments(sentence, acts=True)) == []


@pytest.mark.timeout(20)  # a pattern that goes back takes minutes
@pytest.mark.parametrize(
    "piece", ["a", "a ", "a, ", "and ", "1. ", "- ", "“", "no ", "- (", "```\n", "\n", "a\n", "I will ", "。"]
)
def test_no_text_takes_long(piece):
    text = piece * (60_000 // len(piece))
    weighed_sentences(text)
    list(commitments(text, acts=False))
