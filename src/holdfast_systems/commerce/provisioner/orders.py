"""Orders of the shop as the webhook tells them, and their lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.base import CodecError, Json, decode
from holdfast_systems.commerce.faults import INVALID_REQUEST

LINES_MAX = 500
ID_CHARS_MAX = 80
"""An order, a line and `saleor:` make one idempotency key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a paid order, as it is sent on; what is missing in it is for the control plane to refuse."""

    order_id: str
    line_id: str
    sku: Json
    quantity: Json
    user: dict[str, Json]

    @property
    def key(self) -> str:
        """The idempotency key."""
        return f"saleor:{self.order_id}:{self.line_id}"

    @classmethod
    def of(cls, document: dict[str, Any]) -> Line:
        """The line of a document."""
        return cls(
            order_id=document["orderId"],
            line_id=document["lineId"],
            sku=document["productSku"],
            quantity=document["quantity"],
            user=document["user"],
        )

    def document(self) -> dict[str, Any]:
        """What the control plane is sent."""
        return {
            "orderId": self.order_id,
            "lineId": self.line_id,
            "productSku": self.sku,
            "quantity": self.quantity,
            "user": self.user,
        }


@dataclass(frozen=True, slots=True)
class Order:
    """A paid order."""

    id: str
    lines: tuple[Line, ...]


def read_order(body: bytes) -> Order:
    """The order of a webhook.

    Raises:
        Failure: INVALID_REQUEST.
    """
    try:
        document = decode(body, bytes_max=len(body) + 1)
    except CodecError as broken:
        raise INVALID_REQUEST("The body is not JSON.", reason=broken.reason) from None
    order = document.get("order") if isinstance(document, dict) else None
    if not isinstance(order, dict):
        raise _invalid("order", "an object")
    order_id = _identifier(order.get("id"), "order.id")
    listed = order.get("lines")
    if not isinstance(listed, list) or len(listed) > LINES_MAX:
        raise _invalid("order.lines", f"a list of at most {LINES_MAX}")
    user = _user(order)
    lines = {line.line_id: line for line in (_line(order_id, user, number, one) for number, one in enumerate(listed))}
    return Order(order_id, tuple(lines.values()))


def _line(order_id: str, user: dict[str, Json], number: int, document: Json) -> Line:
    if not isinstance(document, dict):
        raise _invalid(f"order.lines[{number}]", "an object")
    line_id = _identifier(document.get("id"), f"order.lines[{number}].id")
    return Line(
        order_id=order_id,
        line_id=line_id,
        sku=document.get("productSku"),
        quantity=document.get("quantity"),
        user=user,
    )


def _user(order: dict[str, Json]) -> dict[str, Json]:
    """Who bought; somebody without an account is known by the e-mail address of the order.

    Raises:
        Failure: INVALID_REQUEST.
    """
    user = order.get("user")
    given: dict[str, Json] = user if isinstance(user, dict) else {}
    email = given.get("email") or order.get("userEmail") or ""
    identifier = given.get("id") or (f"guest:{email}" if email else None)
    if not isinstance(identifier, str) or not isinstance(email, str):
        raise _invalid("order.user.id", "the id of the buyer")
    return {"id": identifier, "email": email}


def _identifier(value: Json, field: str) -> str:
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= ID_CHARS_MAX
        or not value.isascii()
        or not value.isprintable()
    ):
        raise _invalid(field, f"an id of at most {ID_CHARS_MAX} characters")
    return str(value)


def _invalid(field: str, expected: str) -> Exception:
    return INVALID_REQUEST("{field} has to be {expected}.", field=field, expected=expected)
