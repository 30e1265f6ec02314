"""Estimate the size of the next prompt in the model's own tokens."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from statistics import median

from msgspec import Struct, field

from transcripts import (
    CALL_ID_TOKENS,
    MESSAGE_TOKENS,
    Folded,
    Message,
    PartKind,
    RequestSize,
    ToolUseBlock,
)

INITIAL_SLOPE = 1.0  # before the first reply; on recordings of current models it is 1.2 to 1.5
MIN_SPREAD = 1.3  # largest count over smallest, from which on a slope can be told from an offset
MIN_SLOPE = 0.3
MAX_SLOPE = 4.0  # no tokenizer is beyond these
MAX_USUAL_SLOPE = 1.5  # what is more, of few requests, is what the API adds unseen by us
MAX_FITTED_REQUESTS = 100  # the newest, that the rates are fitted to
MIN_FITTED_TOKENS = 50  # of growth: smaller ones weigh no more
# How firmly the rates are held near what is usual, as if so much had been measured. Texts come to be known
# with the first few hundred tokens; what the ids of calls take is hard to tell from the texts of the calls.
TEXT_HOLD = 500.0
IDS_HOLD = 2.0
MADE_HOLD_TOKENS = 3_000
USUAL_ID_TOKENS = 8.0  # of an id, before it is known; our count holds it to be CALL_ID_TOKENS
MIN_EXCERPT_TOKENS = 100  # of what is more than a placeholder's line, and shows some of a text
USUAL_MADE_SHARE = 0.95
MIN_MADE_SHARE = 0.6
MAX_MADE_SHARE = 1.4  # of a record's or placeholder's tokens
# (share of our count, tokens besides) that system prompt and tools come to at least and at most
OVERHEAD_BOUNDS = ((0.5, 0), (2.0, 2_000))


class Calibration(Struct, frozen=True):
    """The model's tokens = offset + slope * our count. The offset is what the API adds unseen by us."""

    offset: float = 0.0
    slope: float = INITIAL_SLOPE

    def tokens(self, raw: int) -> int:
        """The model's tokens for what we count as `raw`."""
        return max(0, round(self.offset + self.slope * raw))


@lru_cache(8)  # asked several times for each request, and all pairs of measures are compared
def calibrate(measures: tuple[tuple[int, int], ...]) -> Calibration:
    """The line through (our count, the usage's prompt tokens), robust against outliers (Theil-Sen)."""
    points = sorted((raw, actual) for raw, actual in measures if raw > 0 and actual > 0)
    if not points:
        return Calibration()
    low = points[0][0]
    high = points[-1][0]
    if high < low * MIN_SPREAD:
        return Calibration(0.0, _bounded(median(actual / raw for raw, actual in points)))
    apart = (high - low) / 4  # pairs nearer to each other tell little; there is always one
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 - x1 >= apart]
    slope = _bounded(median(slopes))
    return Calibration(median(actual - slope * raw for raw, actual in points), slope)


def slope_of(folded: Folded) -> float:
    """The model's tokens for each of our count of a text, as the replies so far tell."""
    return _rates(folded, folded.sizes.requests, calibrate(folded.sizes.pairs)).text


def _bounded(slope: float) -> float:
    return min(MAX_SLOPE, max(MIN_SLOPE, slope))


class _Rates(Struct, frozen=True):
    """The model's tokens for each of our count of a text, and for each id of a call or result."""

    text: float
    ids: float

    def of(self, text: float, ids: float) -> float:
        return self.text * text + self.ids * ids


class _Shown(Struct, frozen=True):
    """The tokens of a view: `known` ones of the part that a counted request showed, and our count of the
    rest: its `text`, the text `made` by edits, and the ids of calls.
    """

    known: int
    text: int
    made: int
    ids: int

    @property
    def raw(self) -> int:
        return self.text + self.made + self.ids * CALL_ID_TOKENS


class _Made(Struct, frozen=True):
    """The learnt size of text made by edits: it has `share` of the tokens that other text would have.

    `left` tokens of a prompt stayed unexplained, whose rest was `of` tokens of our count. Where much was new
    in it, that explains them: it had `newest` tokens for each of our count. `behind`: the seq of the last
    fact that was folded then; 0 where nothing was, so that `share` is that of placeholders.
    """

    share: float = USUAL_MADE_SHARE
    left: float = 0.0
    of: int = 0
    newest: float = 0.0
    behind: int = 0


class TokenFit(Struct):
    """The rates learnt from the requests so far; kept with the folded facts.

    `rates` were fitted to `fitted_to`: the number of requests, the newest of them, and the slope.
    """

    fitted_to: tuple[int, RequestSize | None, float] = (0, None, 0.0)
    rates: _Rates = field(default_factory=lambda: _Rates(INITIAL_SLOPE, USUAL_ID_TOKENS))
    made: _Made = field(default_factory=_Made)
    made_from: RequestSize | None = None  # the request that `made` was learnt from


def context_tokens(folded: Folded, overhead: int, calibration: Calibration) -> int:
    """The model's tokens of the next prompt. `overhead` is our count of system prompt and tools.

    The newest reply tells the exact size of its own prompt; only what came since then is estimated. Where
    edits came into force since, what was measured is taken of all that is shown as it was then: an estimate
    of what is gone could be wrong by more than all that is left.
    """
    sizes = folded.sizes.requests
    view = folded.view
    if not sizes:
        return calibration.tokens(overhead + view.tokens)
    rates = _rates(folded, sizes, calibration)
    last = sizes[-1]
    if folded.sizes.edited:
        return max(0, round(_edited_tokens(folded, sizes, overhead, rates)))
    behind = view.tokens + overhead - last.raw
    ids = view.ids_before(len(view))
    ids -= view.ids_before(view.index_of(last.seq))
    tokens = last.tokens
    reply = folded.last_reply
    if reply is not None and reply.asked == last.seq and reply.usage.prompt:
        calls = sum(isinstance(block, ToolUseBlock) for block in reply.blocks)
        behind -= sum(reply.tokens) + MESSAGE_TOKENS + calls * CALL_ID_TOKENS
        tokens = reply.usage.total
        ids = ids - calls
    return max(0, tokens + round(rates.of(behind - ids * CALL_ID_TOKENS, ids)))


def _rates(folded: Folded, sizes: Sequence[RequestSize], calibration: Calibration) -> _Rates:
    """The rates by which requests have grown so far, by least squares; held near what is usual at first."""
    fit = folded.memo(TokenFit)
    key = (len(sizes), sizes[-1] if sizes else None, calibration.slope)
    if fit.fitted_to != key:
        usual = min(MAX_USUAL_SLOPE, max(INITIAL_SLOPE, calibration.slope))
        tt = TEXT_HOLD
        ti = 0.0
        ii = IDS_HOLD
        ty = TEXT_HOLD * usual
        iy = IDS_HOLD * USUAL_ID_TOKENS * usual
        for before, size in pairwise(sizes[-MAX_FITTED_REQUESTS:]):
            raw = size.raw - before.raw
            grown = size.tokens - before.tokens
            if size.grown and MIN_SLOPE * raw <= grown <= MAX_SLOPE * raw:
                ids = size.ids
                weight = 1 / max(MIN_FITTED_TOKENS, raw)
                text = raw - ids * CALL_ID_TOKENS
                tt = tt + weight * text * text
                ti = ti + weight * text * ids
                ii = ii + weight * ids * ids
                ty = ty + weight * text * grown
                iy = iy + weight * ids * grown
        spread = tt * ii - ti * ti
        fit.rates = _Rates(_bounded((ty * ii - iy * ti) / spread), max(0.0, (tt * iy - ti * ty) / spread))
        fit.fitted_to = key
    return fit.rates


def _edited_tokens(folded: Folded, sizes: Sequence[RequestSize], overhead: int, rates: _Rates) -> float:
    """The model's tokens of a prompt that shows what was sent otherwise than it was sent.

    System prompt and tools by the first request, what is shown as it was by the growth of the request that
    first had it, and the rest by the rates.
    """
    if folded.sizes.as_counted is not None:
        _learn_made(folded.sizes.as_counted, sizes, overhead, rates)
    made = _made_of(folded)
    shown = _shown(folded, sizes, len(folded.view), made.newest)
    left = made.left * min(1.0, shown.raw / made.of) if made.of else 0.0
    return left + _explained(shown, sizes, overhead, rates, made.share)


def _made_of(folded: Folded) -> _Made:
    """Return the learnt size of text made by edits; placeholders of a new summary, and removed ones, say
    nothing.
    """
    made = folded.memo(TokenFit).made
    if made.behind == _folded_to(folded):
        return made
    is_telling = made.behind and MIN_MADE_SHARE < made.share < MAX_MADE_SHARE
    return _Made(made.share if is_telling else USUAL_MADE_SHARE, newest=made.newest)


def tokens_behind(folded: Folded, at: int, calibration: Calibration) -> int:
    """The model's tokens of the messages from index `at` on."""
    view = folded.view
    sizes = folded.sizes.requests
    end = len(folded.view)
    raw = view.tokens - view.tokens_before(at)
    ids = view.ids_before(end) - view.ids_before(at)
    less = (1 - _made_of(folded).share) * view.between(PartKind.PLACEHOLDER, at, end)
    return max(0, round(_rates(folded, sizes, calibration).of(raw - less - ids * CALL_ID_TOKENS, ids)))


def _explained(
    shown: _Shown, sizes: Sequence[RequestSize], overhead: int, rates: _Rates, made_share: float
) -> float:
    first = sizes[0]
    alone = first.tokens - rates.of(first.raw - overhead - first.ids * CALL_ID_TOKENS, first.ids)
    least, most = (share * overhead + besides for share, besides in OVERHEAD_BOUNDS)
    rest = rates.of(shown.text + made_share * shown.made, shown.ids)
    return min(most, max(least, alone)) + shown.known + rest


def overhead_tokens(folded: Folded, overhead: int) -> float:
    """The model's tokens of system prompt and tools, of which `overhead` is our count."""
    sizes = folded.sizes.requests
    calibration = calibrate(folded.sizes.pairs)
    if not sizes:
        return calibration.tokens(overhead)
    return _explained(_Shown(0, 0, 0, 0), sizes, overhead, _rates(folded, sizes, calibration), 0.0)


def _learn_made(folded: Folded, sizes: Sequence[RequestSize], overhead: int, rates: _Rates) -> None:
    """Learn from the newest request what the texts that edits have made come to."""
    view = folded.view
    last = sizes[-1]
    if not (folded.edits.folds or folded.edits.clears) or folded.memo(TokenFit).made_from == last:
        return
    fit = folded.memo(TokenFit)
    fit.made_from = last
    end = view.index_of(last.seq)
    behind = _folded_to(folded)
    shown = _shown(folded, sizes, end)
    new = view.tokens_before(end) - view.tokens_before(view.index_of(sizes[-2].seq)) if len(sizes) > 1 else 0
    if not last.grown and new > shown.raw / 2:
        other = _explained(shown, sizes, overhead, rates, USUAL_MADE_SHARE) - rates.text * new
        fit.made = _Made(newest=_bounded((last.tokens - other) / new), behind=behind)
        return
    without = last.tokens - _explained(shown, sizes, overhead, rates, 0.0)
    hold = MADE_HOLD_TOKENS
    tokens = rates.text * shown.made
    share = min(MAX_MADE_SHARE, max(MIN_MADE_SHARE, (without + hold * USUAL_MADE_SHARE) / (tokens + hold)))
    fit.made = _Made(share, without - share * tokens, shown.raw, behind=behind)


def _shown(folded: Folded, sizes: Sequence[RequestSize], end: int, newest: float = 0.0) -> _Shown:
    """Return the tokens of the messages before index `end`, by the requests that had grown by those still
    shown.

    `newest` is what is known of what was new in the newest, see `_Made`.
    """
    view = folded.view
    known = 0.0
    behind = _folded_to(folded)
    lasts = [message.last for message in view[:end]]
    tokens = view.tokens_before
    stretches = [(bisect_left(lasts, sizes[-1].seq), end)]
    excerpts = 0
    end = stretches[0][0]
    for before, size in zip(sizes[-2::-1], sizes[:0:-1], strict=True):
        if before.seq <= behind:
            break
        start = bisect_left(lasts, before.seq, 0, end)
        grown = size.raw - before.raw
        counted = size.tokens - before.tokens
        if size.grown and tokens(end) - tokens(start) == grown:
            known = known + counted
            end = start
            continue
        share = counted / grown if size.grown and grown > 0 else newest if size is sizes[-1] else 0
        if share and (left := _excerpts(view[start:end])):  # which are of the same text
            known = known + _bounded(share) * left
            excerpts = excerpts + left
        stretches.append((start, end))
        end = start
    stretches.append((0, end))
    raw = sum(tokens(end) - tokens(start) for start, end in stretches)
    ids = sum(view.ids_before(end) - view.ids_before(start) for start, end in stretches)
    made = sum(view.between(PartKind.PLACEHOLDER, start, end) for start, end in stretches)
    return _Shown(round(known), raw - made - ids * CALL_ID_TOKENS, made - excerpts, ids)


def _folded_to(folded: Folded) -> int:
    """The seq of the last fact that a record stands for; 0 without one."""
    folds = folded.edits.folds
    return folds[-1].last if folds else 0


def _excerpts(messages: Sequence[Message]) -> int:
    """Our count of what edits show of single texts: their beginning, or both ends."""
    made = (part.tokens for each in messages for part in each.parts if part.kind is PartKind.PLACEHOLDER)
    return sum(tokens for tokens in made if tokens > MIN_EXCERPT_TOKENS)
