"""Find the text of a project's transcripts again: originals by id, others by words or a question."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .filling import *
    from .hits import *
    from .originals import *

__getattr__ = lazy_door(
    __name__,
    {
        "filling": "IndexThread update_index",
        "hits": "ProjectSearch SearchHits",
        "originals": "NOTHING_SAID Originals Scope is_recall_id",
    },
)
