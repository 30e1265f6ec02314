"""Build the local summary: an account of what happened that needs no model call.

It collects files read and changed with what was done in them, commands with their last results, errors that
are still open, the user's constraints, and what the assistant promised, decided and gave up, ranked by how
recently and how often they were used. The same entries give the same text. It is part of every summary, and
all of it if the model was not asked.

A name is only listed with the file that defines it, because a bare name does not help to find anything. That
file is found by the definitions in its pages and edits (definitions.py), so names of a standard library never
occur. Example: the model reads `store.py`, which defines `append` and `verify`, then edits a line within
`append`, and calls `verify()` in another file. Then `store.py` is listed with `append` (twice: as the
definition around the edit, and if the edit's own text contains it) before `verify`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

from msgspec import Struct, field

from transcripts import Entry, Folded, Metadata, Prompt

from .entry_account import (
    CallNames,
    DistantAccount,
    EntryAccount,
    ListedParts,
    ScoreKind,
    Scores,
    account_of,
    composition_of,
    drop_path,
)

MAX_MISSING_ACCOUNTS = 50  # that are not worth making in advance: 10 ms
HALF_LIFE_CALLS = 60.0  # after which one use of a name counts half
FADED_CALLS = 1_200  # after these, a use counts for less than a millionth
DISTANT_CALLS = 2_400  # after these, only files, edits and the user's words are looked for
PLAIN_WORD_WEIGHT = 0.25  # of a name without capitals and underscores: `model`, `update`


class LocalSummary(ListedParts):
    """The content of a stretch of the conversation.

    Scores are sums over uses, halved every HALF_LIFE_CALLS. `defined` has, by path, the names that a file
    defines; those that were not used outside of results have the score 0. `errors` are those that are still
    open, by the call that failed, the newest last. `used` are paths and branches in commands. `named`,
    `called` and `numbered` are the uses of names and numbers, each with its weight; they are only summed up
    when a model summary is checked, as that takes longer than everything else.
    """

    errors: dict[str, str] = field(default_factory=dict)

    read: Scores = field(default_factory=dict)
    changed: Scores = field(default_factory=dict)
    gone: Scores = field(default_factory=dict)
    used: Scores = field(default_factory=dict)
    defined: dict[str, Scores] = field(default_factory=dict)
    named: list[tuple[Mapping[str, float], float]] = field(default_factory=list)
    called: list[tuple[CallNames, float]] = field(default_factory=list)
    numbered: list[tuple[Mapping[str, float], float]] = field(default_factory=list)

    @property
    def names(self) -> Scores:
        return _sum([*self.named, *((each.weights(), weight) for each, weight in self.called)])

    @property
    def numbers(self) -> Scores:
        return _sum(self.numbered)


class EntryAccounts(Struct):
    """The accounts of the entries so far, by the seq of each; kept with the folded facts.

    One `distant` account replaces those of the oldest entries. `upto` is the number of entries that
    `accounting_steps` has gone through, with the newest texts of files. With `raises`, a local summary that
    needs many more raises AccountsMissing.
    """

    by_seq: dict[int, EntryAccount] = field(default_factory=dict)
    distant: DistantAccount = field(default_factory=DistantAccount)
    upto: int = 0
    pages: dict[str, str] = field(default_factory=dict)
    raises: bool = False


class AccountsMissing(Exception):
    """A local summary needs many accounts that take long to make; `summary_steps` makes them."""


@contextmanager
def without_long_accounts(folded: Folded) -> Iterator[None]:
    """Raise AccountsMissing if a local summary within the block would make many accounts."""
    accounts = folded.memo(EntryAccounts)
    accounts.raises = True
    try:
        yield
    finally:
        accounts.raises = False


def _lacks_many(folded: Folded) -> bool:
    accounts = folded.memo(EntryAccounts)
    return len(folded.entries) - accounts.distant.entries - len(accounts.by_seq) > MAX_MISSING_ACCOUNTS


def accounting_steps(folded: Folded) -> Iterator[None]:
    """Make the accounts of finished entries in small steps, so that a summary is ready when it is needed.

    Entries that a summary covers already, after a long session was resumed, are left to the next summary:
    they may be 500 MB.
    """
    accounts = folded.memo(EntryAccounts)
    while accounts.upto < len(folded.entries) - 1:  # the newest entry may gain results
        entry = folded.entries[accounts.upto]
        if folded.edits.covering(entry.seq) is not None:
            accounts.upto += 1
            if accounts.upto % 1_000 == 0:
                yield
            continue
        made_of = composition_of(entry, folded.kind_of)
        account = accounts.by_seq.get(entry.seq)
        if account is None or account.made_of != made_of:
            account = accounts.by_seq[entry.seq] = account_of(entry, made_of, accounts.pages)
        accounts.pages |= account.pages
        accounts.upto += 1
        yield


def summary_steps(folded: Folded) -> Iterator[None]:
    """Make in small steps the accounts that a local summary of all entries needs.

    If at most MAX_MISSING_ACCOUNTS are missing, none are made, since the summary itself makes them.
    """
    if not _lacks_many(folded):
        return
    distant = _distant_entries(folded)
    yield from _distant_steps(folded, distant)
    for _, is_new in _accounted(folded, folded.entries[distant:]):
        if is_new:
            yield


def _distant_entries(folded: Folded) -> int:
    """Return the number of the oldest entries that a summary covers and that DISTANT_CALLS follow."""
    entries = folded.entries
    fold = folded.edits.covering(entries[0].seq) if entries else None
    if fold is None:
        return 0
    calls = 0
    at = len(entries)
    while at and calls <= DISTANT_CALLS:
        at -= 1
        entry = entries[at]
        calls += 0 if isinstance(entry, Prompt) else len(entry.calls)
    return bisect_right(entries, fold.last, hi=at, key=lambda entry: entry.seq)


def _distant_steps(folded: Folded, count: int) -> Iterator[None]:
    """Extend the distant account to the first `count` entries, one per step."""
    accounts = folded.memo(EntryAccounts)
    if count < accounts.distant.entries:  # a summary was undone
        accounts.distant = DistantAccount()
    distant = accounts.distant
    kind_of = cache(folded.kind_of)
    while distant.entries < count:
        entry = folded.entries[distant.entries]
        accounts.by_seq.pop(entry.seq, None)
        distant.add(entry, kind_of)
        yield


def results_read(folded: Folded) -> Iterator[int]:
    """Yield the seqs of the results that a local summary reads, newest first: those of accounts not faded."""
    calls = 0
    for entry in reversed(folded.entries):
        if isinstance(entry, Prompt):
            continue
        if calls > FADED_CALLS and folded.edits.covering(entry.seq) is not None:
            return
        for result in entry.answers:  # without making dicts: this runs before each plan
            yield result.seq
        calls += len(entry.calls)


def _accounted(folded: Folded, entries: Sequence[Entry]) -> Iterator[tuple[EntryAccount, bool]]:
    """Yield the account of each entry, and whether it had to be made.

    Entries that a summary covers already and that are more than FADED_CALLS old have faded accounts: after a
    session was resumed, that spares reading most of a long transcript.
    """
    kind_of = cache(folded.kind_of)
    accounts = folded.memo(EntryAccounts).by_seq
    pages = dict[str, str]()
    later_calls = sum(0 if isinstance(entry, Prompt) else len(entry.calls) for entry in entries)
    for entry in entries:
        made_of = composition_of(entry, kind_of)
        later_calls -= len(made_of[2])
        faded = later_calls > FADED_CALLS and folded.edits.covering(entry.seq) is not None
        account = accounts.get(entry.seq)
        is_new = account is None or (account.made_of, account.faded) != (made_of, faded)
        if account is None or is_new:
            account = accounts[entry.seq] = account_of(entry, made_of, pages, faded)
        pages |= account.pages
        yield account, is_new


def build_local_summary(folded: Folded, entries: Iterable[Entry]) -> LocalSummary:
    """Return the local summary of a stretch of the conversation.

    The account of each entry is made once, as it costs far more than summing them up: further cuts, the
    compaction after a preview, and later compactions use it again. May raise AccountsMissing, see
    `without_long_accounts`.
    """
    if folded.memo(EntryAccounts).raises and _lacks_many(folded):
        raise AccountsMissing
    entries = list(entries)
    local_summary = LocalSummary()
    if entries and entries[0] is folded.entries[0]:
        count = min(_distant_entries(folded), len(entries))
        entries = entries[count:]
        for _ in _distant_steps(folded, count):
            pass
        _begin_with(local_summary, folded.memo(EntryAccounts).distant)
    calls = 0
    mentions = list[tuple[str, float, frozenset[str]]]()
    definers = dict[str, list[str]]()
    for account, _ in _accounted(folded, entries):
        for kind, offset, found in account.uses:
            _add_use(local_summary, kind, found, _weight(calls + offset))
        for offset, named in account.called:
            local_summary.called.append((named, _weight(calls + offset)))
        for path, offset, words, weight in account.mentions:
            mentions.append((path, weight * _weight(calls + offset), words))
        for path, found_names in account.definitions:
            for name in found_names:
                definers.setdefault(name, []).append(path)
        for called, error in account.outcomes:
            local_summary.errors.pop(called, None)
            if error:
                local_summary.errors[called] = error
        calls += account.calls
        local_summary.extend(account)
    _score_definitions(local_summary, definers, mentions)
    return local_summary


def _begin_with(local_summary: LocalSummary, distant: DistantAccount) -> None:
    """Begin a local summary with what is distant, each file with the weight of its newest call."""

    def weights(newest: Scores) -> Scores:
        return {path: 2.0 ** ((call - distant.calls) / HALF_LIFE_CALLS) for path, call in newest.items()}

    local_summary.read = weights(distant.read)
    local_summary.changed = weights(distant.changed)
    local_summary.gone = weights(distant.gone)
    local_summary.extend(distant)


def _add_use(local_summary: LocalSummary, kind: ScoreKind, found: Mapping[str, float], weight: float) -> None:
    match kind:
        case "names":
            local_summary.named.append((found, weight))
        case "numbers":
            local_summary.numbered.append((found, weight))
        case "read":
            _add(local_summary.read, found, weight)
        case "changed":
            _add(local_summary.changed, found, weight)
            for path in found:
                drop_path(local_summary.gone, path)
        case "paths":
            _add(local_summary.used, found, weight)
        case "gone":
            _add(local_summary.gone, found, weight)
            for path in found:
                drop_path(local_summary.changed, path)


def _score_definitions(
    local_summary: LocalSummary,
    definers: Mapping[str, Sequence[str]],
    mentions: Iterable[tuple[str, float, frozenset[str]]],
) -> None:
    """Score each mentioned name with the file that defines it: the one that the text is about, or the newest.

    `definers` are the paths of the files that define a name, oldest first. A plain word counts less, because
    it is often meant otherwise. Names that were not mentioned come last: a fifth of the definitions that are
    edited later are first named then.
    """
    for path, weight, words in mentions:
        for name in definers.keys() & words:
            owner = path if path in definers[name] else definers[name][-1]
            factor = PLAIN_WORD_WEIGHT if name.isalpha() and name[1:].islower() else 1.0
            _add(local_summary.defined.setdefault(owner, {}), {name: factor}, weight)
    for name, paths in definers.items():
        local_summary.defined.setdefault(paths[-1], {}).setdefault(name, 0.0)


def _weight(calls: int) -> float:
    """Return the weight of a use after so many calls: newer ones weigh more, and only the ratios count."""
    return float(2.0 ** (calls / HALF_LIFE_CALLS % 900))  # bounded: a float ends at 2 ** 1023


def _add(scores: Scores, found: Mapping[str, float], weight: float) -> None:
    for name, factor in found.items():
        scores[name] = scores.get(name, 0.0) + factor * weight


def _sum(uses: Iterable[tuple[Mapping[str, float], float]]) -> Scores:
    scores: Scores = {}
    for found, weight in uses:
        _add(scores, found, weight)
    return scores


def pins_of(notes: Iterable[Metadata]) -> dict[int, str]:
    """Return the texts that the user has pinned, by number."""
    pins: dict[int, str] = {}
    for note in notes:
        if note.topic == "pin":
            pins[int(note.about["id"])] = str(note.about["text"])
        elif note.topic == "unpin":
            pins.pop(int(note.about["id"]), None)
    return pins
