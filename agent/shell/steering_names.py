"""Name the files that programs read by themselves, which tell them what to do.

`*` stands for any characters of a name. `*/` at the beginning is any directory that no build makes.
"""

from __future__ import annotations

from collections.abc import Mapping

from tools.text import word_set

_OF_PYTHON = "pyproject.toml setup.py setup.cfg tox.ini noxfile.py Pipfile"
_OF_NODE = (
    "package.json */package.json */*/package.json .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs"
    " pnpm-workspace.yaml bunfig.toml turbo.json nx.json lerna.json *.config.*"
)
_OF_TESTS = f"conftest.py */conftest.py */*/conftest.py pytest.ini {_OF_PYTHON}"
_OF_CONTAINERS = (
    "compose*.y*ml docker-compose*.y*ml *Dockerfile* */*Dockerfile* *Containerfile* */*Containerfile*"
    " docker-bake.hcl docker-bake.json .env *.env"
)
# Of programs that build, test and deploy: any of them may run what such a file says.
_OF_BUILDERS = (
    "*file *.toml *.tf *.tfvars *.yml *.gradle *.kts *.properties *.sbt *.exs *.nix *.bazel *.ninja *.csproj"
    " *.props *.targets *.config.* *.build BUILD WORKSPACE .bazelrc Package.swift CMakeLists.txt pom.xml"
    " build.rs tasks.py fabfile.py magefile.go invoke.yaml skaffold.yaml serverless.yaml Pulumi.yaml"
    " package.json composer.json cdk.json firebase.json vercel.json CMakePresets.json wrangler.json"
    " wrangler.jsonc go.mod go.work .cargo/config* .mvn/* buildSrc/* config/deploy*"
    " gradle/wrapper/*.properties project/* */Cargo.toml */*/Cargo.toml */build.rs */*/build.rs */*.gradle"
    " */*.gradle.kts */CMakeLists.txt cmake/*.cmake lib/tasks/*.rake modules/*/*.tf"
)
# Files that a program reads in its directory or above, without being told to.
READ_BY: Mapping[str, str] = {
    **dict.fromkeys(("make", "gmake"), "Makefile makefile GNUmakefile"),
    **dict.fromkeys(("just",), "justfile Justfile .justfile *.just */mod.just"),
    **dict.fromkeys(("task", "go-task"), "Taskfile*.y*ml taskfile*.y*ml */Taskfile*.y*ml"),
    **dict.fromkeys(("npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx", "node"), _OF_NODE),
    **dict.fromkeys(
        ("vite", "vitest", "playwright", "cypress", "jest", "webpack", "gulp", "lerna", "nx", "turbo"),
        _OF_NODE,
    ),
    "deno": "deno.json deno.jsonc",
    "direnv": ".envrc",
    **dict.fromkeys(("pytest", "py.test", "coverage"), _OF_TESTS),
    **dict.fromkeys(
        ("python", "python3", "pip", "pip3", "pipenv", "uv", "poetry", "hatch", "pdm"), _OF_TESTS
    ),
    **dict.fromkeys(("tox", "nox", "twine", "pre-commit"), f"{_OF_TESTS} .pre-commit-config.yaml"),
    **dict.fromkeys(("docker", "docker-compose", "podman", "podman-compose", "nerdctl"), _OF_CONTAINERS),
    "git": ".pre-commit-config.yaml .husky/pre-commit .husky/commit-msg .husky/pre-push lefthook.yml",
    "ansible-playbook": "ansible.cfg roles/*/tasks/*.yml",
    **dict.fromkeys(
        word_set(
            "bazel bazelisk bundle cap cargo cdk cmake composer dotnet earthly fab firebase fly flyctl go"
            " gradle gradlew heroku invoke kamal mage meson mix mvn mvnw netlify ninja nix pulumi rails rake"
            " sbt serverless skaffold sls swift terraform tilt tofu vagrant vercel wrangler"
        ),
        _OF_BUILDERS,
    ),
}
