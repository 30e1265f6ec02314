"""Statements about things that stay, limits and purposes bind as much as a wish."""

from compact.directives import WISH, is_errand, weighed_sentences
from tests.tables import each_row

SETTLED = (
    "the limit stays at 20 calls an hour",
    "IT STAYS OFF IN tests/",
    "**v3 stays.**",
    "the old endpoint stays until june",
    "The budget for this is 200 euros a month",
    "the cap is 50 MB per upload",
    "our quota is 1000 requests a day",
    "The port remains 8080.",
    "stdout is for data, logs go to stderr",
    "log to stderr, stdout is for data",
    "the flag stays off in production",
    "timeout: 30 s, not more",
    "max 3 retries",
    "at most two workers at a time",
    "the Postgres version is fixed at 14",
    "target is python 3.9",
    "the release goes out on the 12th",
    "this table is for the auditors",
    "the naming scheme is settled: kebab-case",
    "THE SCHEMA STAYS",
    "no later than friday",
    "we are on node 18",
    "the tone is formal",
    "20 calls an hour is the limit",
    "the header stays blue, the footer too",
    "rate limit is 5/s per tenant",
    "the staging box remains ours till friday",
    "THE OLD NAMES REMAIN IN docs/",
    "the second column is reserved for finance",
    "uploads over 20 MB are to be refused",
    "the retention period stays 90 days",
    "the logo remains where it is",
    "**The old parser stays**",
    "THE MIGRATION STAYS MANUAL",
    "the ceiling for memory is 2 GB",
    "our target for the p95 is 200 ms",
    "the floor for coverage is 80 percent",
    "the newsletter goes out on mondays only",
    "the last column is for comments by the board",
    "page size is capped at 100",
    "the colour scheme is final",
    "three is the maximum",
    "at most 2 retries per job",
    "the default language is Czech",
    "answers no longer than ten lines",
    "no less than 12 characters for passwords",
    "the second queue is meant for retries",
    "the wording stays as legal wrote it",
    "BRANCH NAMES STAY LOWER CASE",
    "the policy is two reviewers per change",
    "the interface to SAP remains XML",
)
TOLD = (
    "the spinner stays on after the build",
    "the cursor remains at line 40 after the loop",
    "it took 20 minutes",
    "the build was red yesterday",
    "the limit was 20 last year",
    "I saw the parser in there",
    "that was nice",
    "the cache has 40 rows",
    "the test failed at line 30",
    "it printed 14 lines",
    "hm, the parser again",
    "the page stays blank when I reload",
    "the log is long",
    "the first run took longer",
    "the weather is mild",
    "we had lunch",
    "the parser reads tokens",
    "there were 3 failures",
    "the button still remains grey",
    "the old value somehow stays in the cache",
    "the red light is on",
    "the file is 300 lines long",
    "the error is in line 40",
    "the dialog stays open after I click ok",
    "the job still remains in the queue",
    "the window is closed",
    "the second run was quicker",
    "it printed the same line again",
    "the limit is hit all the time",
    "the timeout is too short it seems",
    "the parser is slow",
    "the new server arrived",
    "I set it up yesterday",
    "the stack trace is below",
    "the variable is unset",
    "the log says 14 rows",
    "the test ran for 12 minutes",
    "the rule is broken in line 9",
    "the build on arm finished",
    "that looks right",
    "the docs were moved",
)


def binds(sentence):
    weights = [each.weight for each in weighed_sentences(sentence)]
    return max(weights) >= WISH and not is_errand(sentence)


@each_row("sentence", SETTLED)
def test_what_is_settled_binds(sentence):
    assert binds(sentence)


@each_row("sentence", TOLD)
def test_a_description_of_a_program_does_not(sentence):
    assert not binds(sentence)
