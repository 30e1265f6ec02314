"""Search the transcripts of a project, and name the sessions of the hits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..listing import ProjectRecords
from .filling import update_index
from .hits import SearchHits, make_hits
from .index_file import INDEX_WAIT_S
from .ranking import search_records


class ProjectSearch(Struct, frozen=True):
    """A search of the transcripts in the directory `home` of a project.

    Hits name files relative to the directory `project`. `mask` hides secrets in a text.
    After `index_wait_s`, an index that another process uses is not waited for any longer.
    """

    home: Path
    project: Path
    mask: Callable[[str], str] = str
    index_wait_s: float = INDEX_WAIT_S

    def find(self, words: str, sids: Sequence[str], limit: int, here: str = "") -> SearchHits:
        """Return the facts of these sessions that match words or a question best. Blocks on the disk.

        Ids in the session `here` have no prefix, and its name is not repeated.
        """
        result = search_records(self.home, words, sids, limit, wait_s=self.index_wait_s)
        hits = make_hits(result.found, here, self.project, self.mask)
        records = ProjectRecords(self.home)
        others = {hit.session for hit in hits} - {here}
        titles = {sid: self.mask(records.title_of(sid)) for sid in others}
        titled = (replace(hit, title=titles.get(hit.session, "")) for hit in hits)
        return SearchHits(tuple(titled), result.unread)

    def update_index(self, is_over: Callable[[], bool]) -> bool:
        """Update the index until `is_over` returns True. Returns False only if it cannot be used."""
        return update_index(self.home, is_over)
