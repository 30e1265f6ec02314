"""Files of a project and a home that a sandbox must protect: those that steer programs, and secrets."""

import os
from pathlib import Path

import pytest

from tools.guarded import git_folders, guarded_elsewhere, guarded_in_project, secrets_of_home
from tools.guarded.index_paths import GITLINK, repositories_in_index

from .sandbox_session import git


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    return folder


def found(project: Path, *files: str) -> tuple[set[str], set[str]]:
    """(what may not be changed, what may not be read) once the project has these files, from its root."""
    for name in files:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("")
    fixed, secret = guarded_in_project(str(project))

    def names(paths: list[str]) -> set[str]:
        return {str(Path(path).relative_to(project)) for path in paths}

    return names(fixed), names(secret)


def test_what_steers_programs_and_what_is_secret_is_found_near_the_root(project: Path) -> None:
    files = (
        "AGENTS.md",
        "CLAUDE.local.md",
        ".vscode/tasks.json",
        ".github/a.yml",
        ".makeroom/settings.toml",
        ".npmrc",
        "a.py",
    )
    nested = ("packages/a/.npmrc", "packages/a/.env.local", ".env", ".env.example", "deploy/id_rsa")
    fixed, secret = found(project, *files, *nested)
    assert fixed == {
        "AGENTS.md",
        "CLAUDE.local.md",
        ".vscode",
        ".github",
        ".makeroom",
        ".npmrc",
        "packages/a/.npmrc",
    }
    assert secret == {".env", "packages/a/.env.local", "deploy/id_rsa"}


def test_settings_of_mercurial_and_jujutsu_are_found_but_not_their_other_files(project: Path) -> None:
    settings = {".hg/hgrc", ".hg/requires", "part/.hg/hgrc", ".jj/repo/config.toml"}
    assert found(project, *settings, ".hg/store/data/a.i", ".jj/repo/op_store/x") == (settings, set())


def test_keys_are_found_by_what_they_hold_but_not_those_that_tests_need(project: Path) -> None:
    for name in ("deploy.key", "certs/a.pem", "tests/server.key", "certs/public.pem"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("-----BEGIN PRIVATE KEY-----\n" if "public" not in name else "none")
    others = ("a/client_secret_1.json", "a/.env.", "a/x.agekey", "a/my-credentials.toml")
    _, secret = found(
        project, "secrets.yml", "test/store.p12", "templates/secrets.yaml", "a/store.p12", *others
    )
    assert secret == {"deploy.key", "certs/a.pem", "secrets.yml", "a/store.p12", *others}


def test_names_count_in_any_case_and_packages_of_others_do_not(project: Path) -> None:
    fixed, secret = found(project, "Agents.MD", ".VSCode/a", "node_modules/x/.env", ".venv/.env")
    assert (fixed, secret) == ({"Agents.MD", ".VSCode"}, set())


def test_no_number_of_names_or_directories_opens_the_guard(project: Path) -> None:
    for name in ("AGENTS.md", ".env.local", "pkg/AGENTS.md", "pkg/.env", "pkg/b/.env"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    before = found(project)
    for number in range(2_500):
        (project / f"data_{number}.csv").touch()
        (project / f"a{number}").mkdir()
    assert before == ({"AGENTS.md", "pkg/AGENTS.md"}, {".env.local", "pkg/.env", "pkg/b/.env"})
    assert found(project) == before
    for number in range(2_500):
        (project / f"a{number}").rmdir()
    assert "new/AGENTS.md" in found(project, "new/AGENTS.md")[0], "what is gone takes no room"


def test_a_directory_is_looked_at_again_whenever_its_names_changed(project: Path) -> None:
    long_ago = (1, 1)
    assert found(project, "src/a.py") == (set(), set())
    for name in ("src/.envrc", "src/.mcp.json", "src/deep/.vscode"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).touch()
        os.utime(project / "src", long_ago)
    assert found(project) == ({"src/.mcp.json", "src/deep/.vscode"}, {"src/.envrc"})
    (project / "src/.mcp.json").rename(project / "src/b")
    os.utime(project / "src", long_ago)
    assert found(project) == ({"src/deep/.vscode"}, {"src/.envrc"})


def test_our_records_are_judged_apart(project: Path) -> None:
    assert found(project, ".transcripts/1.jsonl", ".task_outputs/a.txt") == found(project)


@pytest.mark.parametrize(
    ("text", "is_secret"),
    [
        ("registry=https://registry.example/\n", False),
        ("//registry.example/:_authToken=${NPM_TOKEN}\n", False),
        ("//registry.example/:_authToken=npm_abc\n", True),
        ('npmAuthToken: "abc"\n', True),
        ("index-url = https://user:word@example.org/simple\n", True),
        ("index-url = https://${USER}:${WORD}@example.org/simple\n", False),
    ],
)
def test_settings_of_package_managers_are_secret_where_a_token_is_in_them(
    project: Path, text: str, is_secret: bool
) -> None:
    (project / ".npmrc").write_text(text)
    (project.parent / ".npmrc").write_text(text)
    assert bool(found(project)[1]) is is_secret
    assert secrets_of_home(str(project.parent)) == [str(project.parent / ".npmrc")] * is_secret


def test_what_guarded_links_lead_to_is_guarded_with_the_links_on_the_way(project: Path) -> None:
    """A directory that is linked in a guarded one is not: it may be all sources."""
    git(project, "init", "-q")
    put = ("scripts/hook.sh", "AGENTS.md", "src/a.py", "team/settings.json", ".github/x.yml", "wild")
    found(project, *put)
    for place, target in {
        ".git/hooks/pre-commit": "../../tools/hook.sh",
        "tools": "scripts",
        "CLAUDE.md": "AGENTS.md",
        ".github/src": "../src",
        ".github/missing": "../missing.yml",
        ".github/outside": "/etc/hostname",
        ".vscode": "team",
        "loop": "loop",
        ".mcp.json": "loop",
    }.items():
        (project / place).symlink_to(target)
    fixed, _ = found(project)
    linked = {"tools", "scripts/hook.sh", "missing.yml", "team", "loop"}
    named = {".git/hooks", ".git/config", "CLAUDE.md", "AGENTS.md", ".github", ".vscode", ".mcp.json"}
    assert fixed == named | linked | {".git/hooks/pre-commit", ".github/missing", ".github/outside"}


def test_a_worktree_s_file_that_is_a_hook_of_its_repository_is_guarded(repository: Path) -> None:
    tree = repository.parent / "tree"
    (repository / ".git/hooks/pre-commit").symlink_to(tree / "hook.sh")
    assert found(tree, "hook.sh")[0] == {".git", "hook.sh"}
    assert str(tree / "hook.sh") in guarded_elsewhere(str(tree))[0]


def test_git_is_steered_from_submodules_worktrees_and_what_its_configuration_names(project: Path) -> None:
    library = project.parent / "library"
    library.mkdir()
    for folder in (library, project):
        git(folder, "init", "-q")
        git(folder, "commit", "-qm", "one", "--allow-empty")
    git(project, "submodule", "--quiet", "add", str(library), "deps/lib")
    git(project, "worktree", "add", "-q", str(project.parent / "tree"))
    git(project, "config", "core.hooksPath", ".hooks")
    git(project, "config", "include.path", "../team.gitconfig")
    git(project, "config", "--add", "include.path", "/etc/hostname")
    (project / ".git/worktrees/tree/config.worktree").write_text("")
    fixed, _ = found(project, ".hooks/pre-commit", "team.gitconfig")
    steering = {".git/hooks", ".git/config", ".git/modules/deps/lib/hooks", ".git/modules/deps/lib/config"}
    assert {*steering, ".git/worktrees/tree/config.worktree", ".hooks", "team.gitconfig"} <= fixed
    assert not any("hostname" in path for path in fixed)


def test_the_directory_that_a_file_leads_a_checkout_to_is_guarded_in_the_project(project: Path) -> None:
    git(project, "init", "-q", "--separate-git-dir", "store")
    for name in ("api", "build"):
        (project / name).mkdir()
    git(project, "init", "-q", "--separate-git-dir", "build/store", "api")
    stores = {f"{store}/{name}" for store in ("store", "build/store") for name in ("hooks", "config")}
    assert {".git", "api/.git", *stores} == found(project)[0]
    (project / ".git").unlink()
    (project / ".git").symlink_to("api/.git")
    assert ".git" in found(project)[0]


def test_hooks_that_the_user_s_own_configuration_names_are_guarded(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = project.parent / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[core]\n  hooksPath = .githooks\n[include]\n  path = more\n")
    (home / "more").write_text("")
    monkeypatch.setenv("HOME", str(home))
    for checkout in (project, project / "api"):
        checkout.mkdir(exist_ok=True)
        git(checkout, "init", "-q")
    names = {".githooks", "api/.githooks"}
    assert {*names, ".git/config"} <= found(project, ".githooks/pre-commit", "api/.githooks/pre-push")[0]


@pytest.mark.parametrize("how", ["2", "3", "4", "split", "sha256"])
def test_repositories_in_the_index_are_guarded_wherever_they_are(project: Path, how: str) -> None:
    """Also where the search does not go: with each status git does what they are configured to."""
    form = ("--object-format", how) if how == "sha256" else ()
    git(project, "init", "-q", *form)
    names = ["vendor/x", ".hidden", "a/b/c/d/" + "long" * 40, "vendor/x/build/y"]
    for name in names:
        (project / name).mkdir(parents=True)
        git(project / name, "init", "-q", *form)
        git(project / name, "commit", "-qm", "one", "--allow-empty")
    for number in range(40):
        (project / f"a/file{number}").touch()
    (project / "a/new").touch()
    git(project, "add", "a/file0", *(f"a/file{number}" for number in range(40)))
    git(project / "vendor/x", "add", "build/y")
    if how == "3":
        git(project, "add", "-N", "a/new")
    elif how == "split":
        git(project, "add", *names[:2])
        git(project, "update-index", "--split-index")
    elif how != "sha256":
        git(project, "update-index", "--index-version", how)
    git(project, "add", *names[:3])
    (project / "link").symlink_to("vendor")
    assert {f"{name}/.git/{each}" for name in names for each in ("hooks", "config")} <= found(project)[0]
    assert not any(path.endswith(".git") for path in found(project)[0])
    os.truncate(project / ".git/index", 300)
    assert ".git/config" in found(project)[0]


def test_an_index_is_read_as_git_reads_it(project: Path) -> None:
    """By the length that it has of a path, and by longer flags in whatever version."""
    entry = b"\0" * 24 + GITLINK + b"\0" * 32
    rest = b"\0" * 8
    short = entry + b"\x00\x01" + b"x/other" + rest
    flagged = entry + b"\x40\x01\x20\x00" + b"y" + rest
    data = b"DIRC\0\0\0\2\0\0\0\2" + short[:64] + flagged
    assert list(repositories_in_index(data, 20)) == [b"x", b"y"]


def test_a_project_whose_git_directory_is_a_link_is_guarded_as_others(project: Path) -> None:
    git(project, "init", "-q", "--separate-git-dir", str(project.parent / "store"))
    (project / ".git").unlink()
    (project / ".git").symlink_to("../store")
    git(project, "config", "core.hooksPath", ".hooks")
    assert found(project, ".hooks/pre-commit")[0] == {".git", ".hooks"}
    (project.parent / "store").rename(project / "store")
    (project / ".git").unlink()
    (project / ".git").symlink_to("store")
    assert found(project)[0] == {".git", ".hooks", "store/hooks", "store/config"}


def test_what_includes_and_configurations_of_worktrees_name_is_guarded(repository: Path) -> None:
    git(repository, "config", "include.path", "../team/a.config")
    git(repository, "config", "extensions.worktreeConfig", "true")
    git(repository, "worktree", "add", "-q", "wt/one")
    git(repository, "config", "--worktree", "core.hooksPath", ".hooks")
    git(repository / "lib", "config", "core.hooksPath", "tools")
    git(repository / "wt/one", "config", "--worktree", "include.path", str(repository / "own.config"))
    names = (".hooks/x", "team.hooks/x", "wt/one/team.hooks/x", "lib/tools/x", "tools/x")
    found(repository, *names, "own.config", "team/b.config")
    (repository / "team/a.config").write_text("[include] path = b.config\n")
    (repository / "team/b.config").write_text("[core] hooksPath = team.hooks\n[include]\npath = a.config\n")
    fixed, _ = found(repository)
    wanted = {"team/a.config", "team/b.config", "own.config", ".hooks", "team.hooks", "wt/one/team.hooks"}
    assert {*wanted, "lib/tools"} <= fixed and "tools" not in fixed
    assert "team.hooks" in {Path(path).name for path in guarded_in_project(str(repository / "wt/one"))[0]}


def test_a_pipe_or_a_link_to_nowhere_holds_nothing_up(project: Path) -> None:
    os.mkfifo(project / ".npmrc")
    (project / "AGENTS.md").symlink_to("nowhere")
    assert found(project) == ({".npmrc", "AGENTS.md", "nowhere"}, set())


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a worktree beside it and a submodule."""
    main, library = tmp_path.resolve() / "main", tmp_path.resolve() / "library"
    for folder in (library, main):
        folder.mkdir()
        git(folder, "init", "-q")
        git(folder, "commit", "-qm", "one", "--allow-empty")
    git(main, "submodule", "--quiet", "add", str(library), "lib")
    git(main, "worktree", "add", "-q", str(main.parent / "tree"))
    return main


def test_what_steers_git_is_guarded_in_each_part_of_a_git_directory(repository: Path) -> None:
    git_folder = repository / ".git"
    whole, _ = guarded_elsewhere(str(git_folder))
    assert {str(git_folder / name) for name in ("hooks", "config", "modules/lib/hooks")} <= set(whole)
    assert guarded_elsewhere(str(git_folder / "objects")) == ([], [])
    own = git_folder / "worktrees/tree"
    assert guarded_elsewhere(str(own)) == ([str(own / "commondir")], [])
    assert str(git_folder / "modules/lib/config") in guarded_elsewhere(str(git_folder / "modules"))[0]


def test_another_directory_that_may_be_written_is_guarded_as_a_project(repository: Path) -> None:
    (repository / ".claude").mkdir()
    (repository / ".env").write_text("")
    guarded, secret = guarded_elsewhere(str(repository))
    assert {str(repository / name) for name in (".git/hooks", ".git/config", ".claude")} <= set(guarded)
    assert secret == [str(repository / ".env")]


def test_the_file_that_leads_a_checkout_in_the_project_to_its_repository_is_guarded(repository: Path) -> None:
    git(repository, "worktree", "add", "-q", "wt/one")
    assert {"lib/.git", "wt/one/.git"} <= found(repository)[0]


def test_checkouts_are_found_where_a_project_is_not_searched(repository: Path) -> None:
    git(repository, "submodule", "--quiet", "add", str(repository.parent / "library"), "vendor/a/b/lib")
    git(repository, "worktree", "add", "-q", ".trees/one")
    leading = {"vendor/a/b/lib/.git", ".trees/one/.git"}
    assert leading <= found(repository)[0]
    assert str(repository.parent / "tree/.git") not in guarded_in_project(str(repository))[0]
    (repository / ".git/worktrees/one/gitdir").write_text("/elsewhere/.git\n")
    assert leading <= found(repository)[0], "what was guarded once is not forgotten"
    (repository / ".git/worktrees/one/gitdir").write_text(f"{repository}/.git\n")
    assert ".git" not in found(repository)[0], "no file, but where commits are written"


def test_repositories_within_a_project_are_guarded_as_its_own(project: Path) -> None:
    for name in ("api", "team/web"):
        (project / name).mkdir(parents=True)
        git(project / name, "init", "-q")
    git(project, "init", "-q", "--bare", "bare")
    (project / "linked").mkdir()
    (project / "linked/.git").symlink_to("../bare")
    steering = {f"{name}/.git/{each}" for name in ("api", "team/web") for each in ("hooks", "config")}
    assert {*steering, "bare/hooks", "bare/config", "linked/.git"} == found(project)[0]
    assert {str(project / path) for path in steering} <= set(guarded_elsewhere(str(project))[0])


def test_no_number_of_directories_keeps_submodules_from_being_guarded(repository: Path) -> None:
    for number in range(300):
        (repository / f".git/worktrees/d{number}").mkdir()
    (repository / ".git/modules/HEAD").touch()
    assert {".git/modules/lib/hooks", ".git/worktrees/tree/commondir"} <= found(repository)[0]
    for number in range(600):
        (repository / f".git/modules/d{number}").mkdir()
        (repository / f".git/worktrees/e{number}").mkdir()
    assert {".git/modules", ".git/worktrees"} <= found(repository)[0], "as a whole where they are too many"


def test_the_file_that_leads_a_worktree_to_its_repository_is_guarded(repository: Path) -> None:
    tree = repository.parent / "tree"
    git(repository, "config", "core.hooksPath", ".hooks")
    assert found(tree, ".hooks/pre-commit")[0] == {".git", ".hooks"}
    package = repository / "package"
    git(repository, "config", "core.hooksPath", "package/hooks")
    assert found(package, "hooks/pre-commit", "a.py")[0] == {"hooks"}


def test_the_directories_of_a_repository_are_found_from_each_of_its_checkouts(repository: Path) -> None:
    shared, tree = str(repository / ".git"), repository.parent / "tree"
    assert git_folders(str(repository / "lib/..")) == (shared, shared, str(repository))
    assert git_folders(str(tree)) == (f"{shared}/worktrees/tree", shared, str(tree))
    submodule = f"{shared}/modules/lib"
    assert git_folders(str(repository / "lib")) == (submodule, submodule, str(repository / "lib"))
    (tree / ".git").write_text("gitdir: /nowhere\0\n")
    assert git_folders(str(tree)) is None


def test_commands_may_read_the_extensions_of_claude_code_and_nothing_else_of_it(tmp_path: Path) -> None:
    open_to_commands = ("hooks/a.sh", "skills/b/SKILL.md", "plugins/cache/m/p/hook.sh", "CLAUDE.md")
    secret = (".credentials.json", "settings.json", "projects/p/s.jsonl", "plugins/data/p/token")
    for name in (*open_to_commands, *secret):
        (tmp_path / ".claude" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / ".claude" / name).touch()
    (tmp_path / ".claude.json").write_text("{}")
    found = secrets_of_home(str(tmp_path))
    assert found.pop(found.index(str(tmp_path / ".claude.json")))
    hidden = [os.path.relpath(path, tmp_path / ".claude") for path in found]
    assert hidden == [".credentials.json", "projects", "settings.json", "plugins/data"]
