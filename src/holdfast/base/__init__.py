"""Everything non-deterministic or bounded comes through here: clock, random, ids, JSON, limits, secrets."""

from typing import TYPE_CHECKING

from holdfast.base.arguments import ArgumentInvalid
from holdfast.base.bus import Facts, bus
from holdfast.base.lazy import lazily
from holdfast.base.limits import LimitInvalid, Limits
from holdfast.base.plain import plain
from holdfast.base.secret import MASK, Private, Secret, SecretLeak
from holdfast.base.world import REAL, World, limits, monotonic_s, now_us, replaced, world

if TYPE_CHECKING:
    from holdfast.base.codec import CodecError, Json, canonical, decode, digest, encode, utc_text
    from holdfast.base.colour import is_asynchronous
    from holdfast.base.ids import id_floor, id_time_us, new_id, new_ids, prefixed_id
    from holdfast.base.redaction import is_secret, one_line, redacted, redacted_facts, redacted_json, redacted_text

# A guarded call writes no JSON and makes no ids: loaded when first used.
__getattr__ = lazily(
    __name__,
    globals(),
    dict.fromkeys(("CodecError", "Json", "canonical", "decode", "digest", "encode", "utc_text"), "holdfast.base.codec")
    | dict.fromkeys(("id_floor", "id_time_us", "new_id", "new_ids", "prefixed_id"), "holdfast.base.ids")
    | dict.fromkeys(
        ("is_secret", "one_line", "redacted", "redacted_facts", "redacted_json", "redacted_text"),
        "holdfast.base.redaction",
    )
    | {"is_asynchronous": "holdfast.base.colour"},
)

__all__ = [
    "MASK",
    "REAL",
    "ArgumentInvalid",
    "CodecError",
    "Facts",
    "Json",
    "LimitInvalid",
    "Limits",
    "Private",
    "Secret",
    "SecretLeak",
    "World",
    "bus",
    "canonical",
    "decode",
    "digest",
    "encode",
    "id_floor",
    "id_time_us",
    "is_asynchronous",
    "is_secret",
    "limits",
    "monotonic_s",
    "new_id",
    "new_ids",
    "now_us",
    "one_line",
    "plain",
    "prefixed_id",
    "redacted",
    "redacted_facts",
    "redacted_json",
    "redacted_text",
    "replaced",
    "utc_text",
    "world",
]
