"""Options of programs that run or write something else: a rule for the program does not cover them.

Every program of which "always" offers the beginning (allow_rules.py) has a row where it has such options.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Risks(Struct, frozen=True):
    """Of one program.

    letters   options of one letter, in any bundle
    long      options of two dashes; what they may be shortened to counts too
    words     options of one dash and a name, subcommands
    operands  a pattern of the beginning of operands
    forms     a pattern of the beginning of options
    harmless  exact options that are not meant by the above
    """

    letters: str = ""
    long: str = ""
    words: str = ""
    operands: str = ""
    forms: str = ""
    harmless: str = ""


_JEST = Risks(
    "cu",
    "config globalSetup globalTeardown setupFiles setupFilesAfterEnv runner testRunner reporters"
    " transform resolver rootDir roots projects preset testEnvironment testSequencer coverageDirectory"
    " outputFile prettierPath filter env haste moduleLoader snapshotSerializers watchPlugins"
    " testResultsProcessor coverageProvider",
    harmless="--coverage --ci --co",
)
_NODE_PACKAGES = Risks(
    "C",
    "script-shell node-options prefix dir cwd userconfig globalconfig shell-emulator use-yarnrc config"
    " modules-folder scripts-prepend-node-path",
    "exec x dlx explore create init",
)
_C_COMPILER = Risks(
    "oB", "specs", "-wrapper -specs -fplugin -save-temps -dumpdir", "@", harmless="-O0 -O1 -O2 -O3"
)
_SHELL = Risks("csi", "init-file rcfile")
RISKS: Mapping[str, Risks] = {
    "find": Risks(
        words="-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -files0-from",
    ),
    "fd": Risks("xX", "exec exec-batch"),
    "fdfind": Risks("xX", "exec exec-batch"),
    "rg": Risks("z", "pre hostname-bin search-zip", harmless="--pretty"),
    "sort": Risks("oT", "output compress-program files0-from temporary-directory"),
    "shuf": Risks("o", "output"),
    "tree": Risks("oR", "output"),
    "file": Risks("Cmzp", "compile uncompress magic-file preserve-date"),
    "diff": Risks("l", "paginate"),
    "date": Risks("sfr", "set file reference", operands="[^+]"),
    "tar": Risks(
        "IF",
        "checkpoint-action use-compress-program to-command info-script new-volume-script rsh-command"
        " rmt-command index-file",
    ),
    "zip": Risks("T", "unzip-command"),
    "rsync": Risks("e", "rsh rsync-path"),
    "ssh": Risks("oFESI", ""),
    "scp": Risks("oFS", ""),
    "curl": Risks(
        "oOKcDJ",
        "output output-dir remote-name remote-name-all remote-header-name config dump-header cookie-jar"
        " trace trace-ascii stderr libcurl etag-save hsts alt-svc create-dirs",
    ),
    "wget": Risks(
        "eOoaP",
        "execute use-askpass output-document output-file append-output directory-prefix config warc-file"
        " save-cookies hsts-file rejected-log",
    ),
    "make": Risks("fCIE", "file makefile eval directory include-dir", operands=r"[^=]*="),
    "cmake": Risks("PECDGfI", "eval file makefile include-dir", operands=r"[^=]*="),
    "gradle": Risks(
        "IbpcDPg",
        "init-script build-file project-dir settings-file include-build gradle-user-home project-cache-dir"
        " system-prop project-prop",
    ),
    "mvn": Risks(
        "fsD",
        "file settings define global-settings toolchains global-toolchains log-file",
        "-l -t",
        operands=r".*:",
    ),
    "pytest": Risks(
        "pco",
        "config-file override-ini rootdir confcutdir basetemp junitxml junit-xml log-file pastebin pdbcls"
        " debug cov-config cov-report report-log html json-report-file",
        operands="@",
        harmless="--co --cov --pdb",
    ),
    "mypy": Risks(
        "",
        "config-file python-executable install-types custom-typeshed-dir shadow-file cache-dir junit-xml"
        " html-report txt-report xml-report cobertura-xml-report linecount-report any-exprs-report",
        operands="@",
    ),
    "ruff": Risks("o", "config output-file cache-dir", operands="@"),
    "black": Risks("c", "config code"),
    "isort": Risks("", "settings-path settings-file sp"),
    "flake8": Risks("", "config append-config output-file tee"),
    "pylint": Risks(
        "f",
        "rcfile load-plugins init-hook output output-format import-graph ext-import-graph int-import-graph",
        harmless="--output-format=text --output-format=json --output-format=json2 --output-format=colorized"
        " --output-format=parseable",
    ),
    "prettier": Risks("", "plugin plugin-search-dir config", harmless="--no-config"),
    "eslint": Risks(
        "cfo",
        "config rulesdir plugin resolve-plugins-relative-to parser format output-file init cache-location",
    ),
    "tsc": Risks(
        "",
        "outFile outDir declarationDir generateTrace tsBuildInfoFile generateCpuProfile",
        operands="@",
        forms=r"(?i:-(?:outFile|outDir|declarationDir|generateTrace|generateCpuProfile|tsBuildInfoFile)$)",
    ),
    "jest": _JEST,
    "vitest": Risks(
        "cr",
        "config root globals reporter outputFile environment pool globalSetup execArgv",
        forms=r"--(?:typecheck|coverage|browser|poolOptions|outputFile)\.",
    ),
    "npm": _NODE_PACKAGES,
    "pnpm": _NODE_PACKAGES,
    "yarn": _NODE_PACKAGES,
    "bun": Risks(
        "Crcep",
        f"{_NODE_PACKAGES.long} preload require import coverage-dir reporter-outfile eval print",
        _NODE_PACKAGES.words,
    ),
    "cargo": Risks(
        "ZC", "config manifest-path target-dir config-file tool-config-file artifact-dir", operands=r"\+"
    ),
    "rustc": Risks("oC", "out-dir emit", operands="@"),
    "go": Risks(
        words="-exec -toolexec -overlay -modfile -C -o -vettool -ldflags -gcflags -asmflags -gccgoflags"
        " -compiler -pkgdir -outputdir -coverprofile -cpuprofile -memprofile -blockprofile -mutexprofile"
        " -trace",
        forms=r"--?test\.(?:\w*profile|outputdir|trace|fuzzcachedir|gocoverdir)",
    ),
    "gcc": _C_COMPILER,
    "g++": _C_COMPILER,
    "cc": _C_COMPILER,
    "clang": _C_COMPILER,
    "python": Risks("cm"),
    "node": Risks("epr", "eval print require import loader experimental-loader inspect-brk"),
    "perl": Risks("eEMmiI"),
    "ruby": Risks("erI"),
    "php": Risks("rRBEdz"),
    "gofmt": Risks(forms=r"--?(?:\w*profile|trace)\b"),
    "rustfmt": Risks("", "config-path print-config"),
    **dict.fromkeys(("bash", "sh", "zsh", "dash", "ksh"), _SHELL),
}
