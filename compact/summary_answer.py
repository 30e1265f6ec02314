"""Check an answer to the request for a summary: whether it can be one.

Nothing here judges how good a summary is, since a poor one may still be all that a model can write. What it
finds is no summary at all: an announcement, a refusal, the instructions again, JSON for another program, or a
language that the user does not write.
"""

import json
import re
from collections.abc import Collection

from transcripts import Exchange, Folded, Prompt, TextBlock, own_words
from transcripts.patterns import lazy_pattern

from .directives import NO_WRITING, writing_of
from .identifiers import names

_MANY_CALLS = 10  # in a conversation, whose summary then names at least one thing
_FENCED = lazy_pattern(r"```\w*\n(.*)\n```", re.DOTALL)
_HEADING = lazy_pattern(
    r"^[#* ]*+(?:\d\.? *)?[#* ]*+(?:primary request and intent|key technical concepts|files and code"
    r"(?: sections)?|errors and fixes|problem solving|all user messages|pending tasks|current work"
    r"|(?:optional )?next steps?|summary)"
    r"[:.* ]*",
    re.IGNORECASE,
)
_PLACEHOLDER = lazy_pattern(
    r"[-*•\d.) ]*(?:n/?a|none|nothing|not applicable|unknown|tbd|todo|…|\{\}"
    r"|\(?to be filled\)?|\[[^\]]*\]|<[^<>]*>|[`~=_]{3,}\w*)?"
    r"[-.* ]*",
    re.IGNORECASE,
)
_SENTENCE_END = lazy_pattern(r"[.!?:](?:\s+|$)|[。！：]")
_MAX_EMPTY_CHARS = 300  # of an answer that consists of announcements, refusals and questions
_REPETITIONS = 50  # of each word, on average, in an answer of at least so many words that repeats itself
_MIN_REPEATED_WORDS = 3_000
_EMPTY_SENTENCE = lazy_pattern(
    r"(?:(?:sure|certainly|okay|ok|of course|done|understood|got it|as requested)\b[,.!]? *)?(?:"
    r"|(?:here(?:'s| is)|this is|below|the following is|let me|i(?:'ll|'ve|'m| will| have| can| am| now)\b)"
    r"[^:]{0,80}\bsummar\w+[^:]{0,80}"
    # An announcement in another language: a short sentence with its word for a summary.
    r"|[^:.\d/_`]{0,60}(?:zusammenfass|résum|resum[eo]|riassun|摘要|总结|總結|要約|まとめ|요약|резюме|сводк)"
    r"[^:.\d/_`]{0,60}"
    r"|(?:the|this|our) (?:conversation|session|history)[^:]{0,40} summari[sz]ed[^:]{0,20}"
    r"|no (?:information|content|conversation)\b[^:]{0,60}(?:provided|available|given|found)[^:]{0,40}"
    r"|i(?:'ll| will) continue(?: with the (?:task|work))?"
    r"|there is (?:no|nothing)\b[^:]{0,60}\bsummari[sz]e[^:]{0,20}"
    r"|(?:i(?:'m| am) sorry|i apologi[sz]e)\b[^:]{0,40}\b(?:can't|cannot|can not|unable)\b[^:]{0,80}"
    r"|i (?:can't|cannot|can not|am unable to|am not able to) (?:help|assist|summari[sz]e|do)\b[^:]{0,80}"
    r"|(?:what|how) (?:would|can|should|may) (?:you|i)\b[^:]{0,80}|(?:please|let me know)\b[^:]{0,100})",
    re.IGNORECASE,
)


def defect_of(summary: str, folded: Folded, asked: Collection[str]) -> str:
    """Return what is wrong with an answer, as the predicate of a sentence; "" if it may be a summary.

    `asked` are the lines of the instructions, which some models repeat.
    """
    if _is_json(summary):
        return "was JSON"
    if _is_hollow(summary, asked) or (_calls(folded) >= _MANY_CALLS and _names_nothing(summary)):
        return "had no content"
    language = writing_of(summary)
    spoken = writing_of(_words_of_user(folded))
    if spoken != NO_WRITING and language not in (NO_WRITING, "English", spoken):
        return "was in another language than the user's"
    return ""


def _is_json(text: str) -> bool:
    """Return whether a text is a JSON object or array, perhaps in a code block."""
    inner = _FENCED.fullmatch(text)
    try:
        return isinstance(json.loads(inner[1] if inner else text), dict | list)
    except (ValueError, RecursionError):
        return False


def _names_nothing(summary: str) -> bool:
    """Return whether a summary has no section and no path, identifier or number, like a refusal in prose."""
    has_section = any(_HEADING.match(line) for line in summary.split("\n"))
    return not (has_section or names(summary) or any(map(str.isdigit, summary)))


def _calls(folded: Folded) -> int:
    return sum(len(entry.uses) for entry in folded.entries if isinstance(entry, Exchange))


def _words_of_user(folded: Folded) -> str:
    """Return what the user wrote, without pasted text."""
    prompts = (entry.fact for entry in folded.entries if isinstance(entry, Prompt))
    blocks = (block for fact in prompts if fact.source == "user" for block in fact.blocks)
    texts = (block.text for block in blocks if isinstance(block, TextBlock) and block.injected_text is None)
    return "\n".join(map(own_words, texts))


def _is_hollow(summary: str, asked: Collection[str]) -> bool:
    """Return whether a summary has no content.

    That is headings without text, an announcement, a refusal, the instructions again, or a few words that the
    model repeats until it has to stop.
    """
    words = summary.split()
    if len(words) >= _MIN_REPEATED_WORDS and len(set(words)) * _REPETITIONS <= len(words):
        return True
    said = (line.strip() for line in summary.split("\n"))
    lines = (_HEADING.sub("", line, count=1) for line in said if line not in asked)
    content = " ".join(line for line in lines if not _PLACEHOLDER.fullmatch(line)).replace("’", "'")
    if len(content) > _MAX_EMPTY_CHARS:
        return False
    return all(_EMPTY_SENTENCE.fullmatch(each.strip()) for each in _SENTENCE_END.split(content))
