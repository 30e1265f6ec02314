"""Globs of permission rules."""

from tests.tables import each_row
from tools.guarded import PathGlobs

PROJECT = "/home/ann/my-secrets"


@each_row(
    ("glob", "matching", "others"),
    [
        ("*secret*", ["a/secret.txt", "secret"], ["a", "b/c"]),
        ("[!a]*", ["b", "b/a"], ["a", "a/b"]),
        ("conf/**/key", ["conf/key", "conf/a/key", "conf/a/b/key"], ["key", "a/conf/key"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/c", "a/b/x/c", "a/x/b/x/c"], ["a/c"]),
        ("app/[id]/**", ["app/[id]/page", "app/i/page"], ["app/id/page"]),
        ("**/key", ["key", "a/key"], ["akey"]),
        ("**/my-secrets/a", ["a"], ["b"]),
        (f"{PROJECT}/*.pem", ["a.pem", "b/a.pem"], ["pem"]),
    ],
)
def test_a_glob_matches_paths_in_the_project(glob: str, matching: list[str], others: list[str]) -> None:
    globs = PathGlobs(PROJECT, frozenset({glob}))
    assert [path for path in matching + others if globs.match(f"{PROJECT}/{path}")] == matching


def test_globs_match_other_paths_as_a_whole() -> None:
    globs = PathGlobs(PROJECT, frozenset({"*.pem", "/etc/[x]/**"}))
    assert globs.match("/etc/a.pem") and globs.match("/etc/[x]/b") and not globs.match("/etc/b")
    assert not PathGlobs(PROJECT).match("/etc/b")
