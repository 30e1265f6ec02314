"""Forms in which an assistant promises, decides and gives up, in the languages of which phrases are known."""

from compact.commitments import commitments
from tests.tables import each_row

SHORTLY_PROMISED = (
    "Noted: nothing gets deployed before Thursday.",
    "Understood, only the two files in web/ get edited.",
    "Got it - no comments in French.",
    "Roger, backups stay where they are.",
    "As you like: never more than two workers.",
    "Non modificherò lo schema.",
    "D'ora in poi scrivo i messaggi in inglese.",
    "Lascio la cartella vendor com'è.",
    "Não vou tocar na pasta vendor.",
    "A partir de agora faço os commits em inglês.",
    "Ik zal de tabellen nooit hernoemen.",
    "Vanaf nu schrijf ik de berichten in het Engels.",
    "Nie zmieniam pliku lock.",
    "Od teraz piszę komunikaty po angielsku.",
    "Jag ändrar inte filen.",
    "Jeg rører ikke ved mappen vendor.",
    "データベースは変更しません。",
    "今後は英語でコミットを書きます。",
    "스키마는 수정하지 않겠습니다.",
    "앞으로 영어로 커밋하겠습니다.",
    "배포 전에 꼭 확인을 받겠습니다.",
    "部署前我会先问你。",
    "Tabloları değiştirmeyeceğim.",
    "Я не змінюватиму схему.",
)
SHORTLY_DECIDED = (
    "Went with cursor pagination.",
    "Settled on msgpack.",
    "So msgpack it is.",
    "Fine, two queues it is!",
    "Chose a trie.",
    "Weighing the two, msgpack wins: half the size.",
    "Between fork and spawn I use spawn.",
    "The lookup now goes through the index, otherwise it scans all rows.",
    "**Design:** errors travel as values",
    "| Format | msgpack | preferred over JSON for size |",
    "I settled for a plain dict.",
    "Ho deciso di tenere il vecchio client.",
    "Abbiamo optato per una coda.",
    "Decidi manter o cliente antigo.",
    "Optamos por uma fila.",
    "Ik heb besloten de oude client te houden.",
    "Zdecydowałem się na kolejkę.",
    "Vi valde en kö.",
    "Jeg valgte en kø.",
    "キューに決めました。",
    "큐를 쓰기로 했습니다.",
    "Kuyruk kullanmaya karar verdim.",
    "Я вибрав чергу.",
)
SHORTLY_GIVEN_UP = (
    "The bigger buffer brought no speedup.",
    "The pool broke two tests, hence the rollback.",
    "mypyc can't be built on Alpine, so no.",
    "Caching only hid the slow query.",
    "Neither of the patches helped.",
    "The index made no real difference.",
    "Workers starve each other; so they are gone.",
    "The plugin route is fragile; scrapped.",
    "❌ global lock: deadlocks under load",
    "Ho provato i thread, ma si bloccano.",
    "Ho scartato Celery.",
    "Descartei o Celery.",
    "Tentei threads, mas bloqueiam.",
    "De wijziging heb ik teruggedraaid.",
    "Threads geprobeerd, maar die blokkeren.",
    "Odrzuciłem Celery.",
    "Testowałem wątki, ale się blokują.",
    "Jag provade trådar men de låser sig.",
    "Jeg forsøgte tråde, men de låser.",
    "スレッドは試しましたが、デッドロックしました。",
    "스레드를 시도했지만 교착됩니다.",
    "Celery'den vazgeçtim.",
    "Пробував потоки, але вони блокуються.",
)
TOLD = (
    "I looked at the two files.",
    "It is clear that it is broken.",
    "So it is the parser.",
    "As it is, the test fails.",
    "The log now has 40 lines.",
    "Which one wins?",
    "It matches neither the first nor the last name.",
    "There was no change in the output.",
    "The second call made the cache warm.",
    "Ora leggo il file.",
    "I test passano tutti.",
    "Ho trovato l'errore.",
    "Todos os testes passam.",
    "Encontrei o erro na linha 40.",
    "Nu lees ik het bestand.",
    "Alle tests slagen.",
    "Ik heb de fout gevonden.",
    "Teraz czytam plik.",
    "Znalazłem błąd.",
    "Nu läser jag filen.",
    "Jeg læser filen nu.",
    "Alle tester består.",
    "ファイルを読みます。",
    "テストはすべて通りました。",
    "エラーが見つかりました。",
    "파일을 읽겠습니다.",
    "모든 테스트가 통과했습니다.",
    "오류를 찾았습니다.",
    "Hatayı buldum.",
    "Зараз прочитаю файл.",
    "Всі тести проходять.",
)
# What assistants write in the course of their work, next to calls and at the end of a turn.
NARRATED = (
    "I'll check the current workflows rather than guess.",
    "I'll keep waiting until it completes or fails.",
    "I'll only read files for now.",
    "I'm going to fetch the branch without rewriting the remote, then use a worktree for all of the edits.",
    "Then I'll validate it before rerunning, and then I'll leave the checkout alone.",
    "The server rejected the token and closed the connection.",
    "The parser must be called before the first read.",
    "## Why the chain can't work",
)
REPORTED = (
    "Say the word and I'll always keep it in sync.",
    "I'd request changes.",
    "I'll add it if you want.",
    "Right shape, wrong finish.",
    "The tracker rejected the claim because of its owner.",
    "No emoji is left in the sidebar.",
    "A real 1200×630 social card.",
    "The trade-off is in the context document.",
    "The cache is always filled before it is read.",
)
# Of these languages no phrases are known.
UNKNOWN = (
    "Neměním schéma databáze.",
    "Δεν θα αλλάξω το σχήμα.",
    "לא אגע בסכמה.",
    "لن ألمس المخطط.",
    "मैं स्कीमा नहीं बदलूँगा।",
    "Tôi sẽ không sửa lược đồ.",
    "Nem módosítom az adatbázis sémáját.",
    "ฉันจะไม่แก้ไขสคีมา",
)


@each_row("acts", [False, True])
@each_row(
    ("kind", "sentence"),
    [
        *(("promise", each) for each in SHORTLY_PROMISED),
        *(("decision", each) for each in SHORTLY_DECIDED),
        *(("rejected", each) for each in SHORTLY_GIVEN_UP),
    ],
)
def test_short_forms_in_many_languages_are_known(kind, sentence, acts):
    found = commitments(f"It has 40 lines.\n\n{sentence}\n\nThe next has 12.", acts)
    assert [(each.kind, each.text) for each in found] == [(kind, sentence)]


@each_row("acts", [False, True])
@each_row("sentence", TOLD)
def test_an_account_of_the_work_is_not_a_commitment(sentence, acts):
    assert list(commitments(f"It has 40 lines.\n\n{sentence}", acts)) == []


@each_row(("sentence", "acts"), [*((each, True) for each in NARRATED), *((each, False) for each in REPORTED)])
def test_steps_offers_and_statements_about_the_program_bind_nobody(sentence, acts):
    assert list(commitments(f"It has 40 lines.\n\n{sentence}", acts)) == []


@each_row("sentence", UNKNOWN)
def test_a_sentence_in_an_unknown_language_is_kept_where_the_reply_ends_a_turn(sentence):
    [found] = commitments(f"It has 40 lines.\n\n{sentence}", acts=False)
    assert (found.kind, found.text) == ("said", sentence)
    assert list(commitments(f"It has 40 lines.\n\n{sentence}", acts=True)) == []
