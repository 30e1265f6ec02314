"""The rules of the house, one test a rule:

the direction of imports, layers, purity, sizes, names, borders.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import TypeVar, cast

from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "transcripts": {"transcripts"},
    "tools": {"transcripts", "tools"},
    "compact": {"transcripts", "compact"},
    "agent": {"transcripts", "tools", "compact", "agent"},
}
# Packages (and modules) of agent/, lowest first: each imports only from the layers below its own.
VOCABULARY = {
    "client_names", "errors", "events", "exit_signals", "formatting", "import_guard", "keys", "menus",
    "model_port", "ports", "settings_files", "typed_text", "version",
}  # fmt: skip
LAYERS: tuple[set[str], ...] = (
    VOCABULARY,
    {"shell"},
    {"model", "permissions", "checkpoints", "demo"},
    {"session"},
    {"loop", "extensions"},
    {"app"},
    {"ui", "commands"},
    {"acp", "stream_protocol", "replay"},
    {"cli"},
    {"__main__"},
    {"wheel"},
)
# Beside the layers: only these modules may import them.
ONLY_IMPORTED_BY = {
    "agent.demo": ("agent.app.composition", "agent.cli.verify_command"),
    "agent.replay": ("agent.__main__",),
}
# Packages that other packages import from by the names in `__all__` alone.
DOORS = (
    "agent.acp",
    "transcripts", "transcripts.export", "transcripts.importers", "transcripts.search",
    "transcripts.secrets", "transcripts.storage", "compact",
    "tools.text", "tools.files", "tools.guarded", "tools.sandbox", "tools.processes", "tools.search",
    "tools.web",
    "agent.shell", "agent.permissions", "agent.model", "agent.checkpoints", "agent.session", "agent.loop",
    "agent.extensions", "agent.extensions.agents", "agent.extensions.hooks", "agent.extensions.mcp",
    "agent.extensions.plugins", "agent.extensions.skills", "agent.app", "agent.ui", "agent.commands",
    "agent.stream_protocol", "agent.cli",
)  # fmt: skip
# Modules that every room uses, and that belong to no contract.
OUTSIDE_DOORS = ("transcripts.lazy_door", "transcripts.patterns", "transcripts.wording")
HEAVY_LIBRARIES = {
    "acp": ("agent/acp/",),
    "anthropic": ("agent/model/anthropic/client.py",),
    "httpx2": (
        "agent/extensions/mcp/",
        "agent/model/anthropic/",
        "agent/model/openai_http.py",
        "agent/model/tls.py",
        "tools/web/fetching.py",
    ),
    "jsonschema": ("tools/base.py",),
    "justhtml": ("tools/web/html_program.py",),
    "PIL": ("tools/files/images.py",),
    "prompt_toolkit": ("agent/ui/",),
    "pydantic": ("(nowhere: msgspec makes and checks our values)",),
    "rich": ("agent/ui/", "agent/replay/"),
    "tiktoken": ("compact/tokens.py",),
    "yaml": ("agent/extensions/frontmatter.py",),
}
# These decide and never act: no files, no processes, no clock, no network.
PURE = (
    "agent/cli/arguments.py",
    "agent/extensions/hooks/answers.py",
    "agent/extensions/hooks/entries.py",
    "agent/extensions/hooks/table.py",
    "agent/model/anthropic/accumulator.py",
    "agent/model/anthropic/catalog.py",
    "agent/model/anthropic/clouds.py",
    "agent/model/error_mapping.py",
    "agent/model/anthropic/request.py",
    "agent/model/chat_completions/chat_request.py",
    "agent/model/chat_completions/chat_stream.py",
    "agent/model/openai_models.py",
    "agent/model/responses/request.py",
    "agent/model/responses/stream.py",
    "agent/model/retry.py",
    "agent/model/size_errors.py",
    "agent/model_port.py",
    "agent/permissions/allow_rules.py",
    "agent/permissions/deny_rules.py",
    "agent/permissions/explanation.py",
    "agent/permissions/modes.py",
    "agent/permissions/rule_arguments.py",
    "agent/permissions/rule_syntax.py",
    "agent/permissions/rules.py",
    "agent/permissions/sandbox_settings.py",
    "agent/shell/destructive.py",
    "agent/shell/grammar.py",
    "agent/shell/launched_commands.py",
    "agent/shell/launcher_tables.py",
    "agent/shell/launcher_arguments.py",
    "agent/shell/line_reading.py",
    "agent/shell/lost_files.py",
    "agent/shell/mass_deletion.py",
    "agent/shell/option_syntax.py",
    "agent/shell/parsed_text.py",
    "agent/shell/program_names.py",
    "agent/shell/read_only.py",
    "agent/shell/reading_git.py",
    "agent/shell/reading_languages.py",
    "agent/shell/reading_programs.py",
    "agent/shell/risky_options.py",
    "agent/shell/script_risks.py",
    "agent/shell/sed_and_awk.py",
    "agent/shell/simple_commands.py",
    "agent/shell/system_damage.py",
    "agent/shell/vital_places.py",
    "agent/shell/word_expansion.py",
    "agent/shell/word_reader.py",
    "compact/",
    "transcripts/codec.py",
    "transcripts/data_tags.py",
    "transcripts/edits.py",
    "transcripts/entries.py",
    "transcripts/facts.py",
    "transcripts/folding.py",
    "transcripts/messages.py",
    "transcripts/view.py",
    "transcripts/view_renderer.py",
)
IMPURE_BY_NEED = ("compact/tokens.py",)  # loads the tokenizer's table
ACTING_MODULES = {
    "asyncio", "os", "pathlib", "random", "shutil", "socket", "subprocess", "tempfile", "threading", "time",
}  # fmt: skip
# Where any exception may be caught: tools run arbitrary code, streams and faces fail in any way.
BORDERS = {
    "agent/loop/tool_executor.py",
    "agent/model/anthropic/client.py",
    "agent/model/anthropic/sdk_import.py",
    "agent/ui/headless.py",
    "agent/ui/repl_state.py",
    "tools/files/daemon_threads.py",
}
# Where processes are started. None of them is git, which would run what a project's configuration names.
STARTS_PROCESSES = (
    "agent/app/pasted_images.py",
    "agent/commands/clipboard.py",
    "tools/sandbox/supervisor/",
    "tools/sandbox/supervisor_client.py",
)
MAX_FUNCTION_LINES = 60
MAX_BROAD_EXCEPTS = 6
MAX_PUBLIC_METHODS = 12
# Left over: classes with more public methods. The list only shrinks.
LONG_CLASSES = {"Services", "Controller", "McpServers", "SessionRepository", "Session", "InputEditor"}
# Left over: modules behind a door that another room loads by their names. This list only shrinks.
LOADED_BY_NAME = {
    "agent/commands/settings.py: compact.policy",  # which is a setting there
    "agent/ui/key_actions.py: agent.app.pasted_images",
}
VAGUE_ENDINGS = ("Manager", "Handler", "Helper", "Util", "Mixin", "Data", "Info")


Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True, eq=False)
class Module:
    """A module of the product: its path below the root, its text and its syntax tree."""

    path: str
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def package(self) -> str:
        """The part of agent/ that it belongs to, "" outside agent/."""
        parts = self.name.split(".")
        return parts[1] if parts[0] == "agent" and len(parts) > 1 else ""

    @cached_property
    def by_kind(self) -> dict[type[ast.AST], list[ast.AST]]:
        """The nodes of the tree by their classes, in the order of a walk: one walk serves all rules."""
        found: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        for node in ast.walk(self.tree):
            found[type(node)].append(node)
        return found

    def nodes(self, kind: type[Node]) -> list[Node]:
        return cast("list[Node]", self.by_kind.get(kind, []))

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        yield from self.nodes(ast.FunctionDef)
        yield from self.nodes(ast.AsyncFunctionDef)

    @cached_property
    def imported(self) -> frozenset[str]:
        """The names of its imports, for type checkers too: modules, and names within modules."""
        package = self.name.split(".") if self.path.endswith("__init__.py") else self.name.split(".")[:-1]
        found = {alias.name for node in self.nodes(ast.Import) for alias in node.names}
        for node in self.nodes(ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            origin = ".".join((*above, *(node.module or "").split("."))).strip(".")
            found |= {origin, *(f"{origin}.{alias.name}" for alias in node.names)}
        return frozenset(found)


@cache
def modules() -> dict[str, Module]:
    """The product's modules by name."""
    paths = sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))
    made = []
    for path in paths:
        text = path.read_text("utf-8")
        made.append(Module(path.relative_to(ROOT).as_posix(), text, ast.parse(text)))
    return {module.name: module for module in made}


def breaches(rule: Callable[[Module], Iterator[str]]) -> list[str]:
    """Return the violations of a rule in all modules: "path: what"."""
    return [f"{module.path}: {what}" for module in modules().values() for what in rule(module)]


@cache
def drawn_on(module: Module) -> set[str]:
    """The modules of ours that a module imports."""
    return (modules().keys() & module.imported) - {module.name}


def layer_of(package: str) -> int:
    return next((number for number, layer in enumerate(LAYERS) if package in layer), -1)


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def test_the_four_packages_import_one_way() -> None:
    def rule(module: Module) -> Iterator[str]:
        own = {name.split(".")[0] for name in drawn_on(module)}
        yield from own - MAY_IMPORT[module.name.split(".")[0]]

    assert breaches(rule) == []


def test_each_package_of_agent_has_its_layer() -> None:
    packages = {module.package for module in modules().values()} - {""}
    assert packages <= set().union(*LAYERS), "a new package needs its place in LAYERS"


def test_a_package_of_agent_imports_only_from_the_layers_below() -> None:
    def rule(module: Module) -> Iterator[str]:
        for name in drawn_on(module) if module.package else ():
            other = modules()[name].package
            below = layer_of(other) < layer_of(module.package) or other in ("", module.package)
            if not below and not {other, module.package} <= VOCABULARY:
                yield f"imports {name}"

    assert breaches(rule) == []


def test_what_is_next_to_the_layers_has_one_importer() -> None:
    def rule(module: Module) -> Iterator[str]:
        for package, importers in ONLY_IMPORTED_BY.items():
            outside = not module.name.startswith(package) and module.name not in importers
            yield from (name for name in drawn_on(module) if outside and name.startswith(package))

    assert breaches(rule) == []


def test_rooms_are_entered_by_their_doors() -> None:
    def rule(module: Module) -> Iterator[str]:
        for name in drawn_on(module):
            room = room_of(name)
            if room and name not in (room, *OUTSIDE_DOORS) and not is_within(module.name, outermost(room)):
                yield f"imports {name}"

    assert breaches(rule) == []


def test_of_a_door_only_the_names_that_it_lists_are_imported() -> None:
    def rule(module: Module) -> Iterator[str]:
        for name in module.imported - modules().keys():
            room, _, part = name.rpartition(".")
            inside = room in DOORS and is_within(module.name, outermost(room))
            if room in DOORS and not inside and part not in import_module(room).__all__:
                yield f"imports {name}"

    assert breaches(rule) == []


def test_a_module_behind_a_door_is_not_loaded_by_its_name() -> None:
    def rule(module: Module) -> Iterator[str]:
        for node in module.nodes(ast.Constant):
            name = node.value.partition(":")[0] if isinstance(node.value, str) else ""
            room = room_of(name) if name in modules() else ""
            if room and name != room and not is_within(module.name, outermost(room)):
                yield name

    assert sorted(set(breaches(rule)) - LOADED_BY_NAME) == []


def room_of(name: str) -> str:
    """Return the innermost room with a door that a module lies in; "" for none."""
    return max((room for room in DOORS if is_within(name, room)), key=len, default="")


def outermost(room: str) -> str:
    """Return the room that holds this one, or this one: inside it, modules know each other."""
    return min((each for each in DOORS if is_within(room, each)), key=len)


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def test_what_a_door_offers_is_there_and_hides_no_module() -> None:
    for room in DOORS:
        package = import_module(room)
        assert package.__all__, room
        for name in package.__all__:
            assert getattr(package, name) is not None or room
            assert f"{room}.{name}" not in modules(), f"{room}.{name} would be replaced by the module"


def test_rooms_of_tools_and_of_transcripts_import_one_way() -> None:
    rooms = {
        "tools": ("text", "files", "guarded", "sandbox", "processes", "search", "web", ""),
        "transcripts": ("storage", "secrets", "", "search", "importers", "export"),
    }

    def level(name: str, top: str) -> int:
        parts = name.split(".")
        room = parts[1] if len(parts) > 1 and parts[1] in rooms[top] else ""
        return rooms[top].index(room)

    def rule(module: Module) -> Iterator[str]:
        top = module.name.split(".")[0]
        for name in drawn_on(module) - {*OUTSIDE_DOORS} if top in rooms and "." in module.name else ():
            if is_within(name, top) and level(name, top) > level(module.name, top):
                yield f"imports {name}"

    assert breaches(rule) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    doors = {*DOORS}  # which load nothing by themselves
    graph = {name: set() if name in doors else drawn_on(module) for name, module in modules().items()}
    assert len(graph["agent.loop.turn"]) > 5
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_heavy_libraries_stay_in_their_places() -> None:
    def rule(module: Module) -> Iterator[str]:
        for library in {name.split(".")[0] for name in module.imported} & set(HEAVY_LIBRARIES):
            if not module.path.startswith(HEAVY_LIBRARIES[library]):
                yield f"imports {library}"

    assert breaches(rule) == []


def test_pure_modules_touch_nothing() -> None:
    def rule(module: Module) -> Iterator[str]:
        if module.path.startswith(PURE) and module.path not in IMPURE_BY_NEED:
            yield from {name.split(".")[0] for name in module.imported} & ACTING_MODULES

    assert breaches(rule) == []
    assert all(any(m.path.startswith(each) for m in modules().values()) for each in PURE)


def test_processes_are_started_in_few_places() -> None:
    def rule(module: Module) -> Iterator[str]:
        if not module.path.startswith(STARTS_PROCESSES):
            yield from module.imported & {"subprocess", "pty", "multiprocessing"}
            called = {ast.unparse(node) for node in module.nodes(ast.Attribute)}
            yield from (
                name
                for name in called
                if re.match(r"asyncio\..*subprocess|os\.(system|popen|.*spawn|exec)", name)
            )

    assert breaches(rule) == []


def test_functions_stay_small() -> None:
    def rule(module: Module) -> Iterator[str]:
        yield from (f"{f.name}()" for f in module.functions() if lines_of(f) > MAX_FUNCTION_LINES)

    assert breaches(rule) == []


def test_every_module_says_what_it_is_for() -> None:
    assert (
        breaches(lambda m: iter(() if ast.get_docstring(m.tree) or not m.text else ("no docstring",))) == []
    )
    assert modules()["agent"].text == "", "importing agent does nothing"


def test_only_the_borders_catch_everything() -> None:
    def broad(module: Module) -> Iterator[ast.ExceptHandler]:
        for handler in module.nodes(ast.ExceptHandler):
            names = [n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)] if handler.type else []
            reraises = isinstance(handler.body[-1], ast.Raise) and handler.body[-1].exc is None
            if (not names or {"Exception", "BaseException"} & set(names)) and not reraises:
                yield handler

    assert breaches(lambda m: (f"line {h.lineno}" for h in broad(m) if m.path not in BORDERS)) == []
    assert len(breaches(lambda m: (str(h.lineno) for h in broad(m)))) <= MAX_BROAD_EXCEPTS


def test_no_class_has_a_name_that_says_nothing() -> None:
    def rule(module: Module) -> Iterator[str]:
        yield from (c.name for c in module.nodes(ast.ClassDef) if c.name.endswith(VAGUE_ENDINGS))

    assert breaches(rule) == []


def test_classes_have_few_public_methods() -> None:
    def rule(module: Module) -> Iterator[str]:
        for node in module.nodes(ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            plain = [each.name for each in methods if not each.decorator_list and each.name[0] != "_"]
            if len(plain) > MAX_PUBLIC_METHODS and node.name not in LONG_CLASSES:
                yield f"{node.name}: {len(plain)} public methods"

    assert breaches(rule) == []


def test_no_function_reaches_into_a_parameter() -> None:
    def rule(module: Module) -> Iterator[str]:
        for function in module.functions():
            arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
            parameters = {each.arg for each in arguments} - {"self", "cls", "other"}
            for node in ast.walk(function):
                if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
                    continue
                if re.match(r"_(?!replace\b)[a-z]", node.attr) and node.value.id in parameters:
                    yield f"{function.name}: {node.value.id}.{node.attr}"

    assert breaches(rule) == []


def hidden_imports(module: Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports within functions that draw on modules of ours."""
    if all(node.col_offset == 0 for node in module.nodes(ast.ImportFrom)):
        return  # as in most modules, which saves the walks
    for function in module.functions():
        for node in ast.walk(function):
            if isinstance(node, ast.ImportFrom) and (
                node.level or (node.module or "").split(".")[0] in MAY_IMPORT
            ):
                yield node


def test_an_import_within_a_function_says_how_many_milliseconds_it_saves() -> None:
    def rule(module: Module) -> Iterator[str]:
        lines = module.text.split("\n")
        for node in hidden_imports(module):
            around = "\n".join(lines[max(0, node.lineno - 3) : node.end_lineno or node.lineno])
            if not re.search(r"\d+ ms", around):
                yield f"line {node.lineno}"

    assert breaches(rule) == []


def test_no_test_package_shadows_a_package_of_the_product() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_no_example_fails_for_the_time_that_it_takes() -> None:
    assert settings().deadline is None


def test_tests_use_the_real_thing() -> None:
    mocked = [
        path for path in (ROOT / "tests").rglob("*.py") if "unittest" + ".mock" in path.read_text("utf-8")
    ]
    assert mocked == []
