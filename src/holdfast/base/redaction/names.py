"""Which names of fields say that a secret follows: `password1`, `DBPassword`, `x-api-key`, `connectionString`.

A name is read word by word, whatever its spelling (snake, kebab, camel or upper case, with digits). Three kinds of
words give a secret away: strong ones anywhere in the name (`password_hash`) unless the last word says that the field is
*about* the secret (`password_changed_at`, `token_count`); weak ones only at the end (`auth`, but not `auth_method`);
and pairs (`api key`, `card number`).
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

NAME_CHARS_MAX = 200
"""A longer name is judged by its beginning and its end."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+")

_STRONG = frozenset({
    "password", "passwords", "passwd", "passphrase", "passcode", "passkey", "pwd", "passwort", "kennwort",
    "contrasena", "senha", "wachtwoord", "пароль", "secret", "secrets", "token", "tokens", "jwt", "jws", "jwe",
    "otp", "totp", "hotp", "cvv", "cvc", "cvn", "authorization", "cookie", "cookies", "credential", "credentials",
    "creds", "signature", "signatures", "hmac", "apikey", "apikeys", "sessionid", "sessid", "phpsessid",
    "jsessionid", "csrf", "xsrf", "mnemonic", "keytab", "kubeconfig", "htpasswd", "netrc", "pgpass",
})  # fmt: skip
_ABOUT = frozenset({
    "count", "counts", "length", "len", "size", "bytes", "chars", "at", "us", "ms", "ts", "s", "seconds", "time",
    "timestamp", "date", "days", "age", "expiry", "expires", "expired", "expiration", "ttl", "lifetime", "type",
    "types", "kind", "name", "names", "policy", "max", "min", "limit", "limits", "version", "algorithm", "alg",
    "status", "state", "enabled", "disabled", "required", "valid", "invalid", "verified", "present", "missing",
    "exists", "changed", "rotated", "rotation", "updated", "created", "sent", "used", "usage", "in", "out", "total",
    "left", "remaining", "rate", "attempts", "failures", "errors", "error", "reason", "url", "uri", "endpoint",
    "host", "path", "file", "filename", "folder", "variable", "env", "arn", "id", "ids", "bucket", "buckets",
    "strength", "scheme", "mode", "method", "provider", "issuer", "audience", "scope", "scopes", "source", "owner",
    "manager", "store", "label", "title", "description", "day", "hour", "minute", "second", "request", "window",
    "index", "position", "budget", "cost", "price",
})  # fmt: skip
"""Last words of fields that tell something about a secret without telling the secret."""
_WEAK = frozenset({
    "pin", "auth", "oauth", "session", "pw", "pan", "sid", "sig", "bearer", "salt", "pem", "dsn", "connstr", "iban",
    "ssn", "csc", "sas", "cred",
})  # fmt: skip
_VALUE = frozenset({
    "hash", "hashed", "digest", "value", "text", "raw", "header", "headers", "string", "str", "data", "plain",
    "plaintext", "encrypted", "encoded", "base", "confirm", "confirmation", "again", "repeat", "new", "old",
    "current", "material", "bytes", "block", "pem",
})  # fmt: skip
"""Last words that change nothing: `pin_hash` is as secret as `pin`."""
_PASS_OWNERS = frozenset({
    "db", "database", "user", "smtp", "mysql", "pg", "postgres", "redis", "ftp", "sftp", "mail", "email", "admin",
    "root", "login", "my", "http", "proxy", "basic", "account", "service", "app", "key", "ssh", "imap", "ldap",
})  # fmt: skip


def _pairs(*groups: tuple[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((first, last) for firsts, lasts in groups for first in firsts.split() for last in lasts.split())


_PAIRS = _pairs(
    (
        "api access private signing secret encryption decryption master license licence session storage account "
        "service server client ssh rsa ec dsa pgp gpg hmac shared auth app application webhook cipher crypto symmetric "
        "aes root admin deploy deployment subscription integration consumer functions security authentication vault "
        "wallet stripe openai anthropic gemini sendgrid mailgun twilio aws azure gcp google github gitlab slack "
        "datadog",
        "key keys",
    ),
    (
        "security verification auth authorization access otp mfa fa totp sms recovery backup pin pass device login "
        "unlock activation card reset",
        "code codes",
    ),
    ("card account cc creditcard security pin routing", "number numbers no num nr"),
    ("credit debit", "card"),
    ("connection conn", "string str uri url"),
    (
        "database db redis mongo mongodb amqp rabbitmq broker postgres postgresql pg mysql mariadb jdbc sqlalchemy "
        "clickhouse elasticsearch",
        "url uri dsn",
    ),
    ("seed recovery pass backup secret", "phrase phrases words"),
    ("security secret", "answer answers question"),
    ("magic login", "link"),
    ("saml client", "response assertion"),
    ("code", "verifier"),
    ("session", "id ids"),
    ("track", "data"),
)
_TRIPLES = frozenset({("access", "key", "id"), ("one", "time", "code"), ("one", "time", "password")})

# Words that were written together, as `dbpassword` and `csrfmiddlewaretoken`.
_TAILS = (
    "password", "passwd", "passphrase", "passcode", "secret", "secrets", "token", "tokens", "credential",
    "credentials", "apikey", "accesskey", "privatekey", "secretkey", "signingkey", "encryptionkey", "masterkey",
    "authkey", "sessionid", "sessionkey", "sessid", "cardnumber", "accountnumber", "creditcard", "connectionstring",
    "connstr", "authorization", "cookie", "signature", "pwd", "jwt", "cvv", "cvc", "pincode", "authcode",
)  # fmt: skip
_HEADS = ("password", "passwd", "apikey", "secretkey", "privatekey")
_RESEMBLING = frozenset({"passwordless", "passwords", "secretary", "secretariat", "pwd"})


def is_secret(name: str, value: object = "") -> bool:
    """Whether a field has a name whose value is never shown.

    Yes, no and nothing give nothing away, and numbers called `tokens` or `session` are counts.
    """
    if value is None or isinstance(value, bool):
        return False
    kind = _kind(name if len(name) <= NAME_CHARS_MAX else name[:100] + name[-100:])
    return kind == "secret" or (kind == "countable" and not isinstance(value, int | float))


def is_header(name: str) -> bool:
    """Whether the name is that of a secret header: in a list of two texts, the second is then its value."""
    return ("-" in name or name.lower() in {"authorization", "cookie"}) and is_secret(name)


@lru_cache(maxsize=4_096)
def _kind(name: str) -> str:
    """`secret`, `countable` (a secret unless it is a number) or nothing."""
    if not name.isascii():
        name = "".join(letter for letter in unicodedata.normalize("NFKD", name) if not unicodedata.combining(letter))
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return ""
    if tuple(words[-3:]) in _TRIPLES or tuple(words[-2:]) in _PAIRS:
        return "secret"
    while len(words) > 1 and words[-1] in _VALUE and words[-1] not in _STRONG:
        words.pop()
    last = words[-1]
    if last in {"token", "tokens", "session", "pass"} or (last.endswith(("token", "tokens")) and last not in _STRONG):
        return "countable" if last != "pass" or _is_password(words) else ""
    if last in _WEAK or tuple(words[-2:]) in _PAIRS:
        return "secret"
    if last in _ABOUT or words[-2:] == ["error", "code"]:
        return ""
    return "secret" if any(_gives_away(word) for word in words) or _PAIRS.intersection(pairwise(words)) else ""


def _gives_away(word: str) -> bool:
    if word in _STRONG:
        return True
    if word in _RESEMBLING:
        return False
    return word.endswith(_TAILS) or word.startswith(_HEADS) or (word.endswith("pass") and word[:-4] in _PASS_OWNERS)


def _is_password(words: list[str]) -> bool:
    return len(words) == 1 or words[-2] in _PASS_OWNERS
