"""Late news: each text is taken once, in the order in which it came."""

from tools.processes.inbox import Inbox
from transcripts.messages import ChannelBlock, TextBlock


def taken(inbox: Inbox, seq: int = 0) -> list[str]:
    return [news.text for news in inbox.take(seq)]


def test_what_was_posted_is_taken_once_and_in_order() -> None:
    inbox = Inbox()
    inbox.post("one")
    inbox.post("one")
    assert taken(inbox) == ["one", "one"]
    assert taken(inbox) == []
    assert not inbox.waiting


def test_a_later_text_replaces_what_waits_under_the_same_key_and_nothing_that_was_taken() -> None:
    inbox = Inbox()
    inbox.post("5 tools", "mcp files")
    inbox.post("other", "mcp git")
    inbox.post("6 tools", "mcp files")
    assert taken(inbox) == ["other", "6 tools"]
    inbox.post("7 tools", "mcp files")
    assert taken(inbox) == ["7 tools"]


def test_what_the_model_has_seen_meanwhile_is_withdrawn() -> None:
    inbox = Inbox()
    inbox.post("b1 ended", "b1")
    inbox.withdraw("b1")
    inbox.withdraw("b2")
    assert taken(inbox) == []


def test_an_inbox_that_no_one_reads_any_more_gives_all_to_its_heir() -> None:
    heir, child = Inbox(), Inbox()
    heir.post("own")
    child.post("before", "b1")
    child.post("seen later", "b2")
    child.post("unkeyed")
    child.hand_over(heir)
    child.post("after")
    assert child.reader is heir
    heir.count_as_told("b2", 1)
    assert taken(heir) == ["own", "before", "unkeyed", "after"]
    assert taken(child) == []


def test_what_a_rewind_took_out_is_reported_again_unless_that_is_over_or_there_is_newer_news() -> None:
    inbox = Inbox()
    inbox.post("b1 ended", "b1")
    assert taken(inbox, 3) == ["b1 ended"]
    inbox.post("plan on", "plan")
    inbox.post("server up", "mcp")
    inbox.post("a report", "explore #1", since=8)
    inbox.post("a late report", "explore #2", since=9)
    assert len(inbox.take(10)) == 4
    inbox.post("plan over", "plan")
    inbox.rewound(10)
    assert inbox.waiting == {"plan": ChannelBlock("plan over")}
    inbox.rewound(8)
    inbox.rewound(8)
    assert taken(inbox, 9) == ["server up", "a report", "plan over"]


def test_a_string_is_told_as_makerooms_own_words_and_a_block_as_it_is_also_by_a_later_run() -> None:
    inbox = Inbox()
    inbox.post("b1 ended", since=1)
    inbox.post(TextBlock("<agent-report>\nfound it\n</agent-report>"), since=2)
    later = Inbox()
    later.restore(inbox.notes())
    expected = [ChannelBlock("b1 ended"), TextBlock("<agent-report>\nfound it\n</agent-report>")]
    assert inbox.take() == expected and later.take() == expected


def test_notes_of_older_transcripts_name_no_author_and_are_told_as_they_were() -> None:
    texts = ("[Background command b1 (ls) ended]", "<hook>\nwords\n</hook>", "/compact keep it")
    inbox = Inbox()
    inbox.restore({"key": f"#{at}", "since": 1, "text": text, "told": 0} for at, text in enumerate(texts))
    assert inbox.take() == [ChannelBlock(texts[0]), TextBlock(texts[1]), TextBlock(texts[2])]
