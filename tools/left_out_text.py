"""Recognize text that stands for other text, which a file with it would have lost.

Such as placeholders of the view, `[cleared: read a.py, 900 tokens. ...]`, and `# ... rest unchanged`.
"""

from __future__ import annotations

import re

from transcripts.patterns import lazy_pattern

_BRACKETED = lazy_pattern(r"\[(?:cleared|snipped|summarized|folded|persisted)\b[^\[\]\n]*+\]")
_SHOWN_RECALL_ID = lazy_pattern(r"\br\d{1,15}(?:\.\d{1,9})?\b")
# Whole lines that the view shows instead of text, or above it; an omission note ends its line. The forms come
# from compact/page_references.py, compact/clearing.py, compact/restoring.py, and from their earlier versions.
_STAND_IN_LINE = lazy_pattern(
    r"^[ \t]*+\[lines \d++-\d++ are unchanged since r\d++ above(?:, where they are lines [\d-]++)?+\][ \t]*$"
    r"|^[ \t]*+\[(?:lines \d++-\d++ are|file) unchanged since r\d++, which is no longer shown: "
    r"[^\n\[\]]*+\][ \t]*$"
    r"|^[ \t]*+\[this result: r\d++\][ \t]*$"
    r"|\[\.\.\. [\d,]++ characters omitted; recall\(\"r[\d.]++\"\) shows all of it(?:\. Excerpts:)?+\]"
    r"[ \t]*$"
    r"|^[ \t]*+\[lines \d++-\d++ are not repeated: as in (?:lines \d++-\d++ of )?r[\d.]++ above\][ \t]*$"
    r"|^[ \t]*+\[put back: [^\n]*, (?:lines \d++-\d++|part), shown earlier and cleared \(r[\d.]++\)\][ \t]*$"
    r"|\[\.\.\. [\d,]++ characters are left out here; recall r[\d.]++ shows it all(?: \.\.\.|; of them:)?+\]"
    r"[ \t]*$",
    re.MULTILINE,
)
# A line that consists of a comment, or of brackets, with dots and what they stand for.
_OMISSION = lazy_pattern(
    r"^[ \t]*+(?:#|//|/\*|<!--|--|;|%|\{/\*)[ \t]*+(?:\.\.\.|…)[^\n]{0,40}?"
    r"\b(?:existing|unchanged|rest of|remaining|the rest|other (?:code|methods|functions|fields|imports"
    r"|cases)|previous code|same as (?:before|above)|omitted|for brevity|no changes?)\b"
    r"[^\n]{0,80}$"
    r"|^[ \t]*+\((?:the )?(?:rest of|remaining|unchanged|existing|other) (?:the )?(?:code|file|class|methods"
    r"|functions|fields|imports|implementation)\b[\w ]{0,40}(?:\.{3}|…)\)[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
# The same in words or dots alone, or in brackets: it may be meant literally, unless lines are lost with it.
_PLAIN_OMISSION = lazy_pattern(
    r"^[ \t]*+(?:(?:(?:pass|raise NotImplementedError(?:\(\))?)[ \t]++)?"
    r"(?:@?rem\b|[#;%\"']|//|/\*|<!--|--|\{/\*)[ \t\"'=>|-]*+[\[(<]?[ .…⋮⋯]*"
    r"|(?:[-*] )?(?:\.{3} ?|… ?)?[*_]?[\[(](?![ .…\])]*$)[ .…]*"
    r"|(?:[-*] )?(?:\.{3} ?|… ?)(?=\w))(?:todo:? )?(?:"
    r"(?:keep |leave )?(?:the |your )?(?:existing|previous|original|remaining|other|same|unchanged) "
    r"(?:code|implementation|contents?|logic|methods|functions|imports|body|lines|fields|cases|tests|styles|jsx"
    r"|markup|state|config(?:uration)?|entries|steps|handlers|routes|rules|settings)"
    r"|(?:all |the )*(?:rest|remaining|remainder|other|everything else)(?: \w+){0,4}?(?: (?:is|are))?"
    r"(?: (?:stays?|remains?|kept|left))? (?:unchanged|untouched|identical|the same|as it (?:is|was)|as is)"
    r"|(?:keep |leave )?rest of (?:the |this |your )?(?:existing |original )?\w+"
    r"|(?:keep |leave )?(?:the )?(?:rest|remainder) of (?:the |this |your )?(?:existing |original )?(?:"
    r"code|file|functions?|methods?|class(?:es)?|implementation|module|body|contents?|logic|script|component|document"
    r"|page|query|fields|cases|imports|tests|table|list|styles|routes|section|config(?:uration)?)"
    r"|(?:keep(?:ing)?|leav(?:e|ing)) (?:the rest|everything else)|(?:and so on|etc)\b(?=[ .…]*$)"
    r"|(?:\(?omitting )?(?:lines? )?\d+ ?[-–] ?\d+ unchanged|\+? ?\d+ more (?:lines|methods|functions|cases)"
    r"|(?:copy|include|paste|insert) the rest\b[^\n]{0,60}|leave everything (?:above|below)|(?<!\.)rest|keep"
    r"|unmodified|untouched|identical(?: to (?:the )?(?:previous|original|old) \w+)?|same as previously"
    r"|more (?:code|methods|functions|imports|lines|fields|cases|tests)|unchanged|no (?:other )?changes?"
    r"|everything else|(?:all )?(?:the )?other (?:\w+ ){0,2}\w+(?= ?(?:\.{3}|…))"
    r"|(?:implementation|body|logic|contents?|functions?|methods?) unchanged|continue with existing \w+"
    r"|(?:the )?rest of (?:the )?(?:css|html|javascript|markup|template|styles)|all other code"
    r"|(?:continues )?as before"
    r"|previous contents?(?: continues?)?|previous code remains\b[^\n]{0,80}|(?:\w+ ){0,9}omitted for brevity"
    r"|(?:the )?rest of [^\n]{1,120}\b(?:unchanged|(?:remains?|is|are) (?:the )?same)|rest of the \w+ code"
    r"|(?:implement )?the rest of your code|(?<=[\[(])keep [^\n]{1,100}(?=[)\]])"
    r"|same as (?:before|above|(?:the )?original)|(?:code|lines)(?= )|omitted|truncated|snip(?:ped)?|\.{3}"
    r"|[…⋮⋯])(?: (?:go(?:es)?|is|are|stays?|remains?|kept|here|below|above|unchanged|omitted|the same"
    r"|as (?:is|before)|continues?|for brevity))*[ .…:\])>\"'=<_*-]*(?:\*/\}?|-->)?[ \t]*$"
    r"|^[ \t]*+(?:#|//|/\*|<!--|--|;|%|\{/\*)[ \t]*+[\[(<]?(?:\.{3}|…)[^\n]{0,100}$"  # in any language
    r"|^[ \t]*+(?:#|//|/\*|<!--|--|;|%|\{/\*)[^\n]{0,40}?(?:其余|其他|剩余|现有|原有)的?"
    r"(?:代码|方法|函数|部分|内容)[^\n]{0,20}$"
    r"|^[ \t]*+(?:#|//|/\*|--)[ \t]*+(?:и так далее|остальн\w+ (?:код|част)|el resto del|le reste d|o resto d"
    r"|der rest (?:de[sr]|bleibt)|残りの|既存の|나머지|기존 코드)[^\n]{0,60}$",
    re.IGNORECASE | re.MULTILINE,
)
# A line that is a comment of another language, or a string of a notebook's cell with a comment. `words` are
# matched as a comment of a single sign.
_OTHER_COMMENT = lazy_pattern(
    r"^[ \t]*+(?:\"(?:source|text)\": \[)?\"?[ \t]*+"
    r"(?:\#{2,6}|\#[|=\[]?|/{3,4}!?|//!?|/\*[*!]?|/\+|\*(?=[ ])|<!--|<\#|---|--(?:\[\[)?|;{1,4}+|\(;|%{1,3}+"
    r"|\{/\*|\{\{(?:!--|/\*)|\{\#|\{-|<%(?:--|\#)|\(\*|!|dnl\b|@\*|::|\.\.(?=[ ])"
    r"|\.\\\"|\\(?=[ ])|NB\.|C(?=[ ]))"
    r"(?=[^\n]{0,120}?(?:\.\.\.|…|unchanged|exist|rest|remain|other|same|omit|keep|more |etc|code|before"
    r"|previous|original|change))[ \t]*+(?P<words>[^\n]{2,120}?)[ \t]*"
    r"(?:\*+/\}{0,2}|\+/|\#>|\]\][#]?|\]\#|--\}\}|--?%?>|%>|[#|=]\#|\#\}|-\}|\*\)|\*@|;\))?"
    r"(?:\\n)?(?:\",?)?\]?,?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
# A comment within or after code.
_INNER_COMMENT = lazy_pattern(
    r"(?:/\*|<!--)[ \t]*+(?=[ .…(\[]*\w)(?P<words>[^\n*]{1,160}?)[ \t]*(?:\*/|-->)"
    r"|[ \t](?:\#|//|--)[ \t]+(?P<last>(?:\.{3}|…)[^\n]{1,120})$",
    re.MULTILINE,
)
_STORED_OUTPUT_TAG = "<persisted-output"


def added_placeholder(new: str, old: str) -> str:
    """Return the first placeholder of the conversation in `new` that is not in `old`, "" if there is none.

    Such as `[cleared: bash make, 3,412 tokens. recall("r57") shows it]` or `[lines 1-60 are unchanged since
    r6 above]`. A model that sees one may copy it into a file.
    """
    found = [_STORED_OUTPUT_TAG] if _STORED_OUTPUT_TAG in new else []
    found += [each[0] for each in _BRACKETED.finditer(new) if _SHOWN_RECALL_ID.search(each[0])]
    found += [each[0].strip() for each in _STAND_IN_LINE.finditer(new)]
    return next((each for each in dict.fromkeys(found) if each not in old), "")


def added_omission(new: str, old: str) -> str:
    """Return the first comment in `new`, but not in `old`, that stands for omitted code; "" if there is none.

    Such as "# ... existing code ..." or "// ... rest of the function unchanged ...", or, if lines of `old`
    are missing, "/* unchanged */" or "# ...".
    """
    comments = [
        (found[0].strip(), f"# {found[found.lastgroup or 0]}")
        for pattern in (_OTHER_COMMENT, _INNER_COMMENT)
        for found in pattern.finditer(new)
    ]
    added = [found[0].strip() for found in _OMISSION.finditer(new)]
    added += [comment for comment, words in comments if _OMISSION.search(words)]
    plain = [found[0].strip() for found in _PLAIN_OMISSION.finditer(new)]
    plain += [comment for comment, words in comments if _PLAIN_OMISSION.search(words)]
    if plain:
        kept = {line.strip() for line in new.split("\n")}
        lost = [line for line in old.split("\n") if line.strip() and line.strip() not in kept]
        added += plain if len(lost) >= 2 else []
    return next((each for each in added if each not in old), "")


def is_omission(line: str) -> bool:
    """Return whether a line may stand for omitted code."""
    return bool(_OMISSION.search(line) or _PLAIN_OMISSION.search(line))
