"""What the bad upstream can do, by name. Each function is one behaviour; its docstring says what a client meets."""

from __future__ import annotations

import zlib
from base64 import b64decode
from email.utils import formatdate
from functools import cache

from holdfast.base import REAL, encode
from holdfast.testing.exchange import Behaviour, Exchange, reply_bytes

BEHAVIOURS: dict[str, Behaviour] = {}
"""Every behaviour that an address can ask for, by its name."""

BOMB_BYTES = 67_108_864
PIECE = b"x" * 65_536
DRIP_S = 0.05

# 64 MB of zeros, compressed by brotli.
_BROTLI_BOMB = b64decode(
    "y///P/gnAOKxQCD3/o///3/wTwDEYRGA7v0f////4J8AiMMCAN37P/7//8E/ARCHBQC693/8"
    "//+DfwIgDgsAdO//+P//B/8EQBwWAOje//H//w/+CYA4LADQvf/j//8f/BMAcVgAoHv/Nw=="
)


def behaviour(function: Behaviour) -> Behaviour:
    """Make the function askable by its name."""
    BEHAVIOURS[function.__name__] = function
    return function


def _always(name: str, reply: bytes, *, meaning: str, closes: bool = False) -> None:
    """A behaviour that always sends the same bytes."""

    async def send(exchange: Exchange) -> None:
        await exchange.write(reply)
        if closes:
            exchange.close()

    send.__doc__ = meaning
    BEHAVIOURS[name] = send


# -- in order --------------------------------------------------------------------------------------------------------


@behaviour
async def ok(exchange: Exchange) -> None:
    """All is well."""
    await exchange.reply(b'{"ok":true}')


@behaviour
async def echo(exchange: Exchange) -> None:
    """Tells what was asked."""
    asked = exchange.asked
    body = asked.body.decode("utf-8", "replace")
    told = {"method": asked.method, "path": asked.path, "headers": dict(asked.headers), "body": body}
    await exchange.reply(encode(told).encode())


@behaviour
async def answers_late(exchange: Exchange) -> None:
    """A good reply and, when the connection should be at rest, one that nobody asked for."""
    await exchange.reply(b'{"ok":true}')
    await exchange.pause(DRIP_S)
    await exchange.reply(b'{"stolen":true}')


# -- slow ------------------------------------------------------------------------------------------------------------


@behaviour
async def hang_at_header(exchange: Exchange) -> None:
    """Takes the request and says nothing."""
    await exchange.hang()


@behaviour
async def hang_in_header(exchange: Exchange) -> None:
    """Stops in the middle of a header."""
    await exchange.write(b"HTTP/1.1 200 OK\r\nContent-Ty")
    await exchange.hang()


@behaviour
async def hang_in_body(exchange: Exchange) -> None:
    """Stops in the middle of the body."""
    await exchange.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    await exchange.hang()


@behaviour
async def never_reads(exchange: Exchange) -> None:
    """Does not take the body of the request, and says nothing."""
    while not exchange.over:
        await exchange.pause(DRIP_S)


@behaviour
async def drip_header(exchange: Exchange) -> None:
    """A header that comes byte by byte and never ends."""
    await exchange.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        await exchange.write(b"x")
        await exchange.pause(DRIP_S)


@behaviour
async def drip_body(exchange: Exchange) -> None:
    """A body that comes byte by byte and never ends."""
    await exchange.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        await exchange.write(b"x")
        await exchange.pause(DRIP_S)


@behaviour
async def informational_storm(exchange: Exchange) -> None:
    """One 102 Processing after another, for ever."""
    while True:
        await exchange.write(b"HTTP/1.1 102 Processing\r\n\r\n" * 1_000)


# -- gone ------------------------------------------------------------------------------------------------------------


@behaviour
async def empty_reply(exchange: Exchange) -> None:
    """Takes the request and closes."""
    exchange.close()


@behaviour
async def reset(exchange: Exchange) -> None:
    """Takes the request and cuts the connection off."""
    exchange.reset()


@behaviour
async def reset_in_body(exchange: Exchange) -> None:
    """Cuts the connection off in the middle of the body."""
    await exchange.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    await exchange.pause(DRIP_S)
    exchange.reset()


# -- endless ---------------------------------------------------------------------------------------------------------


@behaviour
async def endless_chunked(exchange: Exchange) -> None:
    """A chunked body without end."""
    await exchange.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await exchange.write(b"%x\r\n%b\r\n" % (len(PIECE), PIECE))


@behaviour
async def endless_unframed(exchange: Exchange) -> None:
    """A body without length that does not end."""
    await exchange.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while True:
        await exchange.write(PIECE)


@behaviour
async def endless_headers(exchange: Exchange) -> None:
    """Headers that do not end."""
    await exchange.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        await exchange.write(b"X-More: and more\r\n" * 1_000)


@behaviour
async def endless_header_line(exchange: Exchange) -> None:
    """One header that does not end."""
    await exchange.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        await exchange.write(PIECE)


# -- compressed ------------------------------------------------------------------------------------------------------


@behaviour
async def gzip_good(exchange: Exchange) -> None:
    """A small body, compressed although nobody asked."""
    await exchange.reply(zlib.compress(b'{"ok":true}', wbits=31), content_encoding="gzip")


@behaviour
async def gzip_bomb(exchange: Exchange) -> None:
    """64 kB of gzip that unpack to 64 MB."""
    await exchange.reply(bomb(gzip=True), content_encoding="gzip")


@behaviour
async def deflate_bomb(exchange: Exchange) -> None:
    """64 kB of deflate that unpack to 64 MB."""
    await exchange.reply(bomb(gzip=False), content_encoding="deflate")


@behaviour
async def brotli_bomb(exchange: Exchange) -> None:
    """A hundred bytes of brotli that unpack to 64 MB."""
    await exchange.reply(_BROTLI_BOMB, content_encoding="br")


@behaviour
async def gzip_cut(exchange: Exchange) -> None:
    """Compressed data that ends too early, in a reply that does not."""
    await exchange.reply(zlib.compress(b'{"ok":true}' * 10, wbits=31)[:-12], content_encoding="gzip")


@behaviour
async def status_429_date(exchange: Exchange) -> None:
    """429 with the date at which to come back, 30 s from now."""
    back = formatdate(REAL.wall_us() / 1_000_000 + 30, usegmt=True)
    await exchange.reply(b"{}", status=429, retry_after=back)


@cache
def bomb(*, gzip: bool) -> bytes:
    """64 MB of zeros, compressed as gzip or as zlib."""
    zeros = bytes(1_048_576)
    stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    # A full flush makes a block that stands for itself, so that it is packed once and sent many times.
    block = stream.compress(zeros) + stream.flush(zlib.Z_FULL_FLUSH)
    times = BOMB_BYTES // len(zeros)
    check = 0 if gzip else 1
    for _ in range(times):
        check = (zlib.crc32 if gzip else zlib.adler32)(zeros, check)
    whole = block * times + b"\x03\x00"
    if gzip:
        return b"\x1f\x8b\x08" + bytes(7) + whole + check.to_bytes(4, "little") + BOMB_BYTES.to_bytes(4, "little")
    return b"\x78\x9c" + whole + check.to_bytes(4)


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"

for _status in (400, 401, 403, 404, 409, 410, 422, 500, 502, 503, 504):
    _always(f"status_{_status}", reply_bytes(b"{}", status=_status), meaning=f"{_status} and nothing said about it.")

for _name, _reply, _meaning in (
    ("status_429_seconds", reply_bytes(b"{}", status=429, retry_after="7"), "429 with seconds to wait."),
    ("status_429_garbage", reply_bytes(b"{}", status=429, retry_after="soon, my friend"), "429 with no time to read."),
    ("status_503_retry_after", reply_bytes(b"{}", status=503, retry_after="3"), "503 with seconds to wait."),
    ("cut_json", reply_bytes(b'{"ok":tr'), "JSON that ends too early, in a reply that does not."),
    ("bad_utf8", reply_bytes(b'{"name":"\xff\xfe"}'), "JSON that is not UTF-8."),
    ("twice_in_json", reply_bytes(b'{"pay":1,"pay":1000}'), "JSON with the same key twice."),
    ("deep_json", reply_bytes(b"[" * 10_000 + b"]" * 10_000), "JSON that nests ten thousand levels."),
    ("error_in_200", reply_bytes(b'{"error":{"code":"OUT_OF_STOCK","message":"None left."}}'), "200, and an error."),
    ("error_nested", reply_bytes(b'{"error":{"code":"OUT_OF_STOCK","message":"None left."}}', status=409), "A code."),
    ("html_in_502", reply_bytes(b"<h1>Bad</h1>", status=502, content_type="text/html"), "A proxy's error page."),
    ("redirect_loop", reply_bytes(status=302, location="/redirect_loop"), "Sends the caller to itself."),
    ("redirect_once", reply_bytes(status=302, location="/ok"), "Sends the caller to a good address."),
    ("redirect_inward", reply_bytes(status=302, location="http://169.254.169.254/latest/meta-data/"), "Leads inside."),
    ("redirect_disguised", reply_bytes(status=307, location="http://2130706433/"), "Leads inside, in disguise."),
    ("redirect_to_file", reply_bytes(status=302, location="file:///etc/passwd"), "Leads to another scheme."),
    ("redirect_nowhere", reply_bytes(status=302, location="http://["), "Leads to no address at all."),
    ("unknown_encoding", reply_bytes(b"{}", content_encoding="snappy"), "Compressed by something unheard of."),
    ("gzip_not_gzip", reply_bytes(b'{"ok":true}', content_encoding="gzip"), "Says gzip, and is not."),
    ("early_hints", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + reply_bytes(b'{"ok":true}'), "103, then 200."),
    ("answers_twice", reply_bytes(b'{"ok":true}') + reply_bytes(b'{"stolen":true}'), "Two replies to one request."),
    ("too_short_length", _HEAD + b'Content-Length: 4\r\n\r\n{"ok":true}', "A body longer than its length."),
):
    _always(_name, _reply, meaning=_meaning)

for _name, _reply, _meaning in (
    ("garbage", b"\x00\x01\x02 this is not HTTP at all \xff\r\n\r\n", "Bytes that are not HTTP."),
    ("http_0_9", b"<html>hello</html>", "A page without status and headers."),
    ("banner_of_another", b"SSH-2.0-OpenSSH_9.6\r\n", "Another protocol speaks."),
    ("close_in_status", b"HTTP/1.1 20", "Closes in the middle of the status."),
    ("close_in_header", b"HTTP/1.1 200 OK\r\nContent-Ty", "Closes in the middle of a header."),
    ("truncated", _HEAD + b"Content-Length: 100\r\n\r\n{", "A body shorter than its length."),
    ("truncated_chunked", _CHUNKED + b"5\r\nhel", "A chunk shorter than its length."),
    ("no_last_chunk", _CHUNKED + b"5\r\nhello\r\n", "A chunked body without its end."),
    ("invalid_chunk", _CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n", "A chunk with a length that is not a number."),
    ("huge_chunk", _CHUNKED + b"f" * 17 + b"\r\nhello\r\n0\r\n\r\n", "A chunk longer than any machine's memory."),
    ("huge_length", _HEAD + b"Content-Length: 999999999999\r\n\r\n{", "Announces a terabyte."),
    ("negative_length", _HEAD + b"Content-Length: -5\r\n\r\nhello", "A length below zero."),
    ("two_lengths", _HEAD + b"Content-Length: 2\r\nContent-Length: 5\r\n\r\nhello", "Two lengths that disagree."),
    (
        "length_and_chunked",
        _HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Framed twice.",
    ),
    ("big_header", b"HTTP/1.1 200 OK\r\nX-Big: " + b"x" * 65_536 + b"\r\n\r\n", "A header of 64 kB."),
    ("many_headers", b"HTTP/1.1 200 OK\r\n" + b"X-Many: 1\r\n" * 10_000 + b"\r\n", "Ten thousand headers."),
    ("null_in_header", b"HTTP/1.1 200 OK\r\nX-Null: a\x00b\r\nContent-Length: 0\r\n\r\n", "A zero byte in a header."),
    ("bad_status", b"HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n", "A status that is not a number."),
    ("switches", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "Changes protocol."),
):
    _always(_name, _reply, meaning=_meaning, closes=True)
