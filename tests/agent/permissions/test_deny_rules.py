"""A deny rule stops its command in every disguise, commands that may be it, and nothing else."""

import json
import os
import shlex
from itertools import product
from pathlib import Path

import pytest

from agent.permissions.deny_rules import denial_of, forbids_command
from agent.permissions.modes import MODES
from agent.permissions.rule_syntax import exact_rule, parse_rules
from agent.permissions.rules import PermissionRules, judge_call
from agent.shell import Certainty, ProjectEnvironment
from agent.shell.line_reading import read_line
from agent.shell.parsed_text import SPLIT
from tests.tables import each_row
from tools.base import Access

RULES = parse_rules("bash(curl), bash(git push)")


def said(line: str, rules: str = "") -> Certainty:
    return denial_of(parse_rules(rules) if rules else RULES, line).certainty


# {} is the denied command.
BEFORE = [
    "</dev/null {}", ">/dev/null {}", ">x {}", ">>x {}", ">|x {}", "2>&1 {}", "9<x {}", "0<>x {}", "<>x {}",
    "{{fd}}>x {}", "{{fd}}<x {}", "&>x {}", "&>>x {}", ">&2 {}", "<&3 {}", "2>x >y </z {}", "> 'a b' {}",
    "<<<x {}", "<<E {}\nx\nE", "<<'E' {}\n$(\nE", "a=b {}", "a= {}", "a+=b {}", "a[0]=b {}", "a[i+1]=b {}",
    "a[1 + 2]+=b {}", "a='x y' {}", "a=(b c) {}", "a=b c=d {}", "a=b >x c=d {}", "a=$x {}", "a=$(x) {}",
    "PATH=/x {}", "\n\n{}", "  \t{}", "# x\n{}", "#'\n{}", ": # it's\n{}", "ls #\\\n{}", "! {}", "! ! {}",
    "time {}", "time -p -- {}", "coproc {}", "if {}; then :; fi", "if :; then {}; fi",
    "if :; then :; elif {}; then :; fi", "if :; then :; else {}; fi", "if({}) then :; fi",
    "while {}; do :; done", "until :; do {}; done", "for i in 1 2; do {}; done", "for i; do {}; done",
    "for ((i=0; i<1; i++)); do {}; done", "for i in $(seq 2)\ndo\n{}\ndone", "select s in a; do {}; done",
    "case x in x) {};; esac", "case x in (x|y) :;; *) {}; esac", "case x in x) {} ;& y) :;; esac",
    "case x in\n  esa*) :;;\n  [a-z]*) {};;\nesac", "f() {{ {}; }}; f", "f () ( {} ); f",
    "function f {{ {}; }}", "function f()\n{{\n{}\n}}", "f() if :; then {}; fi", "coproc X {{ {}; }}",
    "( {} )", "(({}) )", "{{ {}; }}", "{{\n{}\n}}", "$( {} )", "echo $({})", 'echo "$({})"',
    'echo "a $(echo "$({})")"', "echo `{}`", 'echo "`{}`"', "x=$({})", "x=(a $({}))", "echo ${{x:-$({})}}",
    'echo "${{x:-$({})}}"', "echo ${{x:=`{}`}}", "echo $(( $({}) + 1 ))", "(( x[$({})] ))",
    "echo $[ $({}) ]", "cat <({})", "tee >({})", "x < <({})", "[[ -n $({}) ]]", "[[ a == <({}) ]]",
    "echo <<E\n$({})\nE", "cat <<-E\n\t`{}`\n\tE", "cat <<E <<F\n$({})\nE\nF", "cat <<<$({})",
    "cat > $({})", "x[$({})]=1", "case $({}) in x) ;; esac", "for i in $({}); do :; done", "ls; {}",
    "ls;{}", "ls && {}", "ls || {}", "ls | {}", "ls |& {}", "ls & {}", "ls&{}", "ls\n{}", "{} &", "{}; ls",
    "{} | ls", "{} > x", "{} 2>&1 | tee x", "{} <<E\nx\nE", "{} # x", "cd x && {}", "ls 'a\n' ; {}",
    "ls \\\n && {}", 'ls "\\""; {}', "ls \\'; {}", "ls $'\\''; {}", "ls 'a' \"b\" c\\ d; {}", "[ a ] && {}",
    "[[ a =~ (b|c)+ ]] && {}", "[[ a < b ]]; {}", "((x = 1)); {}", "(( a > b )) || {}", "let x=1; {}",
    "ls <<E\nit's\nE\n{}", "ls <<'E'\n$(\nE\n{}", "ls <<\\E\n`\nE\n{}", "ls <<E; {}\nx\nE",
    "trap '{}' EXIT", "bind -x '\"\\C-a\": {}'", "bind '\"x\": \"{}\"'",
    "make -f - <<'E'\nall:\n\t@{}\nE", "printf 'all:\\n\\t{}' > makefile; make",
]  # fmt: skip
WRAPPERS = [
    "sudo {}", "sudo -n {}", "sudo -u root {}", "sudo -uroot -H -- {}", "sudo --user=x -E {}",
    "sudo A=b {}", "doas -u x {}", "env {}", "env -i {}", "env - {}", "env A=b C=d {}", "env -u X {}",
    "env -iu X {}", "env --unset X {}", "env -C / {}", "/usr/bin/env {}", "env -- {}", "nice {}",
    "nice -n 5 {}", "nice -5 {}", "nice --adjustment=5 {}", "nohup {}", "setsid {}", "setsid -w {}",
    "timeout 5 {}", "timeout -k 1 5 {}", "timeout -s KILL 5s {}", "timeout --kill 1 5 {}",
    "timeout --preserve-status 5 {}", "stdbuf -o0 {}", "stdbuf -oL -e 0 {}", "stdbuf --output=0 {}",
    "ionice -c 3 {}", "ionice -c3 -n 7 {}", "chrt -o 0 {}", "chrt -f 10 {}", "taskset 1 {}",
    "taskset -c 0,1 {}", "setpriv --no-new-privs {}", "setpriv --reuid 1 --clear-groups {}",
    "setarch x86_64 -R {}", "setarch -R {}", "linux32 {}", "chroot / {}", "chroot --userspec=x / {}",
    "unshare -rn {}", "unshare --net --map-root-user -- {}", "nsenter -t 1 -m {}", "flock x {}",
    "flock -n x {}", "flock -w 5 x {}", "strace {}", "strace -f -o x {}", "strace -e trace=file {}",
    "ltrace {}", "\\time -f %e {}", "/usr/bin/time -o x -v {}", "command {}", "command -p {}",
    "command -- {}", "builtin command {}", "exec {}", "exec -a x {}", "exec -cl {}", "xargs {}",
    "xargs -n 1 {}", "xargs -0 -P4 {}", "xargs -I{{}} {}", "ls | xargs -r -L1 {}", "xargs -a x {}",
    "find . -exec {} \\;", "find . -name x -exec {} {{}} +", "find . -ok {} ';'",
    "find . -type f -execdir {} {{}} \\; -print", "fd x -x {}", "fd -X {}", "busybox {}", "toybox {}",
    "chronic {}", "catchsegv {}", "arch -x86_64 {}", "asdf exec {}", "micromamba run {}", "foreman run {}",
    "npx {}", "npx -y {}", "npx --package x {}", "bunx {}", "uvx {}", "uv run {}", "uv run --with x -- {}",
    "uv --offline run {}", "poetry run {}", "pipenv run {}", "pnpm exec {}", "pnpm dlx {}", "yarn exec {}",
    "npm exec -- {}", "npm x {}", "bundle exec {}", "mise x -- {}", "direnv exec . {}", "nix run x -c {}",
    "conda run -n x {}", "docker run --rm x {}", "docker exec -it x {}", "kubectl exec x -- {}",
    "/lib64/ld-linux-x86-64.so.2 {}", "ld.so --library-path /x {}", "/lib/ld-musl-x86_64.so.1 {}",
    "proxychains -q {}", "torsocks {}", "firejail {}", "fakeroot {}", "eatmydata {}", "faketime x {}",
    "rlwrap {}", "unbuffer {}", "numactl -N 0 {}", "valgrind -q {}", "gdb --args {}",
    "systemd-run --user {}", "systemd-inhibit {}", "dbus-run-session -- {}", "xvfb-run -a {}",
    "ssh-agent {}", "gpg-agent --daemon {}", "runcon x {}",
    "caffeinate -i {}", "prlimit --nofile=5 {}", "choom -n 5 -- {}", "gosu x {}", "su-exec x {}",
    "setuidgid x {}", "pkexec {}", "run0 {}", "perf stat -e x {}", "rr record {}", "git bisect run {}",
    "runuser -u x -- {}", "tini -- {}", "dumb-init {}", "ccache {}", "entr {}", "entr -r {}", "watch {}",
    "watch -n 1 {}", "parallel {}", "ssh host {}", "ssh -p 22 -o A=b me@host {}", "batch <<< '{}'",
    "aws-vault exec x -- {}", "ip netns exec x {}", "sudo env A=b nice -n 5 timeout 5 {}",
    "sudo -u x sh -c '{}'", "command sudo command {}", "coproc env {}", "! sudo {}", "screen -dm {}",
    "xterm -e {}", "tmux new-session -d {}", "script -c '{}'", "hash -r; {}", "alias a=b; {}",
    "capsh --drop=all -- -c '{}'", "machinectl shell x {}", "mise exec node -- {}", "dotenv -f x run {}",
    "kubectl run x --image=i -- {}", "script -q /dev/null {}", "watchexec -- {}", "systemd-nspawn -D / {}",
    "/proc/self/exe -c '{}'", "cmd.exe /c {}", "wsl -e {}", "cargo watch -- {}", "tox exec -e py -- {}",
    "just --command {}", "just -d x -c {}", "pixi run {}", "rye run {}", "devbox run -- {}", "op run -- {}",
    "dotenvx run -f x -- {}", "doppler run -- {}", "chamber exec x -- {}", "envchain x {}",
    "lerna exec -- {}",
    "nx exec -- {}", "cross-env {}", "env-cmd -f x {}", "reflex -r x -- {}", "wgo {}", "alacritty -e {}",
    "kitty {}", "limactl shell x {}", "distrobox enter x -- {}", "nerdctl exec x {}", "chpst -u x {}",
    "watchmedo auto-restart -- {}", "py-spy record -- {}", "flox activate -- {}", "watchexec -e py {}",
    "nodemon --exec {}",
    "pdm run {}", "hatch run {}", "mamba run {}", "pipx run {}", "infisical run -- {}", "teller run -- {}",
    "railway run {}", "honcho run {}", "mr run {}", "rtx run {}", "fnm run {}", "toolbox run {}",
    "heroku local:run {}", "heroku run {}", "rbenv exec {}", "pyenv exec {}", "volta run {}",
    "nvm exec 20 {}", "sops exec-env x {}", "multipass exec x -- {}", "colima ssh -- {}", "vagrant ssh -- {}",
    "guix shell -- {}", "zellij run -- {}", "wezterm start -- {}", "pm2 start {}", "forever start {}",
    "bun x {}", "bun run {}", "bwrap {}", "cgexec {}", "cpulimit {}", "daemonize {}", "dtruss {}",
    "envdir x {}", "flatpak-spawn {}", "foot {}", "gnome-terminal -- {}", "ifne {}", "konsole {}", "lima {}",
    "multitime {}", "proot {}", "s6-envdir x {}", "s6-setuidgid x {}", "softlimit {}", "viddy {}", "xe {}",
    "xfce4-terminal {}",
]  # fmt: skip
SCRIPTS = [
    "bash -c {}", "sh -c {}", "dash -ec {}", "zsh -c {}", "ksh -c {}", "fish -c {}", "bash -lc {}",
    "bash -x -c {} y z", "bash --norc -c {}", "bash -o pipefail -c {}", "bash -c -- {}", "bash +x -ec {}",
    "/bin/bash -c {}", "bash -O extglob -c {}", "bash <<< {}", "bash -s <<< {}", "bash - <<< {}",
    "bash /dev/stdin <<< {}", ". /dev/stdin <<< {}", "echo {} | sh", "echo {} | sudo bash -s",
    "echo {} | bash -", "printf {} | bash", "printf '%s' {} | sh", "echo -n {} | tee x | sh", "eval {}",
    "eval -- {}", "eval ls ';' {}", 'eval "ls; "{}', "env -S {}", "env -S'A=b '{}", "env -iS {}",
    "env --split-string={}", "su -c {} x", "su - x -c {}", "runuser -l x -c {}", "script -qc {} /dev/null",
    "flock x -c {}", "trap {} EXIT", "trap -- {} INT TERM", "ssh host {}", "watch {}", "watch -n1 {}",
    "parallel {}", "npx -c {}", "npm exec -c {}", "nix-shell -p x --run {}", "sg docker {}", "hyperfine {}",
    'x={}; eval "$x"', 'x={}; bash -c "$x"', "echo {} > x; sh x", "echo {} > x.sh; . ./x.sh",
    "echo {} > x; chmod +x x; ./x", "mapfile -C {} -c 1 a", "tmux new-session -d {}", "xargs sh -c {}",
    "find . -exec sh -c {} \\;", "sudo -u x bash -c {}", "timeout 5 bash -c {}", "git submodule foreach {}",
    "bash -c 'eval \"$1\"' _ {}", "bash -c 'sh -c \"$0\"' {}", "cat <<< {} | bash", "coproc bash -c {}",
    "exec bash -c {}", "at now <<< {}", "nodemon -x {}", "nodemon --exec={} app.js", "npx nodemon -x {}",
    "cargo watch -s {}", "cargo watch -x check -s {}", "cargo-watch --shell {}", "hyperfine --prepare {} ls",
    "hyperfine -p {} -N ls", "hyperfine --cleanup={} ls", "hyperfine ls {}", "concurrently -n a,b ls {}",
    "chokidar src -c {}", "tsc-watch --onSuccess {}", "ptw --runner {}", "watchmedo shell-command -c {} .",
    "doppler run --command {}", "sem {}", "echo {} | parallel", "echo {} | parallel -j 2", "watchexec {}",
    "ls | entr -s {}", "just --command sh -c {}", "cross-env-shell {}", "pee {}", "pnpm exec -c {}",
    "fzf --preview {}", "air --build.cmd {}", "vagrant ssh -c {}",
    "repo forall -c {}", "bpftrace -c {}", "forever -c {}", "ansible all -a {}", "chokidar x --command {}",
    "su --command {} x", "git rebase --exec {} main", "snap run --command {} x", "tsup --onSuccess {}",
    "sudo <<< {}", "su <<< {}", "doas <<< {}", "unshare -r <<< {}", "nsenter <<< {}", "sg x <<< {}",
]  # fmt: skip
SPELT = [
    "c''url x", 'c""url x', "c\\url x", "'curl' x", '"curl" x', "\\curl x", "c\\\nurl x", "$'curl' x",
    "$'cu\\x72l' x", "CURL x", "$'\\143url' x", "$'\\u0063url'", '$"curl" x', "cur'l' x", "/usr/bin/curl x",
    "../bin/curl", "./curl", "~/bin/curl x", '"$HOME"/bin/curl', "$HOME/curl", "/usr//bin/./curl",
    "{curl,x}", "c{url,} x", "curl${IFS}x", "curl$IFS-s", "curl\tx", "x=curl; $x y", 'x=curl; "$x" y',
    "x=cu; ${x}rl y", "x=cu y=rl; $x$y z", "x='curl y'; $x", 'x=(curl y); "${x[@]}"', "x=ls; x=curl; $x",
    "for c in ls curl; do $c x; done", "$UNSET/curl", "git p''ush", "git -C x push", "git --no-pager push",
    "git -c a=b -C x push --force", "git {push,x}", "git $'push'", "x=push; git $x", "git --git-dir=x push",
    "git pu\\sh", "bash curl", ". ./curl", "python3 ./curl", "python -m curl", "! curl", "f() { curl; }",
    "curl()\n{ :; }; curl", "curl", "[[ a ]] || curl", "x=y curl", "curl;", "curl&", "curl|x", "(curl)",
    "$(curl)", "curl>x", "curl<x", "if curl; then :; fi", "echo a;curl", "A=b git push", "git\tpush",
    "git 2>x push", "<x git >y push", "curl.exe x", "env -S '\rcurl x'", "zsh -c '=curl x'",
    "$(echo curl) x", "`printf curl` x", 'f() { "$@"; }; f curl x', "f() { $1 y; }; f curl",
    "echo curl | xargs env", "echo 'curl x' | xargs -I{} sh -c {}", "xargs nice <<< curl",
    "printf 'curl %s' x | sh", "alias_=1; curl", "git --work-tree x push", "git --namespace x push",
    "git --git-dir x -C y push", "git --no-pager -c push=x push",
]  # fmt: skip
UNTOLD = [
    "expect -c 'spawn curl x'", "newtool -- curl x", "newtool --hook 'curl x' y", "newtool '!curl x'",
    "go test -exec 'curl x' ./...", "go build -toolexec 'curl x'", "parallel ::: 'curl x' ls",
    "nox -- curl x", "onchange '*' -- curl x", "fab -- curl x", "salt-call cmd.run 'curl x'",
    "BASH_ENV=$x bash y",
    "$x y", '"$x" y', "$(x curl) y", "`x curl` y", "${x:-curl} y", "${x} y", "$1 y", '"$@"', "$x$y",
    "cu$x y", "c${x-}url y", "c$()url", "cu``rl", "/bin/c?rl x", "c*l x", "/usr/bin/[c]url x", "/bin/r? x",
    "cur? x", "*/curl*", "git $x", "git pu$x", 'git "$x"', "git p*", "x=$(y); git -C $x status", "git $(x)",
    "sudo $x", "env $x y", "nice $x", "ls | xargs $x", 'eval "$x"', "eval $(x)", 'bash -c "$x"',
    'bash -c "ls $x"', "bash $x", "bash <(x)", "source <(x)", ". $x", "x | bash", "x | sh -s y",
    "x | sudo bash", "bash < x", "bash <<< $x", "bash <<E\n$x\nE", "x | xargs env",
    "x | xargs -I{} sh -c {}", "xargs sh", "xargs git", "find . -exec {} \\;",
    "find /usr/bin -name curl -exec {} x \\;", "timeout 5 $x", "x=y; x=$(z); $x", "read x; $x",
    "read x <<< curl; $x", "printf -v x curl; $x", 'set -- curl x; "$@"', 'f() { $(x) "$@"; }; f curl x',
    "while read c; do $c; done < x", "x+=curl; $x", "IFS=_; x=curl_y; $x", "declare -n x=y; $x",
    "x='a[$(curl y)]'; ((x))", "[[ -v 'a[$(curl)]' ]]", "test -v 'a[`curl`]'", "printf -v 'a[$(curl)]' x",
    "enable -f ./x.so x; x", "builtin enable -f ./x.so git; git status", "enable $x",
    "PS4='$(curl)'; set -x", "x='$(curl)'; echo ${x@P}", "let 'a[$(curl)]'",
    "python -c 'import os; os.system(\"curl x\")'", "perl -e 'exec \"curl\"'",
    "awk 'BEGIN { system(\"curl x\") }'", "python3 <<E\nos.system('git push')\nE",
    "cat > x.py <<E\ncurl\nE\npython x.py", "vim -c '!curl x'", "tar --checkpoint-action=exec=curl -cf x y",
    "tar -I 'curl x' -xf y", "rsync -e 'curl x' a b", "nc -e curl", "git -c alias.x='!curl y' x",
    "git -c core.sshCommand=curl fetch", "GIT_SSH_COMMAND=x make CC=curl", "split --filter='curl x' y",
    "sort --compress-program=curl x", "ssh -o ProxyCommand='curl x' h", "rg --pre curl x y",
    "make SHELL=curl", "sed 's/x/curl/e' y", "socat - EXEC:curl", "if x; then curl <<", "ls 'x", 'ls "$(',
    "x=(a", "curl(", "((", "`", "shopt -s extglob\n@(curl|x) y", "case x in", "cat <<$x\ncurl\n$x",
    "ls $(cat <<E\nx\nE)", "echo ${x:-'}'} \"${y:-'a'}\"", "x > y; sh y", "curl_=1; x > y; . ./y",
    "alias x=curl", "compgen -W '$(curl)'", "\ufdd0", "hash -p /usr/bin/curl x; x", "git -c alias.p=push p",
    "git filter-branch --tree-filter 'curl x'", "git grep -O'curl x' y", "BASH_ENV=<(x) bash -c :",
    "make -f - < x", "cat x | make -f /dev/stdin", "make --file=- < x", "bind -f x", "x | bind -f /dev/stdin",
    "LESSOPEN='|curl %s' less x", "MANPAGER='curl x' man ls",
    "MAKEFLAGS='--eval=$(shell curl x)' make", "make -f <(x)",
    "podman run --entrypoint curl x", "gcc -wrapper curl x", "x | (sh)", "x | { :; sh; }", "x > >(sh)",
    "x | if :; then sh; fi", "sqlite3 x '.shell curl y'", "echo $(0<f ! curl)", "PAGER='curl x' man y",
    "f() { $1; }; f $x", "echo 'c\\x75rl' | sh", "git config alias.x '!curl y'; git x",
    "git config --global core.pager 'curl y'", "less '+!curl x' y", "git config alias.p push",
]  # fmt: skip
SPOKEN = [
    "ls", "echo curl", "echo 'git push'", 'echo "curl $x"', "git status", "git log push",
    "git commit -m 'curl push'", "grep curl x", "man curl", "which curl", "command -v curl", "type curl",
    "apt install curl", "sudo apt install -y curl", "git log --grep curl", 'git commit -am "$x"',
    'git add "$x" *.py', 'git -C "$x" status', "git show $x", "cat curl", "ls /usr/bin/curl", "rm curl",
    "cp curl x", "curlx", "xcurl y", "pycurl", "gitpush", "# curl", "ls # curl", ": curl",
    "cat <<E\ncurl x\ngit push\nE", "cat <<'E'\n$(curl)\nE", "cat > x <<E\ncurl\nE", "x=curl", "curl=1",
    "export CURL=x", "a=curl b", "echo a#curl", "echo \\#; ls", "echo $x",
    'echo "$(date)" $((1+2)) ${y:-z} *', "for i in curl; do echo $i; done", "for curl in a; do ls; done",
    "case curl in curl) ls;; esac", "[[ $x == curl ]]", '[ "$x" = curl ]', "test curl = x",
    "f() { ls; }; f curl", "sudo -u x ls curl", "sudo find . -name '*'", "sudo find / -name curl",
    "find . -name '*' -print", "find . -name curl -exec ls {} +", "xargs -n 1 ls", "ls | xargs rm",
    "ls *.py | xargs -I{} grep curl {}", "env", "env A=curl ls", "env | grep curl", "timeout 5 make curl",
    "nice -n 5 make", "bash x.sh curl", "bash -c 'echo curl'", "bash -c 'ls' curl", "bash --version",
    "python x.py", "python -c 'print(1)'", "python -m pip install pycurl", "pip install x", "npm run curl",
    "uv run pytest -k curl", "uv run pytest", "awk '/curl/ {print}' x", "sed -n '/curl/p' x",
    "sed -i 's/wget/curl/' x", "jq '.curl' x", "cd curl && ls", "(cd curl && make)", "make -C curl",
    "ls | tee curl", "ls > curl", "if [ -f curl ]; then ls; fi", "while read l; do echo $l; done < x",
    "a=(curl git push)", "arr[curl]=1", "printf '%s' curl", "PY=python3; $PY -m pytest",
    'd=$(mktemp -d) && cd "$d" && ls', '"$HOME"/bin/x', "$VIRTUAL_ENV/bin/python x", "./x$y/z",
    "echo `date` | wc", "git diff | cat", "git log --format='%h' | head", "docker ps", "make -j$(nproc)",
    "time make", "exec 3>x", "trap - EXIT", "ls 2>/dev/null || true", "sleep 1 & wait", "{ ls; pwd; } > x",
    "cat <(ls) >(wc)", "read -r x", "set -euo pipefail", "bash", "echo x; bash", "git clone https://x/curl",
    "git config user.name curl", "gh pr create --title curl", "x=$(git log); ls", "echo it\\'s; ls",
    'ls "it\'s"', "ls 'a\"b'", "echo $'it\\'s'", 'echo "a\\"b"', "ls \\\n -l", "find . -name curl -delete",
    "git config user.name curl", "git config alias.s status", "find . -name 'curl *'", "newtool curl x",
    "pytest -k 'curl and push'", "cp 'curl x' y", "tar czf x.tgz -- curl", "newtool -- x curl",
    "newtool 'x curl' -m 'do not curl'", "cargo watch -x check", "hyperfine -p ls 'ls -l'",
]  # fmt: skip


def not_said(answer: Certainty, lines: list[str], rules: str = "") -> list[tuple[str, Certainty]]:
    """The lines about which the rules say something else."""
    found = [(line, said(line, rules)) for line in lines]
    return [(line, other) for line, other in found if other is not answer]


def test_a_denied_command_is_found_behind_every_form() -> None:
    for payload in ("curl x", "git -C d push o"):
        lines = [form.format(payload) for form in (*BEFORE, *WRAPPERS)]
        assert not_said(Certainty.YES, lines) == []


def test_a_denied_command_is_found_in_every_script() -> None:
    for payload in ("curl x", "ls; git push o", "</dev/null curl x", "cd x && sudo curl 'y z'"):
        forms = [form for form in SCRIPTS if "env -" not in form or payload == "curl x"]  # env is not a shell
        lines = [form.format(shlex.quote(payload)) for form in forms]
        assert not_said(Certainty.YES, lines) == []


def test_a_denied_command_is_known_in_every_spelling() -> None:
    assert not_said(Certainty.YES, SPELT) == []


def test_what_may_be_a_denied_command_is_not_allowed() -> None:
    assert not_said(Certainty.MAYBE, UNTOLD, "bash(curl), bash(git push), bash(rm)") == []


def test_what_only_speaks_of_a_denied_command_is_free() -> None:
    assert not_said(Certainty.NO, SPOKEN) == []


def test_the_forms_can_be_nested_in_each_other() -> None:
    for outer, inner in product(BEFORE[::9], (*WRAPPERS[::9], *BEFORE[4::11])):
        if outer.startswith("<<") and "\n" in inner:
            continue  # the rest of it is then no command
        line = outer.format(inner.format("curl x"))
        assert said(line) is not Certainty.NO, line


@each_row("mode", MODES)
def test_what_may_be_denied_needs_approval_in_every_mode_until_that_line_is_allowed(mode: str) -> None:
    line = "/bin/r? x"
    (rule,) = denied = parse_rules("bash(rm)")
    for sandbox in (False, True):
        rules = PermissionRules(mode, parse_rules("bash"), denied, "/w", sandboxed=sandbox)  # type: ignore[arg-type]
        verdict = judge_call("bash", [Access("run", line)], rules)
        if mode in ("dontAsk", "plan"):
            assert verdict.answer == "deny"
            continue
        assert verdict.answer == "ask" and verdict.rule == rule and verdict.prefix == exact_rule(line)
        assert verdict.why == "it may run a command that the rule bash(rm) denies" and verdict.binding
        allowed = PermissionRules(mode, (verdict.prefix,), denied, "/w", sandboxed=sandbox)  # type: ignore[arg-type]
        assert judge_call("bash", [Access("run", line)], allowed).answer == "allow"


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("sh push.sh", "deny"),
        ("bash -c 'sh ./push.sh'", "deny"),
        ("ls; ./push.sh now", "deny"),
        ("source push.sh", "deny"),
        ("make release", "deny"),
        ("npm run release", "deny"),
        ("just release", "deny"),
        ("rake release", "deny"),
        ("bash -c 'git push --force-with-lease'", "deny"),
        ("sh unclear.sh", "allow"),  # it may run anything, as nearly every script
        ("sh quiet.sh", "allow"),
        ("make quiet", "allow"),
        ("cat push.sh", "allow"),
    ],
)
@pytest.mark.parametrize(
    "rule", ["bash(git push *)", "bash(* * *--force*)", "bash(git pu*)", "bash(git push)"]
)
def test_a_denied_command_is_found_in_scripts_of_the_project(
    tmp_path: Path, rule: str, line: str, answer: str
) -> None:
    folder = tmp_path.resolve()
    push = "git push --force-with-lease origin main"
    (folder / "push.sh").write_text(f"#!/bin/sh\nset -e\nif true; then\n  {push}\nfi\n")
    (folder / "unclear.sh").write_text('$TOOL "$@"\n')
    (folder / "quiet.sh").write_text(f"echo '{push}'\n")
    (folder / "Makefile").write_text(f"release: sub\nsub:\n\t@{push}\nquiet:\n\techo x\n")
    (folder / "package.json").write_text(json.dumps({"scripts": {"release": f"tsc && {push}"}}))
    (folder / "justfile").write_text(f"release:\n  {push}\n")
    (folder / "Rakefile").write_text(f"task :release do\n  sh '{push}'\nend\n")
    reading = ProjectEnvironment(str(folder), {"PATH": os.environ["PATH"]})
    rules = PermissionRules(
        folder=str(folder), deny=parse_rules(rule), sandboxed=True, reading=lambda: reading, home="/home/u"
    )
    verdict = judge_call("bash", [Access("run", line)], rules)
    assert verdict.answer == answer


def test_a_line_that_no_one_reads_is_not_offered_to_be_allowed_for_good() -> None:
    rules = PermissionRules("manual", (), RULES)
    assert judge_call("bash", [Access("run", "$x" * 5_000)], rules).prefix is not None
    assert judge_call("bash", [Access("run", "$x" * 5_001)], rules).prefix is None


def test_a_line_that_is_surely_denied_is_opened_by_no_rule() -> None:
    for allow in ("bash", "bash(=curl x; ls)", "bash(curl)"):
        rules = PermissionRules("bypassPermissions", parse_rules(allow), RULES)
        verdict = judge_call("bash", [Access("run", "curl x; ls")], rules)
        assert (verdict.answer, verdict.why) == ("deny", "the rule bash(curl) denies this")


def test_of_several_rules_the_surest_is_named_and_else_the_first() -> None:
    for line, answer, rule in (
        ("$x; git push", Certainty.YES, "bash(git push)"),
        ("$x", Certainty.MAYBE, "bash(curl)"),
        ("ls", Certainty.NO, None),
    ):
        found, named, _ = denial_of(RULES, line)
        assert (found, named and str(named)) == (answer, rule)
    assert denial_of(parse_rules("bash(x*), bash(*)"), "y").certainty is Certainty.YES
    assert denial_of(parse_rules("bash(c*l), bash([ab]c)"), "bc").certainty is Certainty.YES


def test_one_command_of_a_line_is_judged_for_itself() -> None:
    invocations = read_line("ls; curl x; $y").invocations
    for rule, answers in (
        ("bash(curl)", [Certainty.NO, Certainty.YES, Certainty.MAYBE]),
        ("bash(=curl x)", [Certainty.NO] * 3),
        ("bash(*)", [Certainty.YES] * 3),
        ("bash", [Certainty.YES] * 3),
    ):
        (parsed,) = parse_rules(rule)
        assert [forbids_command(parsed, each) for each in invocations] == answers


def test_a_rule_for_one_line_does_not_make_others_doubtful() -> None:
    assert said("$x", "bash(=curl x)") is Certainty.NO
    assert said(" curl x\n", "bash(=curl x)") is Certainty.YES


@each_row(
    ("rule", "line", "answer"),
    [
        ("bash(./deploy)", "./deploy now", Certainty.YES),
        ("bash(./deploy)", "././x/../deploy", Certainty.YES),
        ("bash(./deploy)", "/w/deploy", Certainty.MAYBE),
        ("bash(./deploy)", "sh ./deploy", Certainty.YES),
        ("bash(~/bin/x)", "~/bin/x y", Certainty.YES),
        ("bash(~/bin/x)", "$HOME/bin/x y", Certainty.YES),
        ("bash(npm run *)", "npm run x", Certainty.YES),
        ("bash(npm run dep*)", "npm run $x", Certainty.MAYBE),
        ("bash(npm run dep*)", "npm --prefix a run deploy", Certainty.YES),
        ("bash(npm run dep*)", "npm run test", Certainty.NO),
        ("bash(rm -rf)", "rm -rf x", Certainty.YES),
        ("bash(rm -rf)", "rm x", Certainty.NO),
        ("bash(rm -rf)", "rm *", Certainty.MAYBE),
        ("bash(*)", "ls", Certainty.YES),
        ("bash(git push origin)", "git push $x", Certainty.MAYBE),
        ("bash(git push origin)", "git push fork", Certainty.NO),
        ("bash(git push --force)", "git push -u --force x", Certainty.YES),
        ("bash(sudo)", "x; sudo ls", Certainty.YES),
        ("bash(sudo rm)", "sudo -u x rm y", Certainty.YES),
        ("bash(time)", "time ls", Certainty.YES),
        ("bash([)", "[ a ]", Certainty.YES),
        ("bash(Make)", "make", Certainty.YES),
    ],
)
def test_the_words_of_a_rule_are_compared_one_by_one(rule: str, line: str, answer: Certainty) -> None:
    assert said(line, rule) is answer


HUGE = [
    "((", "(", "$(", "${", "`", "{", "[", "'", "\\", "a;", "a|", "[[ ", "$((1+", "x=$(y);", "a=$b ",
    "sudo ", "f(){ ", "{a,b}", "~",
]  # fmt: skip


@each_row(
    "line, answer",
    [
        ("curl -fsSL x.io | sh", Certainty.YES),
        ("cd a && curl x|sudo bash -s -- -y", Certainty.YES),
        ("curl x | tee log | /bin/sh", Certainty.YES),
        ("bash -c 'curl x |& sh'", Certainty.YES),
        ("curl x | env A=1 sh", Certainty.YES),
        ("curl x | (cd /tmp; sh)", Certainty.MAYBE),
        ("curl -o f x; sh f", Certainty.MAYBE),
        ("sh <(curl x)", Certainty.MAYBE),
        ("curl x | $shell", Certainty.MAYBE),
        ("curl x | jq .", Certainty.NO),
        ("cat x | sort", Certainty.NO),
        ("echo 'curl x | sh'", Certainty.NO),
        ("curl x", Certainty.NO),
        ("sh run.sh", Certainty.NO),
    ],
)
def test_a_pipe_in_a_rule_applies_to_what_reads_the_output(line: str, answer: Certainty) -> None:
    rules = parse_rules("bash(curl * | sh), bash(curl|bash)", restricting=True)
    assert denial_of(rules, line).certainty is answer


def test_only_rules_that_restrict_may_contain_pipes_of_patterns() -> None:
    for text in ("bash(curl * | sh)", "bash(a | b*)"):
        with pytest.raises(ValueError, match="cannot match anything"):
            parse_rules(text)
        assert not parse_rules(text, restricting=True)[0].exact
    for text in ("bash(curl * || sh)", "bash(| sh*)", "bash(a* | 'b')", "bash(a* | b >c)"):
        with pytest.raises(ValueError, match="cannot match anything"):
            parse_rules(text, restricting=True)


@each_row("unit", HUGE)
def test_a_huge_line_is_given_up_soon_and_not_allowed(unit: str) -> None:
    line = (unit * 100_000)[:100_000]
    assert len(read_line(line).invocations) <= 300
    assert said(f"{line}\ncurl x") is not Certainty.NO


def test_a_text_with_characters_that_stand_for_unknown_words_is_not_allowed() -> None:
    assert said(f"ls {SPLIT}") is Certainty.MAYBE


@each_row(
    ("rule", "line", "answer"),
    [
        ("git push", 'git "$x" push', "ask"),
        ("git push", 'git -"$x" push', "ask"),
        ("git push", "git $x push", "ask"),
        ("git push", 'git "$x" a push', "ask"),
        ("git push", 'git "a$x" push', "allow"),
        ("git push", "git a$x push", "ask"),
        ("git push origin", "git $x origin", "ask"),
        ("git push origin", 'git "$x" origin main', "ask"),
        ("git push origin", "git $x main", "ask"),
        ("git push origin", 'git push "$x"', "ask"),
        ("git push origin", 'git push a"$x"', "allow"),
        ("git push origin", 'git push o"$x"', "ask"),
        ("git push origin", 'git "p$x" origin', "ask"),
        ("git push origin", 'git "q$x" origin', "allow"),
        ("git push", 'git -c "$x" push', "deny"),
        ("git push", "git -c $x push", "deny"),
        ("git push", "git -c $x", "ask"),
        ("git p*", 'git "$x"', "ask"),
        ("git push", "git l*", "ask"),
        ("git push", "git p*", "ask"),
        ("git push", "git pu?h", "ask"),
        ("git push", "git [p]ush", "ask"),
        ("git push", '"$x" push', "ask"),
        ("./dep", "/a/dep", "ask"),
        ("~/bin/dep", "~/bin/dep", "deny"),
        ("~/bin/dep", "/x/dep", "ask"),
        ("git push", "GIT PUSH", "allow"),
        ("git push", "GIT push", "deny"),
        ("git push", "/usr/bin/git push", "deny"),
        ("a * c", "a b c", "deny"),
        ("a * c", "a b b c", "deny"),
        ("a * c", "a c", "allow"),
        ("git push", "python -c \"os.system('git push')\"", "ask"),
        ("git push", 'python -c "gitx push"', "allow"),
    ],
)
def test_a_word_that_is_not_known_counts_for_everything_that_it_may_be(
    rule: str, line: str, answer: str
) -> None:
    rules = PermissionRules("bypassPermissions", deny=parse_rules(f"bash({rule})"), folder="/w/app")
    assert judge_call("bash", [Access("run", line)], rules).answer == answer


@each_row(
    ("line", "answer"),
    [
        *(
            (f"fish {options}", "deny")
            for options in (
                "-c'git push'",
                "-ic'git push'",
                "-C'git push'",
                "-C 'git push' -c true",
                "-c true -c 'git push'",
                "-c true -C'git push' file",
                "--command='git push'",
                "--command 'git push'",
                "--com 'git push' x",
                "--init-command='git push'",
                "--init 'git push' -c true",
                "-p x -c 'git push'",
                "-px -c 'git push'",
                "--debug x -c 'git push'",
                "-d c -c 'git push'",
                "-D c -c 'git push'",
                "-iP --login -c'git push'",
            )
        ),
        ("fish -c true x -c 'git push'", "allow"),  # the arguments of the script
        ("fish -c 'git log'", "allow"),
        ("fish -pc 'git push'", "allow"),  # a profile in the file c, and a script of that name
        ("fish -c true $x", "ask"),
        ('fish -c true "$x" y', "ask"),
        ('fish -c"$x"', "ask"),
        ("fish <<<'git push'", "deny"),
        ("fish -i <<<'git push'", "deny"),
        ("fish -- -c 'git push'", "allow"),  # a script in the file -c
    ],
)
def test_the_scripts_of_fish_are_read_as_fish_reads_its_options(line: str, answer: str) -> None:
    rules = PermissionRules("bypassPermissions", deny=parse_rules("bash(git push)"), folder="/w/app")
    assert judge_call("bash", [Access("run", line)], rules).answer == answer


@each_row(
    "line",
    [
        "a['{}']=1",
        "a[']{}']+=1",
        "a[$'{}']=1",
        "a['0'\"{}\"]=1",
        "a=(['{}']=1)",
        "a=(x ['{}']=1 y)",
        "declare a['{}']=1",
        "echo ${{a['{}']}}",
        "echo ${{!a['{}']}}",
        "echo ${{#a['{}']}}",
        "echo ${{x:'{}'}}",
        "echo ${{x:0:'{}'}}",
    ],
)
def test_quotes_in_a_subscript_keep_no_substitution_from_running(line: str) -> None:
    for substitution in ("$(curl)", "`curl`", "${y:-$(curl)}", '"$(curl)"'):
        assert said(line.format(substitution)) is Certainty.YES, substitution
    assert said("a[$'\\x24(curl)']=1") is Certainty.YES
    for quoted in ("$(ls)", "curl"):
        assert said(line.format(quoted)) is Certainty.NO


@each_row("line", ["a=('{}')", "echo ${{x:-'{}'}}", "echo ${{x//'{}'/y}}", "x='{}'", "a[0]='{}'"])
def test_quotes_elsewhere_keep_a_substitution_from_running(line: str) -> None:
    assert said(line.format("$(curl)")) is not Certainty.YES


@each_row(
    "line",
    [
        "script -qc'{}' /dev/null",
        "script -q -c'{}' x",
        "script --comm '{}' x",
        "script --comm='{}' x",
        "su -lc'{}'",
        "su -l me -c '{}'",
        "su --session-command='{}'",
        "flock -nc '{}' x",
        "runuser -lc'{}' me",
    ],
)
def test_a_script_in_an_option_is_seen_in_each_form_of_the_option(line: str) -> None:
    assert said(line.format("git push")) is Certainty.YES
    assert said(line.format("git log")) is not Certainty.YES


def test_shortened_options_of_git_that_run_a_command_are_seen() -> None:
    for option in ("--exec", "--ex", "--exe", "-x"):
        assert said(f"git rebase {option} 'git push' main") is not Certainty.NO, option


@each_row(
    "line",
    [
        *("git -c alias.z='!{}' z", "git -c core.pager='{}' log", "git -c core.sshCommand='{}' fetch"),
        *("git -c diff.external='{}' diff", "git -c sequence.editor='{}' rebase -i HEAD~1"),
        *("git -c alias.z='!f() {{ {}; }}; f' z", "git config alias.z '!{}'", "git difftool -x '{}'"),
        *("git filter-branch --tree-filter '{}'", "git grep -O'{}' y", "git clone -u '{}' a b"),
        *("GIT_SSH_COMMAND='{}' git fetch", "PAGER='{}' git log", "EDITOR='{}' git commit"),
        *("LESSOPEN='|{}' less a", "env GIT_PAGER='{}' git log", "export PAGER='{}'; git log"),
        *("tar --checkpoint-action=exec='{}' -cf a b", "tar -I '{}' -cf a b", "rsync -e '{}' a h:b"),
        *("git fetch 'ext::{}'", "git -c remote.a.url='ext::{}' fetch a", "git instaweb --httpd='{}'"),
        *("git send-email --sendmail-cmd='{}' p", "npm_config_script_shell='{}' npm test"),
        *("ssh -o ProxyCommand='{}' h", "ag --pager='{}' x", "split --filter='{}' a", "unknown-program '{}'"),
    ],
)
def test_every_command_of_a_script_in_a_value_is_seen(line: str) -> None:
    for script in (
        "true; git push",
        "cd a && git push -f",
        'sh -c "git push"',
        "env A=b git push",
        "a | git push",
    ):
        assert said(line.format(script)) is not Certainty.NO, script
    for script in ("true; git log", 'sh -c "git log', "it's; git log", "a (b; $c"):
        assert said(line.format(script.replace("'", "'\\''"))) is not Certainty.YES, script


def test_text_in_a_value_that_is_no_script_leaves_a_line_certain() -> None:
    for value in ("O'Brien; x", "a (b; $c", "a $(b"):
        assert said(f"git -c user.name={shlex.quote(value)} commit") is Certainty.NO, value
