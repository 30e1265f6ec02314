"""Sessions in which a user says something once, amid much else, and the agent promises things."""

import random
from collections.abc import Callable

from compact.folding import RESTORED_HEADING
from transcripts.messages import TextBlock

from .worlds import World, answered, words

CONSTRAINTS = (
    "Before you run a migration, wait for my go-ahead.",
    "Use metric units.",
    "End every reply with a summary line.",
    "Never push to the release branch.",
    "Dates are to be written as ISO 8601.",
    "If a test is flaky, mark it and move on.",
    "I'd like commit messages in the past tense.",
    "Anything under vendor/ is off limits.",
    "Ask me first when a change touches billing.",
    "Name the licence of every package that you add.",
    "Prices must be kept in cents.",
    "Treat compiler warnings as errors.",
    "You may edit files below src/ and nothing else.",
    "Bitte antworte immer auf Deutsch.",
    "Log through structlog only.",
)
# They stand on lines of their own, and look like code, quotes or tables by some sign.
CODE_LIKE_CONSTRAINTS = (
    "never call os.system()",
    "Do not use eval();",
    "Never commit to main;",
    "> Do not deploy on Fridays",
    "use `git rebase` (never `git merge`) {important}",
    "For this project: never write to {data_dir}/raw;",
    "Return early instead of nesting;",
    "# Never push to the release branch",
    "class names must be in PascalCase",
    "(always ask before you delete a table)",
    "[IMPORTANT] keep the changelog up to date",
    "| style | always use metric units |",
    "please run the tests before calling main()",
    "Never set DEBUG = True;",
    'All endpoints must return JSON {"error": "..."}',
)
# Written after the recognition was built, in other words and forms; it was not changed for these.
OTHER_CONSTRAINTS = (
    "Stay away from the auth middleware.",
    "Variable names in the SQL are lower case.",
    "When in doubt, choose the boring option.",
    "Please quote file paths with backticks.",
    "Under Windows nothing may break.",
    "Reviews come before merges, not after.",
    "Benchmarks run on the old laptop only.",
    "You don't have to care about IE11.",
    "Write tests before code.",
    "Gib Beträge in Franken an.",
    "My name is spelled Anouk with a k.",
    "The word 'simply' is banned from the docs.",
    "Report progress every 20 minutes.",
    "Pin all GitHub actions by hash.",
    "After editing a template, regenerate the snapshots.",
)
# Written for sessions that are dense with rules of documents; several languages.
DENSE_CONSTRAINTS = (
    "Leave the generated protobuf files as they are.",
    "Whoever reads the release notes is not a developer, so avoid jargon there.",
    "Any new dependency needs a sign-off from Priya.",
    "Timeouts: five seconds at most, everywhere.",
    "We only ship on Tuesdays.",
    "Bitte keine Umlaute in Dateinamen.",
    "Vor jedem Commit müssen die Tests grün sein.",
    "Les messages d'erreur doivent rester en anglais.",
    "N'ajoute aucune dépendance sans mon accord.",
    "Los nombres de las tablas van siempre en singular.",
    "Non toccare mai la cartella dei contratti.",
    "提交之前一定要先运行测试。",
    "ログには個人情報を出力しないでください。",
    "Комментарии в коде пиши только по-английски.",
    "Não uses cores vermelhas nos gráficos.",
)
# Rules, and what changes them later in words that do not say so.
CHANGED_RULES = (
    ("Use a timeout of 30 seconds for every request.", "Timeout went up to 90 seconds."),
    ("Keep functions under 40 lines.", "The line limit is 60 nowadays."),
    ("Reports go to Priya.", "Priya left, reports are for Marek."),
    ("Deploy only on Tuesdays.", "The deploy window moved over to Thursdays."),
    ("Write all dates as DD.MM.YYYY.", "Dates have become ISO 8601 everywhere."),
    ("Never touch the legacy folder.", "The legacy folder got its green light yesterday."),
    ("Use tabs for indentation.", "Indentation: four spaces after all."),
    ("All prices must be in euros.", "We settled on dollars for the prices."),
    ("Cache entries live for ten minutes.", "Ops bumped cache entries to an hour."),
    ("Log at level INFO in production.", "Production logs at WARNING these days."),
    ("Retries: three at most.", "Five retries are fine with the vendor."),
    ("Port 8080 is reserved for the proxy, never bind it.", "The proxy sits on port 9090 since the move."),
    ("Batch size has to be 500.", "Batch size: 200, the disk could not keep up."),
    ("Store sessions in Redis only.", "Sessions live in Memcached as of this week."),
    ("Tests may not use the network.", "Network in tests became okay for the sandbox suite."),
)
OTHER_PROMISES = (
    "I'll stay away from the auth middleware.",
    "I will pin all actions by hash.",
    "Agreed: tests before code.",
    "I won't merge before the review.",
    "I will regenerate the snapshots after each template edit.",
    "From here on I quote file paths with backticks.",
    "I'm never going to write 'simply' in the docs.",
    "The boring option it is whenever I am in doubt.",
    "I'll report progress every 20 minutes.",
    "I will leave the old laptop's benchmarks to you.",
    "SQL stays lower case in everything I write.",
    "You won't see amounts in dollars from me.",
    "I promise not to break Windows.",
    "We'll keep IE11 out of scope.",
    "No merge from me without a review.",
)
PROMISES = (
    "I will not touch billing.",
    "I'll ask you before every migration.",
    "From now on I end each reply with a summary line.",
    "I won't push anything until you have reviewed it.",
    "I am going to leave the public interface as it is.",
    "I will use metric units throughout.",
    "Understood: no new packages without your consent.",
    "I'll keep every function under forty lines.",
    "The lock file stays untouched.",
    "I promise to run the tests before each commit.",
    "We will stick to Python 3.11.",
    "Nothing will be deleted without your word.",
    "I'm leaving the vendor folder alone.",
    "I shall write all messages in British English.",
    "I will report times in UTC.",
)
# What an assistant writes in the course of its work, on lines of their own.
DECISIONS = (
    "Decision: use Postgres, because SQLite locks under load.",
    "**Decision:** retries are capped at three because the vendor bans us.",
    "I'm dropping the regex idea: it is far too slow on the big file.",
    "Switched from threads to asyncio, as the threads deadlocked.",
    "| promise | I will not touch the billing module |",
    "- **Rejected:** websockets, because the proxy cuts them.",
    "Going with httpx over requests because it speaks HTTP/2.",
    "The first approach didn't work because the socket is shared.",
    "Reverted the cache change: it broke the diff.",
    "I'll leave `src/billing.py` alone.",
    "Ruled out: Celery (needs a broker).",
    "Using a dataclass rather than a dict so that mypy checks it.",
    "### Decision: keep the old endpoint until June",
    "Tried `mmap` but it was slower on small files.",
    "I won't change the public API.",
)
SUBJECTS = (
    "The scheduler",
    "Our importer",
    "That service",
    "The old client",
    "The nightly job",
    "This module",
)
VERBS = ("reads", "keeps", "merges", "has written", "does not retry", "used to drop", "compares", "forwards")
OBJECTS = (
    "the queue of pending orders",
    "a table with about 40 columns",
    "every row of the report",
    "its cache",
    "the messages that came in late",
    "what the gateway returns",
    "the index of last week",
)
ENDS = (
    "when the load is high",
    "since the move in March",
    "although nobody asked for it",
    "on the small cluster",
    "and that takes 12 minutes",
    "because the disk was slow",
    "in two of the three regions",
)
REQUESTS = (
    "Look at {} and tell me why.",
    "Can you check {}?",
    "Fix {} please.",
    "Rename {} while you are there.",
)


def prose(seed: int, characters: int) -> str:
    """Texts around users' requests: mostly description, one sentence in eight a request."""
    rng, made, long = random.Random(seed), list[str](), 0
    while long < characters:
        obj = rng.choice(OBJECTS)
        plain = f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {obj} {rng.choice(ENDS)}."
        made.append(plain if rng.random() < 7 / 8 else rng.choice(REQUESTS).format(obj))
        long += len(made[-1])
    return " ".join(made)


GUIDELINES = (
    "- **{name}**: Always use `{a}` instead of `{b}` when {obj} comes before `{c}/{d}.go`.",
    "Never call `{a}` while the lock of `{b}` is held, or {obj} will be merged twice by the next run.",
    "### {number}. Add the sentinel error `Err{name}`",
    "./.git/objects/{hex}/{hex}{hex}",
    "- Fix {obj} before moving on to task {number}",
    "Each `{a}` block must have a corresponding `{b}` block, unless `{c}` says that {obj} is complete.",
    "The handler of {obj} uses `{a}` directly, while the others call `{b}` first and wrap what it returns.",
    "| `{a}` | {obj} | do not set it in `{c}` | {number} |",
)


def guidelines(seed: int, characters: int) -> str:
    """Return a document of rules for contributors, as users paste them: most lines demand something."""
    rng = random.Random(seed)
    lines = list[str]()
    while sum(map(len, lines)) < characters:
        names = {key: f"{rng.choice(VERBS).split()[-1]}_{rng.randrange(900)}" for key in "abcd"}
        line = rng.choice(GUIDELINES).format(
            **names,
            name=rng.choice(("Retry", "Queue", "Session", "Import"))
            + rng.choice(("Policy", "Order", "Limits")),
            obj=rng.choice(OBJECTS),
            number=rng.randrange(90),
            hex=f"{rng.randrange(16**8):08x}",
        )
        lines.append(line)
    return "\n" + "\n".join(lines) + "\n"


def said_once(
    sentences: tuple[str, ...],
    user_tokens: int,
    window: int,
    promised: bool = False,
    text: Callable[[int, int], str] = prose,
) -> World:
    """A session of messages with a sentence in the middle of each, said by the user or by the agent."""

    world = World(window=window, judged=False, overhead=2_000)
    share = 4 * user_tokens // len(sentences)
    for number, sentence in enumerate(sentences):
        begin, end = text(number, share // 2), text(-number - 1, share // 2)
        world.user(f"{begin} {end}" if promised else f"{begin} {sentence} {end}")
        world.call("read", f"value_{number} = 1\n" * (window // 300), file_path=f"src/part_{number}.py")
        said = f"Part {number} is read, and it is fine."
        world.reply(TextBlock(f"{said} {sentence} It has 40 lines." if promised else said))
    return world


def compacted(world: World, rounds: int) -> int:
    """Compact so many times, with work in between. Returns the tokens of the largest record with its tail.

    Files that are shown again have a limit of their own and are not counted.
    """
    largest, summary = 0, answered("<summary>1. Work: it went well. " + "All is fine. " * 80 + "</summary>")
    for number in range(rounds):
        if world.folded.compactions:
            world.user(f"Go on with step {number}.")
            for at in range(6):
                world.call("bash", f"row {at}\n" * (world.window.size // 60), command=f"make part_{at}")
            world.reply(f"Step {number} is done.")
        made = world.compact("manual", summary)
        assert made.proposals, made.note
        parts = [part for message in world.folded.view for part in message.parts]
        shown = (part for part in parts if not words(part.block).startswith(RESTORED_HEADING))
        largest = max(largest, sum(part.tokens for part in shown))
    return largest


def surviving(world: World, sentences: tuple[str, ...]) -> list[str]:
    """Those of the sentences that the model is shown, verbatim."""
    shown = "\n".join(world.shown)
    return [sentence for sentence in sentences if sentence in shown]
