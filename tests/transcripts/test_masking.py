import json
from base64 import b64encode

from tests.tables import each_row
from transcripts.codec import decode_line, encode_fact, mask_line
from transcripts.facts import User
from transcripts.messages import TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, map_strings
from transcripts.secrets.hinting_words import MAX_KNOWN_WORDS, HintingWords
from transcripts.secrets.masking import SecretMasks, mask, mask_output
from transcripts.secrets.secret_forms import SECRET_FORMS, secret_values

# Put together here so that no scanner takes this file for a leak.
SECRETS = [
    "sk-" + "ant-api03-" + "Ab1_" * 20,
    "AKIA" + "ABCDEFGHIJ234567",
    "gh" + "p_" + "a1B2" * 9,
    "gh" + "s_" + "a1B2" * 9,
    "github" + "_pat_" + "11ABC_" * 8,
    "gl" + "pat-" + "x1Y2z3" * 4,
    "gl" + "rt-" + "x1Y2z3" * 4,
    "xo" + "xb-" + "1234567890-abcdef",
    "AI" + "za" + "Sy" + "a1" * 16 + "b",
    "ey" + "JhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0." + "c2lnbmF0dXJl",
    "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIEow\nabc+/=\n-----MAX_END_BYTES " + "RSA PRIVATE KEY-----",
    "-----BEGIN " + "OPENSSH PRIVATE KEY-----\\nb3BlbnNz\\n-----MAX_END_BYTES " + "OPENSSH PRIVATE KEY-----",
    "-----BEGIN " + "PRIVATE KEY-----\nMIIEow\nabc+/=\nQ2Vy",
    "sk-" + "proj-" + "Zy9x8W7v" * 4,
    "sk" + "_live_" + "Zy9x8W7v" * 4,
    "hooks.slack.com/services/T0" + "ABC/B0DEF/" + "x1Y2z3W4v5",
    "Authorization: " + "Bearer abc.DEF-123",
]


@each_row("value", ["Server=db;Pass" + "word={}", "{{'pass" + "word': '{}'}}", "db 'pass" + "word':{}"])
def test_a_password_in_the_value_of_any_variable_is_a_secret(value: str) -> None:
    secret = "p4ss-" + "w0rd-7"
    assert secret in secret_values({"DRIVER": value.format(secret)})


@each_row("secret", SECRETS)
@each_row("around", ["{}", "KEY={}", "4\\t{}", "x\\n{}\\n", '"{}"', "before {} after", "({})\n"])
def test_a_secret_is_masked_wherever_it_stands(secret: str, around: str) -> None:
    masked = mask(around.format(secret))
    core = secret[-20:-4] if "PRIVATE" not in secret else "MIIEow"
    assert core not in masked and "masked]" in masked
    assert mask(masked) == masked


def test_a_secret_is_masked_in_a_string_of_json() -> None:
    text = 'PASSWORD="Sw0rdf1sh-77x"\nSet-Cookie: session=c00k1eV4lue8f7e6; Path=/\n'
    shown = 'PASSWORD="[secret masked]"\nSet-Cookie: session=[secret masked]; Path=/\n'
    for _ in range(3):
        text = json.dumps({"text": text})
        shown = json.dumps({"text": shown})
        assert mask(text) == mask_output(text) == shown
    path = r'open("C:\new\token", "r") or print("key:\t\"%s\"\n" % key)'
    assert mask_output(path) == path


def test_base64_of_a_text_with_a_secret_is_masked() -> None:
    key = SECRETS[2]
    for plain in (key, f"user:{key}", "DB_PASSWORD=horses-77-battery\nNAME=x\n", f'{{"key": "{key}"}}'):
        word = b64encode(plain.encode()).decode()
        assert mask_output(f"a {word}\n") == mask(f"a {word}\n") == "a [secret masked]\n"
        assert mask_output(f"data: {word.rstrip('=')}") == "data: [secret masked]"
    for plain in ("an ordinary sentence of some length", '{"name": "app", "version": "1.2.3"}', "\0\1" * 20):
        word = b64encode(plain.encode()).decode()
        assert mask_output(word) == word
    path = "/usr/lib/python3/dist-packages/setuptools/command/build"
    assert mask_output(path) == path


@each_row(
    ("text", "shown"),
    [
        ("https://me:hunter22@host/x", "https://[password masked]@host/x"),
        ("postgres://app:p%40ss@db:5432/x", "postgres://[password masked]@db:5432/x"),
        ("redis://app:Zx9!kq:1@db:6379", "redis://[password masked]@db:6379"),
        ("https://host/a:b@c", "https://host/a:b@c"),
        ("see http://example.com:8080/@me", "see http://example.com:8080/@me"),
    ],
)
def test_a_password_in_an_address_is_masked_and_the_address_kept(text: str, shown: str) -> None:
    assert mask(text) == mask_output(text) == shown


# Texts that commands print, each with the secret in it.
PRINTED = {
    "Set-Cookie: session=s%3AQ2v8xk1LpZ0aTnR7.mK9dE3fGhJ4; Path=/; HttpOnly": "Q2v8xk1LpZ0aTnR7",
    "Cookie: theme=dark; sessionid=9f8e7d6c5b4a39281706f5e4d3c2b1a0; lang=en": "9f8e7d6c5b4a3928",
    "< set-cookie: JSESSIONID=A1B2C3D4E5F60718293A4B5C6D7E8F90; Path=/": "A1B2C3D4E5F60718",
    "{'Cookie': 'sid=9f8e7d6c5b4a3928'}": "9f8e7d6c5b4a3928",
    "mysql -u root -phorses app": "horses",
    "mysql -u root -ppassword app": "ppassword",
    "+ mysqldump -h db -u app -p'hunter2x' app > d.sql": "hunter2x",
    "mariadb -uroot -pS3cr3tPass -e 'select 1'": "S3cr3tPass",
    "sshpass -p 'Tr0ub4dor' ssh host": "Tr0ub4dor",
    "docker login -u me -p dckr9secretpw registry.example": "dckr9secretpw",
    "mongosh -u root -p m0ngoPass99 admin": "m0ngoPass99",
    "redis-cli -h cache -a MyR3disPass ping": "MyR3disPass",
    "openssl rsa -passin pass:S3cretPhrase -in k": "S3cretPhrase",
    "openssl enc -aes-256-cbc -k S3cretPhrase -in a": "S3cretPhrase",
    "htpasswd -b .htpasswd admin S3cretPw9": "S3cretPw9",
    "echo 'hunter2x9' | sudo -S ls": "hunter2x9",
    "kubectl create secret generic a --from-literal=password=hunter2x9": "hunter2x9",
    "requirepass foobared123": "foobared123",
    "password: hunter2x9": "hunter2x9",
    "  db_password: correcthorse7 # of the database": "correcthorse7",
    "- POSTGRES_PASSWORD: Sup3rS3cret!": "Sup3rS3cret!",
    "secret_key_base: 4f8a9c2e1b7d6f5a3c0e9d8b": "4f8a9c2e1b7d6f5a3c0e9d8b",
    "spring.datasource.password=hunter2x9": "hunter2x9",
    "conf/my.cnf:3:password=hunter2x9": "hunter2x9",
    "my.cnf-3-password=hunter2x9": "hunter2x9",
    "3:password=hunter2x9": "hunter2x9",
    "./my.cnf:password=hunter2x9": "hunter2x9",
    "ENV SECRET_KEY 4f8a9c2e1b7d6f5a": "4f8a9c2e1b7d6f5a",
    "aws_secret_access_key = wJalrXUtnFEMIK7MDENGbPxRfiCYzExAmPLeKEYx": "wJalrXUtnFEMIK7M",
    "<password>S3cretPw99</password>": "S3cretPw99",
    '<add key="ApiKey" value="k9Xj2Lm4Np6Qr8St"/>': "k9Xj2Lm4Np6Qr8St",
    '{"auths": {"a": {"auth": "dXNlcjpwYXNzd29yZDEyMw=="}}}': "dXNlcjpwYXNzd29yZDEyMw",
    "_auth=dXNlcjpwYXNzd29yZDEyMw==": "dXNlcjpwYXNzd29yZDEyMw",
    "https://a.blob.core.windows.net/c?sv=2021&sig=abcDEF123%2Bghi456JKL": "abcDEF123",
    "jdbc:mysql://db/app?user=a&password=S3cretPw99": "S3cretPw99",
    "Server=db;User Id=a;Password=S3cretPw99;": "S3cretPw99",
    "net use \\\\server\\share S3cretPw99 /user:DOMAIN\\me": "S3cretPw99",
    "net use Z: \\\\server\\share /user:me S3cretPw99": "S3cretPw99",
    "NET USER bob S3cretPw99 /add": "S3cretPw99",
    "cmdkey /add:server /user:me /pass:S3cretPw99": "S3cretPw99",
    "user: admin pass: S3cretPw99": "S3cretPw99",
    "username: admin, password: S3cretPw99": "S3cretPw99",
    "user=admin pass=S3cretPw99": "S3cretPw99",
    "User: admin / Password: S3cretPw99": "S3cretPw99",
    "Password is S3cretPw99": "S3cretPw99",
    "Your temporary password is S3cretPw99.": "S3cretPw99",
    "Generated password: S3cretPw99": "S3cretPw99",
    "A temporary password is generated for root@localhost: aB3;dE5fG7hJ": "aB3;dE5fG7hJ",
    "Password for user admin: 'S3cretPw99'": "S3cretPw99",
    "psexec \\\\host -u admin -p S3cretPw99 cmd": "S3cretPw99",
    "wmic /node:h /user:admin /password:S3cretPw99 os": "S3cretPw99",
    "smbclient //h/s -U admin%S3cretPw99": "S3cretPw99",
    "mount -t cifs //h/s /mnt -o username=me,password=S3cretPw99": "S3cretPw99",
    "lftp -u me,S3cretPw99 h": "S3cretPw99",
    "wget --http-password=S3cretPw99 u": "S3cretPw99",
    "ldapsearch -D cn=x -w S3cretPw99 -b y": "S3cretPw99",
    "sqlcmd -S h -U sa -P S3cretPw99": "S3cretPw99",
    "sqlplus scott/t1gerPw99@db": "t1gerPw99",
    "ansible-playbook -e ansible_password=S3cretPw99 x.yml": "S3cretPw99",
    "7z a -pS3cretPw99 x.7z f": "S3cretPw99",
    "unzip -P S3cretPw99 x.zip": "S3cretPw99",
    "gpg --batch --passphrase S3cretPw99 f": "S3cretPw99",
    "keytool -list -storepass S3cretPw99": "S3cretPw99",
    "mysqladmin -u root password S3cretPw99": "S3cretPw99",
    "snmpget -v3 -u me -A S3cretPw99 h": "S3cretPw99",
    "echo 'me:S3cretPw99' | sudo chpasswd": "S3cretPw99",
    "nmcli dev wifi connect x password S3cretPw99": "S3cretPw99",
    "influx -username me -password S3cretPw99": "S3cretPw99",
    "kinit me <<< S3cretPw99": "S3cretPw99",
}

_MIXED, _HEX = "x1Y2z3A4b5C6" * 8, "0a1b2c3d4e5f" * 12
_UUID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
# Keys of services, cut to the length that their issuers document.
ISSUED = [
    *("csk-" + _MIXED[:48], "tgp_v1_" + _MIXED[:43], "nvapi-" + _MIXED[:64], "pcsk_" + _MIXED[:60]),
    *(
        f"lsv2_pt_{_HEX[:32]}_{_HEX[:10]}",
        "tvly-dev-" + _MIXED[:32],
        "jina_" + _MIXED[:60],
        "fc-" + _HEX[:32],
    ),
    *(
        "sk_" + _HEX[:48],
        "sk_prod_" + _MIXED[:64],
        "fw_" + _MIXED[:24],
        "pa-" + _MIXED[:43],
        "rpa_" + _MIXED[:46],
    ),
    *(
        "sgp_" + _HEX[:40],
        "e2b_" + _HEX[:40],
        "bb_live_" + _MIXED[:27],
        "wandb_v1_" + _MIXED,
        "KGAT_" + _HEX[:32],
    ),
    *(
        "vercel_blob_rw_" + _MIXED[:40],
        "vcp_" + _MIXED[:24],
        "sb_secret_" + _MIXED[:31],
        "napi_" + _MIXED[:50],
    ),
    *(f"re_{_MIXED[:8]}_{_MIXED[:24]}", f"xkeysib-{_HEX[:64]}-{_MIXED[:16]}", "phx_" + _MIXED[:43]),
    *("HRKU-" + _UUID, "rnd_" + _MIXED[:28], "nfp_" + _MIXED[:36], f"CCIPAT_{_MIXED[:22]}_{_HEX[:40]}"),
    *("bkua_" + _HEX[:40], "squ_" + _HEX[:40], "CFPAT-" + _MIXED[:43], "shippo_live_" + _HEX[:40]),
    *("duffel_live_" + _MIXED[:43], "pnu_" + _MIXED[:36], "rdme_" + _HEX[:70], "polar_oat_" + _MIXED[:43]),
    *(
        "unkey_" + _MIXED[:22],
        "signkey-prod-" + _HEX[:64],
        "tr_prod_" + _MIXED[:20],
        "secret-live-" + _MIXED[:40],
    ),
    *("fio-u-" + _MIXED[:64], "mdb_sa_sk_" + _MIXED[:40], "sq0csp-" + _MIXED[:43], "glc_eyJ" + _MIXED[:50]),
    *("ops_eyJ" + _MIXED, f"sk.eyJ{_MIXED[:20]}.{_MIXED[:22]}", "FlyV1 fm2_" + _MIXED, "ABSK" + _MIXED[:92]),
    *("bedrock-api-key-" + _MIXED, "AQ.Ab8RN6" + _MIXED[:44], "1//0g" + _MIXED[:60], "AQVN" + _MIXED[:36]),
    *("EAAA" + _MIXED[:60], f"access_token$production${_HEX[:16]}${_HEX[:32]}", "access-production-" + _UUID),
    *("pat-na1-" + _UUID, "sdk-" + _UUID, "api-" + _UUID, f"xapp-1-A012345678-1234567890123-{_HEX[:64]}"),
    *(
        "IGQVJ" + _MIXED,
        "sl.u." + _MIXED,
        "dt0c01." + "ABCDEFGH" * 3 + "." + "ABCD2345" * 8,
        "EZAK" + _MIXED[:54],
    ),
    *("ATBB" + _MIXED[:32], "AKCp8" + _MIXED[:68], "cmVmdGtuOjAxOj" + _MIXED[:50], "A" * 21 + _MIXED[:80]),
    *("a1B2c3D4:APA91b" + _MIXED, "SSWS 00" + _MIXED[:40], "key-" + _HEX[:32], "secret_" + _MIXED[:43]),
    *(f"pat{_MIXED[:14]}.{_HEX[:64]}", "cio" + _MIXED[:32], "00D000000000001!" + _MIXED[:90]),
    *("A3-ABCDEF-GHIJKL-MNPQR-STVWX-Z2345-6789A", f"v1.0-{_HEX[:24]}-{_HEX}{_HEX}"[:180]),
    *(f"MTIzNDU2Nzg5MDEyMzQ1Njc4.Gx1Y2z.{_MIXED[:38]}", "dapi" + _HEX[:32] + "-2"),
]


@each_row("key", ISSUED)
@each_row("around", ["{}", 'k = "{}"', '{{"a": "{}"}}', "--- {} ---", "https://a.example/?q={}&b=1"])
def test_a_key_of_a_service_is_masked_whatever_its_name(key: str, around: str) -> None:
    shown = mask_output(around.format(key))
    assert key not in shown and key[-16:] not in shown and "masked]" in shown


@each_row("text", PRINTED)
def test_a_secret_is_masked_where_commands_print_it(text: str) -> None:
    """Only the secret: the model still sees what it was for."""
    secret = PRINTED[text]
    shown = mask_output(f"first\n{text}\nlast\n")
    assert secret not in shown and "[secret masked]" in shown
    assert shown.startswith("first\n") and shown.endswith("\nlast\n") and text[:6].strip() in shown


@each_row(
    "text",
    [
        "password: string;",
        "password: str = secret_of(name)",
        "password: z.string().min(8)",
        "private_key: x25519.X25519PrivateKey",
        "token: ${TOKEN}",
        "token: {{ vault_token_1 }}",
        "password: changeme",
        "secret: <your secret 1>",
        "password: $2b$12$abcdefghijklmnopqrstuv",
        "POSTGRES_PASSWORD: ${POSTGRES_PASSWORD:-app1}",
        "password=other.password1,",
        'const renderPass = "geometry-pass-01";',
        "sortKey: created_at2,",
        "mysql -u root -p app",
        'mysql -u root -p"$PASSWORD" app',
        "mysql --password app",
        "ssh -p 2222 host; docker run -p 8080:80 nginx",
        "mongod -p x; redis-server -a b",
        "Cookie: theme=dark; lang=en",
        "Set-Cookie: id=<id>; Expires=Wed, 21 Oct 2026 07:28:00 GMT",
        "cookies: true",
        "<password>secret</password>",
        "<token>string</token>",
        "?token=YOUR_TOKEN&page=2",
        "keyboard: us-intl-101",
        "secretName: app-tls-2026",
        "tokenizer: cl100k_base",
        "max_tokens: 4096",
        "echo hello | sudo tee x",
        "net use",
        "net use Z: /delete",
        "net user bob /active:yes",
        "net use Z: \\\\server\\share /user:me *",
        "user: admin pass: yes",
        "username: str, password: str",
        "user: User, password: Optional[str]",
        "The password is hashed with SHA256 and stored",
        "the password is sha256-hashed",
        "Password: must contain 8 characters",
        "password: at least 12 characters, 1 digit",
        "Password for user admin: ",
        "Enter password: ",
        "invalid password for user admin: 3 attempts left",
        "the passphrase is base64-encoded",
        "tests pass: 12, login: 3 failed",
        "12 passed, 3 failed in 4.5s; pass: 99.5%",
        "mount -t ext4 /dev/sda1 /mnt",
        "zip -r x.zip src -P",
        "7z a x.7z -p",
        "gpg --passphrase-file key1.txt f",
        "pytest -p no:cacheprovider; useradd -m me",
        "click.option('--password', prompt=True)",
        "parser.add_argument('--password', default=None)",
        "usage: x [--password PASSWORD] [--pass N]",
        "make test pass 12",
        "task_0a1b2c3d4e5f60718293a4b5c6d7e8f9 key-value pa-rt rfc-2616 sdk-1.2.3 api-v2",
        "re_compile(pattern); patch-0123.diff; MainActivity.onCreate.invoke; v1.0-rc1; precious",
        "msg_01XFDUDYJgAACzvnptvVoYEL chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT toolu_01A09q90qw90lq917835",
        "cus_NffrFeUfNV2Hib price_1MoBy5LkdIwHu7ixZhnattbh sha256-0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d",
    ],
)
def test_ordinary_lines_about_secrets_stay(text: str) -> None:
    assert mask_output(f"{text}\n") == f"{text}\n"


def test_a_text_is_searched_only_for_words_that_are_new() -> None:
    searched: list[str] = []

    def search(text: str) -> bool:
        searched.append(text)
        return False

    words = HintingWords(("key",), forms=(), has_encoded=search)
    assert words.of("plain My_Key plain") == "My_Key"
    assert words.of("plain\n My_Key") == "My_Key"
    assert set(words.of("My_Key two plain keys").split()) == {"My_Key", "keys"}
    assert [set(text.split()) for text in searched] == [{"plain", "My_Key"}, {"two", "keys"}]
    assert words.of(" ".join(map(str, range(MAX_KNOWN_WORDS)))) == ""
    assert words.of("one more") == ""
    assert words.of("plain My_Key") == "My_Key"  # forgotten, and searched again
    assert len(searched) == 5


@each_row("secret", SECRETS)
def test_a_secret_is_masked_again_whatever_was_masked_before(secret: str) -> None:
    once = mask(f"a {secret} b")
    mask(" ".join(secret.split()[:1]))
    assert mask(f"a {secret} b") == once != f"a {secret} b"


@each_row(
    "innocent",
    [
        "eyJ is how they begin",
        "AKIA",
        "sk-ant-",
        "the glob gl*-x matches",
        "a.b.c",
        "-----BEGIN CERTIFICATE-----\nMII\n-----MAX_END_BYTES CERTIFICATE-----",
        "task-antelope-number-nine",
        "x" * 10_000,
    ],
)
def test_text_without_secrets_is_not_changed(innocent: str) -> None:
    assert mask(innocent) == innocent


def test_every_string_of_a_value_is_masked() -> None:
    value = {"a": [SECRETS[0], 5, None], "b": {"c": f"x {SECRETS[1]}"}}
    assert map_strings(value, mask, keys=False) == {
        "a": ["[Anthropic key masked]", 5, None],
        "b": {"c": "x [AWS key id masked]"},
    }


def test_exact_values_are_masked_the_longest_first() -> None:
    masks = SecretMasks(("longsecret", "longsecret-and-more", "short"))
    assert masks.text("longsecret-and-more longsecret short") == "**** **** short"


def test_a_line_of_the_record_holds_no_value_and_is_whole() -> None:
    masks = SecretMasks(("longsecret", 'with "quotes"'))
    use = ToolUseBlock("t", "bash", {"command": ["echo longsecret"], "longsecret": 1, "n": 'a with "quotes"'})
    result = ToolResultBlock("t", (TextBlock("a longsecret"),))
    line = mask_line(encode_fact(User(1, 0.0, (use, result)), "s"), masks)
    fact, _ = decode_line(line)
    assert isinstance(fact, User)
    assert fact.blocks[0] == ToolUseBlock("t", "bash", {"command": ["echo ****"], "****": 1, "n": "a ****"})
    assert fact.blocks[1] == ToolResultBlock("t", (TextBlock("a ****"),))


def test_a_line_without_a_value_and_thinking_stay_unchanged() -> None:
    masks = SecretMasks(("longsecret",))
    for block in (TextBlock("x"), ThinkingBlock("longsecret", "signature")):
        line = encode_fact(User(1, 0.0, (block,)), "s")
        assert mask_line(line, masks) == line


def test_the_numbers_times_and_kinds_of_a_line_are_never_masked() -> None:
    fact = User(1, 1_795_253_400.0, (TextBlock("20261121-0930 is user_2 of 2026-11-21"),))
    masks = SecretMasks(("20261121-0930", "2026-11-21", "s-20261121-0930"))
    line = mask_line(encode_fact(fact, "s-20261121-0930"), masks)
    decoded, sid = decode_line(line)
    assert (decoded.seq, decoded.ts, sid) == (1, fact.ts, "s-20261121-0930")
    assert isinstance(decoded, User) and decoded.blocks == (TextBlock("**** is user_2 of ****"),)


RANDOM = "0123456789abcdef" * 4
HINTS = [
    hint for form in SECRET_FORMS if form.kind in ("GitLab token", "service token") for hint in form.hints
]


@each_row("hint", HINTS)
def test_a_token_is_found_by_its_hint_in_a_text_without_others(hint: str) -> None:
    sizes = (24, 27, 28, 32, 40, 48, 64)
    tails = [f"{body}{RANDOM[:size]}" for body in ("pat_", "tkn_", "") for size in sizes]
    tails += [f"{RANDOM[:28]}_{RANDOM[:8]}", f"{RANDOM[:24]}-{RANDOM[:34]}"]
    tails += [f"scim.{RANDOM[:40]}", f"api-{RANDOM}"]
    tails += [tail.upper() for tail in tails]
    heads = (hint, f"12345678{hint}", f"{RANDOM[:14]}{'.' * (hint[0] != '.')}{hint}")
    assert any("masked]" in mask(f"{head}{tail}") for head in heads for tail in tails)
