"""Options of programs that run or write something else: a rule for the program does not cover them.

Every program of which "always" offers the beginning (allow_rules.py) has a row where it has such options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Risks:
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
    "sftp": Risks("oFSb", ""),
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
    "ninja": Risks("fCt"),
    "cmake": Risks("PECDGfI", "eval file makefile include-dir", operands=r"[^=]*="),
    "ctest": Risks("SD", "script build-and-test dashboard output-log"),
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
    "tox": Risks("cx", "conf override workdir root installpkg", "exec e devenv d quickstart"),
    "nox": Risks("f", "noxfile"),
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
    "stylelint": Risks("fo", "config config-basedir custom-formatter custom-syntax formatter output-file"),
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
    "mocha": Risks("rRu", "require config package file reporter ui loader import node-option"),
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
    "lua": Risks("el"),
    "vim": Risks("cSsu", "cmd"),
    "hg": Risks("", "config cwd repository"),
    "ava": Risks("", "config node-arguments"),
    "tap": Risks("", "before after node-arg plugin reporter reporter-file output-file output-dir", "plugin"),
    "deno": Risks(
        "ARWNESc",
        "allow-all allow-read allow-write allow-net allow-env allow-run allow-sys allow-ffi allow-scripts"
        " allow-import config import-map preload import require junit-path env-file permission-set",
        "eval repl",
    ),
    "markdownlint": Risks("roc", "rules output config"),
    "pyright": Risks("vt", "venvpath venv-path pythonpath typeshedpath typeshed-path createstub"),
    "bandit": Risks("o", "output"),
    "pre-commit": Risks("c", "config", "try-repo init-templatedir"),
    "meson": Risks("", "wrapper gdb-path ninja-args vs-args xcode-args native-file cross-file"),
    "bazel": Risks(
        "",
        "run_under workspace_status_command shell_executable override_repository override_module bazelrc"
        " output_base output_user_root install_base server_javabase host_jvm_args profile explain"
        " build_event_json_file build_event_binary_file build_event_text_file execution_log_json_file"
        " execution_log_binary_file execution_log_compact_file action_env host_action_env test_env repo_env"
        " symlink_prefix extra_toolchains crosstool_top plugin sandbox_add_mount_pair"
        " sandbox_writable_path remote_executor bes_backend credential_helper package_path registry"
        " coverage_report_generator coverage_output_generator",
    ),
    "sbt": Risks(
        "DJ",
        "sbt-jar java-home addPluginSbtFile",
        "-java-home -sbt-jar -addPluginSbtFile",
        operands=r"(?s).*(?:\b(?:eval|set|run\w*|console\w*|alias|apply|load|reboot)\b|!)|[@<]",
    ),
    "dotnet": Risks(
        "",
        "property target logger output settings test-adapter-path artifacts-path diag results-directory",
        operands=r"(?i:/(?:p|property|t|target|l|logger|bl|fl|flp|dl|distributedlogger|o|s|d):)",
        forms=r"(?i:--?(?:p|property|t|target|l|logger|bl|fl|flp|dl|distributedlogger|o|s|d)(?:[:=]|$))",
    ),
    "zig": Risks(
        "",
        "test-cmd test-cmd-bin test-runner test-execve build-runner build-file zig-lib-dir prefix"
        " prefix-exe-dir prefix-lib-dir cache-dir global-cache-dir libc sysroot",
        forms=r"-femit|-p$",
    ),
    "swift": Risks(
        "",
        "package-path build-path scratch-path toolset toolchain swift-sdk swift-sdks-path sdk destination"
        " cache-path config-path security-path disable-sandbox xunit-output",
        "-Xcc -Xcxx -Xlinker -Xswiftc -Xmanifest -Xbuild-tools-swiftc",
    ),
    "stack": Risks(
        "",
        "exec stack-yaml with-gcc with-hpack ghc-options setup-info-yaml work-dir stack-root",
        "exec runghc runhaskell script ghc eval",
    ),
    "cabal": Risks(
        "w", "test-wrapper ghc-options project-file builddir configure-option", "exec", forms=r"--with-"
    ),
    "mix": Risks("", "require erl-config erl formatter", "do eval run cmd"),
    "rake": Risks(
        "eEprfIRgGC",
        "execute execute-continue execute-print rakefile libdir require rakelibdir rakelib directory system",
        operands=r"(?:RUBY|PATH|LD_)\w*=",
    ),
    "rspec": Risks("rIOo", "require options out drb default-path"),
    **dict.fromkeys(("rubocop", "standardrb"), Risks("rco", "require config out plugin cache-root")),
    "phpunit": Risks(
        "cd",
        "bootstrap configuration log-junit log-teamcity testdox-html testdox-text testdox-xml"
        " coverage-clover coverage-html coverage-php coverage-xml coverage-text coverage-crap4j"
        " coverage-cobertura coverage-openclover extension include-path printer loader cache-directory"
        " cache-result-file generate-baseline log-events-text log-events-verbose-text prepend",
        harmless="--testdox --coverage-text",
    ),
    "phpstan": Risks("acb", "autoload-file configuration generate-baseline"),
    "ktlint": Risks(
        "R",
        "ruleset reporter output baseline",
        "installGitPreCommitHook installGitPrePushHook git-hook",
        harmless="--reporter=plain --reporter=json --reporter=checkstyle",
    ),
    "swiftlint": Risks("", "output cache-path write-baseline"),
    "tflint": Risks("c", "chdir config init"),
    "terraform": Risks(words="-chdir"),
    "hlint": Risks("", "with-refactor with report cross"),
    "cppcheck": Risks(
        "", "addon addon-python clang clang-tidy output-file plist-output cppcheck-build-dir dump executor"
    ),
    "clang-tidy": Risks(
        "",
        "load export-fixes extra-arg extra-arg-before config-file vfsoverlay store-check-profile",
        "-load -export-fixes -extra-arg -extra-arg-before -config-file -Xclang",
        forms="-fplugin|-fpass-plugin",
    ),
    "golangci-lint": Risks(
        "c", "config cpu-profile-path mem-profile-path trace-path", "custom", forms=r"--output\."
    ),
    "staticcheck": Risks(forms=r"--?debug\."),
    "rustfmt": Risks("", "config-path print-config"),
    **dict.fromkeys(("gofmt", "goimports"), Risks(forms=r"--?(?:\w*profile|trace)\b")),
    **dict.fromkeys(("bash", "sh", "zsh", "dash", "ksh"), _SHELL),
}
