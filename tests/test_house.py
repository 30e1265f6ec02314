"""The house keeps its shape: the direction of imports, purity, sizes, and who may catch everything."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("transcripts", "tools", "compact", "agent")
MAY_IMPORT = {
    "transcripts": {"transcripts"},
    "tools": {"transcripts", "tools"},
    "compact": {"transcripts", "compact"},
    "agent": {"transcripts", "tools", "compact", "agent"},
}
ONLY_IN = {
    "anthropic": ("agent/model/anthropic/client.py",),
    "rich": ("agent/ui/", "agent/replay/"),
    "prompt_toolkit": ("agent/ui/",),
    "pydantic": ("tools/", "agent/session/tool_definitions.py"),
    "tiktoken": ("compact/tokens.py", "compact/vocabulary.py"),
}
# These decide and never act: no files, no processes, no clock, no network.
PURE = (
    "transcripts/messages.py",
    "transcripts/facts.py",
    "transcripts/codec.py",
    "transcripts/view.py",
    "transcripts/entries.py",
    "transcripts/edits.py",
    "transcripts/fold.py",
    "agent/cli/arguments.py",
    "agent/model/anthropic/request.py",
    "agent/model/anthropic/error_mapping.py",
    "agent/model/retry.py",
    "agent/permissions/rules.py",
    "agent/permissions/shell_syntax.py",
    "agent/model/anthropic/accumulator.py",
)
IMPURE = {
    "os",
    "subprocess",
    "socket",
    "asyncio",
    "threading",
    "time",
    "pathlib",
    "shutil",
    "tempfile",
    "random",
}
# compact/ is pure as a whole, but for loading the tokenizer's table.
COMPACT_MAY = {"compact/tokens.py", "compact/vocabulary.py"}
# The corridor; the REPL, whose screen and draft outlive a fault below.
BORDERS = {
    "agent/loop/tool_executor.py",
    "agent/ui/repl.py",
    "agent/ui/turn_runner.py",
}
BORDERS |= {"tools/safe_open.py"}  # an exception there is carried from a thread to those who await it
BORDERS |= {
    "agent/model/anthropic/client.py",
    "agent/ui/headless.py",
}  # the stream fails in any way; every run has its result line
BANNED_NAMES = ("Manager", "Handler", "Helper", "Util", "Mixin", "Data", "Info")


def modules() -> list[Path]:
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


each = pytest.mark.parametrize("path", modules(), ids=relative)


@each
def test_imports_go_one_way(path: Path) -> None:
    room = relative(path).split("/")[0]
    ours = {name.split(".")[0] for name in imported(path)} & set(ROOMS)
    assert ours <= MAY_IMPORT[room]


def drawn_on(path: Path) -> Iterator[str]:
    """The modules of ours that a module names in its imports, those for type checkers included."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            origin = ".".join((*above, *(node.module or "").split("."))).strip(".")
            yield from (origin, *(f"{origin}.{alias.name}" for alias in node.names))
    yield from imported(path)


def test_no_modules_draw_on_each_other_in_a_circle() -> None:
    names = {
        relative(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
        for path in modules()
    }
    graph = {name: names.keys() & set(drawn_on(path)) - {name} for name, path in names.items()}
    assert len(graph["agent.loop.turn"]) > 5
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


@each
def test_heavy_libraries_stay_in_their_places(path: Path) -> None:
    for name in {name.split(".")[0] for name in imported(path)} & set(ONLY_IN):
        assert relative(path).startswith(ONLY_IN[name]), f"{name} belongs to {ONLY_IN[name]}"


@each
def test_pure_modules_touch_nothing(path: Path) -> None:
    name = relative(path)
    if name in PURE or (name.startswith("compact/") and name not in COMPACT_MAY):
        assert not {found.split(".")[0] for found in imported(path)} & IMPURE


@each
def test_modules_and_functions_stay_small(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 400
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno + 1 <= 50, f"{node.name} is too long"
        if isinstance(node, ast.ClassDef):
            assert not node.name.endswith(BANNED_NAMES), node.name


@each
def test_every_module_says_what_it_is_for(path: Path) -> None:
    if relative(path) == "agent/__init__.py":
        assert not path.read_text("utf-8").strip(), "importing agent does nothing"
        return
    assert ast.get_docstring(tree(path))


@each
def test_only_the_borders_catch_everything(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ExceptHandler):
            everything = node.type is None or (
                isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
            )
            cleans_up = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
            assert not everything or cleans_up or relative(path) in BORDERS, f"line {node.lineno}"


def test_no_test_package_shadows_a_room() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))
