"""Where it is remembered: transactions, SQL files and migrations, on SQLite and PostgreSQL."""

from holdfast.store.address import Address, AddressInvalid, read_address
from holdfast.store.join import JoinRefused
from holdfast.store.join.asynchronous import AsyncTx
from holdfast.store.row_parameters import Row
from holdfast.store.statements import Engine
from holdfast.store.store import Store
from holdfast.store.tables import tables
from holdfast.store.transaction import Tx

__all__ = [
    "Address",
    "AddressInvalid",
    "AsyncTx",
    "Engine",
    "JoinRefused",
    "Row",
    "Store",
    "Tx",
    "read_address",
    "tables",
]
