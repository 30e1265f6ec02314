"""The files that an option, an archive or a program's own code names to be written."""

from agent.shell import Places
from agent.shell.line_reading import read_line
from agent.shell.output_files import output_words
from agent.shell.vital_places import scenes
from tests.tables import each_row

PLACES = Places(folder="/p", home="/home/u", cwd="/p")


@each_row(
    ("line", "written"),
    [
        *(
            (f"{program} -o out a", ["out"])
            for program in ["cc", "gcc", "g++", "c++", "clang", "clang++", "ld", "rustc", "go"]
        ),
        *(
            (f"{program} -o out a", ["out"])
            for program in ["sort", "pandoc", "dot", "protoc", "gpg", "openssl"]
        ),
        ("gcc --output=out a.c", ["out"]),
        ("gcc -c a.c", []),
        ("curl -o a -D b https://example.org", ["a", "b"]),
        ("curl --output a --output-dir b --dump-header c x", ["a", "b", "c"]),
        ("wget -O a -P b -o c x", ["a", "b", "c"]),
        ("wget --output-document=a --directory-prefix=b --output-file=c x", ["a", "b", "c"]),
        ("javac -d classes a.java", ["classes"]),
        ("tsc --outDir a --outFile b", ["a", "b"]),
        ("esbuild a.js --outdir=a --outfile=b", ["a", "b"]),
        ("find . -fprint a -fprint0 b -fprintf c x -fls d", ["a", "b", "c", "d"]),
        ("unzip -d a x.zip", ["a"]),
        ("unzip x.zip", ["."]),
        ("tar xf x.tar", ["."]),
        ("tar -xf x.tar -C a", ["a"]),
        ("tar -xf x.tar --directory a", ["a"]),
        ("patch --directory a -i x", ["a"]),
        ("bsdtar --extract --directory=a -f x.tar", ["a"]),
        ("tar --get -f x.tar", ["."]),
        ("tar cf x.tar a", []),
        ("tar -tf x.tar", []),
        ("tar tf xx.tar -C x", []),
        ("7z x a.7z", ["."]),
        ("7za x a.7z", ["."]),
        ("cpio -i", ["."]),
        ("patch -p1", ["."]),
        ("patch -d a -o b", ["a", "b"]),
        ("patch --directory=a --output=b", ["a", "b"]),
        *((f"""{name} '{{print > "a.txt"}}' b""", ["a.txt"]) for name in ("awk", "gawk", "mawk", "nawk")),
        ("awk '{print $1 > 2}' b", []),
        ("python3 -m zipfile -e x.zip out", ["out"]),
        ("python -m tarfile -e x.tar out", ["out"]),
        ("python -m other -e x out", []),
        ("ls -o a", []),
    ],
)
def test_the_words_that_name_written_files(line: str, written: list[str]) -> None:
    found = [word for scene in scenes(read_line(line).invocations, PLACES) for word in output_words(scene)]
    assert sorted(found) == sorted(written)
