"""What every git process is told by its environment: to run no program that a repository's settings name.

Settings of this form beat those of every file and reach the git processes of submodules too. No variable
keeps git from running textconv programs and filters: who runs git for themselves adds `OWN_OPTIONS`, and a
command of the model that could fire them is not taken for one that only reads.
"""

from __future__ import annotations

from collections.abc import Mapping

# git-config(1), git(1). fsmonitor names a program that `git status` runs; a folder that looks like a bare
# repository may lie in a project and hold settings of its own (git 2.38).
_SETTINGS = (("core.fsmonitor", "false"), ("core.pager", "cat"), ("safe.bareRepository", "explicit"))
_VARIABLES: Mapping[str, str] = {
    "GIT_OPTIONAL_LOCKS": "0",  # `git status` and `git diff` do not rewrite the index
    "GIT_NO_LAZY_FETCH": "1",  # to look at a partial clone fetches nothing
    "GIT_TERMINAL_PROMPT": "0",
}
# For git processes of our own, behind `git`: no hooks run.
OWN_OPTIONS = ("-c", "core.hooksPath=/dev/null")


def hardened_git(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables to add to an environment. Settings that it hands to git stay, before ours.

    The form GIT_CONFIG_COUNT is known since git 2.31; a setting that lacks its name or value ends the given
    ones, as git would refuse to run.
    """
    count = environ.get("GIT_CONFIG_COUNT", "")
    given = int(count) if count.isascii() and count.isdigit() and len(count) < 4 else 0
    pairs = ({f"GIT_CONFIG_KEY_{at}", f"GIT_CONFIG_VALUE_{at}"} <= environ.keys() for at in range(given))
    first = next((at for at, whole in enumerate(pairs) if not whole), given)
    added = dict(_VARIABLES)
    for at, (name, value) in enumerate(_SETTINGS, first):
        added |= {f"GIT_CONFIG_KEY_{at}": name, f"GIT_CONFIG_VALUE_{at}": value}
    return {**added, "GIT_CONFIG_COUNT": str(first + len(_SETTINGS))}
