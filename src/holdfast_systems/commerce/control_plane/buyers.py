"""Buyers' sessions: a token, and a ticket for a link that can be used once.

Always true: a ticket is written down as used in the transaction that gives out its token.
"""

from __future__ import annotations

from typing import Any

from holdfast.base import new_id, now_us, utc_text
from holdfast.store import Tx
from holdfast_systems.commerce.control_plane import instances, wallets
from holdfast_systems.commerce.faults import UNAUTHORIZED
from holdfast_systems.commerce.tokens import BUYER_S, TICKET_S, TokenKind, Tokens

INSTANCES_SHOWN = 100


def begin(tokens: Tokens, tenant: str) -> dict[str, Any]:
    """A session for a buyer whom the calling service knows."""
    return {
        "tenant": tenant,
        "token": tokens.sign(TokenKind.BUYER, tenant, lasting_s=BUYER_S),
        "expiresAt": utc_text(now_us() + round(BUYER_S * 1_000_000)),
        "ticket": tokens.sign(TokenKind.TICKET, tenant, lasting_s=TICKET_S, ticket=new_id()),
    }


def enter(tx: Tx, tokens: Tokens, ticket: str) -> dict[str, Any]:
    """The session that a ticket stands for, once.

    Raises:
        Failure: UNAUTHORIZED when it is over, was used, or is not ours.
    """
    claims = tokens.read(ticket, TokenKind.TICKET)
    if claims is None:
        raise UNAUTHORIZED("This link is no longer valid. Ask for a new one.")
    tx.run("control_plane.forget_tickets")
    if not tx.run("control_plane.use_ticket", id=claims.id, expires_us=claims.expires_us):
        raise UNAUTHORIZED("This link was used already. Ask for a new one.")
    return begin(tokens, claims.tenant)


def overview(tx: Tx, tenant: str) -> dict[str, Any]:
    """What a buyer has: the wallet and the newest instances."""
    return {
        "tenant": tenant,
        "wallet": wallets.of_tenant(tx, tenant),
        "instances": instances.listed(tx, tenant, before=instances.LAST, count=INSTANCES_SHOWN),
    }
