"""Draw a command or a script that the user is asked about: numbered lines, every character visible."""

from __future__ import annotations

import re

from agent.shell import RiskyLine, risky_lines
from transcripts.patterns import lazy_pattern

from .terminal_text import CODE_TAB_CELLS, RenderContext, escape_output, hang, one_line, wrap

_BLANKS = lazy_pattern("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000]")


def draw_script(script: str, ctx: RenderContext) -> list[str]:
    """Draw warnings about single lines, then the script, its lines numbered where it has several.

    Long lines are wrapped. A carriage return is drawn as `␍`, wherever it is: it must not look like the end
    of a line. Blanks of Unicode are named, since they do not separate words as a space does.
    """
    risks = risky_lines(script)
    lines = _BLANKS.sub(_blank_name, script.replace("\r", "␍")).split("\n")
    is_numbered = len(lines) > 1
    digits = len(str(len(lines)))
    risky = {risk.number for risk in risks}
    rows = [row for text in _warnings(risks, is_numbered) for row in ctx.wrapped("warning", f"! {text}")]
    for number, line in enumerate(lines, 1):
        margin = f"{number:>{digits}}  " if is_numbered else ""
        drawn = wrap(escape_output(line, CODE_TAB_CELLS), ctx.columns - len(margin))
        if number in risky:
            drawn = [ctx.paint("warning", row) for row in drawn]
        rows += hang(drawn, first=ctx.paint("dim", margin), others=" " * len(margin))
    return rows


def _blank_name(found: re.Match[str]) -> str:
    return f"<U+{ord(found[0]):04X}>"


def _warnings(risks: tuple[RiskyLine, ...], is_numbered: bool) -> list[str]:
    """Return one warning for each effect: `deletes data (lines 3, 9)`."""
    warnings = []
    for effect in dict.fromkeys(risk.effect for risk in risks):
        numbers = [str(risk.number) for risk in risks if risk.effect == effect and risk.number]
        place = f" (line{'s' * (len(numbers) > 1)} {', '.join(numbers)})" if is_numbered and numbers else ""
        warnings.append(one_line(effect) + place)
    return warnings
