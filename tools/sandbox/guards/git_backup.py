"""Back up the essential files of a repository outside of it, while sandboxed commands may write there.

References, HEAD, the index and the same of worktrees are copied. Objects, which never change, are linked if
the copies are on the same file system, and small ones are copied. So a `.git` that a command emptied, removed
or overwrote can be restored. Its configuration and hooks are guarded files; others are ignored.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from tools.files import closing, make_folders, replace_in, write_new
from transcripts.storage import is_of_running_process
from transcripts.wording import pluralize

from .git_files import (
    ALTERNATES,
    PACKED,
    WORKTREES,
    Seen,
    copy_state_file,
    is_damaged,
    is_whole,
    make_folder,
    needed_folders,
    opened_git,
    put_aside_if_replaced,
    state_files,
)
from .guarded_state import rename_aside
from .object_copies import ObjectCopies
from .object_links import ObjectLinks

BY_WHOM = "a sandboxed command or another process"  # in reports, since it is not known which
_MAX_MORE_LINKS = 1_000  # at once, for which a command may have to wait


class GitBackup(Struct):
    """Copies of the git directory `git` (or that of a worktree) in our own directory `kept`, PROJECT-PID.

    The links to objects are in `near` if `kept` is on another file system. `shown` is the name of the git
    directory for users. `max_links` limits the objects that are linked the first time (15 µs each);
    `unlinked` is true if there are more to link or to copy, for `link_more`. The methods block.
    """

    git: Path
    kept: Path
    near: Path | None = None
    shown: str = ".git"
    max_links: int = 20_000
    unlinked: bool = False
    objects: ObjectLinks = field(default_factory=lambda: ObjectLinks(Path(), ObjectCopies(Path())))
    _waited: bool = False  # a command has waited for the first links
    _copied: dict[str, Seen] = field(default_factory=dict)  # by path from the repository

    def __post_init__(self) -> None:
        self.objects.kept = self.kept / "objects"
        self.objects.copies.kept = self.kept / "object_copies"
        self.objects.near = None if self.near is None else self.near / "objects"

    def keep(self, *, beforehand: bool = False) -> None:
        """Update the copies. Files that cannot be copied are not kept.

        Beforehand only some objects are linked: no command waits for the others yet.
        """
        waited = self._waited
        self._waited = waited or not beforehand
        self.unlinked = False
        if not is_whole(self.git):
            return
        if not self._copied:
            self._drop_leftovers()
        with suppress(OSError), closing(opened_git(self.git)) as top:
            present = state_files(top)
            for path in present:
                copied = self._copied.get(path)
                with suppress(OSError):
                    if seen := copy_state_file(top, path, target=self.kept / path, known=copied):
                        self._copied[path] = seen
            for path in self._copied.keys() - set(present):
                del self._copied[path]
                with suppress(OSError):
                    (self.kept / path).unlink()
            more = min(self.max_links, _MAX_MORE_LINKS)
            is_first = not (beforehand or (waited and self.objects.has_links))
            self._keep_objects(top, self.max_links if is_first else more)

    def link_more(self) -> None:
        """Link and copy objects for which there was no time yet."""
        self.unlinked = False
        with suppress(OSError), closing(opened_git(self.git)) as top:
            self._keep_objects(top, min(self.max_links, _MAX_MORE_LINKS))

    def _keep_objects(self, top: int, most: int) -> None:
        """Link objects, and copy some. Raises OSError."""
        try:
            self.unlinked = self.objects.link(top, most)
        finally:
            more = self.objects.copies.add(top, min(most, _MAX_MORE_LINKS))
            self.unlinked = self.unlinked or more

    def restore(self, *, may_prune: bool = False) -> list[str]:
        """Restore the missing parts of a repository that was emptied, and objects that git did not remove.

        Returns a line about it for the user. `may_prune`: the user approved that git prunes objects.
        """
        if not self._copied:
            return []
        emptied = not is_whole(self.git)
        if emptied and not os.path.lexists(self.git):
            with suppress(OSError):
                if self.objects.are_deleted():
                    make_folder(self.git)
        with suppress(OSError), closing(opened_git(self.git)) as top:
            overwritten = self._put_back_damaged(top)
            back = self._put_back_parts(top) if emptied else self._put_back_worktrees(top)
            restored, failed = self.objects.put_back(top, emptied=emptied, may_prune=may_prune)
            kinds = {path.split("/")[0] for path in back}
            if emptied:
                kinds |= {path.split("/")[0] for path in overwritten} | ({"objects"} if restored else set())
                change = f"emptied {self.shown}: {', '.join(sorted(kinds))} were restored"
                return [f"[{BY_WHOM} {change}]"] if kinds else []
            lines = [f"[{BY_WHOM} removed {self.shown}/{kind}: restored]" for kind in sorted(kinds)]
            lines += [f"[{BY_WHOM} damaged {self.shown}/{path}: restored]" for path in overwritten]
            if restored or failed:
                count = pluralize(restored + failed, "file")
                failure = f", except {failed:,}" if failed else ""
                lines.append(f"[{BY_WHOM} damaged {count} in {self.shown}/objects: restored{failure}]")
            return lines
        return [f"[{BY_WHOM} removed {self.shown}, which could not be restored]"] if emptied else []

    def _put_back_parts(self, top: int) -> list[str]:
        """Restore the files and directories that are missing, except objects; return the files' paths."""
        for name in needed_folders(self.git):
            put_aside_if_replaced(top, name)
        back = [path for path in self._copied if self._put_back(top, path)]
        for name in needed_folders(self.git):
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=top)
        return back

    def _put_back_damaged(self, top: int) -> list[str]:
        """Replace files that git cannot read, such as an empty HEAD, with their copies; return the paths."""
        damaged = [path for path in {*self._copied, PACKED} if is_damaged(top, path, self._copied.get(path))]
        if PACKED in damaged and PACKED not in self._copied:  # git packed the references meanwhile
            with suppress(OSError):
                rename_aside(top, PACKED, "damaged")
                damaged += (path for path in self._copied if path.startswith("refs/"))
        return [path for path in sorted(damaged) if self._put_back(top, path, replaces=path in self._copied)]

    def _put_back_worktrees(self, top: int) -> list[str]:
        """Restore missing files of worktrees whose working trees exist, and the list of other repositories.

        git removes a worktree's files together with its working tree.
        """
        missing = []
        for path in self._copied:
            folder = path.rpartition("/")[0]
            if folder.startswith(f"{WORKTREES}/"):
                with suppress(OSError):
                    tree = Path(self.kept, folder, "gitdir").read_text("utf-8", "surrogateescape").strip()
                    missing += [path] if os.path.lexists(tree) else []
            elif path == ALTERNATES:
                missing.append(path)
        return [path for path in missing if self._put_back(top, path)]

    def drop(self) -> None:
        """Remove the copies."""
        for folder in filter(None, (self.kept, self.near)):
            shutil.rmtree(folder, ignore_errors=True)

    def _drop_leftovers(self) -> None:
        """Remove the copies of killed sessions. A directory is named by the process of its session."""
        project, _, _ = self.kept.name.rpartition("-")
        folders = [folder.parent for folder in (self.kept, self.near) if folder is not None]
        for other in (other for folder in folders for other in folder.glob(f"{project}-*")):
            if not is_of_running_process(other.name):
                shutil.rmtree(other, ignore_errors=True)

    def _put_back(self, top: int, path: str, *, replaces: bool = False) -> bool:
        """Restore one file below the open directory `top`, without following links.

        Returns False if it exists, unless it `replaces` that.
        """
        *folders, name = path.split("/")
        try:
            with closing(make_folders(top, folders)) as place:
                data = (self.kept / path).read_bytes()
                if replaces:
                    replace_in(place, name, data, temporary=f"{name}.{os.urandom(4).hex()}.lock")
                else:
                    write_new(place, name, (data,))
        except OSError:
            return False
        return True
