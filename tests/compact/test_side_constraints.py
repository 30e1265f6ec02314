"""Things that a user said once, and the agent's promises, are visible after many compactions."""

import random
from pathlib import Path

import pytest

from tests.sampling import sampled, sampled_rows
from tests.tables import each_row

from .side_constraints import (
    CHANGED_RULES,
    CODE_LIKE_CONSTRAINTS,
    CONSTRAINTS,
    DECISIONS,
    DENSE_CONSTRAINTS,
    OTHER_CONSTRAINTS,
    OTHER_PROMISES,
    PROMISES,
    compacted,
    guidelines,
    prose,
    said_once,
    surviving,
)
from .worlds import World

SHORT_PROMPTS = (
    "now fix the {one} in f{at}.py, it fails when the {other} is empty",
    "why does the {one} call the {other} twice here?",
    "ok. the {one} looks good to me, the {other} could be shorter though",
    "run the tests for {one} and {other} again, and tell me which fail (attempt {at})",
    "hm, I don't think the {one} is the reason, the {other} never gets there",
)
ROOMS = ((22_000, 200_000), (6_000, 64_000))  # tokens of the user's text, and the window


@each_row(("user_tokens", "window"), ROOMS)
@each_row("promised", [False, True])
def test_each_of_them_stands_verbatim_after_one_compaction_and_after_five(user_tokens, window, promised):
    sentences = PROMISES if promised else CONSTRAINTS
    world = said_once(sentences, user_tokens, window, promised)
    limit = min(18_000, window * 3 // 10)
    for rounds in (1, 4):
        assert compacted(world, rounds) <= limit
        assert surviving(world, sentences) == list(sentences)


@each_row(("user_tokens", "window"), ROOMS)
@each_row("promised", [False, True])
def test_most_of_what_is_said_in_other_ways_stands_too(user_tokens, window, promised):
    sentences = OTHER_PROMISES if promised else OTHER_CONSTRAINTS
    world = said_once(sentences, user_tokens, window, promised)
    compacted(world, 5)
    assert len(surviving(world, sentences)) >= 14


@pytest.mark.parametrize(("user_tokens", "window"), ROOMS)
def test_what_looks_like_code_but_reads_as_a_sentence_stands_too(user_tokens, window):
    lines = tuple(f"\n{each}\n" for each in CODE_LIKE_CONSTRAINTS)
    world = said_once(lines, user_tokens, window)
    for rounds in (1, 4):
        compacted(world, rounds)
        assert surviving(world, CODE_LIKE_CONSTRAINTS) == list(CODE_LIKE_CONSTRAINTS)


@pytest.mark.parametrize(("user_tokens", "window"), ROOMS)
def test_what_the_agent_decides_gives_up_and_promises_in_other_forms_stands_too(user_tokens, window):
    world = said_once(tuple(f"\n\n{each}\n\n" for each in DECISIONS), user_tokens, window, promised=True)
    for rounds in (1, 4):
        compacted(world, rounds)
        assert surviving(world, DECISIONS) == list(DECISIONS)


def test_pasted_source_files_do_not_push_out_what_is_said_between_them():
    world, folder = World(judged=False), Path(__file__).parents[2] / "compact"
    files = sorted(folder.glob("*.py"))
    for each, path in zip(CODE_LIKE_CONSTRAINTS, files[1:], strict=False):
        text = path.read_text()
        middle = text.index("\n\n", len(text) // 2)
        world.user(f"Here is what I have:\n{text[:middle]}\n\n{each}\n\n{text[middle:]}")
        world.call("bash", "row\n" * 2_000, command="make")
    compacted(world, 2)
    assert surviving(world, CODE_LIKE_CONSTRAINTS) == list(CODE_LIKE_CONSTRAINTS)


@pytest.mark.parametrize(
    ("user_tokens", "window"),
    [
        (2_000, 200_000),
        pytest.param(24_000, 200_000, marks=pytest.mark.sweep),
        pytest.param(60_000, 200_000, marks=pytest.mark.sweep),
        (2_000, 16_000),
    ],
)
@pytest.mark.parametrize("sentences", [CONSTRAINTS, DENSE_CONSTRAINTS], ids=["said", "in other languages"])
def test_they_stand_amid_pasted_documents_that_demand_as_much(sentences, user_tokens, window):
    world = said_once(sentences, user_tokens, window, text=guidelines)
    for rounds in (1, 4):
        compacted(world, rounds)
        assert surviving(world, sentences) == list(sentences)


@pytest.mark.parametrize(("user_tokens", "window"), ROOMS)
def test_they_may_be_in_one_long_message(user_tokens, window):
    world, share = World(window=window, judged=False), 4 * user_tokens // len(CONSTRAINTS)
    world.user(" ".join(f"{prose(at, share)} {each}" for at, each in enumerate(CONSTRAINTS)))
    world.call("bash", "row\n" * (window // 8), command="make")
    world.user("next")
    world.reply("ok")
    compacted(world, 1)
    assert surviving(world, CONSTRAINTS) == list(CONSTRAINTS)


@each_row(("user_tokens", "window", "text"), [(24_000, 200_000, prose), (2_000, 16_000, guidelines)])
def test_a_rule_is_not_shown_without_what_changes_it_later(user_tokens, window, text):
    sentences = tuple(said for at in (0, 1) for said in (pair[at] for pair in CHANGED_RULES))
    world = said_once(sentences, user_tokens, window, text=text)
    compacted(world, 1)
    shown = surviving(world, sentences)
    assert [pair for pair in CHANGED_RULES if pair[0] in shown and pair[1] not in shown] == []
    assert len(shown) >= 26


def test_of_every_message_the_beginning_stays_however_old():
    world = World(judged=False)
    for number in range(60):
        world.user(f"Message {number} begins so and tells of {prose(number, 1_200)}")
        world.call("bash", "row\n" * 2_000, command="make")
    compacted(world, 2)
    beginnings = tuple(f"Message {number} begins so and tells of" for number in range(60))
    assert surviving(world, beginnings) == list(beginnings)


@pytest.mark.parametrize(
    "sentences", sampled([CONSTRAINTS, OTHER_CONSTRAINTS], 2), ids=["said", "in other ways"]
)
def test_they_stand_among_hundreds_of_short_prompts(sentences):
    world, rng = World(window=32_000, judged=False, overhead=2_000), random.Random(3)
    for at in range(500):
        one, other = rng.sample(("parser", "store", "cache", "queue", "config", "session"), 2)
        world.user(rng.choice(SHORT_PROMPTS).format(at=at, one=one, other=other))
        if at % 7 == 0 and at // 7 < len(sentences):
            world.user(f"By the way: {sentences[at // 7]} That is all.")
        world.reply("Done, as far as I see.")
    for rounds in (1, 4):
        assert compacted(world, rounds) <= 32_000 * 3 // 10
        assert surviving(world, sentences) == list(sentences)


@pytest.mark.parametrize(
    ("rule", "taken_back"),
    sampled_rows(
        [
            ("Never touch anything in billing.", "The billing freeze is over, migrations can run again."),
            ("Fass billing nicht an.", "Du darfst billing wieder anfassen."),
            ("Ne touche pas à billing.", "Tu peux de nouveau toucher à billing."),
            ("No toques billing.", "Ya puedes tocar billing otra vez."),
            ("不要修改 billing。", "现在可以修改 billing 了。"),
            ("Не трогай billing.", "Теперь можно снова трогать billing."),
        ],
        every=2,
    ),
)
@pytest.mark.parametrize("window", [32_000, pytest.param(200_000, marks=pytest.mark.sweep)])
def test_a_rule_is_never_shown_without_what_took_it_back(rule, taken_back, window):
    world = World(window=window, judged=False, overhead=2_000)
    for at in range(60):
        said = {2: rule, 20: taken_back}.get(at, "")
        world.user(f"{prose(at, window // 45)} {said} {prose(-at, window // 45)}")
        world.call("read", "value = 1\n" * (window // 1_000), file_path=f"src/part_{at}.py")
    for rounds in (1, 2):
        compacted(world, rounds)
        assert surviving(world, (taken_back,)) == [taken_back]


def test_amid_documents_a_rule_is_never_shown_without_a_longer_sentence_that_changes_it():
    world = World(window=200_000, judged=False, overhead=2_000)
    changes = {
        2: "Always send the amounts of invoices in francs.",
        9: "As the bank told us last week, the amounts of all invoices are sent in euros, whatever the "
        "customer's own currency is, and that holds for the credit notes of the subsidiary in Lyon as well.",
        4: "Never touch billing.",
        11: "The billing freeze, about which we talked for so long in the meeting of the steering group on "
        "Monday, is over, so that the migrations that were prepared before Christmas can run again.",
    }
    for at in range(15):
        world.user(f"{guidelines(at, 8_000)}{changes.get(at, '')}{guidelines(-at, 8_000)}")
        world.call("read", "value = 1\n" * 200, file_path=f"src/part_{at}.py")
    for rounds in (1, 4):
        compacted(world, rounds)
        assert surviving(world, tuple(changes.values())) == list(changes.values())


@pytest.mark.bench
@pytest.mark.parametrize(("user_tokens", "window"), ROOMS)
@pytest.mark.parametrize(
    "sentences", [CONSTRAINTS, OTHER_CONSTRAINTS, PROMISES, OTHER_PROMISES], ids=lambda each: each[0]
)
def test_the_figures(sentences, user_tokens, window):
    world = said_once(sentences, user_tokens, window, promised=sentences in (PROMISES, OTHER_PROMISES))
    for rounds, more in ((1, 1), (5, 4)):
        tokens = compacted(world, more)
        print(
            f"{len(surviving(world, sentences))} of 15 after {rounds} of {user_tokens:,} tokens of the user's"
        )
        print(f"  text in a window of {window:,}, in {tokens:,} tokens: {sentences[0]}")
