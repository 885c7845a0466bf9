-- Uploads and, beside each, the job that converts it.

-- name: list
SELECT upload.id, upload.owner, upload.file_name, upload.mapping, upload.bytes, upload.sha256, upload.job_id,
       upload.error_code AS refused_code, upload.error_message AS refused_message, upload.created_us, upload.purged_us,
       job.state, job.lane, job.due_us, job.attempt_count, job.pardon_count, job.manual_retry_count, job.started_us,
       job.last_attempt_us, job.finished_us, job.failed_us, job.error_code, job.error_message, job.result,
       -- A job between two attempts holds no error; the journal has that of the attempt.
       CASE WHEN job.state = 'queued' AND job.attempt_count > 0 THEN
         (SELECT journal.code FROM holdfast_journal AS journal WHERE journal.subject = job.id AND journal.verb = 'retried'
           ORDER BY journal.id DESC LIMIT 1) END AS retry_code
  FROM holdfast_conversion_upload AS upload LEFT JOIN holdfast_job AS job ON job.id = upload.job_id
 WHERE upload.owner = :owner AND (CAST(:before AS TEXT) IS NULL OR upload.id < :before)
 ORDER BY upload.id DESC LIMIT :count;

-- name: counts
-- How an owner's uploads stand: going on, ready to be downloaded, failed, and failed in a way that can be retried.
SELECT COALESCE(sum(CASE WHEN job.state IN ('queued', 'processing') THEN 1 ELSE 0 END), 0),
       COALESCE(sum(CASE WHEN job.state = 'complete' AND upload.purged_us IS NULL THEN 1 ELSE 0 END), 0),
       COALESCE(sum(CASE WHEN COALESCE(job.state, 'failed') = 'failed' THEN 1 ELSE 0 END), 0),
       COALESCE(sum(CASE WHEN job.state = 'failed' AND upload.purged_us IS NULL THEN 1 ELSE 0 END), 0),
       count(*)
  FROM holdfast_conversion_upload AS upload LEFT JOIN holdfast_job AS job ON job.id = upload.job_id
 WHERE upload.owner = :owner;

-- name: retryable
SELECT upload.id, upload.file_name FROM holdfast_conversion_upload AS upload JOIN holdfast_job AS job ON job.id = upload.job_id
 WHERE upload.owner = :owner AND job.state = 'failed' AND upload.purged_us IS NULL ORDER BY upload.id LIMIT :count;

-- name: ended
-- What is complete, failed, refused, or older than its job.
SELECT upload.id, upload.file_name FROM holdfast_conversion_upload AS upload LEFT JOIN holdfast_job AS job ON job.id = upload.job_id
 WHERE upload.owner = :owner AND COALESCE(job.state, 'failed') IN ('complete', 'failed') ORDER BY upload.id LIMIT :count;

-- name: downloadable
SELECT upload.id, upload.file_name FROM holdfast_conversion_upload AS upload JOIN holdfast_job AS job ON job.id = upload.job_id
 WHERE upload.owner = :owner AND job.state = 'complete' AND upload.purged_us IS NULL ORDER BY upload.id DESC LIMIT :count;

-- name: show
SELECT upload.id, upload.owner, upload.file_name, upload.mapping, upload.bytes, upload.sha256, upload.job_id,
       upload.error_code AS refused_code, upload.error_message AS refused_message, upload.created_us, upload.purged_us,
       job.state, job.lane, job.due_us, job.attempt_count, job.pardon_count, job.manual_retry_count, job.started_us,
       job.last_attempt_us, job.finished_us, job.failed_us, job.error_code, job.error_message, job.result,
       CASE WHEN job.state = 'queued' AND job.attempt_count > 0 THEN
         (SELECT journal.code FROM holdfast_journal AS journal WHERE journal.subject = job.id AND journal.verb = 'retried'
           ORDER BY journal.id DESC LIMIT 1) END AS retry_code
  FROM holdfast_conversion_upload AS upload LEFT JOIN holdfast_job AS job ON job.id = upload.job_id
 WHERE upload.id = :id;

-- name: pulse
-- It changes whenever a job or a breaker moves, or somebody uploads. That a job was claimed stands in its own row, and is
-- looked up worker by worker: a look at all that are held would be one at the whole table where statistics are missing.
SELECT (SELECT max(id) FROM holdfast_journal), (SELECT max(id) FROM holdfast_conversion_upload),
       (SELECT max(claimed.at_us)
          FROM (SELECT (SELECT max(last_attempt_us) FROM holdfast_job WHERE lease_owner = worker.id) AS at_us FROM holdfast_worker AS worker) AS claimed);

-- name: gate
-- Whether jobs are let through to the gateway, and whether somebody holds the queue.
SELECT (SELECT state FROM holdfast_breaker WHERE name = :queue), (SELECT mode FROM holdfast_breaker WHERE name = :queue),
       (SELECT paused_us FROM holdfast_queue WHERE name = :queue);

-- name: twin
-- The upload that keeps this one out, if its job is alive or done; or one that no longer does.
SELECT upload.id,
       job.state IN ('queued', 'processing', 'complete') OR COALESCE(upload.reserved_until_us, 0) > {now_us}
  FROM holdfast_conversion_upload AS upload LEFT JOIN holdfast_job AS job ON job.id = upload.job_id
 WHERE upload.owner = :owner AND upload.twin_key = :twin_key;

-- name: free_twin
-- The key of an upload whose job has failed or is gone; a job that moved meanwhile keeps it.
UPDATE holdfast_conversion_upload AS conversion_upload SET twin_key = NULL
 WHERE id = :id AND COALESCE(reserved_until_us, 0) <= {now_us}
   AND NOT EXISTS (SELECT 1 FROM holdfast_job AS job WHERE job.id = conversion_upload.job_id
                                       AND job.state IN ('queued', 'processing', 'complete'));

-- name: give_way
-- The XML of this upload was lost: the next upload of the file gets a new job.
UPDATE holdfast_conversion_upload SET twin_key = NULL WHERE id = :id RETURNING id;

-- name: insert
INSERT INTO holdfast_conversion_upload (id, owner, address, file_name, mapping, bytes, sha256, job_id, twin_key, created_us)
VALUES (:id, :owner, :address, :file_name, :mapping, :bytes, :sha256, :job_id, :twin_key, {now_us})
ON CONFLICT DO NOTHING;

-- name: refuse
INSERT INTO holdfast_conversion_upload (id, owner, address, file_name, mapping, bytes, sha256, error_code, error_message, created_us)
VALUES (:id, :owner, :address, :file_name, :mapping, :bytes, :sha256, :code, :message, {now_us})
ON CONFLICT (id) DO NOTHING;

-- name: reserve
-- A failed job is about to be revived: its key is taken again, unless a newer upload holds it.
UPDATE holdfast_conversion_upload AS conversion_upload SET twin_key = :twin_key, reserved_until_us = {now_us} + :hold_us
 WHERE id = :id AND purged_us IS NULL
   AND NOT EXISTS (SELECT 1 FROM holdfast_conversion_upload AS other
                    WHERE other.owner = conversion_upload.owner AND other.twin_key = :twin_key AND other.id <> :id)
RETURNING id;

-- name: delete
DELETE FROM holdfast_conversion_upload WHERE id = :id RETURNING job_id;

-- name: usage
-- What a session, an address and all together have here. A refused upload has a row and no file.
SELECT (SELECT count(*) FROM holdfast_conversion_upload WHERE owner = :owner AND purged_us IS NULL),
       (SELECT COALESCE(sum(CASE WHEN job_id IS NULL THEN 0 ELSE bytes + result_bytes END), 0)
          FROM holdfast_conversion_upload WHERE owner = :owner AND purged_us IS NULL),
       (SELECT count(*) FROM holdfast_conversion_upload WHERE address = :address AND purged_us IS NULL),
       (SELECT COALESCE(sum(CASE WHEN job_id IS NULL THEN 0 ELSE bytes + result_bytes END), 0)
          FROM holdfast_conversion_upload WHERE address = :address AND purged_us IS NULL),
       (SELECT COALESCE(sum(CASE WHEN job_id IS NULL THEN 0 ELSE bytes + result_bytes END), 0)
          FROM holdfast_conversion_upload WHERE purged_us IS NULL);

-- name: note_result
UPDATE holdfast_conversion_upload SET result_bytes = :bytes WHERE id = :id RETURNING id;

-- name: over
-- Uploads whose job ended longer ago than they are kept, oldest first; failed or refused ones are kept for less time.
SELECT upload.id, upload.job_id
  FROM holdfast_conversion_upload AS upload LEFT JOIN holdfast_job AS job ON job.id = upload.job_id
 WHERE upload.purged_us IS NULL AND upload.created_us < {now_us} - :sooner_us
   AND COALESCE(job.state, 'failed') IN ('complete', 'failed')
   AND COALESCE(job.finished_us, job.failed_us, upload.created_us)
         < {now_us} - CASE WHEN COALESCE(job.state, 'failed') = 'failed' THEN :failed_us ELSE :older_us END
   AND COALESCE(upload.reserved_until_us, 0) <= {now_us}
 ORDER BY upload.created_us LIMIT :count;

-- name: purge
-- The job is looked at again, by a statement of its own: it may have been revived since it was found.
UPDATE holdfast_conversion_upload AS conversion_upload SET purged_us = {now_us}, twin_key = NULL
 WHERE id = :id AND purged_us IS NULL AND COALESCE(reserved_until_us, 0) <= {now_us}
   AND NOT EXISTS (SELECT 1 FROM holdfast_job AS job WHERE job.id = conversion_upload.job_id AND job.state IN ('queued', 'processing'))
RETURNING id;

-- name: forgettable
-- A refused upload never had a file, and is forgotten as soon as its time is over.
SELECT id, job_id FROM holdfast_conversion_upload
 WHERE purged_us < {now_us} - CASE WHEN job_id IS NULL THEN 0 ELSE :older_us END ORDER BY purged_us LIMIT :count;

-- name: forget
DELETE FROM holdfast_conversion_upload WHERE id = :id AND purged_us IS NOT NULL RETURNING job_id;

-- name: kept
-- Which of these uploads still have files.
SELECT id FROM holdfast_conversion_upload WHERE id {among: ids} AND purged_us IS NULL;

-- name: ownerless
-- Dead letters whose upload was deleted: nobody can ask for them any more.
SELECT job.id FROM holdfast_job AS job
 WHERE job.state = 'failed' AND job.queue = :queue AND job.kind = :kind
   AND NOT EXISTS (SELECT 1 FROM holdfast_conversion_upload AS conversion_upload WHERE conversion_upload.job_id = job.id)
 ORDER BY job.failed_us LIMIT :count;

-- name: link
UPDATE holdfast_conversion_upload SET job_id = :job_id WHERE id = :id;
