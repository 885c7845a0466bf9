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

-- name: failed_end
SELECT failed_us, id FROM holdfast_job
 WHERE state = 'failed' AND failed_us >= :since_us AND failed_us < :until_us
   AND (failed_us, id) < (:before_us, :before_id)
 ORDER BY failed_us DESC, id DESC LIMIT 1 OFFSET :scan;

-- name: failed
SELECT id, tenant, queue, kind, state, lane, priority, due_us, attempt_count, manual_retry_count, error_code,
       error_message, created_us, last_attempt_us, finished_us, failed_us, lease_owner
  FROM holdfast_job
 WHERE state = 'failed' AND failed_us >= :since_us AND failed_us < :until_us
   AND (failed_us, id) < (:before_us, :before_id) AND (failed_us, id) >= (:end_us, :end_id)
   AND (CAST(:queue AS TEXT) IS NULL OR queue || '' = :queue) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
   AND (CAST(:code AS TEXT) IS NULL OR error_code = :code)
   AND (CAST(:tenant AS TEXT) IS NULL OR tenant || '' = :tenant)
   AND (CAST(:fingerprint AS TEXT) IS NULL OR fingerprint || '' = :fingerprint)
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

-- name: deaths
-- How many died of each thing in each slice of time, of those between two places in the order of death.
SELECT fingerprint, (failed_us - :slice_from_us) / :slice_us AS slice, count(*) AS count, min(failed_us) AS first_us,
       max(failed_us) AS last_us, max(id) AS example_id
  FROM holdfast_job
 WHERE state = 'failed' AND failed_us >= :since_us AND failed_us < :until_us
   AND (failed_us, id) < (:before_us, :before_id) AND (failed_us, id) >= (:end_us, :end_id)
   AND (CAST(:queue AS TEXT) IS NULL OR queue || '' = :queue) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
   AND (CAST(:code AS TEXT) IS NULL OR error_code = :code)
   AND (CAST(:tenant AS TEXT) IS NULL OR tenant || '' = :tenant)
   AND (CAST(:fingerprint AS TEXT) IS NULL OR fingerprint || '' = :fingerprint)
   AND (CAST(:text AS TEXT) IS NULL OR /* postgresql: strpos */ /* sqlite: instr */ (
        lower(COALESCE(error_message, '') || ' ' || COALESCE(error_technical, '')), lower(:text)) > 0)
 GROUP BY fingerprint, (failed_us - :slice_from_us) / :slice_us;

-- name: examples
SELECT id, error_code, kind, queue, error_message, error_technical FROM holdfast_job WHERE id {among: ids};

-- name: first_deaths
-- When each group was first seen: one look into the index for each, however many letters it has.
SELECT asked.fingerprint,
       (SELECT min(failed_us) FROM holdfast_job WHERE state = 'failed' AND fingerprint = asked.fingerprint) AS first_us
  FROM /* postgresql: unnest(:fingerprints::text[]) AS asked(fingerprint) */
       /* sqlite: (SELECT value AS fingerprint FROM json_each(:fingerprints)) AS asked */
 WHERE asked.fingerprint {among: fingerprints};

-- name: dead_count
-- Bounded: more than `most` are counted no further.
SELECT count(*) FROM (
  SELECT 1 FROM holdfast_job
   WHERE state = 'failed' AND failed_us >= :since_us AND failed_us < :until_us
     AND (failed_us, id) >= (:end_us, :end_id)
     AND (CAST(:queue AS TEXT) IS NULL OR queue || '' = :queue) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
     AND (CAST(:code AS TEXT) IS NULL OR error_code = :code)
     AND (CAST(:tenant AS TEXT) IS NULL OR tenant || '' = :tenant)
     AND (CAST(:fingerprint AS TEXT) IS NULL OR fingerprint || '' = :fingerprint)
     AND (CAST(:text AS TEXT) IS NULL OR /* postgresql: strpos */ /* sqlite: instr */ (
          lower(COALESCE(error_message, '') || ' ' || COALESCE(error_technical, '')), lower(:text)) > 0)
   ORDER BY failed_us DESC, id DESC LIMIT :most) AS found;

-- name: alike_count
SELECT count(*) FROM (
  SELECT 1 FROM holdfast_job WHERE state = 'failed' AND fingerprint = :fingerprint ORDER BY failed_us DESC LIMIT :most) AS found;

-- name: any_disabled
SELECT 1 FROM holdfast_webhook_endpoint WHERE disabled_us IS NOT NULL LIMIT 1;

-- name: disabled
-- Which of these jobs are deliveries to an endpoint that is disabled.
SELECT webhook_delivery.job_id
  FROM holdfast_webhook_delivery AS webhook_delivery JOIN holdfast_webhook_endpoint AS webhook_endpoint ON webhook_endpoint.id = webhook_delivery.endpoint_id
 WHERE webhook_delivery.job_id {among: ids} AND webhook_endpoint.disabled_us IS NOT NULL;

-- name: unreceivable_count
-- As `dead_count`, of deliveries whose endpoint is disabled.
SELECT count(*) FROM (
  SELECT 1 FROM holdfast_job AS job
   WHERE state = 'failed' AND failed_us >= :since_us AND failed_us < :until_us
     AND (failed_us, id) >= (:end_us, :end_id)
     AND EXISTS (SELECT 1 FROM holdfast_webhook_delivery AS webhook_delivery
                   JOIN holdfast_webhook_endpoint AS webhook_endpoint ON webhook_endpoint.id = webhook_delivery.endpoint_id
                  WHERE webhook_delivery.job_id = job.id AND webhook_endpoint.disabled_us IS NOT NULL)
     AND (CAST(:queue AS TEXT) IS NULL OR queue || '' = :queue) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
     AND (CAST(:code AS TEXT) IS NULL OR error_code = :code)
     AND (CAST(:tenant AS TEXT) IS NULL OR tenant || '' = :tenant)
     AND (CAST(:fingerprint AS TEXT) IS NULL OR fingerprint || '' = :fingerprint)
     AND (CAST(:text AS TEXT) IS NULL OR /* postgresql: strpos */ /* sqlite: instr */ (
          lower(COALESCE(error_message, '') || ' ' || COALESCE(error_technical, '')), lower(:text)) > 0)
   ORDER BY failed_us DESC, id DESC LIMIT :most) AS found;

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
  JOIN holdfast_webhook_delivery AS webhook_delivery ON webhook_delivery.event_id = walked.id
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

-- name: delivery_of
SELECT webhook_delivery.event_id, webhook_delivery.endpoint_id, webhook_event.type, webhook_event.body,
       webhook_event.created_us, webhook_endpoint.url, webhook_endpoint.disabled_reason, webhook_endpoint.delays_s
  FROM holdfast_webhook_delivery AS webhook_delivery
  LEFT JOIN holdfast_webhook_event AS webhook_event ON webhook_event.id = webhook_delivery.event_id
  LEFT JOIN holdfast_webhook_endpoint AS webhook_endpoint ON webhook_endpoint.id = webhook_delivery.endpoint_id
 WHERE webhook_delivery.job_id = :job_id;

-- name: last_events
-- The end of a history, the last first.
SELECT id, at_us, verb, attempt, worker, code, upstream_status, duration_us, due_us, reason FROM (
  SELECT position AS id, at_us, verb, attempt, worker, code, upstream_status, duration_us, due_us, reason
    FROM holdfast_job_event WHERE subject = :subject ORDER BY position DESC LIMIT :count
) AS page ORDER BY at_us DESC, id DESC;

-- name: known
-- Which series of these metrics have grown lately; there are never more than the metrics may have.
SELECT name, labels FROM holdfast_metric_total WHERE name {among: names} AND seen_us >= {now_us} - :lately_us;

-- name: limits
-- Who has used up most of a rate limit just now.
SELECT rule, subject, tat_us FROM holdfast_rate_limit WHERE tat_us > {now_us} ORDER BY tat_us DESC LIMIT :count;

-- name: breaker
SELECT state, mode FROM holdfast_breaker WHERE name = :name /* postgresql: FOR UPDATE */;

-- name: recover
-- By hand, from whichever state it stands in.
UPDATE holdfast_breaker
   SET state = 'closed', reason = NULL, opened_us = NULL, until_us = NULL, probes_left = 0, probes_good = 0,
       generation = generation + 1
 WHERE name = :name AND state <> 'closed'
RETURNING name;

-- name: audit
INSERT INTO holdfast_audit (id, at_us, who, verb, subject, reason, state, result, total, done, touched_us)
VALUES (:id, {now_us}, :who, :verb, :subject, :reason, :state, :result, :total, :done, {now_us})
ON CONFLICT (id) DO NOTHING;

-- name: progress
UPDATE holdfast_audit SET done = done + :done, refused = refused + :refused, touched_us = {now_us}
 WHERE id = :id AND state = 'running';

-- name: counted
UPDATE holdfast_audit SET total = :total, touched_us = {now_us} WHERE id = :id;

-- name: ended
UPDATE holdfast_audit SET state = :state, result = :result, touched_us = {now_us} WHERE id = :id AND state = 'running';

-- name: deed
SELECT id, at_us, who, verb, subject, reason, state, result, total, done, refused, touched_us FROM holdfast_audit WHERE id = :id;

-- name: deeds
SELECT id, at_us, who, verb, subject, reason, state, result, total, done, refused, touched_us
  FROM holdfast_audit
 WHERE id < :before AND (CAST(:who AS TEXT) IS NULL OR who = :who) AND (CAST(:verb AS TEXT) IS NULL OR verb = :verb)
 ORDER BY id DESC LIMIT :count;

-- name: prune
-- Of the oldest so many, what has been kept long enough. Ids begin with the time, so nothing behind them is older.
DELETE FROM holdfast_audit
 WHERE id IN (SELECT id FROM (SELECT id, at_us FROM holdfast_audit ORDER BY id LIMIT :count) AS oldest
               WHERE at_us < {now_us} - :older_us);
