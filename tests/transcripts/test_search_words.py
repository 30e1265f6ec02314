import random
import string

from tests.tables import each_row
from transcripts.search.words import MAX_QUERY_TERMS, document_terms, query_terms


def texts(query: str) -> set[str]:
    return set(query_terms(query))


@each_row("name", ["max_tokens", "maxTokens", "max-tokens", "Max-Tokens"])
def test_a_name_is_found_in_any_spelling_by_its_parts(name: str) -> None:
    assert set(document_terms(f"({name})")) == {"max", "tokens"} == texts(name)


@each_row(
    ("name", "terms"),
    [
        ("utf8", {"utf", "8"}),
        ("x2", {"x2"}),
        ("i18n", {"i18n"}),
        ("task_3_77", {"task", "3", "77"}),
    ],
)
def test_a_name_without_a_part_of_two_letters_is_found_as_a_whole(name: str, terms: set[str]) -> None:
    assert set(document_terms(name)) == terms == texts(name)


def test_a_path_is_found_by_its_directories_and_its_file() -> None:
    terms = set(document_terms("see agent/loop/turn_state.py"))
    assert terms - {"see"} == {"agent", "loop", "turn", "state", "py"} == texts("agent/loop/turn_state.py")


def test_acronyms_and_digits_end_a_part() -> None:
    assert {"http", "server", "sha", "256"} <= set(document_terms("HTTPServer sha256"))


def test_text_without_spaces_is_found_by_pairs() -> None:
    assert {"検索", "索引"} <= set(document_terms("検索索引を作る")) & (texts("検索索引") | {"索引"})


def test_line_numbers_hashes_and_blobs_are_left_out() -> None:
    assert set(document_terms("     7\tword\n  1234→pear\n12:plum src/a_b.go")) == {
        *("word", "pear", "plum", "src", "go")
    }
    assert document_terms("a_" * 250_000 + "b") == []
    blob = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=100_000))
    assert list(document_terms(blob)) == [blob[:12].lower()]
    assert list(document_terms("Z" * 500_000)) == ["z" * 40]


HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


@each_row("of", [64, 40, 20, 16])
def test_of_a_hash_the_beginning_is_held_and_looked_for(of: int) -> None:
    assert set(document_terms(HASH[:of])) == {"9f86d081884c"} and texts(HASH[:of]) == {"9f86d081884c"}
    assert HASH[:13] not in "".join(document_terms(f"key-{HASH[:of]}-{HASH[:of]}"))
    assert {"sha", "256", "9f86d081884c"} <= set(document_terms(f"sha256:{HASH[:of]}")) & texts(
        f"sha256-{HASH[:of]}"
    )
    assert texts(HASH[:8]) == {"9f86d081"} and texts("20261123150405123") == {"20261123150405123"}


def test_in_a_longer_text_a_term_must_occur_more_often_to_count_as_repeated() -> None:
    rest = " ".join(f"{chr(97 + n // 26)}{chr(97 + n % 26)}xyz" for n in range(300))
    assert sorted(document_terms("tide tide wave")) == ["tide", "tide", "wave"]
    assert document_terms(f"tide tide {rest}").count("tide") == 1
    assert document_terms(f"tide tide tide tide {rest}").count("tide") == 2


def test_a_long_name_is_held_by_its_parts_and_a_long_word_by_its_beginning() -> None:
    name = "AbstractSingletonProxyConfiguration"
    assert {"abstract", "singleton", "proxy", "configuration"} == set(document_terms(name)) == texts(name)
    long = "pneumono" * 6
    assert set(document_terms(long)) == {long[:40]} == texts(long)


@each_row(
    ("text", "wanted"),
    [
        ("使用Redis缓存层", {"使用", "redis", "缓存", "存层"}),
        ("表格users", {"表格", "users"}),
        ("编辑src/turn.py文件", {"编辑", "turn", "py", "文件"}),
        ("größeBerechnen", {"grösse", "berechnen"}),
        ("ОбъектДанных", {"объект", "данных"}),
        ("STRASSE Straße", {"strasse"}),
        ("ค้นหาไฟล์index", {"index"}),
    ],
)
def test_words_end_where_their_script_changes(text: str, wanted: set[str]) -> None:
    assert wanted <= set(document_terms(text)) & texts(text)


def test_one_character_of_a_text_without_spaces_asks_for_pairs_that_begin_so() -> None:
    assert texts("连接池") == {"连接", "接池"}
    assert query_terms("池") == ("池*",)


def test_a_question_is_asked_by_its_telling_words() -> None:
    assert texts("Where did we put the retry limit?") == {"put", "retry", "limit"}
    assert query_terms("what is it") == ()  # which no index contains
    assert query_terms("?!") == ()


def test_a_star_asks_for_words_that_begin_so() -> None:
    assert query_terms("compac*") == ("compac*",)


def test_of_a_long_query_the_most_telling_terms_are_kept() -> None:
    terms = query_terms(" ".join(f"word{'x' * (n % 9)}{n}" for n in range(500)) + " extraordinarily_long")
    assert len(terms) == MAX_QUERY_TERMS
    assert terms[0] == "extraordinarily"
