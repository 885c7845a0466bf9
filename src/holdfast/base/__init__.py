"""Everything non-deterministic or bounded comes through here: clock, sleep, random, ids, JSON, limits, secrets."""

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
    from holdfast.base.ids import id_time_us, new_id, new_ids, prefixed_id

# A guarded call writes no JSON and makes no ids: loaded when first used.
__getattr__ = lazily(
    __name__,
    globals(),
    dict.fromkeys(("CodecError", "Json", "canonical", "decode", "digest", "encode", "utc_text"), "holdfast.base.codec")
    | dict.fromkeys(("id_time_us", "new_id", "new_ids", "prefixed_id"), "holdfast.base.ids")
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
    "id_time_us",
    "is_asynchronous",
    "limits",
    "monotonic_s",
    "new_id",
    "new_ids",
    "now_us",
    "plain",
    "prefixed_id",
    "replaced",
    "utc_text",
    "world",
]
