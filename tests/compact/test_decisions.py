"""Decisions of the policies in made-up sessions, compared with decisions.json.

The tables that they follow (hazards.py, policy.py, settings.py) are measured, and hardly any other test would
notice a wrong number in them. Whoever changes a table, or what is counted, stores the new decisions with
`STORE=1 .venv/bin/python -m pytest -n 0 tests/compact/test_decisions.py`. The diff of decisions.json then
shows what the change does. Whether that is better is measured on recordings: docs/ECONOMY.md.
"""

import json
import os
from pathlib import Path
from random import Random

from compact.block_tracker import tracker_of
from compact.policy import choose_batch
from compact.prices import Prices
from compact.settings import CompactSettings
from transcripts.facts import Clear, Fold

from .worlds import World

STORED = Path(__file__).with_name("decisions.json")
SESSIONS = {
    "standard": World(judged=False),
    "cheap reading": World(judged=False),
    "small window": World(window=32_000, judged=False),
    "medium window": World(window=90_000, overhead=8_000, judged=False),
    "classic": World(CompactSettings(policy="classic"), 90_000, judged=False),
}
SESSIONS["cheap reading"].prices = Prices(read=0.025)


def lines_of(chance, name, first, count):
    """Lines of a file or an output, some of which name something that occurs nowhere else."""
    return [
        f"{at:>5}\tdef {name}_{at}_{chance.randrange(10**6)}(value): return value + {at}"
        for at in range(first, first + count)
    ]


def work(world, calls, seed="work"):
    """Let an agent read, edit, write, search and run commands; yields after each call."""
    chance = Random(seed)
    world.user("Make the parser faster. Never change the format of the files.")
    texts = {}
    shown = list[str]()
    for at in range(calls):
        world.now += chance.choice((2, 20, 60))
        name = f"src/part_{chance.randrange(7)}.py"
        first = 1 + 60 * chance.randrange(3)
        match chance.choice(("read", "page", "page", "edit", "write", "bash", "bash", "grep", "prompt")):
            case "read":
                texts[name] = lines_of(chance, "part", 1, chance.randrange(10, 180))
                world.call("read", "\n".join(texts[name]), thinks="hm", file_path=name)
            case "page":
                page = texts.setdefault(name, lines_of(chance, "part", 1, 180))[first : first + 60]
                world.call("read", "\n".join(page) or "no such lines", file_path=name, offset=first, limit=60)
            case "edit" if name in texts:
                old = chance.choice(texts[name]).partition("\t")[2]
                new = "\n".join(lines_of(chance, "new", 1, chance.randrange(1, 20)))
                world.call("edit", "edited", file_path=name, old_string=old, new_string=new)
            case "write":
                texts[name] = lines_of(chance, "made", 1, chance.randrange(10, 90))
                world.call("write", "written", file_path=name, content="\n".join(texts[name]))
            case "prompt" if at > 20:
                world.reply("Done so far.")
                world.now += chance.choice((30, 30, 400))
                world.user(f"Go on with {name}, please.")
            case "grep" if shown:
                world.call("grep", "\n".join(lines_of(chance, "hit", 1, 9)), pattern=chance.choice(shown))
            case _:
                output = lines_of(chance, "test", 1, chance.randrange(5, 200))
                command = f"make part{at} {chance.choice(shown[-20:])}" if shown else "make"
                world.call("bash", "\n".join(output), command=command)
        last = world.folded.view[-1].parts[-1].block
        shown += [word.partition("(")[0] for word in str(last).split() if "(value):" in word][:3]
        yield


def compactions(world):
    """Each compaction of a session: its call, layer, reason, tokens before and freed, and what it changes."""
    made = []
    for at, _ in enumerate(work(world, 40 if world.settings.policy == "classic" else 100)):
        for proposal in world.compact().proposals:
            report = proposal.report
            made.append(
                f"{at} {proposal.layer} {report.get('why', '')}: {report['before']} - {report['freed']}: "
                + " ".join(map(changed, proposal.edits)).strip()
            )
    return made


def changed(edit):
    match edit:
        case Clear():
            return f"{edit.seq}"
        case Fold():
            return f"{edit.first}-{edit.last}"
    return ""  # thinking, which follows from the others


def kept(seed):
    """For each block of a session: from which size of the prompt on it stays although the cache is cold.

    A line for every sixth call, with `seq:thousands of tokens` for each block that stays at any size.
    """
    world = World(window=2_000_000, judged=False)
    lines = []
    for at, _ in enumerate(work(world, 61, seed)):
        choose_batch(world.situation)  # which counts the references to expect
        if at % 6 == 0 and at:
            now = world.now
            world.now += 400
            stays = dict[int, int]()
            for step in range(16, -1, -1):
                thousands = round(4 * 1.35**step)
                world.overhead = 1_000 * thousands
                edits = batch.edits if (batch := choose_batch(world.situation)) is not None else ()
                going = {edit.seq for edit in edits}
                shown = tracker_of(world.folded).shown(world.folded)
                stays.update((each.seq, thousands) for each in shown if each.seq not in going)
            lines.append(f"{at}: " + " ".join(f"{block}:{size}" for block, size in stays.items()))
            world.now = now
            world.overhead = 0
    return lines


def test_decisions_are_those_that_are_stored():
    found = {
        "kept": {seed: kept(seed) for seed in ("c", "e")},
        "compactions": {name: compactions(world) for name, world in SESSIONS.items()},
    }
    if os.environ.get("STORE"):
        STORED.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(STORED.read_text())
