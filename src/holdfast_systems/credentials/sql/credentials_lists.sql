-- What the platform's lists and pages read. The tables are the core's: they are read here, and written by nobody but it.

-- name: events
-- By age, the newest first. By the index of times: SQLite would rather read and sort everything that the tenant ever sent.
SELECT event.id AS event_id, event.type AS event_type, event.created_us, count(delivery.job_id) AS deliveries,
       sum(CASE WHEN job.state = 'failed' THEN 1 ELSE 0 END) AS failed,
       sum(CASE WHEN job.state IN ('queued', 'processing') THEN 1 ELSE 0 END) AS pending
  FROM (SELECT tenant, id, type, created_us FROM holdfast_webhook_event
         WHERE /* sqlite: + */ tenant = :tenant AND created_us <= :before_us AND (created_us < :before_us OR id < :before_id)
           AND (CAST(:event_type AS TEXT) IS NULL OR type = :event_type)
         ORDER BY created_us DESC, id DESC LIMIT :count) AS event
  LEFT JOIN holdfast_webhook_delivery AS delivery ON delivery.tenant = event.tenant AND delivery.event_id = event.id
  LEFT JOIN holdfast_job AS job ON job.id = delivery.job_id
 GROUP BY event.id, event.type, event.created_us ORDER BY event.created_us DESC, event.id DESC;

-- name: event_types
-- Those that were ever published, for a filter.
SELECT DISTINCT type FROM holdfast_webhook_event WHERE tenant = :tenant ORDER BY type LIMIT :count;

-- name: reasons
-- Why the last attempt of each of these jobs failed.
SELECT subject, reason FROM holdfast_journal
 WHERE id IN (SELECT max(id) FROM holdfast_journal WHERE subject {among: ids} AND verb IN ('retried', 'failed')
               GROUP BY subject);

-- name: dead_groups
-- Dead letters by endpoint and code, the largest group first.
SELECT delivery.endpoint_id, job.error_code, count(*) AS letters, min(job.failed_us) AS oldest_us,
       max(job.failed_us) AS newest_us, max(job.error_message) AS error_message
  FROM holdfast_job AS job JOIN holdfast_webhook_delivery AS delivery ON delivery.job_id = job.id
 WHERE job.state = 'failed' AND delivery.tenant = :tenant
   AND (CAST(:event_id AS TEXT) IS NULL OR delivery.event_id = :event_id)
   AND (CAST(:endpoint_id AS TEXT) IS NULL OR delivery.endpoint_id = :endpoint_id)
 GROUP BY delivery.endpoint_id, job.error_code
 ORDER BY count(*) DESC, delivery.endpoint_id, job.error_code LIMIT :count;

-- name: waiting
-- How many deliveries wait for each endpoint, counted up to `most` in all.
SELECT delivery.endpoint_id, count(*)
  FROM (SELECT id FROM holdfast_job WHERE state = 'queued' AND queue = :queue LIMIT :most) AS waiting
  JOIN holdfast_webhook_delivery AS delivery ON delivery.job_id = waiting.id
 WHERE delivery.tenant = :tenant GROUP BY delivery.endpoint_id;

-- name: breakers
SELECT name, state, reason, until_us FROM holdfast_breaker WHERE name {among: names} AND state <> 'closed';
