"""A session exported as one text."""

from collections.abc import Iterable

from transcripts.export import export_pieces
from transcripts.export.formats import ExportedSession
from transcripts.export.html_page import session_page
from transcripts.facts import Fact
from transcripts.folding import Folded, fold
from transcripts.load import LazyResults
from transcripts.secrets import SecretMasks


def exported(
    folded: Folded,
    sid: str,
    suffix: str = ".md",
    lazy_results: LazyResults | None = None,
    masks: SecretMasks | None = None,
) -> str:
    """Return the session as text in the format of a file with this suffix."""
    return "".join(export_pieces(folded, sid, suffix, lazy_results, masks))


def page_of(facts: Iterable[Fact], sid: str = "s1") -> str:
    """Return the facts as a page, without masking."""
    return "".join(session_page(ExportedSession(sid, fold(facts))))
