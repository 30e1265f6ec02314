"""An allow rule covers its command with more operands, and none that runs or writes more."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.permissions.rule_syntax import parse_rules
from tests.agent.shell.reading_project import ReadingProject
from tests.tables import each_row

COVERED = {
    "git log": ["git log --oneline -5", "git log -SOutput", "git --no-pager log"],
    "git": ["git commit -m x", "git push origin main", "git fetch", "git --no-pager push", "git stash pop"],
    "git *": ["git add .", "git rebase main", "git submodule update"],
    "git config": ["git config user.name x"],
    "git -C sub": ["git -C sub push"],
    "git bisect run make": ["git bisect run make"],
    "git submodule foreach": ["git submodule foreach ls"],
    "git commit": ["git commit -am 'a; b' -c HEAD", "git commit --amend --no-edit"],
    "npm run build": ["npm run build", "npm run build -- --config x"],
    "npm test": ["npm test -- -t name", "npm test --silent"],
    "pytest": ["pytest -q tests", "pytest -xvs -k a --cov --co tests/a.py", "pytest -n 4 -ra"],
    "pytest -p no:cacheprovider": ["pytest -p no:cacheprovider -q"],
    "python -m pytest": ["python -m pytest -q tests"],
    "python": ["python a.py"],
    "python3 -c": ["python3 -c 'print(1)'"],
    "make test": ["make test", "make test -j4 -k"],
    "cargo test": ["cargo test --release -- --nocapture"],
    "go test": ["go test -race ./...", "go test -run TestX ./..."],
    "find": ["find . -name x -o -print", "find sub -name x"],
    "rg": ["rg --pretty x sub", "rg -uuu x"],
    "sort": ["sort -rn -k2 sub/a"],
    "sed": ["sed s/a/b/ a.py", "sed -n 's/a/b/gp;1,5d' a.py", "sed -e '/x/d' -e 's|a|b|' a.py"],
    "sed -i": ["sed -i s/a/b/ a.py"],
    "awk": ["awk '{print $1}' a.py", "awk -F: -v x=1 '$1 == x {print $2}' a.py"],
    "tar": ["tar -xzf a.tgz", "tar czf a.tgz src"],
    "curl": ["curl -fsSL https://example.org", "curl -H 'A: b' -X POST x"],
    "timeout 60 pytest": ["timeout 60 pytest -q"],
    "sudo systemctl restart": ["sudo systemctl restart nginx"],
    "env X=1 make": ["env X=1 make"],
    "xargs wc": ["ls | xargs wc -l"],
    "npx tsc": ["npx tsc --noEmit"],
    "uv run pytest": ["uv run pytest -q"],
    "bash build.sh": ["bash build.sh x"],
    "bash": ["bash build.sh"],
    "mkdir": ["mkdir -p x", "cd src && mkdir x && ls", "mkdir x; git status | head"],
    "*": ["sudo rm x", "git -c a=b log"],
    "cp a* b": ["cp a.py b"],
    "eslint": ["eslint --fix src"],
    "cmake --build": ["cmake --build build -j4 --target all", "cmake --build build -- -j4"],
    "rake test": ["rake test", "rake test TEST=test/a_test.rb"],
    "dotnet test": ["dotnet test -c Release --no-build -v q -nologo --filter x", "dotnet test -f net8.0"],
    "tox": ["tox -e py312", "tox -q -- -k name"],
    "meson test": ["meson test -C build", "meson test --suite x -v"],
    "sbt test": ["sbt test"],
    "bazel test": ["bazel test //... --test_output=errors --jobs=4"],
    "phpunit": ["phpunit --testdox --filter x tests"],
    "pre-commit run": ["pre-commit run -a", "pre-commit run --all-files"],
    "rspec": ["rspec --format documentation spec", "rspec -fd"],
    "pylint": ["pylint -j4 --output-format=json src"],
    "stack test": ["stack test --fast --test-arguments=x"],
    "deno test": ["deno test --filter x", "deno test --coverage"],
    "jest": ["jest --coverage --ci -t name"],
    "mytool": ["mytool --anything -o x"],
}
NOT_COVERED = {
    "git log": [
        "git log --output=.git/config", "git log --outp x", "git log --help",
        "git log -p --ext-diff", "git log --textconv",
        "git -c core.pager=x log", "git push", "git",
    ],
    "git": [
        "git -c alias.x=!ls x", "git --exec-path=. status", "git -C / push", "git --git-dir=x push", "git x",
        "git config alias.log x", "git bisect run ls", "git submodule foreach ls", "git rebase -x ls main",
        "git clone -c x=y z", "git clone --conf x=y z", "git fetch --upload-pack=x", "git push --exec=x",
        "git grep -Osh x", "git filter-branch x", "git difftool -x sh", "git archive -o .git/hooks/x HEAD",
        "git fetch ext::sh", "git clone -u x y", "git hook run x", "git submodule --quiet foreach ls",
        "git bisect visualize difftool -yx ls", "git format-patch --output-directory=/etc HEAD",
    ],
    "git*": ["git+=x ls", "git[0]=x ls", "git=x ls", "git -c a=b log"],
    "git * main": ["git --output=x main", "git -c main"],
    "find": [
        "find . -exec rm x +", "find . -ok ls", "find . -delete", "find -- . -delete",
        "find -- . -newer x -delete", "find . -fprintf x y", "find . -execdir ls",
    ],
    "find . -name": ["find . -name x -delete"],
    "rg": ["rg --pre sh x", "rg --pre=sh x", "rg --pr sh x", "rg -z x", "rg -nz x", "rg --hostname-bin x y"],
    "fd": ["fd -x rm", "fd -HX rm", "fd --exec rm", "fd --exec-b rm"],
    "make": [
        "make --eval=x", "make -f x", "make -kf x", "make -C /", "make SHELL=./x", "make test CC=x",
        "make -- A=b",
    ],
    "make test": ["make test --eval x", "make test SHELL=./x", "make --eval=x test"],
    "pytest": [
        "pytest -p evil", "pytest -xp evil", "pytest -c x", "pytest -o a=b", "pytest --rootdir=/",
        "pytest --basetemp=src", "pytest --override-i a=b", "pytest --junitxml=.git/config",
    ],
    "python": [
        "python", "python -c 1", "python -m x", "python -", "python -i", "python /dev/stdin",
        "echo 1 | python",
    ],
    "python -m pytest": ["python -m pytest -p evil", "python -m x"],
    "node": ["node -e 1", "node --eval=1", "node -r ./x y", "node --require ./x y", "node -pe 1"],
    "perl": ["perl -e 1", "perl -ne 1 x"],
    "bash": ["bash -c ls", "bash -ec ls", "ls | bash", "bash -s", "bash /dev/fd/0"],
    "sh": ["sh -c ls", "echo ls | sh"],
    "npm run build": ["npm run build --script-shell=./x", "npm run build --node-opt x", "npm run deploy"],
    "npm": ["npm exec x", "npm x y", "npm --prefix / test", "npm create x"],
    "cargo build": [
        "cargo build --config x", "cargo build --manifest-path /x", "cargo build -Zx", "cargo +x build",
    ],
    "cargo": ["cargo +x build"],
    "go test": [
        "go test -exec x ./...", "go test --exec=x", "go test -toolexec x", "go test -o x",
        "go test -overlay=x",
    ],
    "go vet": ["go vet -vettool=x"],
    "sort": ["sort -o x y", "sort -no x", "sort --output x", "sort --comp x y"],
    "sed": [
        "sed -i s/a/b/ x", "sed -n -i 1p x", "sed 's/a/b/e' x", "sed 's/a/b/w y' x", "sed 'w y' x",
        "sed 1e x", "sed -f x y", "sed '1r /etc/x' y", "sed --in-place s/a/b/ x",
    ],
    "awk": [
        "awk 'BEGIN{system(\"ls\")}'", "awk '{print > \"x\"}' y", "awk '\"ls\" | getline' y", "awk -f x y",
    ],
    "tar": [
        "tar -xf a --to-command=x", "tar cf a b --checkpoint-action=exec=x", "tar -I x -xf a", "tar Ixf x a",
        "tar -xf a --use-comp x",
    ],
    "zip": ["zip -TT x a b"],
    "curl": ["curl -o x y", "curl -sSLo x y", "curl --output=x y", "curl -K x", "curl -O y"],
    "ssh host": ["ssh host -o ProxyCommand=x"],
    "timeout": ["timeout 5 rm x", "timeout -k 1 5 rm x"],
    "timeout 5": ["timeout 5 rm x"],
    "timeout *": ["timeout 5 rm x"],
    "timeout 5 git log": ["timeout 5 git log --output=x"],
    "env": ["env rm x", "env A=b rm x", "env -S 'rm x'"],
    "env *": ["env LD_PRELOAD=./x ls"],
    "sudo": ["sudo rm x", "sudo -u me rm x"],
    "xargs": ["ls | xargs rm"],
    "xargs rg": ["ls | xargs rg x"],
    "nice": ["nice -n 5 rm x", "nice rm x"],
    "nohup": ["nohup rm x"],
    "uv run": ["uv run rm x"],
    "uv run pytest": ["uv run pytest -p evil"],
    "poetry run git": ["poetry run git -c a=b log"],
    "npx": ["npx x"],
    "parallel": ["parallel rm"],
    "eval": ["eval rm x"],
    "command": ["command rm x"],
    "mkdir": ["mkdir x; rm x", "mkdir x && make", "mkdir $x", "mkdir x > y"],
    "export": ["export PATH=./bin; ls", "export A=b; git status"],
    "hash": ["hash -p ./x ls; ls"],
    "cd": ["cd /tmp && cat x"],
    "ls": ["ls; rm x", "lsx", "ls > x"],
    "eslint": ["eslint -c x y", "eslint -f ./x y", "eslint --rulesdir x y", "eslint --resolve-pl x y"],
    "mypy": ["mypy --python-exe x y", "mypy --config-file=x"],
    "gcc": ["gcc -wrapper x y.c", "gcc -fplugin=x y.c", "gcc -o x y.c", "gcc -B. y.c"],
    "uniq": ["uniq a.py b"],
    "mypy .": ["mypy . @options"],
    "pytest -q": ["pytest -q @options"],
    "ruff check": ["ruff check @options"],
    "cc": ["cc @options"],
    "cmake --build": ["cmake --build b -- --eval=x", "cmake --build b -- SHELL=./x"],
    "bun test": ["bun test --preload ./x", "bun test -r ./x"],
    "gradle test": ["gradle test -g x", "gradle test --gradle-user-home=x", "gradle test --system-prop=x"],
    "mvn test": ["mvn test --define a=b"],
    "jest": ["jest --global-setup ./x", "jest --GlobalSetup=x"],
    "vitest": ["vitest --typecheck.checker=./x"],
    "tsc": ["tsc --outdir x", "tsc -outDir x", "tsc @options"],
    "pylint": ["pylint -f x.Y a.py", "pylint --output-format=x.Y a.py", "pylint --import-graph=x.dot a.py"],
    "gofmt": ["gofmt -cpuprofile x a.go"],
    "ssh": ["ssh -I ./x.so host"],
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ReadingProject:
    made = ReadingProject(tmp_path_factory.mktemp("rules"))
    made.commit()
    return made


@each_row("rule", COVERED)
def test_a_rule_covers_its_command_with_more_operands_and_options(project: ReadingProject, rule: str) -> None:
    for line in COVERED[rule]:
        assert project.runs(line, rule), line


@each_row("rule", NOT_COVERED)
def test_a_rule_covers_nothing_that_runs_or_writes_what_it_does_not_name(
    project: ReadingProject, rule: str
) -> None:
    for line in NOT_COVERED[rule]:
        assert not project.runs(line, rule), line


def test_an_option_that_a_rule_spells_out_is_covered(project: ReadingProject) -> None:
    for rule in (
        "rg --pre sh",
        "find src -name x -delete",
        "sort -o x",
        "git log --output=x",
        "make -f x",
        "sudo -u me rm",
    ):
        assert project.runs(rule, rule), rule
    assert not project.runs("find src -ls -exec ls", "find src -ls")


def test_a_file_named_like_an_option_is_not_allowed_by_a_rule(tmp_path: Path) -> None:
    project = ReadingProject(tmp_path)
    for line in (
        "rg x *",
        "git log *",
        "find *",
        "tar cf x *",
        "sed s/a/b/ *",
        "make *",
        "pytest *",
        "rg x -*",
    ):
        program = line.split()[0]
        assert not project.runs(f"mkdir x; {line}", program, "mkdir"), line
    assert project.runs("mkdir *", "mkdir") and project.runs("mkdir x; rg x ./*", "rg", "mkdir")


def test_each_command_of_a_line_may_be_covered_by_another_rule(project: ReadingProject) -> None:
    line = "cd src && make test 2>&1 | tail -5; npm test || git status"
    assert project.runs(line, "make test", "npm test")
    assert not project.runs(line, "make test") and not project.runs(line, "npm test")
    verdict = project.verdict(line, "make test", "npm test")
    assert str(verdict.rule) == "bash(make test)"


def test_a_deny_rule_beats_an_allow_rule_on_the_same_line(project: ReadingProject) -> None:
    deny = parse_rules("bash(git push)")
    assert project.verdict("git status && git push", "git", deny=deny).answer == "deny"
    assert project.verdict("git status && git pull", "git", deny=deny).answer == "allow"
