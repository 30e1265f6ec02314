"""Tables of launchers (programs that run a command given by their arguments) and their options.

An option that is in no table may or may not take the next word as its value, so both cases are considered.
"""

from __future__ import annotations

from typing import NamedTuple

from tools.text import word_set


class Launcher(NamedTuple):
    """The arguments of a launcher: options with a value, options without one, operands before the command."""

    values: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    operands: int = 0


def _options(text: str) -> frozenset[str]:
    """Return the options in `-ab --long` as {"-a", "-b", "--long"}."""
    words = text.split()
    shorts = {f"-{letter}" for word in words if not word.startswith("--") for letter in word[1:]}
    return frozenset(shorts | {word for word in words if word.startswith("--")})


def _launchers(table: str) -> dict[str, Launcher]:
    """Parse rows of the form `names operands | options with values | flags`."""
    found: dict[str, Launcher] = {}
    for row in table.strip().splitlines():
        names, values, flags = row.split("|")
        *programs, operands = names.split()
        for program in programs:
            found[program] = Launcher(_options(values), flags=_options(flags), operands=int(operands))
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
setpriv 0 | --reuid --regid --groups --securebits | -d --no-new-privs --nnp --clear-groups --keep-groups
time 0 | -fo --format --output | -apqvV --append --portability --quiet --verbose
strace 0 | -abeEIoOpPsSuUX | -cCdfFhiknqrtTvVwxyYzZ
chroot 1 | --groups --userspec | --skip-chdir
unshare 0 | -RwSGl --root --wd --setuid --setgid | -munipCTUrcf --mount --net --pid --user --map-root-user
nsenter 0 | -tSG --target --setuid --setgid | -amunipCTUrwFZe --all --mount --net --pid --user
flock 1 | -wE --timeout --conflict-exit-code | -sexnuoFv --shared --exclusive --nonblock --unlock --close
setarch linux32 x86_64 0 | | -vRFZLXBITS3
xargs 0 | -adEILnPs --arg-file --delimiter --max-args --max-procs --max-chars --process-slot-var | \
-0oprtxeil --null --interactive --no-run-if-empty --verbose --exit --open-tty --replace --eof --max-lines
script 1 | -EIOBTcmo --command --echo --log-in --log-out --log-io --log-timing --output-limit | -aefqr
watch 0 | -nq --interval --equexit | -bcCdegprtwx --beep --color --differences --errexit --chgexit --no-title
caffeinate 0 | -tw | -dimsu
choom 0 | -np --adjust --pid |
npx 0 | -pcw --package --call --workspace | -yq --yes --no --no-install --quiet
proxychains 0 | -f | -q
parallel sem 0 | -jnNLIaCdPsS --jobs --max-procs --max-args --delay --retries --timeout --joblog --colsep \
--results --arg-file --delimiter --sshlogin --workdir --env --halt | -kqutvXm0 --keep-order --quote --bar \
--progress --dry-run --ungroup --tag --line-buffer --pipe --will-cite --null
runcon sg gosu su-exec setuidgid faketime 1 | |
bunx uvx ltrace eatmydata unbuffer rlwrap torsocks firejail numactl valgrind gdb fakeroot dbus-run-session \
xvfb-run systemd-run systemd-inhibit prlimit pkexec run0 runuser ccache tini dumb-init entr screen xterm \
dotenv watchexec systemd-nspawn wsl ssh-agent gpg-agent bwrap chronic catchsegv cpulimit arch retry 0 | |
cross-env cross-env-shell env-cmd flatpak-spawn xe reflex wgo viddy chpst daemonize dtruss \
multitime softlimit cgexec ifne proot lima alacritty kitty xfce4-terminal konsole foot gnome-terminal \
nodemon 0 | |
envchain envdir s6-setuidgid s6-envdir 1 | |
""")
_LD_SO = Launcher(_options("--library-path --preload --audit --argv0 --inhibit-rpath --glibc-hwcaps-prepend"))
# Programs with subcommands before the command: `words operands`, then options as above.
LAUNCHING_WORDS: dict[str, tuple[tuple[tuple[str, ...], int], ...]] = {
    program: tuple((tuple(words.split()[:-1]), int(words.split()[-1])) for words in rows.split(","))
    for programs, rows in (
        ("uv", "run 0,tool run 0"),
        ("poetry pipenv pdm hatch conda mamba micromamba pipx foreman", "run 0"),
        ("pixi rye devbox dotenvx op doppler infisical teller railway honcho mr rtx fnm toolbox", "run 0"),
        ("heroku", "local:run 0,run 0"),
        ("bundle rbenv pyenv asdf nx lerna tox volta", "exec 0"),
        ("volta", "run 0"),
        ("direnv aws-vault nvm chamber", "exec 1"),
        ("sops", "exec-env 1,exec-file 1"),
        ("distrobox", "enter 0"),
        ("multipass", "exec 1"),
        ("limactl", "shell 1"),
        ("colima vagrant", "ssh 0"),
        ("cargo", "watch 0,hack 0"),
        ("watchmedo", "shell-command 0,auto-restart 0"),
        ("flox", "activate 0"),
        ("guix", "shell 0,environment 0"),
        ("zellij", "run 0"),
        ("wezterm", "start 0"),
        ("pm2 forever", "start 0"),
        ("py-spy", "record 0"),
        ("npm", "exec 0,x 0"),
        ("pnpm", "exec 0,dlx 0"),
        ("yarn", "exec 0,dlx 0,run 0"),
        ("bun", "x 0,run 0"),
        ("mise", "exec 0,x 0"),
        ("docker podman nerdctl", "run 1,exec 1"),
        ("kubectl", "exec 1,run 1"),
        ("machinectl", "shell 1"),
        ("dotenv", "run 0"),
        ("perf", "stat 0,record 0,trace 0"),
        ("rr", "record 0"),
        ("git", "bisect run 0"),
        ("tmux", "new 0,new-session 0,new-window 0,neww 0,split-window 0,splitw 0,respawn-pane 0"),
        ("ip", "netns exec 1"),
    )
    for program in programs.split()
}
SHELLS = word_set("sh bash rbash dash ash zsh ksh mksh fish csh tcsh")
# Without a command these start a shell, which reads its input.
SHELL_STARTERS = word_set("sudo su doas chroot unshare nsenter runuser script sg firejail")
# Options whose value is a script that the program always runs.
SCRIPT_OPTIONS = {
    name: _options(options)
    for names, options in (
        ("su runuser script sg", "-c --command --session-command"),
        ("flock", "-c --command"),
        ("npx npm", "-c --call"),
        ("nix-shell", "--run --command"),
        ("nodemon", "-x --exec"),
        ("cargo cargo-watch", "-sx --shell --exec"),
        ("hyperfine", "-psc --prepare --setup --cleanup --conclude"),
        ("doppler", "--command"),
        ("chokidar", "-c --command"),
        ("watchmedo", "-c --command"),
        ("tsc-watch tsup", "--onSuccess --onFailure --onFirstSuccess --onCompilationComplete"),
        ("ptw pytest-watch", "--runner --onpass --onfail --beforerun --afterrun --onexit"),
        ("air", "--build.cmd --build.pre_cmd --build.post_cmd --build.full_bin"),
        ("fzf", "--preview"),
        ("vagrant snap repo bpftrace forever", "-c --command"),
        ("ansible", "-a --args"),
        ("git", "--exec"),
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
            "-xcOu --exec --extcmd --upload-pack --receive-pack --open-files-in-pager --config-env --setup"
            " --tree-filter --index-filter --msg-filter --env-filter --commit-filter --tag-name-filter"
            " --parent-filter --sendmail-cmd --httpd",
        ),
        ("ag", "--pager"),
        ("docker podman", "--entrypoint"),
        ("split", "--filter"),
        ("sort", "--compress-program"),
        ("rg", "--pre --hostname-bin"),
        ("nc ncat", "-ec --exec --sh-exec --lua-exec"),
        ("zip", "-T --unzip-command"),
        ("make gmake", "-E --eval"),
        ("vi vim nvim", "-cS --cmd"),
        ("strace", "-o"),
    )
    for name in names.split()
}
COMMAND_OPTIONS |= dict.fromkeys(("gcc", "g++", "cc", "clang"), frozenset({"-B", "-wrapper"}))
# Programs whose arguments are joined into one script.
SCRIPT_JOINERS = word_set("eval watch parallel sem rust-parallel rush")
SCRIPT_EACH = word_set("hyperfine concurrently start-server-and-test pee")  # each operand is a script
# Programs that run code in another language, in which commands are only found by their words.
INTERPRETERS = word_set(
    "python perl ruby node nodejs deno bun php lua osascript pwsh powershell java awk gawk mawk nawk sed gsed"
    " ed ex vi vim nvim emacs gdb lldb make gmake sqlite3 psql mysql tmux crontab socat less man expect"
    " tclsh tsx"
)
# Programs that run the file named by their first operand.
FILE_RUNNERS = word_set("python perl ruby node nodejs deno bun php lua osascript pwsh")
# Builtins that evaluate arguments or input as arithmetic, which may contain substitutions.
EVALUATORS = word_set(
    "test [ [[ let read unset printf declare typeset local export readonly mapfile readarray wait getopts set"
    " return exit shift compgen complete"
)


ENVIRONMENT_SETTERS = word_set("env sudo doas export declare typeset readonly local systemd-run")
# Programs whose `name=value` arguments name no programs.
QUIET = word_set("echo printf git grep egrep fgrep rg ag ls cat test [ [[ jq yq gh head tail wc cut tr dd")


def launcher_of(name: str) -> Launcher | None:
    """Return the row of a launcher, None for any other program."""
    if name.startswith(("ld-linux", "ld-musl", "ld.so", "ld64.so", "ld-2.")):
        return _LD_SO
    return LAUNCHERS.get(name)
