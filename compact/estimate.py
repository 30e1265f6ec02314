"""Estimate the size of the next prompt in the model's own tokens.

We count with a tokenizer that is not the model's (tokens.py). The usage of each reply gives the exact size of
the prompt that it answered, so only the difference between that prompt and the next one is estimated, at
rates learnt from how earlier prompts grew.

**Rates.** From one request to the next a prompt mostly grows at its end. Our count of the growth and the
growth that the API reports give the rates, by least squares over the newest requests: the model's tokens for
each of our tokens of text, and for each id of a call or result. Ids get a rate of their own because models
count these random letters very differently. At first both rates are kept near the usual values.

**A prompt that grew.** Its size is the exact usage of the newest reply plus the rates times what came since.

**A prompt that was cut.** The same holds while an edit leaves at least LARGE_CUT of it: the removed text is
subtracted at the rates. After a larger cut, or an undo that brings as much back, the error in the difference
would weigh too much, so the prompt is added up instead: system prompt and tools as the first request had
them, each stretch that is still shown as it was by the measured growth of the request that first had it, and
the rest at the rates.

Example. Our count of system prompt and tools is 3,000 tokens, the first prompt has 100 tokens besides:

    request   our count   usage       growth (ours -> the API's)
    1             3,100   3,900
    2            13,100   16,900      10,000 -> 13,000
    3            23,100   29,400      10,000 -> 12,500

The rate of text is near 1.27. The reply to request 3 has 100 tokens of output (our count: 80), its call then
returns a result of 2,000 tokens:

    29,400 + 100 + 1.27 * 2,000 = 32,040

An edit clears 1,000 tokens of the second stretch: 32,040 - 1.27 * 1,000 = 30,770. If the whole second stretch
were folded into a summary of 500 tokens, 15,700 of 25,200 tokens would be left, less than LARGE_CUT. Then the
prompt is added up: the frame is 3,900 - 1.27 * 100 = 3,773; the third stretch is shown as it was, 12,500; the
first message, the summary and the newest exchange come to 1.27 * 2,680 = 3,404: together 19,677.

This was measured on recordings of five agents in windows of 60,000 tokens, against a counter that splits text
differently from ours. The mean error is 0.2 to 0.6 % where the prompt grew, 0.7 to 1.8 % after small cuts and
0.6 to 6.0 % after large ones. With one rate for text and ids alike, the latter doubles. A line through all
measurements and a separate rate for excerpts made little difference and were removed, as was a learnt share
for placeholders, which gained about 1 point after large cuts in two of the five.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

from msgspec import Struct, field

from transcripts import Folded, Message, RequestSize, ToolUseBlock

MIN_SLOPE = 0.3
MAX_SLOPE = 4.0  # no tokenizer is outside this range
LARGE_CUT = 0.75  # of the newest prompt: if less is left (or was, before an undo), parts are added up


def overall_slope(folded: Folded) -> float:
    """Return the model's tokens for each token of our count, by the newest usage.

    Before the first reply it is 1; on recordings of current models it is 1.2 to 1.5.
    """
    sizes = folded.sizes.requests
    return _bounded(sizes[-1].tokens / sizes[-1].raw) if sizes else 1.0


def text_slope(folded: Folded) -> float:
    """Return the model's tokens for each token of text of our count, by the growth of the prompts."""
    return _rates(folded).text


def estimate_prompt(folded: Folded, overhead: int) -> int:
    """Return the model's tokens of the next prompt; `overhead`: our count of system prompt and tools."""
    sizes = folded.sizes.requests
    view = folded.view
    if not sizes:
        return overhead + view.tokens
    rates = _rates(folded)
    last = sizes[-1]
    left = (view.tokens + overhead) / last.raw
    if folded.sizes.edited and not LARGE_CUT <= left <= 1 / LARGE_CUT:
        return max(0, round(_added_up(folded, overhead, rates)))
    behind = view.tokens + overhead - last.raw
    ids = view.ids_before(len(view)) - view.ids_before(view.index_of(last.seq))
    tokens = last.tokens
    reply = folded.last_reply
    if reply is not None and reply.asked == last.seq and reply.usage.prompt:
        calls = sum(isinstance(block, ToolUseBlock) for block in reply.blocks)
        behind -= sum(reply.tokens) + Message.FRAME_TOKENS + calls * Message.CALL_ID_TOKENS
        ids -= calls
        tokens = reply.usage.total
    return max(0, tokens + round(rates.of(behind, ids)))


def tokens_behind(folded: Folded, at: int) -> int:
    """Return the model's tokens of the messages from index `at` on."""
    return max(0, round(_at_rates(folded, at, len(folded.view), _rates(folded))))


def overhead_tokens(folded: Folded, overhead: int) -> float:
    """Return the model's tokens of system prompt and tools, of which `overhead` is our count."""
    return _frame(folded, overhead, _rates(folded)) if folded.sizes.requests else overhead


def _bounded(slope: float) -> float:
    return min(MAX_SLOPE, max(MIN_SLOPE, slope))


class _Rates(Struct, frozen=True):
    """The model's tokens for each of our count of a text, and for each id of a call or result."""

    text: float = 1.0
    ids: float = 8.0

    def of(self, raw: float, ids: float) -> float:
        """Return the model's tokens for `raw` of our count, which include those of the ids."""
        return self.text * (raw - ids * Message.CALL_ID_TOKENS) + self.ids * ids


class TokenFit(Struct):
    """The rates, kept with the folded facts, and the requests that they were fitted to."""

    rates: _Rates = field(default_factory=_Rates)
    fitted_to: tuple[int, RequestSize | None] = (0, None)


def _rates(folded: Folded) -> _Rates:
    """Return the rates by which requests have grown so far; worked out once for each request."""
    sizes = folded.sizes.requests
    if not sizes:
        return _Rates()
    fit = folded.memo(TokenFit)
    key = (len(sizes), sizes[-1])
    if fit.fitted_to != key:
        fit.rates = _fitted(sizes, overall_slope(folded))
        fit.fitted_to = key
    return fit.rates


def _fitted(sizes: list[RequestSize], slope: float) -> _Rates:
    """Fit the rates to the growth of the newest requests by least squares, kept near the usual values.

    `slope` is that of the newest request.
    """
    # Growth is the best measure; a whole prompt also contains tokens that the API adds.
    first = sizes[0]
    last = sizes[-1]
    if last.raw > 1.3 * first.raw:
        slope = (last.tokens - first.tokens) / (last.raw - first.raw)
    usual = min(1.5, max(1.0, slope))
    # How firmly the rates are kept there, as if so much had been measured. The rate of text is known after a
    # few hundred tokens; that of ids is hard to separate from the text of the calls.
    text_text = 500.0
    text_ids = 0.0
    ids_ids = 2.0
    text_grown = text_text * usual
    ids_grown = ids_ids * 8.0 * usual
    for before, size in pairwise(sizes[-100:]):
        raw = size.raw - before.raw
        grown = size.tokens - before.tokens
        if size.grown and MIN_SLOPE * raw <= grown <= MAX_SLOPE * raw:
            weight = 1 / max(50, raw)  # smaller growth weighs no more
            ids = size.ids
            text = raw - ids * Message.CALL_ID_TOKENS
            text_text += weight * text * text
            text_ids += weight * text * ids
            ids_ids += weight * ids * ids
            text_grown += weight * text * grown
            ids_grown += weight * ids * grown
    spread = text_text * ids_ids - text_ids * text_ids
    return _Rates(
        text=_bounded((text_grown * ids_ids - ids_grown * text_ids) / spread),
        ids=max(0.0, (text_text * ids_grown - text_ids * text_grown) / spread),
    )


def _frame(folded: Folded, overhead: int, rates: _Rates) -> float:
    """Return the model's tokens of system prompt and tools as the first request had them, within reason."""
    first = folded.sizes.requests[0]
    alone = first.tokens - rates.of(first.raw - overhead, first.ids)
    return min(2.0 * overhead + 2_000, max(0.5 * overhead, alone))


def _added_up(folded: Folded, overhead: int, rates: _Rates) -> float:
    """Return the tokens of a prompt by its parts: those shown as they were by their measured growth."""
    view = folded.view
    sizes = folded.sizes.requests
    folds = folded.edits.folds
    folded_to = folds[-1].last if folds else 0
    lasts = [message.last for message in view]
    end = bisect_left(lasts, sizes[-1].seq)
    total = _frame(folded, overhead, rates) + _at_rates(folded, end, len(view), rates)
    for before, size in zip(sizes[-2::-1], sizes[:0:-1], strict=True):
        if before.seq <= folded_to:
            break
        start = bisect_left(lasts, before.seq, 0, end)
        is_as_it_was = view.tokens_before(end) - view.tokens_before(start) == size.raw - before.raw
        if size.grown and is_as_it_was:
            total += size.tokens - before.tokens
        else:
            total += _at_rates(folded, start, end, rates)
        end = start
    return total + _at_rates(folded, 0, end, rates)


def _at_rates(folded: Folded, start: int, end: int, rates: _Rates) -> float:
    """Return the model's tokens of the messages start..end-1 by the rates alone."""
    view = folded.view
    raw = view.tokens_before(end) - view.tokens_before(start)
    ids = view.ids_before(end) - view.ids_before(start)
    return rates.of(raw, ids)
