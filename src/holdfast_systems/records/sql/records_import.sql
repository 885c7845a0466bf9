-- Imports: rows of many at once, and how far each import has come, in one transaction.

-- name: add
INSERT INTO holdfast_records_import
  (id, account_id, format, header, bytes, sha256, parts, rows_total, job_id, position_part, position_row,
   rows_succeeded, rows_failed, created_us)
VALUES (:id, :account_id, :format, :header, :bytes, :sha256, :parts, :rows_total, :job_id, 0, 0, 0, 0, {now_us});

-- name: show
SELECT import.id, import.format, import.bytes, import.sha256, import.parts, import.rows_total, import.rows_succeeded,
       import.rows_failed, import.created_us, import.finished_us, job.state AS job_state, job.error_code,
       job.error_message
  FROM holdfast_records_import AS import LEFT JOIN holdfast_job AS job ON job.id = import.job_id
 WHERE import.id = :id AND import.account_id = :account_id;

-- name: list
SELECT import.id, import.format, import.bytes, import.sha256, import.parts, import.rows_total, import.rows_succeeded,
       import.rows_failed, import.created_us, import.finished_us, job.state AS job_state, job.error_code,
       job.error_message
  FROM holdfast_records_import AS import LEFT JOIN holdfast_job AS job ON job.id = import.job_id
 WHERE import.account_id = :account_id AND import.id < :before
 ORDER BY import.id DESC LIMIT :count;

-- name: work
SELECT account_id, format, header, parts, position_part, position_row, rows_succeeded + rows_failed, finished_us
  FROM holdfast_records_import WHERE id = :id;

-- name: hold
-- A worker that comes with an older position has lost the import to another worker.
SELECT id FROM holdfast_records_import
 WHERE id = :id AND position_part = :part AND position_row = :row AND finished_us IS NULL
 /* postgresql: FOR UPDATE */;

-- name: advance
UPDATE holdfast_records_import
   SET position_part = :next_part, position_row = :next_row, rows_succeeded = rows_succeeded + :succeeded,
       rows_failed = rows_failed + :failed, job_id = :job_id,
       finished_us = CASE WHEN :finished = 1 THEN {now_us} END
 WHERE id = :id RETURNING id;

-- name: add_companies
INSERT INTO holdfast_records_company
  (uid, account_id, name, website, website_key, industry, created_us, changed_us)
SELECT uid, :account_id, name, website, website_key, industry, {now_us}, {now_us}
  FROM {given: uid text, name text, website text, website_key text, industry text}
 /* sqlite: WHERE true */
ON CONFLICT DO NOTHING
RETURNING uid;

-- name: add_slots
INSERT INTO holdfast_records_slot (company_uid, role)
SELECT uid, role FROM {given: uid text} CROSS JOIN (SELECT 'CEO' AS role UNION ALL SELECT 'CFO' UNION ALL SELECT 'HR') AS roles;

-- name: companies
-- Those of these companies that there are; until the end of the transaction they cannot be removed.
SELECT uid FROM holdfast_records_company
 WHERE uid {among: uids} AND account_id = :account_id /* postgresql: FOR KEY SHARE */;

-- name: add_people
INSERT INTO holdfast_records_person (uid, account_id, company_uid, full_name, email, role, created_us, changed_us)
SELECT uid, :account_id, company_uid, full_name, email, role, {now_us}, {now_us}
  FROM {given: uid text, company_uid text, full_name text, email text, role text};

-- name: add_batch
INSERT INTO holdfast_records_import_batch (import_id, first_row, rows, failed, outcomes)
VALUES (:import_id, :first_row, :rows, :failed, :outcomes);

-- name: batches
SELECT first_row, outcomes FROM holdfast_records_import_batch
 WHERE import_id = :import_id AND first_row >= :first_row AND (:failed = 0 OR failed > 0)
 ORDER BY first_row LIMIT :count;

-- name: batch_of
-- The batch that a row belongs to.
SELECT max(first_row) FROM holdfast_records_import_batch WHERE import_id = :import_id AND first_row <= :row;
