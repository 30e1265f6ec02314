"""Resolve, open, read and write files safely, independently of the tools."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .errors import *
    from .images import *
    from .opening import *
    from .paths import *
    from .workspace import *
    from .write_recovery import *
    from .writing import *

__getattr__ = lazy_door(
    __name__,
    {
        "errors": "ExplainedError FileError",
        "images": "MAX_IMAGE_FILE_BYTES BadImage load_image media_type",
        "opening": (
            "FILE_TIMEOUT_S FOLDER_FLAGS LISTED_FOLDER MAX_WHOLE_BYTES FileChanged FileContent closing "
            "in_thread load_file make_folders opened_file read_at_most replace_in safe_open write_new"
        ),
        "paths": (
            "canonical_path expanded_path is_inside links_on_way names_in one_line_path path_outside"
            " resolve_path shown_cwd"
        ),
        "workspace": "SeenFile Workspace",
        "write_recovery": "recover",
        "writing": "WriteRequest atomic_write is_temporary",
    },
)
