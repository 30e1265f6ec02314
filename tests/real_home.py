"""The home directory of the user who runs the tests, which their own HOME is not."""

import os
import pwd
from pathlib import Path


def real_home() -> Path:
    return Path(pwd.getpwuid(os.geteuid()).pw_dir).resolve()
