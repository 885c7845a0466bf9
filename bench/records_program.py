"""A server of the suite `records`, in a process of its own: `holdfast DATABASE` or `by_hand DATABASE`.

Each prints its port and an API key when it is ready, and ends when nobody writes to it any more.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Header, HTTPException, Response
from pydantic import BaseModel, Field

TOKEN = "the operator's token"


class NewCompany(BaseModel):
    """What the endpoint by hand takes."""

    name: str = Field(min_length=1, max_length=200)
    website: str | None = Field(None, max_length=500)
    industry: str | None = Field(None, max_length=200)


def holdfast(database: str) -> tuple[Any, str]:
    """The records system as it is served, with limits that nobody meets."""
    from holdfast.base import Secret
    from holdfast.http.system import Ground
    from holdfast.store import Store
    from holdfast_systems.records.callers import Callers
    from holdfast_systems.records.main import build
    from holdfast_systems.records.model import Scope

    store = Store.open(database)
    store.migrate()
    given = {name: value for name, value in os.environ.items() if name.startswith("HOLDFAST_RECORDS_")}
    limits = {"HOLDFAST_RECORDS_REQUESTS_PER_MINUTE": "50000000", "HOLDFAST_RECORDS_QUEUEING_TARGET_S": "30"}
    ground = Ground(
        store=store,
        folder=Path(tempfile.mkdtemp()),
        address="http://127.0.0.1:9",
        token=Secret(TOKEN),
        environment={**limits, **given},
    )
    system = build(ground)
    issued, _ = Callers(store, key_days=90, renewal_url="").issue("bench", tuple(Scope), expires_us=None)
    return system.parts[""], issued.secret.reveal()


SCHEMA = """
CREATE TABLE api_key (hash text PRIMARY KEY, account_id text NOT NULL);
CREATE SEQUENCE company_number;
CREATE TABLE company (account_id text, uid text, name text NOT NULL, website text, industry text,
  created_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (account_id, uid));
CREATE UNIQUE INDEX company_website ON company (account_id, website) WHERE website IS NOT NULL;
CREATE TABLE slot (company_uid text, role text, person_uid text, PRIMARY KEY (company_uid, role));
CREATE TABLE idempotency (account_id text, key text, hash text NOT NULL, status int, body text,
  PRIMARY KEY (account_id, key));
"""


def by_hand(database: str) -> tuple[Any, str]:
    """The same two endpoints without Holdfast: FastAPI, a pool, and SQL; API keys are remembered for ever."""
    from psycopg_pool import ConnectionPool

    pool = ConnectionPool(database, min_size=4, max_size=16, open=True)
    key = f"rdb_{secrets.token_hex(16)}"
    with pool.connection() as connection:
        connection.execute(SCHEMA)
        connection.execute("INSERT INTO api_key VALUES (%s, 'bench')", [hashlib.sha256(key.encode()).hexdigest()])
    app = FastAPI()
    known: dict[str, str] = {}

    def account_of(given: str) -> str:
        hashed = hashlib.sha256(given.encode()).hexdigest()
        if hashed not in known:
            with pool.connection() as connection:
                found = connection.execute("SELECT account_id FROM api_key WHERE hash = %s", [hashed]).fetchone()
            if found is None:
                raise HTTPException(401)
            known[hashed] = found[0]
        return known[hashed]

    @app.get("/v1/companies/{uid}")
    def show(uid: str, x_api_key: str = Header()) -> dict[str, Any]:
        account = account_of(x_api_key)
        with pool.connection() as connection:
            found = connection.execute(
                "SELECT uid, name, website, industry, created_at FROM company WHERE account_id = %s AND uid = %s",
                [account, uid],
            ).fetchone()
            if found is None:
                raise HTTPException(404)
            slots = connection.execute(
                "SELECT role, person_uid FROM slot WHERE company_uid = %s ORDER BY role", [uid]
            ).fetchall()
        uid, name, website, industry, created = found
        return {
            "company_uid": uid, "name": name, "website": website, "industry": industry,
            "created_at": created.isoformat(),
            "slots": [{"slot_uid": f"SL-{uid}-{role}", "role": role, "person_uid": who} for role, who in slots],
            "request_id": secrets.token_hex(12),
        }  # fmt: skip

    @app.post("/v1/companies")
    def create(asked: NewCompany, x_api_key: str = Header(), idempotency_key: str = Header()) -> Response:
        account = account_of(x_api_key)
        hashed = hashlib.sha256(asked.model_dump_json().encode()).hexdigest()
        with pool.connection() as connection:
            begun = connection.execute(
                "INSERT INTO idempotency (account_id, key, hash) VALUES (%s, %s, %s) "
                "ON CONFLICT DO NOTHING RETURNING 1",
                [account, idempotency_key, hashed],
            ).fetchone()
            if begun is None:
                raise HTTPException(409)
            number = connection.execute("SELECT nextval('company_number')").fetchone()
            assert number is not None
            uid = f"CO-20240828-{number[0]:06d}"
            connection.execute(
                "INSERT INTO company (account_id, uid, name, website, industry) VALUES (%s, %s, %s, %s, %s)",
                [account, uid, asked.name, asked.website, asked.industry],
            )
            connection.execute(
                "INSERT INTO slot (company_uid, role) VALUES (%(uid)s, 'CEO'), (%(uid)s, 'CFO'), (%(uid)s, 'HR')",
                {"uid": uid},
            )
            body = json.dumps({"company_uid": uid, "status": "created", "slots_created": 3})
            connection.execute(
                "UPDATE idempotency SET status = 201, body = %s WHERE account_id = %s AND key = %s",
                [body, account, idempotency_key],
            )
        return Response(body, 201, media_type="application/json")

    return app, key


def _end_with_parent() -> None:
    while sys.stdin.readline():
        pass
    os._exit(0)


def main() -> None:
    import uvicorn

    contender, database = sys.argv[1:]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    app, key = {"holdfast": holdfast, "by_hand": by_hand}[contender](database)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(listener.getsockname()[1], key, flush=True)
    config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
