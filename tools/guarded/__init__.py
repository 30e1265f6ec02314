"""Find files that control programs or contain secrets: by their names, in a project and in a home."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .names import HOME_SECRETS, LOCAL_MEMORY_NAME, MEMORY_NAMES, is_protected, repositories_in_index
    from .path_globs import PathGlobs, alternatives
    from .places import (
        git_folders,
        guarded_elsewhere,
        guarded_in_project,
        linked_in,
        secrets_of_home,
        steers_git,
        worktree_places,
    )
    from .secret_names import may_be_secret, sounds_secret
    from .secret_search import MAX_MATCHING, search_of_project

__getattr__ = lazy_door(
    __name__,
    {
        "names": "HOME_SECRETS LOCAL_MEMORY_NAME MEMORY_NAMES is_protected repositories_in_index",
        "path_globs": "PathGlobs alternatives",
        "secret_names": "may_be_secret sounds_secret",
        "secret_search": "MAX_MATCHING search_of_project",
        "places": (
            "git_folders guarded_elsewhere guarded_in_project linked_in secrets_of_home steers_git "
            "worktree_places"
        ),
    },
)
