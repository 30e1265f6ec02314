"""Random command lines: two programs that may be denied, in every disguise, among what only looks like them.

Nothing in them can do harm: they run nothing but a shell, a few programs of the system and the two shims.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from shlex import quote

ALONE, FAMILY, MEMBER = "zap", "vcs", "push"  # denied: zap, and vcs push
_REDIRECTS = [
    "</dev/null", ">f", "2>&1", "9<f", "{fd}>f", "<>f", ">|f", "&>f", ">>f", "<<<x", ">&2", "3>&1", "< f",
    ">  f", "0<f", "&>>f", "2>f",
]  # fmt: skip
_ASSIGNMENTS = [
    "a=b", "a[0]=b", "a+=c", "a='x y'", "PATH=$PATH", "a=$(true)", 'a="$b"', "a[1+1]=c", "a[$((1))]+=d",
    "a=",
]  # fmt: skip
_WRAPPERS = [
    "env ", "env -i PATH=$PATH ", "env A=1 ", "env -u A ", "nice ", "nice -n 5 ", "nice -5 ", "nohup ",
    "timeout 5 ", "timeout -k 1 5 ", "timeout --kill-after=1 5 ", "timeout --kill 1 5 ", "stdbuf -o0 ",
    "stdbuf -o 0 ", "setsid -w ", "command ", "command -p ", "exec ", "exec -a n ", "builtin command ",
    "time ", "time -p ", "! ", "ionice -c 3 ", "setpriv --no-new-privs ", "xargs ", "xargs -n 1 ",
    "echo a | xargs ", "echo a | xargs -I{} ", "taskset 1 ", "taskset -c 0 ", "chrt -o 0 ", "flock f ",
    "coproc ", "A=1 env B=2 ", "/usr/bin/env ", "\\env ", "'nice' ", "$(echo env) ", "/usr/bin/en[v] ",
    "eval ", "find . -maxdepth 0 -exec ", "env -S ", "script -qc ",
]  # fmt: skip
_SHELLS = [
    "bash -c ", "sh -c ", "bash -ec ", "bash --norc -c ", "bash -o pipefail -c ", "bash -c -- ", "eval ",
    "env bash -c ", "dash -c ", "bash -cx ", "trap ",
]  # fmt: skip
_HARMLESS = [
    "echo zap", "echo 'vcs push'", "true", "ls", "printf '%s\\n' zap", "vcs log", "vcs status push",
    "x=zap", "# zap", 'echo "zap"', "cat f", "test zap = zap", "[ a = b ]", "[[ zap =~ (zap) ]]",
    "(( 1 + 2 ))", "a=(zap vcs push)", ": zap", "echo $((1+2))", "echo ${x:-zap}",
    "cat <<E\nzap\nvcs push\nE", "cat <<'E'\n$(zap\nE", "echo it\\'s", "case zap in zap) true;; esac",
    "for zap in 1; do :; done", "f() { echo zap; }", "echo a#zap",
]  # fmt: skip
_NOISE = [
    " ", "\n", ";", "&", "|", "'", '"', "\\", "#", "$", "`", "(", ")", "<", ">", "{", "}", "=", "*", "~",
    "!", "\\\n", "''", "$(", "${", "<<E", "\t", "[", "]", "zap", "vcs push",
]  # fmt: skip
_CLAUSES = [
    "({})", "{{ {}; }}", "if {}; then {}; else {}; fi", "for i in 1; do {}; done",
    "while {}; do {}; break; done", "until {}; do {}; break; done", "case a in b) {};; *) {};; esac",
    "f() {{ {}; }}; f", "function g {{ {}; }}; g", "function g {{ {}\n}}\ng", "echo $({})", 'echo "$({})"',
    "echo $({})", "cat <({})", "bash <<E\n{}\nE", "bash <<'E'\n{}\nE\n{}",
    "select s in a; do {}; break; done <<< 1", '[[ -n "$({})" ]] && {}', "(( $({}) + 1 ))", "a=( $({}) )",
    "echo ${{x:-$({})}}", "cat <<E\n$({})\nE", "{} <<E\nzap\nE\n{}", "cat <<E | sh\n{}\nE",
    "f() ( {} ); f 'a[$(zap)]'", "{} # zap\n{}", "{}; {}", "{} && {}", "{} || {}", "{} | {}", "{} & {}",
    "{}\n{}", "{} |& {}", "echo a | ({})", "echo a | {{ {}; }}",
]  # fmt: skip
_EVALUATIONS = [
    "((x))", "[[ x -eq 0 ]]", "let x", "echo ${y[x]}", 'test -v "$x"', "[[ -v $x ]]", 'printf -v "$x" y',
    "echo $((x))", "declare -i z=x", "echo ${x@P}",
]  # fmt: skip
_USES = ["$v", '"$v"', "${v}"]
_RUNS_OF_FILES = ["sh r.sh", ". ./r.sh", "source r.sh", "chmod +x r.sh; ./r.sh", "bash < r.sh"]


@dataclass
class Grammar:
    """Makes random lines. `shims` is the directory `s` of the two programs."""

    random: Random
    shims: str

    def line(self) -> str:
        """One line; a third of them with some characters put in, taken out or doubled."""
        made = self.command(self.random.randint(0, 3))
        if self.random.random() < 0.35:
            for _ in range(self.random.randint(1, 3)):
                made = self._disturbed(made)
        return made

    def command(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.4:
            return self._simple(depth)
        forms: list[str | Callable[[int], str]] = [*_CLAUSES, *self._forms()]
        form = self.random.choice(forms)
        if isinstance(form, str):
            return form.format(*(self.command(depth - 1) for _ in range(form.count("{}"))))
        return form(depth - 1)

    def _forms(self) -> list[Callable[[int], str]]:
        choice = self.random.choice
        return [
            lambda depth: f"bash <<< {quote(self.command(depth))}",
            lambda depth: f"echo {quote(self.command(depth))} | bash",
            lambda depth: f"echo {quote(self.command(depth))} | (cat | sh)",
            lambda depth: f'x={quote(self.command(depth))}; eval "$x"',
            lambda depth: f"echo {quote(self.command(depth))} > r.sh; {choice(_RUNS_OF_FILES)}",
            lambda _: f"v={choice([ALONE, FAMILY])}; {choice(_USES)} push",
            lambda _: f"v=ls; for v in {choice([ALONE, FAMILY])} true; do $v push; done",
            lambda _: 'set -- zap x; "$@"',
            lambda _: "f() { $1 $2; }; f vcs push",
            lambda _: "IFS=_; v=zap_x; $v",
            lambda _: "read v <<< zap; $v",
            lambda _: f"x='a[$({self._denied()})]'; {choice(_EVALUATIONS)}",
            lambda depth: f"echo `{self._plain(depth)}`",
        ]

    def _simple(self, depth: int) -> str:
        kind = self.random.random()
        if kind < 0.62 or depth <= 0:
            made = self._denied() if self.random.random() < 0.75 else self.random.choice(_HARMLESS)
        elif kind < 0.8:
            made = self._wrapped(depth)
        else:
            shell = self.random.choice(_SHELLS)
            made = shell + quote(self.command(depth - 1)) + (" EXIT" if shell == "trap " else "")
        if self.random.random() < 0.25:
            made = f"{self.random.choice([*_ASSIGNMENTS, *_REDIRECTS])} {made}"
        return f"{made} {self.random.choice(_REDIRECTS)}" if self.random.random() < 0.15 else made

    def _wrapped(self, depth: int) -> str:
        wrapper, inner = self.random.choice(_WRAPPERS), self._plain(depth)
        if wrapper == "env -S ":
            return wrapper + quote(inner)
        if wrapper == "script -qc ":
            return f"{wrapper}{quote(inner)} f2"
        if wrapper.startswith("find"):
            return wrapper + inner + self.random.choice([" \\;", " {} +", " ';'"])
        return wrapper + inner

    def _plain(self, depth: int) -> str:
        """A simple command that can stand behind a wrapper or in backquotes."""
        made = self._denied() if depth <= 1 else self._simple(depth - 1)
        return self._denied() if set("\n#`") & set(made) else made

    def _denied(self) -> str:
        choice = self.random.choice
        if self.random.random() < 0.5:
            return self._program(ALONE) + choice(["", " x", " -a b", " $IFS"])
        member = choice([self._spelt(MEMBER), self._spelt(MEMBER), "$(echo push)", "pu*", "{push,x}"])
        between = choice([" ", " -C d ", " --no-x ", "\t"])
        return f"{self._program(FAMILY)}{between}{member}{choice(['', ' o'])}"

    def _program(self, name: str) -> str:
        forms = [
            f"{self.shims}/{name}", f"{self.shims}/../s/{self._spelt(name)}", f'"{self.shims}"/{name}',
            f"{self.shims}/{name[:-1]}?", f"{self.shims}/{name[:-1]}*", f"{{{name},a}}", f"${{v:-{name}}}",
            f"${{v:={name}}}", f"$(echo {name})", f"`echo {name}`", f"$(printf {name})",
        ]  # fmt: skip
        return self.random.choice([self._spelt(name)] * 8 + forms)

    def _spelt(self, word: str) -> str:
        at = self.random.randrange(1, len(word))
        head, tail = word[:at], word[at:]
        codes = "".join(
            self.random.choice([each, f"\\x{ord(each):02x}", f"\\{ord(each):03o}", f"\\u00{ord(each):02x}"])
            for each in word
        )
        between = self.random.choice(["", "", "", "''", '""', "\\", "\\\n", "${x-}", "$()", "``", "$x"])
        forms = [
            f"{head}{between}{tail}", f"{head}{between}{tail}", f'"{word}"', f"'{word}'", f"$'{codes}'",
            f'$"{word}"', f"{head}{{{tail},}}", f"{head}[{tail[0]}]{tail[1:]}", f"{head}?{tail[1:]}",
        ]  # fmt: skip
        return self.random.choice(forms)

    def _disturbed(self, line: str) -> str:
        at, other = self.random.randrange(len(line) + 1), self.random.randrange(len(line) + 1)
        kind = self.random.random()
        if kind < 0.5:
            return line[:at] + self.random.choice(_NOISE) + line[at:]
        if kind < 0.8:
            return line[:at] + line[at + 1 :]
        return line[:other] + line[min(at, other) : max(at, other)] + line[other:]
