"""The languages of code that is coloured, by file name, and the limits within which their lexers are fast."""

from __future__ import annotations

from pathlib import PurePath

# Code beyond these limits, or in another language, is not coloured: some lexers can be made to run forever by
# crafted text. The lexers of these languages take at most half a second within the limits.
MAX_COLOURED_CHARS = 10_000
MAX_COLOURED_LINE_CHARS = 500
COLOURED_LANGUAGES = frozenset((
    "asm", "bash", "batch", "c", "c++", "clojure", "cmake", "console", "cpp", "csharp", "css", "dart",
    "diff", "docker", "dockerfile", "elixir", "erlang", "fish", "fsharp", "go", "graphql", "groovy",
    "haskell", "hcl", "html", "http", "ini", "java", "javascript", "jinja", "js", "json", "jsx", "julia",
    "kotlin", "latex", "lua", "make", "makefile", "markdown", "md", "nasm", "nginx", "nim", "objc", "ocaml",
    "perl", "php", "powershell", "properties", "proto", "protobuf", "ps1", "pycon", "python", "python3",
    "r", "rst", "ruby", "rust", "scala", "scss", "sh", "shell", "sql", "svelte", "swift", "terraform",
    "tex", "toml", "ts", "tsx", "typescript", "vim", "vue", "xml", "yaml", "zig", "zsh",
))  # fmt: skip
# File extensions that differ from the names of their languages.
_ENDINGS = {
    "bat": "batch", "cc": "cpp", "cfg": "ini", "clj": "clojure", "cs": "csharp", "cxx": "cpp",
    "erl": "erlang", "ex": "elixir", "exs": "elixir", "h": "c", "hpp": "cpp", "hs": "haskell",
    "htm": "html", "jl": "julia",
    "kt": "kotlin", "kts": "kotlin", "mjs": "js", "ml": "ocaml", "mk": "make", "pl": "perl", "py": "python",
    "pyi": "python", "rb": "ruby", "rs": "rust", "tf": "terraform", "yml": "yaml",
}  # fmt: skip


def language_of(file_name: str) -> str:
    """Return the language of a file by its name, "text" if it has none that is coloured."""
    path = PurePath(file_name.lower())
    ending = path.suffix.removeprefix(".") or path.name
    name = _ENDINGS.get(ending, ending)
    return name if name in COLOURED_LANGUAGES else "text"


def is_quickly_coloured(code: str, language: str) -> bool:
    """Return whether there is a lexer for the language that is fast for the code."""
    short = len(code) <= MAX_COLOURED_CHARS and max(map(len, code.split("\n"))) <= MAX_COLOURED_LINE_CHARS
    return short and language.lower() in COLOURED_LANGUAGES
