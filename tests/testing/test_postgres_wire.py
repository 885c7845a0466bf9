"""Reading just enough of PostgreSQL's protocol."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.testing.postgres_wire import Conversation, Request


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4) + body


def startup(code: int, body: bytes = b"") -> bytes:
    return (len(body) + 8).to_bytes(4) + code.to_bytes(4) + body


GREETING = startup(80877103) + startup(196608, b"user\0postgres\0\0")
SIMPLE = message(b"Q", b"COMMIT\0")
PREPARE = message(b"P", b"keep\0INSERT INTO t VALUES ($1)\0\0\0")
RUN = message(b"B", b"\0keep\0" + b"\0" * 6) + message(b"E", b"\0" + b"\0" * 4)
SYNC = message(b"S", b"")
SAID = GREETING + SIMPLE + PREPARE + RUN + SYNC + RUN + RUN + SYNC
ASKED = ["COMMIT", *["INSERT INTO t VALUES ($1)"] * 3]


@given(cuts=st.lists(st.integers(0, len(SAID)), max_size=20))
def test_the_same_sql_is_seen_however_the_bytes_are_cut(cuts: list[int]) -> None:
    conversation = Conversation()
    edges = [0, *sorted(cuts), len(SAID)]
    seen = [r for a, b in pairwise(edges) for r in conversation.client_says(SAID[a:b])]
    assert [request.text for request in seen] == ASKED
    assert [request.number for request in seen] == [2, 3, 4, 4]


@given(cuts=st.lists(st.integers(0, 60), max_size=10))
def test_an_answer_counts_once_the_server_is_ready_again(cuts: list[int]) -> None:
    conversation = Conversation()
    conversation.client_says(GREETING)
    said = b"N" + message(b"R", b"\0\0\0\0") + message(b"Z", b"I") + message(b"D", b"Z\0\0\0\5I") + message(b"Z", b"I")
    edges = [0, *sorted(cuts), len(said)]
    for a, b in pairwise(edges):
        conversation.server_says(said[a:b])
    assert conversation.answers == 2


def test_a_request_ends_where_the_server_can_begin() -> None:
    conversation = Conversation()
    conversation.client_says(GREETING + PREPARE)
    rest = RUN + SYNC
    assert conversation.client_says(rest + SIMPLE) == [
        Request("INSERT INTO t VALUES ($1)", len(rest), 2),
        Request("COMMIT", len(rest + SIMPLE), 3),
    ]


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", startup(1)])
def test_another_protocol_is_left_alone(first: bytes) -> None:
    conversation = Conversation()
    assert conversation.client_says(first) == []
    assert not conversation.speaks
