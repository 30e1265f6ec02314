"""The SDK is imported without what is never used, and whole where that might not do."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.sampling import scaled

ROOT = Path(__file__).resolve().parents[3]
COUNT = "; print(sum(name.startswith('anthropic') for name in sys.modules), callable(sdk.AsyncAnthropic))"
IMPORT = "import sys; from agent.model.anthropic import sdk_import; sdk = sdk_import.import_sdk()" + COUNT
MANY_MODULES = 1_000


def run(code: str, **environ: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.split()


def test_what_is_never_used_is_left_out() -> None:
    count, usable = run(IMPORT)
    assert int(count) < MANY_MODULES and usable == "True"


@pytest.mark.sweep  # the next test imports the whole SDK as well, which takes two seconds
@pytest.mark.parametrize(
    ("change", "environ"),
    [
        ("", {"MAKEROOM_FULL_SDK": "1"}),
        ("sdk_import.MAJOR_VERSION = '1.'; ", {}),
        ("sdk_import._USED = ('NoSuchClass',); ", {}),
        ("sdk_import._UNUSED_PARTS = ('anthropic._client',); ", {}),
    ],
)
def test_the_whole_sdk_is_imported_on_demand_and_where_the_slim_one_might_not_do(
    change: str, environ: dict[str, str]
) -> None:
    count, usable = run(IMPORT.replace("sdk = ", change + "sdk = "), **environ)
    assert int(count) > MANY_MODULES and usable == "True"


@pytest.mark.parametrize("imported_later", scaled(False, True))
def test_a_version_on_which_the_slim_import_failed_is_not_tried_with_it_again(
    tmp_path: Path, imported_later: bool
) -> None:
    load = f"import_sdk(failures=__import__('pathlib').Path({str(tmp_path)!r}))"
    slim = IMPORT.replace("import_sdk()", load)
    # No ImportError: a class is subscripted.
    broken = slim.replace("sdk = ", "sdk_import._UNUSED_PARTS = ('anthropic._models',); sdk = ")
    assert int(run(broken)[0]) > MANY_MODULES
    (remembered,) = tmp_path.iterdir()
    assert remembered.name == f"slim-sdk-{version('anthropic')}.failed"
    if not imported_later:
        return  # each import of all of the SDK takes two seconds
    assert int(run(slim)[0]) > MANY_MODULES
    remembered.unlink()
    assert int(run(slim)[0]) < MANY_MODULES


@pytest.mark.sweep
def test_the_wire_is_the_same_with_the_whole_sdk() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "tests/agent/model"],
        cwd=ROOT,
        env={**os.environ, "MAKEROOM_FULL_SDK": "1"},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0
