-- Webhooks. A delivery is a job; its state is the job's own and stands nowhere else.

-- name: add_endpoint
INSERT INTO webhook_endpoint (id, tenant, url, scheme, event_types, delays_s, headers, timeout_us, retry_after_max_us,
                              in_flight_max, limit_count, limit_per_us, limit_burst, ordered, created_us)
VALUES (:id, :tenant, :url, :scheme, :event_types, :delays_s, :headers, :timeout_us, :retry_after_max_us,
        :in_flight_max, :limit_count, :limit_per_us, :limit_burst, :ordered, {now_us})
ON CONFLICT (id) DO NOTHING;

-- name: update_endpoint
UPDATE webhook_endpoint
   SET url = :url, scheme = :scheme, event_types = :event_types, delays_s = :delays_s, headers = :headers,
       timeout_us = :timeout_us, retry_after_max_us = :retry_after_max_us, in_flight_max = :in_flight_max,
       limit_count = :limit_count, limit_per_us = :limit_per_us, limit_burst = :limit_burst, ordered = :ordered
 WHERE id = :id;

-- name: endpoint
SELECT id, tenant, url, scheme, event_types, delays_s, headers, timeout_us, retry_after_max_us, in_flight_max,
       limit_count, limit_per_us, limit_burst, ordered, disabled_us, disabled_reason, created_us
  FROM webhook_endpoint WHERE id = :id;

-- name: hold_endpoint
-- Until the transaction ends nobody else changes it.
SELECT id FROM webhook_endpoint WHERE id = :id /* postgresql: FOR UPDATE */;

-- name: endpoints
SELECT id, tenant, url, scheme, event_types, delays_s, headers, timeout_us, retry_after_max_us, in_flight_max,
       limit_count, limit_per_us, limit_burst, ordered, disabled_us, disabled_reason, created_us
  FROM webhook_endpoint
 WHERE id > :after AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant)
 ORDER BY id LIMIT :count;

-- name: count_endpoints
SELECT count(*) FROM webhook_endpoint WHERE tenant = :tenant;

-- name: disable
UPDATE webhook_endpoint SET disabled_us = {now_us}, disabled_reason = :reason
 WHERE id = :id AND disabled_us IS NULL RETURNING id;

-- name: enable
UPDATE webhook_endpoint SET disabled_us = NULL, disabled_reason = NULL
 WHERE id = :id AND disabled_us IS NOT NULL RETURNING id;

-- name: add_secret
INSERT INTO webhook_secret (id, endpoint_id, secret, created_us) VALUES (:id, :endpoint_id, :secret, {now_us})
ON CONFLICT (id) DO NOTHING;

-- name: expire_secrets
-- What expires sooner anyway stays as it is.
UPDATE webhook_secret SET expires_us = {now_us} + :overlap_us
 WHERE endpoint_id = :endpoint_id AND id <> :kept AND (expires_us IS NULL OR expires_us > {now_us} + :overlap_us);

-- name: forget_secrets
DELETE FROM webhook_secret WHERE endpoint_id = :endpoint_id AND expires_us <= {now_us};

-- name: secrets
-- Those in force, the newest first.
SELECT secret, created_us, expires_us FROM webhook_secret
 WHERE endpoint_id = :endpoint_id AND (expires_us IS NULL OR expires_us > {now_us}) ORDER BY id DESC;

-- name: breaker
SELECT state FROM breaker WHERE name = :name;

-- name: begin_pace
INSERT INTO webhook_pace (endpoint_id, tat_us) VALUES (:endpoint_id, 0) ON CONFLICT (endpoint_id) DO NOTHING;

-- name: pace
SELECT tat_us FROM webhook_pace WHERE endpoint_id = :endpoint_id /* postgresql: FOR UPDATE */;

-- name: set_pace
UPDATE webhook_pace SET tat_us = :tat_us WHERE endpoint_id = :endpoint_id;

-- name: publish
INSERT INTO webhook_event (id, tenant, type, order_key, body, published_by, created_us)
SELECT given.id, given.tenant, given.type, given.order_key, given.body, :published_by, {now_us}
  FROM {given: id text, tenant text, type text, order_key text, body text}
 WHERE true
ON CONFLICT (id) DO NOTHING;

-- name: published
SELECT id, tenant, type, order_key, body, published_by FROM webhook_event WHERE id {among: ids};

-- name: receivers
-- Everybody who may be told; which types they want is looked at by the caller.
SELECT id, event_types, delays_s, ordered FROM webhook_endpoint
 WHERE tenant = :tenant AND disabled_us IS NULL ORDER BY id LIMIT :most;

-- name: line_up
INSERT INTO webhook_sequence (endpoint_id, order_key, position) VALUES (:endpoint_id, :order_key, 1)
ON CONFLICT (endpoint_id, order_key) DO UPDATE SET position = webhook_sequence.position + 1
RETURNING position;

-- name: plan
INSERT INTO webhook_delivery (event_id, endpoint_id, job_id, order_key, position)
SELECT given.event_id, given.endpoint_id, given.job_id, given.order_key, given.position
  FROM {given: event_id text, endpoint_id text, job_id text, order_key text, position bigint};

-- name: body
SELECT body FROM webhook_event WHERE id = :event_id;

-- name: before
-- The event just before this one under its key, unless it has ended.
SELECT job.state, job.due_us - {now_us} FROM webhook_delivery JOIN job ON job.id = webhook_delivery.job_id
 WHERE webhook_delivery.endpoint_id = :endpoint_id AND webhook_delivery.order_key = :order_key
   AND webhook_delivery.position = :position - 1 AND job.state || '' IN ('queued', 'processing');

-- name: call_next
-- The next one in line need not wait for its time.
UPDATE job SET due_us = {now_us}, lane = CASE WHEN pardon_count > 0 THEN 'alone' ELSE 'ready' END
 WHERE id = (SELECT job_id FROM webhook_delivery
              WHERE endpoint_id = :endpoint_id AND order_key = :order_key AND position = :position + 1)
   AND state || '' = 'queued' AND lane = 'waiting';

-- name: event
SELECT id, tenant, type, order_key AS key, body, created_us FROM webhook_event WHERE id = :event_id;

-- name: deliveries
SELECT webhook_delivery.endpoint_id, webhook_delivery.job_id, job.state, job.attempt_count, job.manual_retry_count,
       job.due_us, job.error_code, job.error_message, job.last_attempt_us, job.finished_us, job.failed_us
  FROM webhook_delivery LEFT JOIN job ON job.id = webhook_delivery.job_id
 WHERE webhook_delivery.event_id = :event_id ORDER BY webhook_delivery.endpoint_id LIMIT :most;

-- name: undelivered
-- What a dead letter was to bring, to whom, and what the other side said last.
SELECT webhook_delivery.job_id, webhook_delivery.endpoint_id, webhook_event.id, webhook_event.type, webhook_event.body,
       (SELECT upstream_status FROM journal
         WHERE subject = webhook_delivery.job_id AND verb = 'failed' ORDER BY id DESC LIMIT 1)
  FROM webhook_delivery JOIN webhook_event ON webhook_event.id = webhook_delivery.event_id
 WHERE webhook_delivery.job_id {among: ids};

-- name: old_events
SELECT id FROM webhook_event WHERE created_us < {now_us} - :older_us
   AND NOT EXISTS (SELECT 1 FROM webhook_delivery JOIN job ON job.id = webhook_delivery.job_id
                    WHERE webhook_delivery.event_id = webhook_event.id AND job.state <> 'complete')
 ORDER BY created_us LIMIT :count;

-- name: prune_deliveries
DELETE FROM webhook_delivery WHERE event_id {among: ids};

-- name: prune_events
DELETE FROM webhook_event WHERE id {among: ids};
