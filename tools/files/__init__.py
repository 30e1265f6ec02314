"""Read, write and search files safely. Knows no tool."""

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .daemon_threads import FileSystemSilent, in_daemon_thread
    from .edit_diagnostics import diagnose_mismatch
    from .errors import FileError
    from .images import MAX_IMAGE_FILE_BYTES, BadImage, load_image, media_type
    from .line_window import MAX_WINDOW_BYTES, MAX_WINDOW_LINES, LineWindow, cut_text, number_lines, scan_file
    from .opening import (
        FILE_TIMEOUT_S,
        FOLDER_FLAGS,
        MAX_WHOLE_BYTES,
        FileChanged,
        FileContent,
        begins_binary,
        closing,
        in_thread,
        load_file,
        opened_file,
        read_at_most,
        restore_seen,
        safe_open,
        seen_file,
        with_lone_cr,
    )
    from .patch import (
        NotRepresentable,
        SourceText,
        added_omission,
        added_placeholder,
        any_overlap,
        find_all,
        snippet,
        source_text,
        splice,
        unified_diff,
    )
    from .paths import (
        canonical_path,
        check_project,
        expanded_path,
        is_inside,
        links_on_way,
        one_line_path,
        resolve_path,
        suggestions,
    )
    from .project_files import (
        IDLE_FOLDERS,
        MAX_LISTED_FILES,
        git_folder,
        is_in_idle_folder,
        is_left_out,
        list_project,
        name_matcher,
        regular_files,
        repository_top,
        shared_git_folder,
        small_text,
    )
    from .workspace import SeenFile, Workspace
    from .write_recovery import recover
    from .writing import WriteAbandoned, WriteRequest, atomic_write

__all__ = [
    "FILE_TIMEOUT_S",
    "FOLDER_FLAGS",
    "IDLE_FOLDERS",
    "MAX_IMAGE_FILE_BYTES",
    "MAX_LISTED_FILES",
    "MAX_WHOLE_BYTES",
    "MAX_WINDOW_BYTES",
    "MAX_WINDOW_LINES",
    "BadImage",
    "FileChanged",
    "FileContent",
    "FileError",
    "FileSystemSilent",
    "LineWindow",
    "NotRepresentable",
    "SeenFile",
    "SourceText",
    "Workspace",
    "WriteAbandoned",
    "WriteRequest",
    "added_omission",
    "added_placeholder",
    "any_overlap",
    "atomic_write",
    "begins_binary",
    "canonical_path",
    "check_project",
    "closing",
    "cut_text",
    "diagnose_mismatch",
    "expanded_path",
    "find_all",
    "git_folder",
    "in_daemon_thread",
    "in_thread",
    "is_in_idle_folder",
    "is_inside",
    "is_left_out",
    "links_on_way",
    "list_project",
    "load_file",
    "load_image",
    "media_type",
    "name_matcher",
    "number_lines",
    "one_line_path",
    "opened_file",
    "read_at_most",
    "recover",
    "regular_files",
    "repository_top",
    "resolve_path",
    "restore_seen",
    "safe_open",
    "scan_file",
    "seen_file",
    "shared_git_folder",
    "small_text",
    "snippet",
    "source_text",
    "splice",
    "suggestions",
    "unified_diff",
    "with_lone_cr",
]
__getattr__ = lazy_door(
    __name__,
    {
        "daemon_threads": "FileSystemSilent in_daemon_thread",
        "edit_diagnostics": "diagnose_mismatch",
        "errors": "FileError",
        "images": "MAX_IMAGE_FILE_BYTES BadImage load_image media_type",
        "line_window": "MAX_WINDOW_BYTES MAX_WINDOW_LINES LineWindow cut_text number_lines scan_file",
        "opening": (
            "FILE_TIMEOUT_S FOLDER_FLAGS MAX_WHOLE_BYTES FileChanged FileContent begins_binary closing "
            "in_thread load_file opened_file read_at_most restore_seen safe_open seen_file with_lone_cr"
        ),
        "patch": (
            "NotRepresentable SourceText added_omission added_placeholder any_overlap find_all snippet "
            "source_text splice unified_diff"
        ),
        "paths": (
            "canonical_path check_project expanded_path is_inside links_on_way one_line_path resolve_path "
            "suggestions"
        ),
        "project_files": (
            "IDLE_FOLDERS MAX_LISTED_FILES git_folder is_in_idle_folder is_left_out list_project "
            "name_matcher regular_files repository_top shared_git_folder small_text"
        ),
        "workspace": "SeenFile Workspace",
        "write_recovery": "recover",
        "writing": "WriteAbandoned WriteRequest atomic_write",
    },
)
