"""Sentences are told apart by what they bind: mood, modality, negation, shape; in several languages."""

import pytest

from compact.directives import (
    FACT,
    LASTING,
    REQUEST,
    REST,
    WISH,
    commitments,
    is_errand,
    weighed_sentences,
)

from .side_constraints import CODE_LIKE_CONSTRAINTS

DECIDED = (
    "Decision: use Postgres, because SQLite locks under load.",
    "**Decision:** retries are capped at three because the vendor bans us.",
    "Switched from threads to asyncio, as the threads deadlocked.",
    "### Decision: keep the old endpoint until June",
    "- **Decision** — one table per tenant",
    "| decision | Postgres for the queue |",
    "Going with httpx over requests because it speaks HTTP/2.",
    "I'm going with a flat config file.",
    "Sticking with unittest: the project has no pytest.",
    "I've settled on a 30-second timeout.",
    "Chose SQLite over Postgres: one writer.",
    "I opted for polling, since webhooks need a public address.",
    "Keeping the synchronous client for now because the CLI is single-threaded.",
    "Picked `zstd` over `gzip` for speed.",
    "Design decision: errors are values, not exceptions.",
    "Moved the cache to disk because memory ran out.",
    "I replaced the regex with a parser since nesting broke it.",
    "Threads deadlocked, so I moved to asyncio.",
    "Postgres it is.",
    "Chosen approach: event sourcing with snapshots.",
    "I'll use a lock file because two processes write.",
    "The retry is deliberately not exponential.",
    "Postgres, not SQLite: it locks under load.",
    "Let's go with option B.",
    "Using a dataclass rather than a dict so that mypy checks it.",
    "I left the old flag in place because scripts use it.",
    "**Key decision**: IDs are UUIDv7",
    "My choice: feature flags over branches.",
    "Decided: no ORM.",
    "Rather than patching the vendor, I wrapped it.",
    "I went for the smaller diff.",
    "> **Decision**: keep CommonJS for now",
    "## Decision: one repo",
    "1. Decision: no retries on POST",
    "**Decisions made:** UTC everywhere",
    "I've decided to keep the old parser.",
    "I picked pnpm over yarn because the lockfile is stable.",
    "We're going with option 2.",
    "I prefer composition here since the classes differ.",
    "Migrated from Moment to Luxon because Moment is unmaintained.",
    "I ended up using a queue because order matters.",
    "I'll stick with the standard library.",
    "I'm keeping both endpoints so that old clients work.",
    "Opted for eager loading to avoid N+1 queries.",
    "The final choice is Redis.",
    "Went with a trie instead of a hash map.",
    "I made the field nullable because old rows lack it.",
    "Replaced polling with webhooks because the quota ran out.",
    "I will store amounts in cents because floats round.",
    "Used a thread pool rather than asyncio because the driver blocks.",
    "As agreed, the API stays at version 2.",
    "Defaulting to strict mode because the docs say so.",
    "Kept the shim, since two plugins import it.",
    "SQLite over Postgres for the cache: no server needed.",
)
GIVEN_UP = (
    "I'm dropping the regex idea: it is far too slow on the big file.",
    "Ruled out: Celery (needs a broker).",
    "**Rejected:** websockets, because the proxy cuts them.",
    "The first approach didn't work because the socket is shared.",
    "Tried `mmap` but it was slower on small files.",
    "Reverted the cache change: it broke the diff.",
    "I reverted to the old parser after the benchmark regressed.",
    "Caching the tokens didn't help.",
    "| rejected | threads, they deadlock |",
    "- ❌ Rejected: global lock",
    "Abandoned the async rewrite; too many callers.",
    "My first attempt deadlocked under load.",
    "I undid the rename, since plugins import the old name.",
    "Threads are a dead end here.",
    "I considered Redis but it adds a service.",
    "Not using Celery because it needs a broker.",
    "We can't use fork here because macOS crashes.",
    "Alternative considered: a cron job",
    "Patching at import time turned out to be too fragile.",
    "I gave up on incremental parsing.",
    "Scrapped the plugin idea, nobody needs it.",
    "The regex approach is too slow on the big file.",
    "Backed the change out again because CI failed.",
    "That path leads nowhere: the API has no filter.",
    "It isn't worth caching.",
    "I decided against a new dependency.",
    "Dropped the retry loop because the server is idempotent.",
    "Won't work: the driver has no async mode.",
    "Using `eval` is out of the question.",
    "I rolled the migration back since it locked the table.",
    "Attempted a hot reload, failed with EBUSY.",
    "**Tried and rejected:** caching in memory",
    "Ruled out the monkeypatch; it breaks on 3.13.",
    "We tried batching, which made latency worse.",
    "The regex route failed on nested quotes.",
    "Had to revert the upgrade: it broke CI.",
    "Rolled back the pool change because of deadlocks.",
    "I tried pinning numpy; the build still fails.",
    "Threading doesn't work here because of the GIL.",
    "I looked at Bazel but it is overkill.",
    "Decided not to use GraphQL.",
    "I ditched the ORM since it hides queries.",
    "That didn't fix it, so I took it out again.",
    "I removed the retry again because it hid the error.",
    "Celery was rejected because it needs a broker.",
    "Streaming is not an option: the proxy buffers.",
    "My earlier idea of a global lock does not scale.",
    "The shadow table approach is dead.",
    "**Dead end:** patching `sys.modules`",
    "❌ Global state: rejected",
    "I'm abandoning the fork.",
    "Monkeypatching won't work with slots.",
    "We can't use `os.fork` because of threads.",
    "This was a bad idea, so it is gone.",
    "Skipped the cache, as it would go stale.",
)
PROMISED = (
    "| promise | I will not touch the billing module |",
    "I'll leave `src/billing.py` alone.",
    "**Promise:** no new dependencies.",
    "I won't change the public API.",
    "I will not push without your approval.",
    "Not touching the migrations.",
    "I'm not going to rename anything in api/.",
    "Won't touch the lock file.",
    "The billing module stays as it is.",
    "I'll ask you before I delete anything.",
    "I'll only edit files under src/.",
    "I'll keep the signature of `load()` unchanged.",
    "From now on I'll write the commit messages in German.",
    "I promise to run the tests before each commit.",
    "Out of scope: the billing module",
    "I'll wait for your go-ahead before the migration.",
    "`config.py` will remain untouched.",
    "I'll stay out of vendor/.",
    "I will check with you first.",
    "I'll never commit to main.",
    "- I'll hold off on the deploy until you say so.",
    "Commitment: every change comes with a test.",
    "Leaving the vendor folder alone.",
    "You have my word: no force pushes.",
    "I'll avoid touching the generated files.",
    "I'll make sure not to log secrets.",
    "Each commit will pass the tests.",
    "No changes to the schema from me.",
    "I'll run the linter after every edit.",
    "I'll leave the auth code untouched.",
    "I won't add any dependencies.",
    "I will not modify files outside `src/`.",
    "I am not going to touch CI.",
    "> I promise: no schema changes",
    "**Commitments:** tests first",
    "I'll always ask before deleting.",
    "No force pushes, I promise.",
    "I'll keep the public API stable.",
    "You can count on me not to push.",
    "I'll run the tests after every change.",
    "Won't commit anything until you review it.",
    "I'll refrain from editing the config.",
    "The lock file will not be changed.",
    "I'm leaving `vendor/` as is.",
    "I'll restrict myself to the frontend.",
    "I will never log tokens.",
    "I shall not rename the tables.",
    "I'll stop and ask if the migration fails.",
    "Understood, I'll use British spelling from now on.",
    "| Promise | no new files |",
    "I'll respect the 80 column limit everywhere.",
    "I'll get your approval before any deploy.",
    "I'll do that without touching the tests.",
)
# The person takes back, sets right or permits.
TAKEN_BACK = (
    "Forget what I said about tabs, 4 spaces are fine again.",
    "oh and I take back the no new dependencies thing, httpx is fine",
    "The billing freeze is over by the way, migrations can run again.",
    "You may touch billing again.",
    "Never mind the 80 columns, 100 are okay.",
    "Scratch that rule about commit messages.",
    "The ban on new dependencies is lifted.",
    "You no longer need to ask before each commit.",
    "You don't have to wait for my go-ahead anymore.",
    "staging is no longer off limits",
    "I changed my mind: use spaces.",
    "no, I meant INFO for the log level",
    "Pushing to main is allowed again.",
    "You are now free to edit vendor/.",
    "We don't use Redis any more.",
    "On second thought, keep the old name.",
    "Ignore my earlier note on the changelog.",
    "Vergiss das mit den Tabs.",
    "Du darfst die Migrationen wieder anfassen.",
    "Das mit den Tabs nehme ich zurück.",
    "Die Sperre für billing ist aufgehoben.",
    "Die Regel mit den 80 Zeichen gilt nicht mehr.",
    "Neue Abhängigkeiten sind jetzt doch erlaubt.",
    "Du musst mich vor dem Commit nicht mehr fragen.",
    "Oublie ce que j'ai dit sur les tabulations.",
    "Tu peux de nouveau toucher à billing.",
    "La règle des 80 colonnes ne s'applique plus.",
    "Le gel des migrations est levé.",
    "Plus besoin de me demander avant chaque commit.",
    "J'ai changé d'avis, garde les espaces.",
    "Les nouvelles dépendances sont désormais autorisées.",
    "Olvida lo que dije de los tabuladores.",
    "Ya puedes tocar billing otra vez.",
    "Ya no hace falta que preguntes antes de cada commit.",
    "La congelación queda sin efecto.",
    "Retiro lo de las dependencias, httpx está bien.",
    "He cambiado de idea, usa espacios.",
    "忘了我之前说的缩进规则吧。",
    "现在可以修改 billing 了。",
    "不用再每次提交前问我了。",
    "取消对新依赖的限制。",
    "之前的规定作废。",
    "我改主意了，用空格。",
    "Забудь про табы.",
    "Теперь можно снова трогать billing.",
    "Запрет на новые зависимости снят.",
    "Больше не нужно спрашивать перед каждым коммитом.",
    "Беру свои слова про табы назад.",
    "Я передумал, оставь пробелы.",
    "The lockdown has ended, deploy as you like.",
    "You needn't ask any more.",
    "Okay, you can commit directly to main.",
    "Forget about the style guide.",
    "Disregard my earlier request about the license headers.",
    "The restriction on network access no longer applies.",
    "That's allowed now.",
    "Spaces are fine too.",
    "I retract what I said on the API names.",
    "Vergiss meine Anweisung zu den Kommentaren.",
    "Du kannst jetzt direkt auf main pushen.",
    "Die Einschränkung entfällt.",
    "Das Verbot ist vom Tisch.",
    "Ab sofort darfst du committen.",
    "Ich habe es mir anders überlegt, Tabs.",
    "Oubliez la consigne sur les commentaires.",
    "Vous pouvez maintenant modifier le dossier vendor.",
    "L'interdiction est levée.",
    "Tu n'as plus à demander.",
    "Je retire ce que j'ai dit.",
    "Olvídate de la regla de los comentarios.",
    "Ya se puede tocar la carpeta vendor.",
    "La prohibición ya no aplica.",
    "Puedes volver a usar tabuladores.",
    "Deja de pedir permiso.",
    "可以改 vendor 目录了。",
    "之前的限制取消了。",
    "不用等我确认了。",
    "我收回刚才的话。",
    "不再禁止新依赖。",
    "Забудьте о правиле про комментарии.",
    "Можешь снова править vendor.",
    "Ограничение больше не действует.",
    "Теперь можно пушить в main.",
    "Отменяю своё требование.",
    "you can go back to committing on your own",
    "the code freeze ended yesterday, feel free to merge",
    "ok billing is open for changes again",
    "actually, tabs are fine",
    "I was wrong about the retry limit, 5 is ok",
    "the customer is gone, so staging is yours",
    "let's drop the 80 column rule",
    "we can ignore python 3.9 from here on",
    "no need to answer in French from now on",
    "you don't need to ask me first anymore",
    "stop writing the summary line at the end",
    "legal signed off, so GPL packages are allowed now",
    "the demo is done, staging can be touched",
    "scratch that, use httpx",
    "push whenever you want",
    "das mit dem Deutsch kannst du wieder lassen",
    "ab jetzt kannst du auch wieder pushen",
    "die Demo ist vorbei, staging ist wieder frei",
    "doch lieber Leerzeichen statt Tabs",
    "du kannst die Migrationen jetzt ändern",
    "frag mich nicht mehr vor jedem Commit",
    "in Ordnung, neue Pakete sind okay",
    "la démo est finie, tu peux toucher à staging",
    "tu n'as plus besoin de demander",
    "finalement, garde les tabulations",
    "réponds en anglais à partir de maintenant",
    "ce n'est plus interdit de pousser",
    "la demo terminó, staging está libre",
    "puedes hacer push otra vez",
    "ya no uses tabuladores",
    "mejor vuelve a los espacios",
    "deja de preguntar antes de cada commit",
    "演示结束了，staging 可以动了",
    "以后可以直接提交，不用问我",
    "还是用空格吧",
    "新依赖现在允许了",
    "可以重新动 billing 目录了",
    "демо закончилось, staging можно трогать",
    "коммить сам, уже можно",
    "спрашивать больше не надо",
    "всё-таки используй пробелы",
    "запрет больше не действует",
    "ладно, httpx можно",
)
# ... and does not.
NOT_TAKEN_BACK = (
    "Run the tests again.",
    "Can you run it again?",
    "I can see the error again.",
    "The index is off by one.",
    "The limit is off by one.",
    "The tests pass now.",
    "The loop is over all rows.",
    "It works fine now.",
    "The build fails again.",
    "Vergiss nicht die Tests.",
    "Kannst du es wieder starten?",
    "Der Test läuft wieder.",
    "N'oublie pas les tests.",
    "Les tests passent maintenant.",
    "No olvides las pruebas.",
    "Las pruebas pasan otra vez.",
    "别忘了之前的测试。",
    "不要忘记我的要求。",
    "测试现在通过了。",
    "Не забудь про тесты.",
    "Тесты снова проходят.",
    "So it does not crash any more.",
    "The file is gone.",
    "I take it that the tests pass.",
)
NARRATION = (
    "Now I will read the file.",
    "Let me run the tests.",
    "I'll look at the config first.",
    "Let me check how the parser handles this.",
    "Now I'll update the imports.",
    "The tests pass.",
    "Let me try a different approach.",
    "I'll fix all three failures.",
    "Reading the file now.",
    "The function returns a list of tokens.",
    "I need to see the whole file.",
    "Found the bug: the index is off by one.",
    "Now let me add the test.",
    "All 42 tests pass.",
    "I see the issue.",
    "Good, that works.",
    "Next I will run the linter.",
    "I'm going to look at the tests.",
    "The error comes from line 40 because the variable is unset.",
    "Switched to branch 'main'.",
    "Let me revert that.",
    "Running the tests again.",
    "Which approach do you prefer?",
    "It fails because the path is relative.",
    "I'll search for the usages.",
    "The build failed with an error.",
    "Added a test for the empty list.",
    "Updated the docs.",
    "Here is what I found:",
    "I fixed the typo in README.md.",
    "We are going to need the schema.",
    "This is the file that defines the routes.",
    "Should I go with option A?",
    "The old code used a global.",
    "I have updated all the call sites.",
    "I will now run all the tests.",
    "Let me keep going.",
    "I can see any number of problems here.",
    "I'll use grep to find it.",
    "Let me drop into the debugger.",
    "Now let me look at the parser instead of the lexer.",
    "I'll start with the models.",
    "Let me see what the tests say.",
    "The file has 300 lines.",
    "I have created the module and its tests.",
    "Next, the CLI.",
    "I'll check whether it works.",
    "Looking at the output, the second test fails.",
    "There are three places that call it.",
    "The import is missing, so I'll add it.",
    "Let me fix it.",
    "Now everything compiles.",
    "I ran the suite: 12 passed.",
    "Done. The function is renamed.",
    "I'll create the file now.",
    "Let me grep for it.",
    "I've updated the README.",
    "We need to look at utils.py.",
    "Checking the config next.",
    "It looks like the cache is stale.",
    "Here's the diff.",
    "I'll also update the changelog.",
    "Perfect, it works now.",
    "The command timed out; I'll run it again.",
)


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
        ("Never pass secrets.", LASTING),
        ("You must never exceed 50 requests.", LASTING),
        ("I don't think the parser is the reason, the store never gets there.", FACT),
        ("Hm, I never got that to work.", REST),
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


@pytest.mark.parametrize("sentence", TAKEN_BACK)
def test_what_takes_back_or_permits_weighs_as_much_as_a_rule(sentence):
    assert weighed(f"I saw it. {sentence}")[-1] == (sentence, LASTING)


@pytest.mark.parametrize("sentence", NOT_TAKEN_BACK)
def test_what_only_sounds_like_it_takes_nothing_back(sentence):
    assert all(weight < LASTING for _, weight in weighed(sentence))


@pytest.mark.parametrize(
    ("sentence", "errand"),
    [
        ("Now fix the parser in a.py, it fails on empty files.", True),
        ("Can you run the tests again?", True),
        ("Why does the parser call the store twice here?", True),
        ("Schau dir bitte f2.py an.", True),
        ("看看 f5.py。", True),
        ("Show amounts in francs.", False),
        ("Run the linter after every edit.", False),
        ("Open a pull request only when I say so.", False),
        ("- read-only access", False),
        ("Could the new endpoint stay behind the flag?", False),
        ("Use metric units.", False),
        ("Bitte antworte immer auf Deutsch.", False),
    ],
)
def test_an_errand_is_told_from_a_rule(sentence, errand):
    assert is_errand(sentence) is errand


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
        "return [] instead of push",
        "return foo.push to the caller",
        "raise PushError (never ValueError) from push",
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
        "def f():\n    return value\n    raise ValueError(value)",
        "return self.value",
        "yield item_of(value)",
        'raise ToolError("Do not call this")',
        "async def run():\n    pass",
        "index 2f76a6a..56ffb41 100644",
        "12→// always keep this",
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
    ("kind", "sentence"),
    [
        *(("decision", each) for each in DECIDED),
        *(("rejected", each) for each in GIVEN_UP),
        *(("promise", each) for each in PROMISED),
    ],
)
def test_the_forms_in_which_they_are_written_while_the_agent_works_are_known(kind, sentence):
    found = list(commitments(f"I have read 3 files.\n\n{sentence}\n\nThe next part has 40 lines.", acts=True))
    assert [(each.kind, each.text) for each in found] == [(kind, sentence)]
    assert sentence in [each.text for each in commitments(f"Done.\n\n{sentence}", acts=False)]


@pytest.mark.parametrize("sentence", NARRATION)
def test_the_narration_of_work_is_no_commitment(sentence):
    assert list(commitments(sentence, acts=True)) == []


def test_what_stands_under_a_heading_is_what_the_heading_says():
    text = (
        "## Decisions\n\n- Postgres for the queue\n- UTC everywhere\n\nThe rest is as before.\n\n"
        "**Tried and rejected**\nOne big lock.\n\n# Summary\nAll is fine.\n\n"
        "I will not touch these:\n- billing\n- auth\n\nIt has 40 lines."
    )
    assert [(each.kind, each.text) for each in commitments(text, acts=True)] == [
        ("decision", "- Postgres for the queue"),
        ("decision", "- UTC everywhere"),
        ("rejected", "One big lock."),
        ("promise", "I will not touch these:"),
        ("promise", "- billing"),
        ("promise", "- auth"),
    ]


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
