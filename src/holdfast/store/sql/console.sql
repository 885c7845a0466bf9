-- What the console reads. Every walk follows an index and ends after `:scan` rows or `:count` finds: where a filter is
-- given, the place at which a walk of `:scan` rows ends is looked up first and given as its end (`:end_…`).

-- name: newest_end
SELECT id FROM holdfast_job WHERE id < :before AND id >= :since ORDER BY id DESC LIMIT 1 OFFSET :scan;

-- name: newest
-- Jobs by id, which is by their age, the newest first.
SELECT id, tenant, queue, kind, state, lane, priority, due_us, attempt_count, manual_retry_count, error_code,
       error_message, created_us, last_attempt_us, finished_us, failed_us, lease_owner
  FROM holdfast_job
 WHERE id < :before AND id >= :end_id AND id >= :since
   AND (CAST(:state AS TEXT) IS NULL OR state || '' = :state)
   AND (CAST(:queue AS TEXT) IS NULL OR queue || '' = :queue) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
   AND (CAST(:tenant AS TEXT) IS NULL OR tenant || '' = :tenant)
   AND (CAST(:text AS TEXT) IS NULL OR /* postgresql: strpos */ /* sqlite: instr */ (
        lower(id || ' ' || kind || ' ' || COALESCE(dedupe_key, '') || ' ' || COALESCE(error_message, '') || ' '
              || COALESCE(error_technical, '')), lower(:text)) > 0)
 ORDER BY id DESC LIMIT :count;

-- name: failed
SELECT id, tenant, queue, kind, state, lane, priority, due_us, attempt_count, manual_retry_count, error_code,
       error_message, created_us, last_attempt_us, finished_us, failed_us, lease_owner
  FROM holdfast_job
 WHERE state = 'failed' AND failed_us >= :since_us AND failed_us < :until_us
   AND (failed_us, id) < (:before_us, :before_id) AND (failed_us, id) >= (:end_us, :end_id)
   AND (CAST(:queue AS TEXT) IS NULL OR queue || '' = :queue) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
   AND (CAST(:code AS TEXT) IS NULL OR error_code = :code)
   AND (CAST(:tenant AS TEXT) IS NULL OR tenant || '' = :tenant)
   AND (CAST(:remote_code AS TEXT) IS NULL OR remote_code = :remote_code)
   AND (CAST(:fingerprint AS TEXT) IS NULL OR fingerprint || '' = :fingerprint)
   AND (CAST(:endpoint AS TEXT) IS NULL OR EXISTS (
        SELECT 1 FROM holdfast_webhook_delivery AS sent WHERE sent.job_id = id AND sent.endpoint_id = :endpoint))
   AND (CAST(:text AS TEXT) IS NULL OR /* postgresql: strpos */ /* sqlite: instr */ (
        lower(id || ' ' || kind || ' ' || COALESCE(dedupe_key, '') || ' ' || COALESCE(error_message, '') || ' '
              || COALESCE(error_technical, '')), lower(:text)) > 0)
 ORDER BY failed_us DESC, id DESC LIMIT :count;

-- name: alike
-- Dead letters of one group, the one that died last first: the index is by group, so nothing else is walked.
SELECT id, tenant, queue, kind, state, lane, priority, due_us, attempt_count, manual_retry_count, error_code,
       error_message, created_us, last_attempt_us, finished_us, failed_us, lease_owner
  FROM holdfast_job
 WHERE state = 'failed' AND fingerprint = :fingerprint AND failed_us <= :before_us
   AND (failed_us < :before_us OR id < :before_id)
 ORDER BY failed_us DESC, id DESC LIMIT :count;

-- name: queued_end
SELECT queue, lane, priority, due_us, id FROM holdfast_job
 WHERE state = 'queued' AND (queue, lane, priority, due_us, id) > (:queue_from, :lane, :priority, :due_us, :id)
 ORDER BY queue, lane, priority, due_us, id LIMIT 1 OFFSET :scan;

-- name: queued
-- In the order in which they will be claimed.
SELECT id, tenant, queue, kind, state, lane, priority, due_us, attempt_count, manual_retry_count, error_code,
       error_message, created_us, last_attempt_us, finished_us, failed_us, lease_owner
  FROM holdfast_job
 WHERE state = 'queued' AND (queue, lane, priority, due_us, id) > (:queue_from, :lane, :priority, :due_us, :id)
   AND (:endless = 1 OR (queue, lane, priority, due_us, id) <= (:end_queue, :end_lane, :end_priority, :end_due_us, :end_id))
   AND (CAST(:queue AS TEXT) IS NULL OR queue = :queue) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
   AND (CAST(:tenant AS TEXT) IS NULL OR tenant || '' = :tenant)
   AND (CAST(:since AS TEXT) IS NULL OR id || '' >= :since) AND (CAST(:until AS TEXT) IS NULL OR id || '' < :until)
   AND (CAST(:text AS TEXT) IS NULL OR /* postgresql: strpos */ /* sqlite: instr */ (
        lower(id || ' ' || kind || ' ' || COALESCE(dedupe_key, '')), lower(:text)) > 0)
 ORDER BY queue, lane, priority, due_us, id LIMIT :count;

-- name: processing
-- What workers hold: never more than they can run at once.
SELECT id, tenant, queue, kind, state, lane, priority, due_us, attempt_count, manual_retry_count, error_code,
       error_message, created_us, last_attempt_us, finished_us, failed_us, lease_owner
  FROM holdfast_job
 WHERE lease_owner IS NOT NULL AND lease_owner >= :owner AND (lease_owner > :owner OR id || '' > :id)
   AND (CAST(:queue AS TEXT) IS NULL OR queue || '' = :queue) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
   AND (CAST(:tenant AS TEXT) IS NULL OR tenant || '' = :tenant)
   AND (CAST(:since AS TEXT) IS NULL OR id || '' >= :since) AND (CAST(:until AS TEXT) IS NULL OR id || '' < :until)
   AND (CAST(:text AS TEXT) IS NULL OR /* postgresql: strpos */ /* sqlite: instr */ (
        lower(id || ' ' || kind || ' ' || COALESCE(dedupe_key, '')), lower(:text)) > 0)
 ORDER BY lease_owner, id LIMIT :count;

-- name: events_end
SELECT created_us, id FROM holdfast_webhook_event
 WHERE created_us >= :since_us AND created_us < :until_us AND created_us <= :before_us
   AND (created_us < :before_us OR id < :before_id)
 ORDER BY created_us DESC, id DESC LIMIT 1 OFFSET :scan;

-- name: deliveries
-- Events by age, the newest first, each with all its receivers and the job that brings it there.
SELECT walked.id AS event_id, walked.type, walked.tenant, walked.created_us, webhook_delivery.endpoint_id,
       webhook_delivery.job_id, job.state, job.lane, job.attempt_count, job.due_us, job.error_code, job.error_message,
       job.last_attempt_us, job.finished_us, job.failed_us
  FROM (SELECT id, type, tenant, created_us FROM holdfast_webhook_event
         WHERE created_us >= :since_us AND created_us < :until_us AND created_us <= :before_us
           AND (created_us < :before_us OR id < :before_id)
         ORDER BY created_us DESC, id DESC LIMIT :scan) AS walked
  JOIN holdfast_webhook_delivery AS webhook_delivery ON webhook_delivery.tenant = walked.tenant
   AND webhook_delivery.event_id = walked.id
  LEFT JOIN holdfast_job AS job ON job.id = webhook_delivery.job_id
 WHERE (CAST(:state AS TEXT) IS NULL OR COALESCE(job.state, 'complete') = :state)
   AND (CAST(:code AS TEXT) IS NULL OR job.error_code = :code)
   AND (CAST(:endpoint AS TEXT) IS NULL OR webhook_delivery.endpoint_id || '' = :endpoint)
   AND (CAST(:type AS TEXT) IS NULL OR walked.type = :type)
   AND (CAST(:tenant AS TEXT) IS NULL OR walked.tenant = :tenant)
   AND (CAST(:text AS TEXT) IS NULL OR /* postgresql: strpos */ /* sqlite: instr */ (
        lower(walked.id || ' ' || walked.type || ' ' || webhook_delivery.job_id || ' '
              || COALESCE(job.error_message, '') || ' ' || COALESCE(job.error_technical, '')), lower(:text)) > 0)
 ORDER BY walked.created_us DESC, walked.id DESC, webhook_delivery.endpoint_id LIMIT :count;

-- name: known
-- Which series of these metrics have grown lately; there are never more than the metrics may have.
SELECT name, labels FROM holdfast_metric_total WHERE name {among: names} AND seen_us >= {now_us} - :lately_us;

-- name: limits
-- Who has used up most of a rate limit just now.
SELECT rule, subject, tat_us FROM holdfast_rate_limit WHERE tat_us > {now_us} ORDER BY tat_us DESC LIMIT :count;
