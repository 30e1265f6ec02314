"""What a command launches, and how the arguments of launchers are read up to the command that they run.

An option that stands in no table may or may not take the next word as its value; then both are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tools.files.text_encoding import word_set

from .shell_syntax import Words
from .shell_values import HOME, MARKS, SPLIT, UNSET

ENV_ASSIGNMENT = re.compile(r"[^=]*=")  # as env takes them
INPUT_FILE = re.compile(r"-|/dev/(?:stdin|fd/\d+)|/proc/(?:self|\d+)/fd/\d+")


class Launcher(NamedTuple):
    """How a launcher's arguments are read: options with a value, options without one, and then so many
    operands before the command.
    """

    values: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    operands: int = 0


def _options(text: str) -> frozenset[str]:
    """`-ab --long` as {"-a", "-b", "--long"}."""
    words = text.split()
    shorts = {f"-{letter}" for word in words if not word.startswith("--") for letter in word[1:]}
    return frozenset(shorts | {word for word in words if word.startswith("--")})


def _launchers(table: str) -> dict[str, Launcher]:
    """Rows of `names operands | options with values | flags`."""
    found: dict[str, Launcher] = {}
    for row in table.strip().splitlines():
        names, values, flags = row.split("|")
        *programs, operands = names.split()
        for program in programs:
            found[program] = Launcher(_options(values), _options(flags), int(operands))
    return found


# From the manuals: sudo 1.9, coreutils 9, util-linux 2.40, findutils 4.10, strace 6, bash 5.3.
LAUNCHERS = _launchers("""
sudo 0 | -CDghpRrTtUu --close-from --chdir --group --host --prompt --chroot --role --type --command-timeout \
--other-user --user | -AbBeEHiKklNnPSsVv --askpass --background --bell --edit --login --non-interactive \
--preserve-env --preserve-groups --remove-timestamp --reset-timestamp --set-home --shell --stdin --validate
doas 0 | -Cu | -Lns
env 0 | -uC --unset --chdir | -iv0 --ignore-environment --null --debug
exec 0 | -a | -cl
command 0 | | -pvV
builtin 0 | |
nice 0 | -n --adjustment |
ionice 0 | -cn --class --classdata | -t --ignore
chrt 1 | -TPD --sched-runtime --sched-period --sched-deadline | -abdfiorRmpv
taskset 1 | | -acp --all-tasks --cpu-list --pid
timeout 1 | -ks --kill-after --signal | -fpv --foreground --preserve-status --verbose
nohup busybox toybox 0 | |
setsid 0 | | -cfw --ctty --fork --wait
stdbuf 0 | -ioe --input --output --error |
setpriv 0 | --ambient-caps --inh-caps --bounding-set --ruid --euid --rgid --egid --reuid --regid --groups \
--securebits --pdeathsig --ptracer --selinux-label --apparmor-profile --landlock-access --landlock-rule \
--seccomp-filter | -d --dump --no-new-privs --nnp --clear-groups --keep-groups --init-groups --reset-env
time 0 | -fo --format --output | -apqvV --append --portability --quiet --verbose
strace 0 | -abeEIoOpPsSuUX | -cCdfFhiknqrtTvVwxyYzZ
chroot 1 | --groups --userspec | --skip-chdir
unshare 0 | -RwSGl --root --wd --setuid --setgid --map-user --map-group --map-users --map-groups \
--propagation --setgroups --load-interp --monotonic --boottime | -munipCTUrcf --mount --uts --ipc --net \
--pid --user --cgroup --time --fork --map-root-user --map-current-user --mount-proc --kill-child
nsenter 0 | -tSG --target --setuid --setgid | -amunipCTUrwFZe --all --mount --uts --ipc --net --pid --user
flock 1 | -wE --timeout --conflict-exit-code | -sexnuoFv --shared --exclusive --nonblock --unlock --close
setarch linux32 linux64 i386 x86_64 uname26 0 | | -vRFZLXBITS3
xargs 0 | -adEILnPs --arg-file --delimiter --max-args --max-procs --max-chars --process-slot-var | \
-0oprtxeil --null --interactive --no-run-if-empty --verbose --exit --open-tty --replace --eof --max-lines
script 1 | -EIOBTcmo --command --echo --log-in --log-out --log-io --log-timing --output-limit | -aefqr
watch 0 | -nq --interval --equexit | -bcCdegprtwx --beep --color --differences --errexit --chgexit --no-title
caffeinate 0 | -tw | -dimsu
choom 0 | -np --adjust --pid |
fakeroot 0 | -lsib --lib --faked |
proxychains proxychains4 0 | -f | -q
npx bunx 0 | -pcw --package --call --workspace | -yq --yes --no --no-install --quiet --bun
uvx 0 | -pf --from --with --with-editable --with-requirements --python --index --index-url --extra-index-url \
--find-links --directory --project --config-file --cache-dir | -qvn --isolated --offline --no-cache --refresh
runcon sg gosu su-exec setuidgid s6-setuidgid envdir envuidgid setlock faketime 1 | |
ltrace eatmydata catchsegv unbuffer rlwrap torsocks torify tsocks firejail bwrap numactl valgrind gdb lldb \
dbus-run-session dbus-launch xvfb-run systemd-run systemd-inhibit prlimit cpulimit cgexec chpst softlimit \
pgrphack pkexec run0 runuser ccache sccache distcc tini dumb-init entr arch nocache fakechroot \
screen byobu dtach abduco xterm gnome-terminal konsole kitty alacritty foot corepack dotenv watchexec \
systemd-nspawn wsl winpty ssh-agent gpg-agent 0 | |
""")
_LD_SO = Launcher(_options("--library-path --preload --audit --argv0 --inhibit-rpath --glibc-hwcaps-prepend"))
# Programs with words of their own before the command: `words operands`, and what may follow as above.
LAUNCHING_WORDS: dict[str, tuple[tuple[tuple[str, ...], int], ...]] = {
    program: tuple((tuple(words.split()[:-1]), int(words.split()[-1])) for words in rows.split(","))
    for programs, rows in (
        ("uv", "run 0,tool run 0"),
        ("poetry pipenv pdm hatch rye pixi conda mamba micromamba doppler op volta pipx toolbox", "run 0"),
        ("bundle rbenv pyenv nodenv asdf fnm", "exec 0"),
        ("direnv aws-vault chamber nvm", "exec 1"),
        ("npm", "exec 0,x 0"),
        ("pnpm", "exec 0,dlx 0"),
        ("yarn", "exec 0,dlx 0,run 0"),
        ("bun", "x 0,run 0"),
        ("mise", "exec 0,x 0"),
        ("docker podman nerdctl", "run 1,exec 1"),
        ("kubectl oc lxc incus", "exec 1,run 1"),
        ("machinectl", "shell 1"),
        ("dotenv", "run 0"),
        ("perf", "stat 0,record 0,trace 0"),
        ("rr", "record 0"),
        ("git", "bisect run 0"),
        ("tmux", "new 0,new-session 0,new-window 0,neww 0,split-window 0,splitw 0,respawn-pane 0"),
        ("ip", "netns exec 1"),
        ("distrobox", "enter 1"),
    )
    for program in programs.split()
}
SHELLS = word_set(
    "sh bash rbash dash ash zsh ksh ksh93 mksh pdksh oksh yash posh fish csh tcsh hush nu xonsh"
)
# Without a command these start a shell, which reads its input.
SHELL_STARTERS = word_set("sudo su doas chroot unshare nsenter runuser script newgrp sg firejail bwrap")
# Options whose value is a script that the program surely runs.
SCRIPT_OPTIONS = {
    name: _options(options)
    for names, options in (
        ("su runuser script sg vagrant expect xonsh", "-c --command"),
        ("flock", "-c --command"),
        ("npx npm", "-c --call"),
        ("nix-shell", "--run --command"),
    )
    for name in names.split()
}
# Options whose value may become a command.
COMMAND_OPTIONS = {
    name: _options(options)
    for names, options in (
        (
            "tar bsdtar",
            "-IF --use-compress-program --to-command --rsh-command --checkpoint-action --info-script",
        ),
        ("rsync", "-e --rsh --rsync-path"),
        ("ssh scp sftp", "-oSJ"),
        (
            "git",
            "-xcO --exec --extcmd --upload-pack --receive-pack --open-files-in-pager --config-env --setup"
            " --tree-filter --index-filter --msg-filter --env-filter --commit-filter --tag-name-filter"
            " --parent-filter",
        ),
        ("docker podman nerdctl", "--entrypoint"),
        ("man", "-PHs --pager --html"),
        ("split", "--filter"),
        ("sort", "--compress-program"),
        ("rg", "--pre --hostname-bin"),
        ("nc ncat netcat", "-ec --exec --sh-exec --lua-exec"),
        ("tcpdump", "-z"),
        ("zip", "-T --unzip-command"),
        ("watchexec nodemon chokidar onchange", "-xcd --exec --command"),
        ("cargo", "-xs"),
        ("pdsh pssh clush ansible", "-awe"),
        ("make gmake", "-E --eval"),
        ("emacs emacsclient", "--eval -ef"),
        ("vi vim nvim ex view", "-cS --cmd"),
        ("less more", "-p"),
        ("lldb", "-oO"),
        ("systemd-run", "-p --property"),
        ("wget", "-e --execute --use-askpass"),
        ("strace", "-o"),
    )
    for name in names.split()
}
COMMAND_OPTIONS |= dict.fromkeys(("gcc", "g++", "cc", "clang"), frozenset({"-B", "-wrapper"}))
# Programs whose arguments, joined, are one script.
SCRIPT_JOINERS = word_set("eval watch parallel rush sem")
SCRIPT_EACH = word_set("hyperfine concurrently npm-run-all2")  # each of whose operands is a script
# Programs that run code of another language: a command in it is found by its words alone.
INTERPRETERS = word_set(
    "python perl ruby node nodejs deno bun php lua luajit tclsh wish expect osascript pwsh powershell java"
    " groovy scala elixir erl julia r rscript octave awk gawk mawk nawk sed gsed ed red ex vi vim nvim emacs"
    " gdb lldb m4 make gmake ninja bc sqlite3 psql mysql guile racket sbcl ghci runghc tmux crontab socat"
    " less more man"
)
# Those that run the file that their first operand names.
FILE_RUNNERS = word_set(
    "python perl ruby node nodejs deno bun php lua luajit tclsh wish expect osascript pwsh r"
)
# Builtins that evaluate what their arguments or their input say as arithmetic, which may hold substitutions.
EVALUATORS = word_set(
    "test [ [[ let read unset printf declare typeset local export readonly mapfile readarray wait getopts set"
    " return exit shift compgen complete"
)


ENVIRONMENT_SETTERS = word_set("env sudo doas export declare typeset readonly local systemd-run")
# Whose arguments of the form `name=value` name no programs.
QUIET = word_set("echo printf git grep egrep fgrep rg ag ls cat test [ [[ jq yq gh head tail wc cut tr dd")


def launcher_of(name: str) -> Launcher | None:
    """How the arguments of the program are read, where it runs a command that they name."""
    if name.startswith(("ld-linux", "ld-musl", "ld.so", "ld64.so", "ld-2.")):
        return _LD_SO
    return LAUNCHERS.get(name)


class Script(NamedTuple):
    """Shell text that is run, with its `$0`, `$1` and so on."""

    text: str
    arguments: tuple[str, ...] = ()


@dataclass(slots=True)
class Launch:
    """What a command runs. Marks stand in it for what is not known.

    commands  simple commands: the command surely runs one of them
    possible  simple commands that it may run
    scripts   shell texts that it runs
    files     paths of shell scripts that it runs, with their arguments
    texts     what may be expanded: substitutions in it may be run
    code      texts of other languages
    unsure    it runs what is not known
    """

    commands: list[Words] = field(default_factory=list)
    possible: list[Words] = field(default_factory=list)
    scripts: list[Script] = field(default_factory=list)
    files: list[Script] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    unsure: bool = False


def program_name(word: str) -> str:
    """The name of a program without its folder, in lower case, as file systems may fold it; "" if unknown."""
    folder, _, name = word.rpartition("/")
    may_split = SPLIT in folder.replace(UNSET + SPLIT, "")
    known = not may_split and not MARKS.search(name)
    return (
        name.casefold().removesuffix(".exe").removeprefix("=") if known else ""
    )  # zsh finds `=name` on PATH


def is_unknown(word: str) -> bool:
    """Whether some piece of the word is not known; the home folder is known."""
    return MARKS.search(word.replace(HOME, "")) is not None


def is_open(word: str) -> bool:
    """Whether a word is nothing but unknown: it may be an option, a script or a file."""
    return MARKS.sub("", word) == "" != word


def quoted(word: str) -> str:
    return word if MARKS.search(word) else "'" + word.replace("'", "'\\''") + "'"


def run_input(made: Launch, stdin: str | None, arguments: tuple[str, ...] = ()) -> None:
    if stdin is not None and is_open(stdin):
        made.unsure = True
    elif stdin:
        made.scripts.append(Script(stdin, ("sh", *arguments)))


def run_launcher(made: Launch, words: Words, stdin: str | None, launcher: Launcher) -> None:
    name = program_name(words[0])
    starts = command_starts(words, 1, launcher)
    add_commands(made, words, starts)
    if len(words) in starts and name in SHELL_STARTERS:
        run_input(made, stdin)


def add_commands(made: Launch, words: Words, starts: set[int]) -> None:
    """The commands that begin at these places; one word with blanks is a script to some launchers."""
    for start in sorted(starts - {len(words)}):
        made.commands.append(words[start:])
        if " " in words[start].strip():
            made.possible += value_commands(words[start])
            made.scripts.append(Script(words[start], tuple(words[start:])))


def command_starts(words: Words, first: int, launcher: Launcher, *, assigns: bool = True) -> set[int]:
    """Where the command may begin: behind the options and operands of its launcher."""
    found, seen, waiting = set[int](), set[int](), [first]
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        word = words[at] if at < len(words) else ""
        if word.startswith("-") and word not in ("-", "--"):
            waiting += (at + step for step in _steps(word, launcher))
        elif word == "-" or (assigns and ENV_ASSIGNMENT.match(word)):
            waiting.append(at + 1)
        elif SPLIT in word:
            found.add(at)
        else:
            start = at + launcher.operands + (word == "--")
            found.add(min(start + (words[start : start + 1] == ["--"]), len(words)))
            if is_open(word) and launcher.operands:  # it may be an option
                waiting.append(at + 1)
    return found


def _steps(option: str, launcher: Launcher) -> tuple[int, ...]:
    """How many words an option may take, its value included."""
    if option.startswith("--"):
        name, sign, _ = option.partition("=")
        if sign:
            return (1,)
        with_value = name in launcher.values or any(each.startswith(name) for each in launcher.values)
        without = name in launcher.flags or any(each.startswith(name) for each in launcher.flags)
        if with_value is without:
            return (1, 2)
        return (2,) if with_value else (1,)
    if option[1:].lstrip("-").isdigit():  # of nice
        return (1,)
    for place, letter in enumerate(option[1:], 2):
        if f"-{letter}" in launcher.values:
            return (2,) if place == len(option) else (1,)
        if f"-{letter}" not in launcher.flags:
            return (1, 2)
    return (1,)


def option_values(words: Words, options: frozenset[str]) -> Iterator[str]:
    """The values of options: `-o value`, `-ovalue`, `--long value`, `--long=value`."""
    if not options:
        return
    for at, word in enumerate(words[1:], 1):
        name, sign, value = word.partition("=")
        if sign and name in options:
            yield value
        elif word in options or (re.fullmatch(r"-[A-Za-z]+", word) and f"-{word[-1]}" in options):
            yield "".join(words[at + 1 : at + 2])
        if word[:2] in options and len(word) > 2:
            yield word[2:]


def value_commands(value: str) -> Iterator[Words]:
    """What the value of an option or a setting may name as a command: `exec=cmd`, `alias.x=!cmd`, `cmd`."""
    for text in {value, value.rpartition("=")[2], value.partition(":")[2]}:
        if words := text.lstrip("!|").split():
            yield words


def run_shell(made: Launch, words: Words, stdin: str | None) -> None:
    at, takes_script, reads_input = 1, False, False
    while at < len(words):
        word = words[at]
        if word.startswith(("--command=", "-C")) and program_name(words[0]) == "fish":
            made.scripts.append(Script(word.partition("=")[2] or "".join(words[at + 1 : at + 2])))
        if word in ("-", "--"):
            at += 1
            break
        if word in ("--version", "--help"):
            return
        if not word.startswith(("-", "+")) or is_unknown(word):
            break
        if not word.startswith("--"):
            takes_script = takes_script or (word[0] == "-" and "c" in word)
            reads_input = reads_input or "s" in word
            at += word.count("o") + word.count("O")
        at += 2 if word in ("--rcfile", "--init-file") else 1
    rest = words[at:]
    if rest and is_open(rest[0]):
        made.unsure = True
    elif takes_script:
        made.scripts += [Script(rest[0], tuple(rest[1:]))] if rest else []
    elif rest and not reads_input and not INPUT_FILE.fullmatch(rest[0]):
        made.files.append(Script(rest[0], tuple(rest)))
        made.commands.append(rest)
    else:
        run_input(made, stdin, tuple(rest))
