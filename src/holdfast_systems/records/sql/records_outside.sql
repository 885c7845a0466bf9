-- Verifications and enrichments, and beside each the job that does it. How far the job has come is the job's own to say.

-- name: queued
-- How many jobs of the queue wait or are worked on, counted no further than it matters.
SELECT count(*) FROM (
  SELECT 1 FROM holdfast_job WHERE queue = :queue AND state IN ('queued', 'processing') LIMIT :most) AS counted;

-- name: enter
-- The row is held until the end of the transaction: one at a time counts the queue, and sees those before it.
INSERT INTO holdfast_records_setting (name, value, set_us) VALUES (:name, '', {now_us})
ON CONFLICT (name) DO UPDATE SET set_us = excluded.set_us;

-- name: known
-- The newest result about the address that is not too old.
SELECT id FROM holdfast_records_verification
 WHERE account_id = :account_id AND email = :email AND completed_us > {now_us} - :cache_us
 ORDER BY completed_us DESC LIMIT 1;

-- name: add_verification
INSERT INTO holdfast_records_verification (id, account_id, email, person_uid, job_id, created_us)
VALUES (:id, :account_id, :email, :person_uid, :job_id, {now_us});

-- name: verification
SELECT verification.id, verification.email, verification.person_uid, verification.provider, verification.result,
       verification.details, verification.created_us, verification.completed_us, verification.job_id,
       job.state AS job_state, job.error_code, job.error_message
  FROM holdfast_records_verification AS verification
  LEFT JOIN holdfast_job AS job ON job.id = verification.job_id
 WHERE verification.id = :id AND verification.account_id = :account_id;

-- name: verifications
SELECT verification.id, verification.email, verification.person_uid, verification.provider, verification.result,
       verification.details, verification.created_us, verification.completed_us, verification.job_id,
       job.state AS job_state, job.error_code, job.error_message
  FROM holdfast_records_verification AS verification
  LEFT JOIN holdfast_job AS job ON job.id = verification.job_id
 WHERE verification.account_id = :account_id AND verification.id < :before
 ORDER BY verification.id DESC LIMIT :count;

-- name: to_verify
SELECT email, account_id, completed_us FROM holdfast_records_verification WHERE id = :id;

-- name: note_verification
UPDATE holdfast_records_verification SET details = :details WHERE id = :id AND completed_us IS NULL;

-- name: complete_verification
UPDATE holdfast_records_verification
   SET provider = :provider, result = :result, details = :details, completed_us = {now_us}
 WHERE id = :id AND completed_us IS NULL RETURNING id;

-- name: add_enrichment
INSERT INTO holdfast_records_enrichment (id, account_id, company_uid, job_id, created_us)
VALUES (:id, :account_id, :company_uid, :job_id, {now_us});

-- name: enrichment
SELECT enrichment.id, enrichment.company_uid, enrichment.outcome, enrichment.result, enrichment.created_us,
       enrichment.completed_us, enrichment.job_id, job.state AS job_state, job.error_code, job.error_message
  FROM holdfast_records_enrichment AS enrichment
  LEFT JOIN holdfast_job AS job ON job.id = enrichment.job_id
 WHERE enrichment.id = :id AND enrichment.account_id = :account_id;

-- name: to_enrich
SELECT company.uid, company.website, enrichment.completed_us, enrichment.account_id
  FROM holdfast_records_enrichment AS enrichment
  LEFT JOIN holdfast_records_company AS company
    ON company.uid = enrichment.company_uid AND company.account_id = enrichment.account_id
 WHERE enrichment.id = :id;

-- name: note_enrichment
UPDATE holdfast_records_enrichment SET result = :result WHERE id = :id AND completed_us IS NULL;

-- name: complete_enrichment
UPDATE holdfast_records_enrichment SET outcome = :outcome, result = :result, completed_us = {now_us}
 WHERE id = :id AND completed_us IS NULL RETURNING id;

-- name: fill_company
UPDATE holdfast_records_company
   SET title = :title, description = :description, contact_emails = :contact_emails, social_links = :social_links,
       enriched_us = {now_us}
 WHERE uid = :uid AND account_id = :account_id;
