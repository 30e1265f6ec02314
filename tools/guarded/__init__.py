"""Find files that control programs or contain secrets: by their names, in a project and in a home."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .index_paths import *
    from .names import *
    from .path_globs import *
    from .places import *
    from .secret_names import *
    from .secret_search import *

__getattr__ = lazy_door(
    __name__,
    {
        "index_paths": "repositories_in_index",
        "names": "GIT_STEERING HOME_SECRETS LOCAL_MEMORY_NAME MEMORY_NAMES is_protected",
        "path_globs": "PathGlobs alternatives",
        "places": (
            "git_folders guarded_elsewhere guarded_in_project linked_in named_by_git secrets_of_home "
            "steers_git worktree_places"
        ),
        "secret_names": "may_be_secret sounds_secret",
        "secret_search": "MAX_MATCHING is_secret_link search_of_project secret_links secrets_beside",
    },
)
