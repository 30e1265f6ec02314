"""Late news: each text is taken once, in the order in which it came."""

from tools.processes.inbox import Inbox


def test_what_was_posted_is_taken_once_and_in_order() -> None:
    inbox = Inbox()
    inbox.post("one")
    inbox.post("one")
    assert inbox.take() == ["one", "one"]
    assert inbox.take() == []
    assert not inbox.waiting


def test_a_later_text_replaces_what_waits_under_the_same_key_and_nothing_that_was_taken() -> None:
    inbox = Inbox()
    inbox.post("5 tools", "mcp files")
    inbox.post("other", "mcp git")
    inbox.post("6 tools", "mcp files")
    assert inbox.take() == ["other", "6 tools"]
    inbox.post("7 tools", "mcp files")
    assert inbox.take() == ["7 tools"]


def test_what_the_model_has_seen_meanwhile_is_withdrawn() -> None:
    inbox = Inbox()
    inbox.post("b1 ended", "b1")
    inbox.withdraw("b1")
    inbox.withdraw("b2")
    assert inbox.take() == []


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
    assert heir.take() == ["own", "before", "unkeyed", "after"]
    assert child.take() == []


def test_what_a_rewind_took_out_is_reported_again_unless_that_is_over_or_there_is_newer_news() -> None:
    inbox = Inbox()
    inbox.post("b1 ended", "b1")
    assert inbox.take(3) == ["b1 ended"]
    inbox.post("plan on", "plan")
    inbox.post("server up", "mcp")
    inbox.post("a report", "explore #1", since=8)
    inbox.post("a late report", "explore #2", since=9)
    assert len(inbox.take(10)) == 4
    inbox.post("plan over", "plan")
    inbox.rewound(10)
    assert inbox.waiting == {"plan": "plan over"}
    inbox.rewound(8)
    inbox.rewound(8)
    assert inbox.take(9) == ["server up", "a report", "plan over"]
