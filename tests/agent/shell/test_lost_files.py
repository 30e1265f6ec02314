"""Paths without a checkpoint that a line may delete or overwrite."""

from msgspec.structs import replace

from agent.shell import Places, UncoveredFiles, changed_repositories, lost_paths, pruning
from tests.tables import each_row

PLACES = Places(folder="/p", home="/home/u", cwd="/p")
UNCOVERED = UncoveredFiles(
    folders=(".git", "node_modules", "web/node_modules", ".venv", "lib/.git", "__pycache__", "a/.cache"),
    rebuildable=("node_modules", "web/node_modules"),
    files=("data/huge.img",),
    others=("/shared",),
)

CLEANED = ["node_modules", "web/node_modules", ".venv", "data/huge.img"]
LOST = {
    "rm -rf web": ["web/node_modules"],
    "cd web && rm -rf .": ["web/node_modules"],
    "rm -rf web/*": ["web/node_modules"],
    "rm -rf .venv": [".venv"],
    "cd $DIR && git clean -fdx": CLEANED,
    "cd $DIR/sub; git clean -fdx": CLEANED,
    "cd $(cat place) && git clean -fdx": CLEANED,
    'cd "$1" && rm -rf .git': [".git", "lib/.git", "data/huge.img"],
    "cd $DIR && rm -rf build": ["data/huge.img"],
    "DIR=src; cd $DIR && git clean -fdx": ["data/huge.img"],
    "cd $DIR && rm -rf *": ["node_modules", "web/node_modules", "lib/.git", "data/huge.img"],
    "GIT_WORK_TREE=web git clean -fdx": CLEANED,
    "GIT_DIR=/p/.git git clean -fdx": CLEANED,
    "export GIT_WORK_TREE=web; git clean -fdx": CLEANED,
    "env GIT_WORK_TREE=web git clean -fdx": CLEANED,
    "rm -rf ./node_modules/left": ["node_modules"],
    "python3 -m venv --clear .venv": [".venv"],
    "virtualenv -p python3 --clear .venv": [".venv"],
    "uv venv -p 3.12": [".venv"],
    "poetry env remove --all": [".venv"],
    "cd lib/.. && pipenv --rm": [".venv"],
    "rm -rf lib": ["lib/.git"],
    "rm .git/index": [".git"],
    "rm -rf data": ["data/huge.img"],
    "rm data/*": ["data/huge.img"],
    "mv data away": ["data/huge.img"],
    "cp x data/huge.img": ["data/huge.img"],
    "echo x >data/huge.img": ["data/huge.img"],
    "truncate -s 0 data/huge.img": ["data/huge.img"],
    "dd if=x of=data/huge.img": ["data/huge.img"],
    "tar xf x.tar": ["data/huge.img"],
    "git checkout .": ["data/huge.img"],
    "rm -r /shared/x": ["/shared/x"],
    "mv node_modules old": ["node_modules"],
    "gvfs-trash .venv": [".venv"],
    "sed --in-pl s/a/b/ .venv/x": [".venv"],
    "ginstall x .venv/bin": [".venv"],
    "scp host:x .venv/bin": [".venv"],
    "rsync -a --delete x/ web": ["web/node_modules"],
    "chmod -R 0 .venv": [".venv"],
    "sed -i s/a/b/ node_modules/x/*.js": ["node_modules"],
    "find web -name '*.js' -delete": ["web/node_modules"],
    "find -L web -name '*.js' -delete": ["web/node_modules"],
    "find . -name '*.js' -not -path '*/node_modules/*' -delete": [".venv"],
    "find lib -type f | xargs rm": [
        "lib/.git",
        ".git",
        "node_modules",
        "web/node_modules",
        ".venv",
        "data/huge.img",
    ],
    "git clean -fdx": ["node_modules", "web/node_modules", ".venv", "data/huge.img"],
    **{
        line: ["node_modules", "web/node_modules", ".venv", "lib/.git", "data/huge.img"]
        for line in ("git -C . clean -ffdx", "git clean -dx --force --force")
    },
    **{
        line: ["node_modules", "web/node_modules", ".venv", "data/huge.img"]
        for line in (
            "git --namespace x clean -fdx",
            "git --attr-source HEAD -c a.b=c clean -fdx",
            "cd sub && git -C .. clean -fdx",
            "cd sub && git -C sub -C ../.. clean -fdx",
            "cd sub && git --git-dir ../.git --work-tree .. clean -fdx",
            "cd /tmp && git --git-dir=/p/.git --work-tree=/p clean -fdx",
            "cd sub && git clean -fdx :/",
            "git -C $DIR clean -fdx",
            'cd "$(git rev-parse --show-toplevel)" && git clean -fdx',
            "git clean -fdx $DIR",
            "git clean -fdx -e .idea",
            "git clean -fdxe .idea",
            "git clean -fx '*.js'",
        )
    },
    "git -C lib clean -ffdx": ["data/huge.img"],
    "git clean -ffdx lib": ["lib/.git", "data/huge.img"],
    "git clean -fx web": ["web/node_modules", "data/huge.img"],
    "git -C web clean -fdx": ["web/node_modules", "data/huge.img"],
    "git clean --force --force -dx lib": ["lib/.git", "data/huge.img"],
    "git worktree remove ../tree": ["../tree", "data/huge.img"],
    "git worktree remove -f ../tree": ["../tree", "data/huge.img"],
    "git worktree move ../tree ../moved": ["../tree", "data/huge.img"],
    "git worktree prune -v": ["worktrees whose directories are missing", "data/huge.img"],
    "git rerere forget a": ["recorded resolutions of conflicts"],
    "git rerere clear": ["recorded resolutions of conflicts"],
    "git am --skip": ["the patch that is skipped", "data/huge.img"],
    "python3 -c \"import shutil; shutil.rmtree('.venv')\"": [".venv", "data/huge.img"],
    "python3 -c \"import os; os.truncate('.venv/x', 0)\"": [".venv", "data/huge.img"],
    # Files that options name, and those of archives.
    "cc -o .venv/lib/x m.c": [".venv"],
    "cc -o data/huge.img m.c": ["data/huge.img"],
    "unzip -o x.zip -d node_modules": ["node_modules", "data/huge.img"],
    "cd node_modules && unzip x.zip": ["node_modules", "data/huge.img"],
    "tar -xzf x.tar -C node_modules": ["node_modules", "data/huge.img"],
    "cd node_modules/left && patch -p1 <x": ["node_modules", "data/huge.img"],
    "curl -so .venv/x http://a": [".venv"],
    "find src -fprint .venv/x": [".venv"],
    "python3 -m zipfile -e a.zip .venv": [".venv"],
    "awk '{print > \"node_modules/a\"}' x": ["node_modules"],
    "git stash": ["data/huge.img"],
    "git stash -u": ["data/huge.img"],
    "git stash -k && git stash drop": ["data/huge.img"],
    "git stash -a": [*CLEANED[:3], "data/huge.img"],
    "git stash push --all -m x -- web": [*CLEANED[:3], "data/huge.img"],
    "git stash -u && git stash drop": [*CLEANED[:3], "data/huge.img"],
    "git stash save -u; git reflog delete stash@{0}": [*CLEANED[:3], "data/huge.img"],
    # Files that a search finds.
    "find web -name '*.js' -exec sed -i s/a/b/ {} +": ["web/node_modules"],
    "find web -name '*.js' | xargs sed -i s/a/b/": ["web/node_modules", "data/huge.img"],
    "find web -type f -exec cp /dev/null {} ';'": ["web/node_modules"],
    "grep -rl foo web | xargs sed -i s/a/b/": ["web/node_modules", "data/huge.img"],
    "grep -rlZ -e foo web | xargs -0 perl -pi -e s/a/b/": ["web/node_modules", "data/huge.img"],
    "sed -i s/a/b/ $(grep -rl foo web)": ["web/node_modules", "data/huge.img"],
}
KEPT = [
    "git rerere status",
    "rm -rf node_modules",
    "rm -rf web/node_modules && npm install",
    "rm -rf __pycache__ a",
    "cd $DIR && git status",
    "rm -rf build dist",
    "rm *.log",
    "rm data/small.img",
    "rm -rf src/*",
    "echo x >data/new.img",
    "cp data/huge.img copy.img",
    "mv src lib",
    "sed -n 1p node_modules/x.js",
    "find . -name '*.pyc' -delete",
    "find . -name __pycache__ -exec rm -rf {} +",
    "find src -name '*.js' -delete",
    "ls node_modules",
    "chmod +x run.sh",
    "touch node_modules/x",
    "echo x >/shared/x",
    "npm ci && npm test",
    "npm --prefix web prune",
    "npm i -g x",
    "python3 -m venv .venv",
    "uv sync",
    "for f in a b; do rm src/$f; done",
    "make",
    "cc -o build/x m.c",
    "curl -sO http://a",
    "python3 -m zipfile -l a.zip",
    "awk '$1 > 3 {print \"a\"}' x",
    "find . -name '*.py' -exec grep -l x {} +",
    "find . -name '*.py' -exec sed -n p {} +",
    "find . -newer x -exec cp {} /tmp ';'",
    "find src -type f -exec chmod 644 {} +",
    "find . -name '*.py' | xargs wc -l",
    "grep -rn foo . | xargs echo",
    "git -C src branch -d done",
]


@each_row("line", LOST)
def test_what_a_line_may_destroy_without_a_checkpoint(line: str) -> None:
    assert lost_paths(line, PLACES, UNCOVERED) == LOST[line]


@each_row("line", KEPT)
def test_a_line_that_destroys_only_what_can_be_restored_or_rebuilt(line: str) -> None:
    assert lost_paths(line, PLACES, UNCOVERED) == []


def test_git_clean_deletes_transcripts_only_with_ignored_files() -> None:
    """With Landlock, which cannot hide them; their .gitignore covers all of their contents."""
    visible = UncoveredFiles(folders=[".transcripts"])
    assert lost_paths("git clean -ffd", PLACES, visible) == []
    for option in ("-ffdx", "-fdX"):
        assert lost_paths(f"git clean {option}", PLACES, visible) == [".transcripts"]


PRUNED = {
    "git gc --prune=now": "unreachable",
    "cd a && git -C b prune -v": "unreachable",
    "git repack -a -d": "unreachable",
    "git repack -Adf; git repack -ad": "unreachable",
    "git update-ref -d refs/heads/x && git gc --prune=all": "unreachable",
    "git for-each-ref --format='delete %(refname)' | git update-ref --stdin; git prune": "kept",
    "for r in $(git for-each-ref); do git update-ref -d $r; done; git gc --prune=now": "kept",
    "git for-each-ref | xargs -n1 git update-ref -d; git gc --prune=now": "kept",
    "git fetch -p origin '+refs/*:refs/*' && git gc --prune=now": "kept",
    "git push --mirror ../x; git prune": "kept",
    "git filter-branch --tree-filter 'rm x' -- --all; git gc --prune=now": "kept",
    "git filter-repo --path src": "kept",
    **dict.fromkeys(
        ("git gc", "git gc --prune=never", "git prune -n", "git repack -d", "git repack -A", "git fetch -p"),
        "",
    ),
}


@each_row("line", PRUNED)
def test_the_objects_of_git_that_a_line_deletes_for_good(line: str) -> None:
    assert pruning(line, PLACES) == PRUNED[line]


ALL = ["", "a", "a/b", "c"]
CHANGED = {
    "git commit -m x": [""],
    "git -C a branch -D x": ["", "a"],
    "cd a/b && git stash drop": ["", "a", "a/b"],
    "cd a/b && git -C ../../c/src reset --hard": ["", "c"],
    "git -C $DIR gc": ALL,
    "git --git-dir c/.git gc": ALL,
    "GIT_DIR=c/.git git stash drop": ALL,
    "export GIT_DIR=c/.git; git branch -D x": ALL,
    "env GIT_WORK_TREE=c git gc": ALL,
    "cd $DIR && git stash drop": ALL,
    "GIT_DIR=c/.git ls": [],
    "git submodule update": ALL,
    "git checkout --recurse-submodules x": ALL,
    "python3 -c 'import os; os.system(\"git gc\")'": ALL,
    "python3 -c 'print(1)'": [],
    "bash -c 'cd c; git gc'": ["", "c"],
    'eval "$LINE"': ALL,
    "$TOOL x": ALL,
    "rm -rf src": [],
    "ls a": [],
}


@each_row("line", CHANGED)
def test_the_repositories_that_a_line_may_change(line: str) -> None:
    assert changed_repositories(line, PLACES, ALL) == CHANGED[line]


def test_a_file_that_outlives_its_deletion_is_only_lost_by_what_is_written_to_it() -> None:
    held = replace(UNCOVERED, held=("data/huge.img",))
    lines = {"rm -rf data": [], "mv data away": [], "cp x data/huge.img": ["data/huge.img"]}
    assert {line: lost_paths(line, PLACES, held) for line in lines} == lines


MANAGED = {
    "npm ci": ["node_modules"],
    "npm --prefix web prune --omit=dev": ["web/node_modules"],
    "yarn --cwd=web add x": ["web/node_modules"],
    "cd web; npm i x": ["web/node_modules"],
    **{line: [] for line in ("npm i -g x", "npm prune --dry-run", "npm run build", "npm ls")},
}


def test_a_package_manager_removes_what_no_manifest_can_rebuild() -> None:
    own = replace(UNCOVERED, rebuildable=())
    assert {line: lost_paths(line, PLACES, own) for line in MANAGED} == MANAGED


def test_what_the_sandbox_makes_read_only_is_not_lost() -> None:
    held = replace(UNCOVERED, read_only=("/p/.git/hooks", "/p/.git/config"))
    lines = ("rm -rf .git/hooks/pre-commit", "echo x >.git/config; cp a .git/hooks/*", "rm .git/config.lock")
    assert [lost_paths(line, PLACES, held) for line in lines] == [[], [], [".git"]]
    assert lost_paths("rm -rf .git", PLACES, held) == [".git"]


@each_row(
    ("line", "of_script", "named"),
    [
        ('rm -f "$tmp"', [], [*UNCOVERED.folders[:5]]),
        ('rm -rf "$dir"', [*UNCOVERED.folders[:5]], [*UNCOVERED.folders[:5]]),
        ("rm -rf node_modules/left", ["node_modules"], ["node_modules"]),
        ('git worktree remove "$tree"', ["a worktree"], ["a worktree"]),
        (". $x\nfind src -name a\nrm list", [], [*UNCOVERED.folders[:5]]),
        (". $x\nrm -rf .venv", [".venv"], [".venv"]),
        (". $x\ngit clone https://example.org/a.git\nrm .gitignore", [], []),
    ],
)
def test_a_script_counts_by_what_it_names(line: str, of_script: list[str], named: list[str]) -> None:
    """The user wrote it, or saw how it was written. A line of the model is taken for all that it may be."""
    uncovered = replace(UNCOVERED, files=())
    assert lost_paths(line, PLACES, uncovered, of_script=True) == of_script
    assert lost_paths(line, PLACES, uncovered) == named
