-- What has been kept long enough, in small batches.

-- name: failed
DELETE FROM holdfast_job
 WHERE id /* postgresql: = ANY(ARRAY( */ /* sqlite: IN ( */
       SELECT id FROM holdfast_job WHERE state = 'failed' AND failed_us < {now_us} - :older_us
        ORDER BY failed_us LIMIT :count /* postgresql: FOR UPDATE SKIP LOCKED )) */ /* sqlite: ) */;

-- name: journal_page
-- The next rows of the journal: how many, the last of them, and whether any is old enough.
SELECT count(*), max(id), min(at_us) < {now_us} - :older_us
  FROM (SELECT id, at_us FROM holdfast_journal WHERE id > :after ORDER BY id LIMIT :count) AS page;

-- name: journal
-- The history of what still lives is kept.
DELETE FROM holdfast_journal AS journal
 WHERE id > :after AND id <= :last AND at_us < {now_us} - :older_us
   AND NOT EXISTS (SELECT 1 FROM holdfast_job AS job WHERE job.id = journal.subject AND job.state <> 'complete');

-- name: workers
-- Long gone, and nothing left of theirs to take back.
DELETE FROM holdfast_worker AS worker
 WHERE lease_until_us < {now_us} - :older_us
   AND NOT EXISTS (SELECT 1 FROM holdfast_job AS job WHERE job.lease_owner = worker.id);
