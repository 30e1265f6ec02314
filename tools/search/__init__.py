"""List the files in a directory that git does not ignore, and search them, under the supervisor."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .checkout import *
    from .engine import *
    from .found_lines import *
    from .git_index import *
    from .git_script import *
    from .listing import *
    from .program import *
    from .project_files import *

__getattr__ = lazy_door(
    __name__,
    {
        "checkout": "Checkout",
        "engine": "SearchRequest can_search_folders search_files search_folder",
        "found_lines": "FoundLine SearchOutput",
        "git_index": "FILE_CLOCK_NS GitIndex TrackedFiles",
        "git_script": "GitFailed run_git_script",
        "listing": "file_states list_folder",
        "program": "SEARCH_LIMIT_S find_program run_program",
        "project_files": "list_project regular_files",
    },
)
