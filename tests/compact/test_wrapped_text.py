"""Sentences that a mail program wrapped are whole, and lines of a paste that no full stop ends stay apart."""

import textwrap

from compact.directives import LASTING, REQUEST, WISH, weighed_sentences
from tests.tables import each_row

WRAPPED = (
    "Please never deploy the billing service while Nadia or Igor from the Ghent office are on holiday, "
    "because nobody else can roll back the Oracle schema.",
    "Bitte ändere nie das Schema der Datenbank ohne Rücksprache mit Herrn Kuhn, weil das Monitoring von "
    "Graz direkt auf die Tabelle Auftrag zugreift.",
    "Die Exporte für die Firma Lindner AG gehen nur über den Server Kastor, niemals über das Gateway in "
    "Linz, solange Frau Dr. Berg im Haus ist.",
    "Ne livrez jamais le vendredi sans l'accord de Madame Aubert, car Monsieur Petit et l'équipe de "
    "Lyon ne sont pas joignables.",
    "All amounts in InvoiceService are kept in CHF and only converted by the class MoneyConverter when "
    "Report or Statement asks for EUR.",
    "The Postgres cluster in Frankfurt must stay on version 14 until Marta Oyelaran from Platform "
    "Engineering has moved 200 of the 310 tenants to Warsaw.",
)
ASIDE = (
    "keep the retry limit alone, Rui needs it",
    "never upgrade left-pad, please",
    "whatever the fix is, it must not change the wire format v3",
    "use the blue queue, not the red one",
    "we don't deploy on fridays btw",
    "bitte das Schema nicht anfassen",
    "the schema must stay as it is",
    "ask ana before you delete anything there",
)
PASTES = {
    "log": "worker {} finished batch {} in {} ms",
    "warnings": "npm warn deprecated pkg{}@1.{}.0: replaced by {}",
    "prose": "the {} visitor of week {} came at {} and found it closed",
    "kernel": "usb {}-{}: device number {} connected",
    "names": "released build {} of branch {} after {} checks",
}


@each_row("sentence", WRAPPED)
@each_row("width", [40, 52, 60, 72, 79])
def test_a_line_of_a_wrapped_paragraph_may_begin_with_a_name(sentence, width):
    for before in ("", "It rained in Basel on Monday, and we had no time for it. "):
        paragraph = textwrap.fill(f"{before}{sentence} Thank you all.", width)
        text = f"what do they want?\n\nDear Mrs. Ito,\n{paragraph}\n\nRegards\nHans Lindner"
        made = [each for each in weighed_sentences(text) if each.weight >= WISH]
        words = [" ".join(text[each.start : each.end].split()) for each in made]
        assert [each for each in words if each.endswith(sentence)]


@each_row(
    "text",
    [
        "The queue is long.\nUse the blue queue for exports of all kinds\nThe cache has 40 rows.",
        "## Rules for the exporter of the monthly figures\nNever write to disk in it",
        "| The exporter | Writes rows of figures to the disk |\n| Never | Write to disk |",
        "- The exporter writes all of its rows to disk\n- Never write there",
        "It writes its rows to the disk of the server now.\nNever do so.",
    ],
)
def test_lines_that_only_appear_full_are_not_joined(text):
    last = text.splitlines()[-1]
    assert last in [text[each.start : each.end] for each in weighed_sentences(text)]


@each_row("paste", PASTES)
@each_row("lines", [3, 9, 60])
@each_row("sentence", ASIDE)
def test_what_is_said_on_a_line_of_its_own_within_a_paste_binds(paste, lines, sentence):
    made = [PASTES[paste].format(at * 7919 % 997, at % 31, at * 31 % 211) for at in range(2 * lines)]
    text = "\n".join([*made[:lines], sentence, *made[lines:]])
    found = [each for each in weighed_sentences(text) if sentence in text[each.start : each.end]]
    assert [each.weight >= WISH for each in found] == [True]


def test_of_a_long_paste_only_the_line_itself_is_shown():
    log = [f"worker {at} finished batch {at * 7919 % 997}" for at in range(300)]
    text = "\n".join([*log, "never touch billing/ in this", *log])
    binding = [text[each.start : each.end] for each in weighed_sentences(text) if each.weight >= REQUEST]
    assert binding == ["never touch billing/ in this"]


def test_a_sentence_that_a_user_wrapped_by_hand_is_whole():
    text = "don't touch the\nbilling module\nuntil ana is back"
    [found] = weighed_sentences(text)
    assert (found.start, found.end, found.weight) == (0, len(text), LASTING)
