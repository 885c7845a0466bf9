"""Enrichment: a company's website fills in title, description, contact addresses and social links.

Always true: what was found, the company's row and the end of the job commit together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.base import Json, decode, encode, new_id, utc_text
from holdfast.catalog import Catalog, Failure
from holdfast.lifecycle import Snooze
from holdfast.store import Store, Tx
from holdfast.worker import Job, Jobs
from holdfast_systems.records import companies
from holdfast_systems.records.faults import BUSINESS_RULE_VIOLATION, ENRICHMENT_NOT_FOUND
from holdfast_systems.records.verification import error_of, status_of
from holdfast_systems.records.website import Found, NoData, NotYet, Websites

QUEUE = "records.enrich"
KIND = "records.enrich"
FILLED, NO_DATA = "filled", "no_data"


class Enrichments:
    """What callers ask, and what workers do about it. Threads may share it."""

    def __init__(self, store: Store, jobs: Jobs, catalog: Catalog) -> None:
        self._store = store
        self._jobs = jobs
        self._catalog = catalog

    def ask(self, tx: Tx, account_id: str, company_uid: str) -> dict[str, Any]:
        """Let the company's website be read.

        Raises:
            Failure: COMPANY_NOT_FOUND; BUSINESS_RULE_VIOLATION when it has no website.
        """
        company = companies.show(tx, account_id, company_uid)
        if company["website"] is None:
            raise BUSINESS_RULE_VIOLATION(
                rule="company_without_website",
                explanation="The company has no website to read.",
                company_uid=company_uid,
            )
        enrichment_id = new_id()
        made = self._jobs.enqueue(KIND, {"enrichment": enrichment_id}, queue=QUEUE, tenant=account_id, tx=tx)
        tx.run(
            "records_outside.add_enrichment",
            id=enrichment_id,
            account_id=account_id,
            company_uid=company_uid,
            job_id=made.id,
        )
        return self.show(tx, account_id, enrichment_id)

    def show(self, tx: Tx, account_id: str, enrichment_id: str) -> dict[str, Any]:
        """One enrichment.

        Raises:
            Failure: ENRICHMENT_NOT_FOUND.
        """
        found = tx.records("records_outside.enrichment", id=enrichment_id, account_id=account_id)
        if not found:
            raise ENRICHMENT_NOT_FOUND(enrichment_id=enrichment_id)
        return self._shown(found[0])

    def work(self, job: Job, websites: Websites) -> Json | Snooze:
        """Read one website.

        Raises:
            Failure: NETWORK_TIMEOUT, CONNECTION_RESET, EXTERNAL_SERVICE_ERROR.
        """
        enrichment_id = str(job.payload["enrichment"])
        found = self._store.look("records_outside.to_enrich", id=enrichment_id)
        if not found or found[0][2] is not None:
            return None  # an earlier attempt was not able to say that it had finished
        uid, website, _, account_id = found[0]
        outcome: Found | NoData | NotYet = NoData("company_removed")
        if uid is not None and website is not None:
            try:
                outcome = websites.read(website)
            except Failure as failure:
                self._note(enrichment_id, failure)
                raise
        if isinstance(outcome, NotYet):
            return Snooze(outcome.delay_s, "the website was asked a moment ago")
        done = outcome
        self._store.atomic(lambda tx: _finish(tx, job, enrichment_id, (account_id, uid), done))
        return None

    def _shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        status = status_of(row)
        kept = {} if row["result"] is None else decode(row["result"])
        filled = status == "complete" and row["outcome"] == FILLED
        # A job between two attempts holds no code: what the last attempt failed with is told all the same.
        failing = {**row, "error_code": row["error_code"] or kept.get("error_code")}
        troubled = status != "complete" and bool(failing["error_code"])
        details = {name: value for name, value in kept.items() if name != "error_code"}
        return {
            "enrichment_id": row["id"],
            "company_uid": row["company_uid"],
            "status": status,
            "outcome": row["outcome"],
            "reason": kept.get("reason"),
            "result": kept if filled else None,
            "error": error_of(self._catalog, failing, details) if troubled else None,
            "created_at": utc_text(row["created_us"]),
            "completed_at": None if row["completed_us"] is None else utc_text(row["completed_us"]),
        }

    def _note(self, enrichment_id: str, failure: Failure) -> None:
        details = {name: value for name, value in failure.details.items() if isinstance(value, str | bool)}
        said = encode({**details, "error_code": failure.code})
        self._store.single("records_outside.note_enrichment", repeatable=True, id=enrichment_id, result=said)


def _finish(tx: Tx, job: Job, enrichment_id: str, company: tuple[str, str], done: Found | NoData) -> None:
    outcome = FILLED if isinstance(done, Found) else NO_DATA
    result = done.shown() if isinstance(done, Found) else {"reason": done.reason}
    tx.rows("records_outside.complete_enrichment", id=enrichment_id, outcome=outcome, result=encode(result))
    if isinstance(done, Found):
        tx.run(
            "records_outside.fill_company",
            account_id=company[0],
            uid=company[1],
            title=done.title,
            description=done.description,
            contact_emails=encode(list(done.contact_emails)),
            social_links=encode(list(done.social_links)),
        )
    job.finish(tx, {"outcome": outcome})
