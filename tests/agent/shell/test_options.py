"""The options of programs: what a list of allowed ones says, and the programs that have one."""

from __future__ import annotations

import pytest

from agent.shell.option_syntax import NotProved, Options, split_arguments
from agent.shell.reading_programs import TABLED, globs_of, reading_of_tabled, reading_of_version
from agent.shell.risky_options import RISKS, risky_word
from agent.shell.simple_commands import Glob
from tests.tables import each_row

ALLOWED = Options("ab", "cn", attached="w", words="all name= color=? exclude= include=", numbers=True)


@each_row(
    "arguments, options, operands",
    [
        ("", {}, []),
        ("x -a y -b", {"a": [""], "b": [""]}, ["x", "y"]),
        ("-ab x", {"a": [""], "b": [""]}, ["x"]),
        ("-c x y", {"c": ["x"]}, ["y"]),
        ("-acx y", {"a": [""], "c": ["x"]}, ["y"]),
        ("-c x -c y", {"c": ["x", "y"]}, []),
        ("-c - x", {"c": ["-"]}, ["x"]),
        ("-c -5", {"c": ["-5"]}, []),
        ("-w x", {"w": [""]}, ["x"]),
        ("-w5 -aw7", {"w": ["5", "7"], "a": [""]}, []),
        ("-5 -12", {"number": ["5", "12"]}, []),
        ("--all x", {"all": [""]}, ["x"]),
        ("--name x y", {"name": ["x"]}, ["y"]),
        ("--name= y", {"name": [""]}, ["y"]),
        ("--name=-x", {"name": ["-x"]}, []),
        ("--color x", {"color": [""]}, ["x"]),
        ("--color=x", {"color": ["x"]}, []),
        ("- -a", {"a": [""]}, ["-"]),
        ("-a -- -x --all", {"a": [""]}, ["-x", "--all"]),
    ],
)
def test_arguments_are_split_into_options_and_operands(
    arguments: str, options: dict[str, list[str]], operands: list[str]
) -> None:
    split = split_arguments(arguments.split(), ALLOWED)
    assert (split.options, split.operands) == (options, operands)
    assert all(split.has("missing", name) and split.values(name) == options[name] for name in options)
    assert not split.has("missing") and split.values("missing") == []


@each_row(
    "arguments, why",
    [
        ("-x", "-x is not known to be read-only"),
        ("-axb", "-x is not known to be read-only"),
        ("-5x", "-5 is not known to be read-only"),
        ("--al", "--al is not known to be read-only"),
        ("--all=x", "--all is not known to be read-only"),
        ("--other=x", "--other is not known to be read-only"),
        ("-c", "-c has no value"),
        ("--name", "--name has no value"),
        ("-c -a", "-a is not a known value of -c"),
        ("--name --all", "--all is not a known value of --name"),
    ],
)
def test_an_option_that_is_not_allowed_or_lacks_its_value_is_in_doubt(arguments: str, why: str) -> None:
    with pytest.raises(NotProved) as raised:
        split_arguments(arguments.split(), ALLOWED)
    assert str(raised.value) == why


def test_a_glob_is_an_operand_unless_it_may_match_an_option() -> None:
    star = Glob("*.py", "*.py")
    assert split_arguments([star, "-a"], ALLOWED).operands == [star]
    split = split_arguments([Glob("--include=*.py", "--include=*.py"), "x"], ALLOWED)
    assert (split.options, split.operands) == ({"include": ["*.py"]}, ["x"])
    for word in ("-*", "--name=*", "--exclude-dir=*"):
        with pytest.raises(NotProved, match="may match a file named like an option"):
            split_arguments([Glob(word, word)], ALLOWED)
    with pytest.raises(NotProved, match=r"is not a known value of -c"):
        split_arguments(["-c", star], ALLOWED)
    assert split_arguments(["--", Glob("-*", "-*")], ALLOWED).operands == ["-*"]


def test_two_lists_of_options_are_joined() -> None:
    joined = Options("a", "b", "c", "all") | Options("d", "e", "f", "name=", numbers=True)
    assert joined == Options("ad", "be", "cf", "all name=", numbers=True)
    assert (Options() | Options()).numbers is False


@each_row("program", TABLED)
def test_no_program_has_an_option_that_its_row_lacks(program: str) -> None:
    for option in ("-_", "--_other"):
        with pytest.raises(NotProved, match="is not known to be read-only"):
            reading_of_tabled(program, [option])
    for word in ("--help", "--version"):
        found = reading_of_tabled(program, [word])
        assert found is not None and (found.program, found.paths) == (program, ())


# A line for each program, with what its row allows by a list of a single word or of letters.
LINES = (
    *("ls -aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ1 a", "cat -AbeEnstTuv a", "head -qvz -c1 -n 2 -5 a"),
    *("tail -qvz -c1 -n 2 -5 a", "wc -clmLw a", "cut -nsz -b1 -c 2 -d, -f 1 a", "stat -Ltf -c %s a"),
    *("du -abchHklmsxS0 -B1 -d 1 -t 5 a", "df -ahHiklPT -B1 -t x -x y a", "comm -123z --total a b"),
    *("sort -bdfghiMnRrVcCmsuz -k1 -t , a", "cmp -bls -i 1 -n 2 a b", "file -bihkLNnr0 -F : a"),
    *("diff -abBcdeEiHnNpqrstTuwy -C 1 -F x -I y -U3 -W 9 -x z a b", "tac -br -s x a", "rev a"),
    *("nl -p -b a -d x -f a -h a -i 1 -l 1 -n ln -s x -v 1 -w 1 a", "fold -bs --bytes -w 9 a"),
    *("paste -sz -d , a", "join -iz --ignore-case -a 1 -1 1 -2 2 -e x -j 1 -o 1.1 -t , -v 1 a b"),
    *("column -tx -c 9 -s , -o x a", "od -abcdfhilosvx -A x -j 1 -N 1 -t x1 -S 3 -w8 a"),
    *("hexdump -bcCdovx -n 1 -s 2 a", "strings -af -n 3 -t x a", "base64 -d -w 0 a", "md5 -qr a"),
    *("realpath -eEmLPqsz --quiet a", "readlink -femnqsvz a", "tree -adfFghinpqrstuvxACDJNQSUX -L 2 a"),
    *("md5sum -btz --text a", "sha1sum a", "sha256sum -b a", "sha512sum -t a", "which -as --all x"),
    *(
        "tr -cCdst a b",
        "basename -az -s .py a",
        "dirname -z a",
        "id -agGnruz --context",
        "free -bkmghtwl",
    ),
    *("seq -w -f %g -s , --format=%g 1 5", "pgrep -aflxcnoi x", "uname -asnrvmpio --all", "whoami"),
    *("hostname -AdfiIs --short", "nproc --all --ignore=1", "uptime -ps --pretty", "df /", "cat -"),
)


def test_every_program_has_a_line_here() -> None:
    assert {line.split()[0] for line in LINES} == TABLED.keys()


@each_row("line", LINES)
def test_the_options_of_a_row_are_allowed(line: str) -> None:
    program, *arguments = line.split()
    found = reading_of_tabled(program, arguments)
    assert found is not None and found.program == program
    of_files = {word for word in arguments if word in ("a", "b")} if program not in WITHOUT_FILES else set()
    assert of_files <= {*found.paths} and "-" not in found.paths and "/" not in found.paths
    assert (found.trees == found.paths and found.follows) if program == "diff" else not found.trees


WITHOUT_FILES = {"tr", "basename", "dirname", "which", "pgrep", "id", "seq"}


def test_operands_of_programs_without_files_are_no_paths() -> None:
    star = Glob("*", "*")
    assert globs_of(["a", star]) == (star,)
    found = reading_of_tabled("basename", ["a", star])
    assert found is not None and found.paths == (star,)
    with pytest.raises(NotProved, match="whoami x is not known to be read-only"):
        reading_of_tabled("whoami", ["x"])
    assert reading_of_tabled("rm", ["a"]) is None
    for value in ([], ["-x"], [star]):
        with pytest.raises(NotProved, match="tree -L has an unknown value"):
            reading_of_tabled("tree", ["-L", *value])


def test_a_version_is_printed_by_known_programs_and_words_alone() -> None:
    for line in (
        *("bash --version", "uv --version", "node -v", "ruby -v", "perl -v", "php -v", "lua -v", "docker -v"),
        *(
            "python -V",
            "python3 -V",
            "python3.12 --version",
            "java -version",
            "javac -version",
            "rg --version",
        ),
        *("sqlite3 -version", "openssl version", "kubectl version --client"),
    ):
        program, *arguments = line.split()
        found = reading_of_version(program, arguments)
        assert found is not None and found.version and found.program == program, line
    for line in ("npm --version", "bash -v", "python4 -V", "python -V x", "kubectl version", "node -V"):
        program, *arguments = line.split()
        assert reading_of_version(program, arguments) is None, line


@each_row("program", sorted(RISKS))
def test_options_that_no_row_names_are_covered_and_those_that_it_names_are_not(program: str) -> None:
    if program in ("date", "make", "cmake", "cargo"):
        return  # whose operands count as well
    assert risky_word([program, "-_", "file"], [program]) == ""
    for letter in RISKS[program].letters:
        assert risky_word([program, f"-_{letter}", "file"], [program]) == f"-_{letter}"
        assert risky_word([program, f"-_{letter}", "file"], [program, f"-_{letter}"]) == ""
    for name in RISKS[program].long.split():
        assert risky_word([program, f"--{name}=x", "file"], [program]) == f"--{name}=x"
        assert risky_word([program, "--", f"--{name}=x"], [program]) in ("", f"--{name}=x")
    for word in RISKS[program].harmless.split():
        assert risky_word([program, word, "file"], [program]) == ""


# For each program some of the options that run or write something.
RISKY = {
    "fd": "-x --exec",
    "rg": "-z --pre",
    "sort": "-o -T --output --temporary-directory",
    "shuf": "-o --output",
    "tree": "-o -R --output",
    "file": "-C -m --compile",
    "diff": "-l --paginate",
    "date": "-s --set",
    "tar": "-I --to-command",
    "zip": "-T --unzip-command",
    "rsync": "-e --rsh",
    "ssh": "-o -F",
    "scp": "-o -S",
    "curl": "-o -O -K -J --output --config",
    "wget": "-e -O --execute",
    "make": "-f -C --file",
    "cmake": "-P -E --eval",
    "gradle": "-I --init-script",
    "mvn": "-f -s --file -l",
    "pytest": "-p -c --basetemp",
    "mypy": "--install-types",
    "ruff": "-o --config",
    "black": "-c --code",
    "isort": "--settings-path",
    "flake8": "--config",
    "pylint": "-f --init-hook",
    "prettier": "--plugin",
    "eslint": "-c --rulesdir",
    "tsc": "--outDir -outdir",
    "jest": "-c -u --globalSetup",
    "vitest": "-c -r --globalSetup --coverage.x",
    "npm": "-C --prefix dlx",
    "pnpm": "-C create",
    "yarn": "-C create",
    "bun": "-e -r --preload x",
    "cargo": "-Z -C --config",
    "rustc": "-o -C --emit",
    "go": "-exec -o -test.trace",
    "gcc": "-o -B --specs -wrapper -fplugin",
    "g++": "-o",
    "cc": "-B",
    "clang": "-o",
    "python": "-c",
    "node": "-e -p --eval",
    "perl": "-e -i",
    "ruby": "-e -I",
    "php": "-r -d",
    "gofmt": "-cpuprofile -trace",
    "rustfmt": "--config-path --print-config",
    "bash": "-c -i --rcfile",
    "sh": "-s",
    "zsh": "-c",
    "dash": "-c",
    "ksh": "-c",
}
HARMLESS = (
    "gcc -O2", "pytest --cov", "pytest --pdb", "jest --coverage", "jest --co", "prettier --no-config",
    "pylint --output-format=json",
)  # fmt: skip
WRAPPERS = (
    "timeout -s 9 5", "nice -n 5", "stdbuf -i 0", "stdbuf -o 0", "stdbuf -e 0", "ionice -c 3", "ionice -n 3",
    "sudo -u a", "sudo -g a", "doas -u a", "env -u a",
)  # fmt: skip
RUNNERS = (
    "poetry run", "pdm run", "hatch run", "pipx run", "bundle exec", "npm exec", "pnpm exec", "pnpm dlx",
    "yarn exec", "yarn dlx", "python -m",
)  # fmt: skip


@each_row(
    "line, rule, risk",
    [
        *((f"{name} {word} a", name, word) for name, words in RISKY.items() for word in words.split()),
        *((f"{line} a", line.partition(" ")[0], "") for line in HARMLESS),
        *((f"{wrapper} rg --pre x", f"{wrapper} rg", "--pre") for wrapper in WRAPPERS),
        *((f"xargs -{letter} x rg", f"xargs -{letter} x rg", "rg") for letter in "IinLPsd"),
        *((f"{runner} rm", runner, "rm") for runner in RUNNERS),
        ("git archive -o x", "git", "-o"),
        ("git format-patch -o x", "git", "-o"),
        ("git difftool -x y", "git difftool", "-x"),
        ("git clone -c a=b x", "git", "-c"),
        ("git clone -u x y", "git", "-u"),
        ("git bisect visualize", "git", "visualize"),
        ("git bisect view", "git", "view"),
        ("find . -name x", "find", ""),
        ("find . -delete", "find", "-delete"),
        ("find -- . -delete", "find", "-delete"),
        ("fdfind -x rm", "fdfind", "-x"),
        ("rg --pretty x", "rg", ""),
        ("rg --pre x", "rg", "--pre"),
        ("sort -uo a b", "sort", "-uo"),
        ("sort --comp x", "sort", "--comp"),
        ("sort -- -o", "sort", ""),
        ("date +%s", "date", ""),
        ("date 0101", "date", "0101"),
        ("make CC=x all", "make", "CC=x"),
        ("gmake CC=x", "gmake", "CC=x"),
        ("cmake --build . -- --eval=x", "cmake --build", "--eval=x"),
        ("py.test @list", "py.test", "@list"),
        ("pytest --co", "pytest", ""),
        ("tsc -OUTDIR x", "tsc", "-OUTDIR"),
        ("go test -exec x", "go test", "-exec"),
        ("go test --exec x", "go test", "--exec"),
        ("cargo +nightly build", "cargo", "+nightly"),
        ("python3.12 -c x", "python3.12", "-c"),
        ("python a.py", "python", ""),
        ("python /dev/stdin", "python", "/dev/stdin"),
        ("python -u", "python", "-u"),
        ("uniq a b", "uniq", "b"),
        ("uniq -c a", "uniq", ""),
        ("uniq - a", "uniq", "a"),
        ("tar xIf a", "tar", "xIf"),
        ("tar xf a", "tar", ""),
        ("sed s/a/b/w a", "sed", "a"),
        ("sed -n 1p a", "sed", ""),
        ("timeout 5 rg x", "timeout 5 rg", ""),
        ("timeout -k 3 5 rg --pre y x", "timeout -k 3 5 rg", "--pre"),
        ("timeout 5 rm x", "timeout", "rm"),
        ("timeout --foreground 5 rm", "timeout", "rm"),
        ("nice -n 5 rm x", "nice -n 5", "rm"),
        ("env A=1 rm x", "env A=1", "rm"),
        ("env A=1 rm x", "env A=1 rm", ""),
        ("env -u B A=1 rg --pre x", "env -u B A=1 rg", "--pre"),
        ("env A=1", "env", "A=1"),
        ("xargs -I {} rm {}", "xargs -I {}", "rm"),
        ("xargs rm", "xargs rm", ""),
        ("xargs rg", "xargs rg", "rg"),
        ("xargs git", "xargs git", "git"),
        ("nohup rm", "nohup", "rm"),
        ("eval x", "eval", "x"),
        ("eval x", "eval x", ""),
        ("uv run rm", "uv run", "rm"),
        ("uv run -p rm", "uv run", "rm"),
        ("git status", "git", ""),
        ("git --no-pager log", "git", ""),
        ("git -C x status", "git", "-C"),
        ("git -C x status", "git -C x", ""),
        ("git -c a=b status", "git -c a=b status", ""),
        ("git mine", "git", "mine"),
        ("git mine", "git mine", ""),
        ("git", "git", ""),
        ("git bisect run x", "git", "run"),
        ("git bisect run x", "git bisect run", ""),
        ("git submodule foreach x", "git", "foreach"),
        ("git grep -O x", "git", "-O"),
        ("git log -O x", "git", ""),
        ("git rebase -x y", "git", "-x"),
        ("git clone ext::x", "git", "ext::x"),
        ("git diff --ext-diff", "git", "--ext-diff"),
    ],
)
def test_a_rule_covers_no_word_that_runs_or_writes_something(line: str, rule: str, risk: str) -> None:
    assert risky_word(line.split(), rule.split()) == risk


def test_a_glob_may_match_a_file_named_like_an_option_only_if_its_beginning_is_open() -> None:
    for beginning in ("*", "?", "[x-]", "-"):
        assert risky_word(["tree", Glob(f"{beginning}a", f"{beginning}a")], ["tree"]) == f"{beginning}a"
    assert risky_word(["tree", Glob("other*", "other*")], ["tree"]) == ""
