-- Webhooks. A delivery is a job; its state is the job's own and stands nowhere else.

-- name: add_endpoint
INSERT INTO holdfast_webhook_endpoint (id, tenant, url, scheme, event_types, delays_s, headers, timeout_us, retry_after_max_us,
                              in_flight_max, limit_count, limit_per_us, limit_burst, ordered, created_us)
VALUES (:id, :tenant, :url, :scheme, :event_types, :delays_s, :headers, :timeout_us, :retry_after_max_us,
        :in_flight_max, :limit_count, :limit_per_us, :limit_burst, :ordered, {now_us})
ON CONFLICT (id) DO NOTHING;

-- name: update_endpoint
UPDATE holdfast_webhook_endpoint
   SET url = :url, scheme = :scheme, event_types = :event_types, delays_s = :delays_s, headers = :headers,
       timeout_us = :timeout_us, retry_after_max_us = :retry_after_max_us, in_flight_max = :in_flight_max,
       limit_count = :limit_count, limit_per_us = :limit_per_us, limit_burst = :limit_burst, ordered = :ordered
 WHERE id = :id;

-- name: endpoint
SELECT id, tenant, url, scheme, event_types, delays_s, headers, timeout_us, retry_after_max_us, in_flight_max,
       limit_count, limit_per_us, limit_burst, ordered, disabled_us, disabled_reason, created_us
  FROM holdfast_webhook_endpoint WHERE id = :id;

-- name: hold_endpoint
-- Until the transaction ends nobody else changes it.
SELECT id FROM holdfast_webhook_endpoint WHERE id = :id /* postgresql: FOR UPDATE */;

-- name: endpoints
SELECT id, tenant, url, scheme, event_types, delays_s, headers, timeout_us, retry_after_max_us, in_flight_max,
       limit_count, limit_per_us, limit_burst, ordered, disabled_us, disabled_reason, created_us
  FROM holdfast_webhook_endpoint
 WHERE id > :after AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant)
 ORDER BY id LIMIT :count;

-- name: count_endpoints
SELECT count(*) FROM holdfast_webhook_endpoint WHERE tenant = :tenant;

-- name: disable
UPDATE holdfast_webhook_endpoint SET disabled_us = {now_us}, disabled_reason = :reason
 WHERE id = :id AND disabled_us IS NULL RETURNING id;

-- name: enable
UPDATE holdfast_webhook_endpoint SET disabled_us = NULL, disabled_reason = NULL
 WHERE id = :id AND disabled_us IS NOT NULL RETURNING id;

-- name: remove_endpoint
-- Its secrets and its pace go with it. What is under way ends as a dead letter, so that nobody misses it.
DELETE FROM holdfast_webhook_endpoint WHERE id = :id RETURNING id;

-- name: forget_breaker
DELETE FROM holdfast_breaker WHERE name = :name;

-- name: forget_breaker_counts
DELETE FROM holdfast_breaker_count WHERE name = :name;

-- name: add_secret
INSERT INTO holdfast_webhook_secret (id, endpoint_id, secret, created_us) VALUES (:id, :endpoint_id, :secret, {now_us})
ON CONFLICT (id) DO NOTHING;

-- name: expire_secrets
-- What expires sooner anyway stays as it is.
UPDATE holdfast_webhook_secret SET expires_us = {now_us} + :overlap_us
 WHERE endpoint_id = :endpoint_id AND id <> :kept AND (expires_us IS NULL OR expires_us > {now_us} + :overlap_us);

-- name: forget_secrets
DELETE FROM holdfast_webhook_secret WHERE endpoint_id = :endpoint_id AND expires_us <= {now_us};

-- name: secrets
-- Those in force, the newest first.
SELECT secret, created_us, expires_us FROM holdfast_webhook_secret
 WHERE endpoint_id = :endpoint_id AND (expires_us IS NULL OR expires_us > {now_us}) ORDER BY id DESC;

-- name: secrets_of
SELECT id, secret FROM holdfast_webhook_secret WHERE endpoint_id = :endpoint_id ORDER BY id;

-- name: reseal_secret
UPDATE holdfast_webhook_secret SET secret = :secret WHERE id = :id AND secret = :stored;

-- name: stored_secrets
-- Endpoints after this one, each with its headers and a secret, to see under which key they are stored.
SELECT endpoint.id, endpoint.headers, COALESCE(secret.secret, '{}')
  FROM (SELECT id, headers FROM holdfast_webhook_endpoint WHERE id > :after ORDER BY id LIMIT :count) AS endpoint
  LEFT JOIN holdfast_webhook_secret AS secret ON secret.endpoint_id = endpoint.id
 ORDER BY endpoint.id;

-- name: breaker
SELECT state FROM holdfast_breaker WHERE name = :name;

-- name: begin_pace
INSERT INTO holdfast_webhook_pace (endpoint_id, tat_us) VALUES (:endpoint_id, 0) ON CONFLICT (endpoint_id) DO NOTHING;

-- name: pace
SELECT tat_us FROM holdfast_webhook_pace WHERE endpoint_id = :endpoint_id /* postgresql: FOR UPDATE */;

-- name: set_pace
UPDATE holdfast_webhook_pace SET tat_us = :tat_us WHERE endpoint_id = :endpoint_id;

-- name: publish
INSERT INTO holdfast_webhook_event (id, tenant, type, order_key, body, occurred_us, published_by, created_us)
SELECT given.id, given.tenant, given.type, given.order_key, given.body, given.occurred_us, :published_by, {now_us}
  FROM {given: id text, tenant text, type text, order_key text, body text, occurred_us bigint}
 WHERE true
ON CONFLICT (tenant, id) DO NOTHING;

-- name: published
SELECT id, tenant, type, order_key, body, occurred_us, published_by FROM holdfast_webhook_event
 WHERE tenant = :tenant AND id {among: ids};

-- name: receivers
-- Everybody who may be told; which types they want is looked at by the caller.
SELECT id, event_types, delays_s, ordered FROM holdfast_webhook_endpoint
 WHERE tenant = :tenant AND disabled_us IS NULL ORDER BY id LIMIT :most;

-- name: plan
INSERT INTO holdfast_webhook_delivery (tenant, event_id, endpoint_id, job_id)
SELECT given.tenant, given.event_id, given.endpoint_id, given.job_id
  FROM {given: tenant text, event_id text, endpoint_id text, job_id text};

-- name: body
SELECT body FROM holdfast_webhook_event
 WHERE tenant = :tenant AND id = :event_id;

-- name: event
SELECT id, tenant, type, order_key AS key, body, created_us FROM holdfast_webhook_event
 WHERE tenant = :tenant AND id = :event_id;

-- name: deliveries
SELECT webhook_delivery.endpoint_id, webhook_delivery.job_id, job.state, job.attempt_count, job.manual_retry_count,
       job.due_us, job.error_code, job.error_message, job.last_attempt_us, job.finished_us, job.failed_us, job.result
  FROM holdfast_webhook_delivery AS webhook_delivery LEFT JOIN holdfast_job AS job ON job.id = webhook_delivery.job_id
 WHERE webhook_delivery.tenant = :tenant AND webhook_delivery.event_id = :event_id ORDER BY webhook_delivery.endpoint_id LIMIT :most;

-- name: undelivered
-- What a dead letter was to bring, to whom, and what the other side said last.
SELECT webhook_delivery.job_id, webhook_delivery.endpoint_id, webhook_event.id, webhook_event.type, webhook_event.body,
       (SELECT upstream_status FROM holdfast_journal
         WHERE subject = webhook_delivery.job_id AND verb = 'failed' ORDER BY id DESC LIMIT 1)
  FROM holdfast_webhook_delivery AS webhook_delivery JOIN holdfast_webhook_event AS webhook_event ON webhook_event.tenant = webhook_delivery.tenant
   AND webhook_event.id = webhook_delivery.event_id
 WHERE webhook_delivery.job_id {among: ids};

-- name: of_job
SELECT webhook_delivery.tenant, webhook_delivery.event_id, webhook_delivery.endpoint_id, webhook_event.type, webhook_event.body,
       webhook_event.created_us, webhook_endpoint.url, webhook_endpoint.disabled_reason, webhook_endpoint.delays_s
  FROM holdfast_webhook_delivery AS webhook_delivery
  LEFT JOIN holdfast_webhook_event AS webhook_event ON webhook_event.tenant = webhook_delivery.tenant
   AND webhook_event.id = webhook_delivery.event_id
  LEFT JOIN holdfast_webhook_endpoint AS webhook_endpoint ON webhook_endpoint.id = webhook_delivery.endpoint_id
 WHERE webhook_delivery.job_id = :job_id;

-- name: blocked
-- Which of these jobs are deliveries that no endpoint would receive: it is disabled, or was removed.
SELECT delivery.job_id, delivery.endpoint_id, endpoint.id IS NULL AS removed, endpoint.disabled_reason
  FROM holdfast_webhook_delivery AS delivery
  LEFT JOIN holdfast_webhook_endpoint AS endpoint ON endpoint.id = delivery.endpoint_id
 WHERE delivery.job_id {among: ids} AND (endpoint.id IS NULL OR endpoint.disabled_us IS NOT NULL);

-- name: dead_oldest
-- What was given up of a tenant's events, the oldest first.
SELECT job.id, sent.event_id, sent.endpoint_id, job.failed_us
  FROM holdfast_job AS job JOIN holdfast_webhook_delivery AS sent ON sent.job_id = job.id
 WHERE job.state = 'failed' AND sent.tenant = :tenant AND job.failed_us < CAST(:until_us AS BIGINT)
   AND (job.failed_us, job.id) > (:after_us, :after_id)
   AND (CAST(:event_id AS TEXT) IS NULL OR sent.event_id = :event_id)
   AND (CAST(:endpoint_id AS TEXT) IS NULL OR sent.endpoint_id = :endpoint_id)
 ORDER BY job.failed_us, job.id LIMIT :count;

-- name: old_events
SELECT tenant, id FROM holdfast_webhook_event AS webhook_event WHERE created_us < {now_us} - :older_us
   AND NOT EXISTS (SELECT 1 FROM holdfast_webhook_delivery AS sent JOIN holdfast_job AS job ON job.id = sent.job_id
                    WHERE sent.tenant = webhook_event.tenant AND sent.event_id = webhook_event.id
                      AND job.state <> 'complete')
 ORDER BY created_us LIMIT :count;

-- name: prune_deliveries
DELETE FROM holdfast_webhook_delivery WHERE tenant = :tenant AND event_id {among: ids};

-- name: prune_events
DELETE FROM holdfast_webhook_event WHERE tenant = :tenant AND id {among: ids};

-- Keys of received events, many at a time: the moves are those of idempotency.sql.
