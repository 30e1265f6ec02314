"""Find the files of the project that tell the programs in a line what to do, such as a Makefile.

A rule that runs `make install` outside the sandbox was given for the Makefile that the user knew. A sandboxed
command can rewrite it, and then the same line would run anything outside. So the rule remembers the digests
of these files: those that the program reads by itself, the scripts that the line names (whichever program
gets them), and the scripts of the project that either of them names.

The code that a program is made of is not covered: what `cargo run` compiles, and the modules that `pytest`
imports. A user who always allows that accepts the code as it changes. A question after each edit would make
the rule useless, and a smaller set of files would be a guess. Data is not covered either, such as what
`scp` sends.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct, field

from tools.text import word_set

from .line_reading import Invocation, read_line
from .made_repositories import made_digests
from .parsed_text import is_unknown
from .program_names import Standpoint, own_programs_of
from .vital_places import scenes

_OF_PYTHON = "pyproject.toml setup.py setup.cfg tox.ini noxfile.py"
_OF_NODE = (
    "package.json .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs pnpm-workspace.yaml bunfig.toml turbo.json nx.json"
    " *.config.*"
)
_OF_TESTS = f"conftest.py pytest.ini {_OF_PYTHON}"
_OF_CONTAINERS = (
    "compose.yaml compose.yml docker-compose.yaml docker-compose.yml compose.override.yaml"
    " compose.override.yml docker-compose.override.yaml docker-compose.override.yml Dockerfile Containerfile"
    " docker-bake.hcl docker-bake.json .env"
)
# Of programs that build, test and deploy: any of them may run what such a file says.
_OF_BUILDERS = (
    "*file *.toml *.tf *.tfvars *.yml *.gradle *.kts *.properties *.sbt *.exs *.nix *.bazel *.ninja *.csproj"
    " *.props *.targets *.config.* *.build BUILD WORKSPACE .bazelrc Package.swift CMakeLists.txt pom.xml"
    " build.rs tasks.py fabfile.py magefile.go invoke.yaml skaffold.yaml serverless.yaml Pulumi.yaml"
    " package.json composer.json cdk.json CMakePresets.json wrangler.json wrangler.jsonc go.mod go.work"
    " .cargo/config* .mvn/* buildSrc/* config/deploy* gradle/wrapper/*.properties project/*"
)
# Files that a program reads in its directory or above, without being told to.
_READ_BY: Mapping[str, str] = {
    **dict.fromkeys(("make", "gmake"), "Makefile makefile GNUmakefile"),
    **dict.fromkeys(("just",), "justfile Justfile .justfile"),
    **dict.fromkeys(("task", "go-task"), "Taskfile*.y*ml taskfile*.y*ml"),
    **dict.fromkeys(("npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx", "node"), _OF_NODE),
    **dict.fromkeys(("vite", "vitest", "playwright", "cypress", "jest", "webpack", "gulp"), _OF_NODE),
    "deno": "deno.json deno.jsonc",
    **dict.fromkeys(("pytest", "py.test", "coverage"), _OF_TESTS),
    **dict.fromkeys(("python", "python3", "pip", "pip3", "uv", "poetry", "hatch", "pdm"), _OF_TESTS),
    **dict.fromkeys(("tox", "nox", "twine", "pre-commit"), f"{_OF_TESTS} .pre-commit-config.yaml"),
    **dict.fromkeys(("docker", "docker-compose", "podman", "podman-compose", "nerdctl"), _OF_CONTAINERS),
    "git": ".pre-commit-config.yaml .husky/pre-commit .husky/commit-msg .husky/pre-push lefthook.yml",
    "ansible-playbook": "ansible.cfg",
    **dict.fromkeys(
        word_set(
            "bazel bazelisk bundle cap cargo cdk cmake composer dotnet earthly fab go gradle gradlew invoke"
            " kamal mage meson mix mvn mvnw ninja nix pulumi rails rake sbt serverless skaffold sls swift"
            " terraform tilt tofu vagrant wrangler"
        ),
        _OF_BUILDERS,
    ),
}
_INTERPRETERS = word_set("sh bash dash zsh ruby perl php deno tsx ts-node Rscript lua julia ansible-playbook")


class KnownPrograms(Struct, frozen=True):
    """The programs and files behind a line when the user allowed it outside the sandbox.

    programs  the digest of the project's own programs in the line, "" if it names none
    files     the digests of the files that tell its programs what to do, by their paths in the project
    """

    programs: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    def changed_file(self, now: KnownPrograms) -> str:
        """Return the first file that was changed, added or removed since; "" if there is none.

        Removed ones come last, since a changed file may no longer name them.
        """
        names = [*sorted(now.files), *sorted(self.files)]
        return next((name for name in names if self.files.get(name) != now.files.get(name)), "")


def known_programs(line: str, seen: Standpoint) -> KnownPrograms:
    """Return the present state of the project's programs in a line, and of the files that steer them."""
    files: dict[str, str] = {}
    for scene in scenes(read_line(line).invocations, seen.places):
        command = scene.command
        here = scene.here or seen.places.cwd
        names = [*_READ_BY.get(command.program, "").split(), *_named_files(command)]
        found = seen.files.steering_digests(names, list(_operands(command)), here)
        own = posixpath.relpath(posixpath.join(here, *command.words[:1]), seen.places.folder)
        files |= {name: digest for name, digest in found.items() if name != own}
    files |= made_digests(line, seen)
    return KnownPrograms(own_programs_of(line, seen.places.cwd, seen.files), files)


def _named_files(command: Invocation) -> Sequence[str]:
    """Return the words of a command that may name a script or a file of instructions."""
    given = [
        each.target for each in command.redirects if each.operator == "<" and not is_unknown(each.target)
    ]
    first = next(iter(command.words), "")  # a redirection may stand alone
    if "/" in first and not is_unknown(first):
        return [first, *given]
    if command.program not in _READ_BY and command.program not in _INTERPRETERS:
        return given
    words = list(_operands(command))
    modules = [word.replace(".", "/") for option, word in pairwise(words) if option == "-m"]
    given += (f"{module}{end}" for module in modules for end in (".py", "/__main__.py"))
    return [*given, *(word.rpartition("=")[2] for word in words)]


def _operands(command: Invocation) -> Iterator[str]:
    return (word for word in command.words[1:] if not is_unknown(word) and "\0" not in word)
