-- Dead letters, newest first. The filter is the same in `list`, `count`, `groups` and `pick`; an open end of a span of
-- time is a number no clock shows, so that the index on (failed_us, id) can be read in order.

-- name: list
SELECT id, tenant, queue, kind, attempt_count, manual_retry_count, error_code, error_message, error_technical,
       fingerprint, error_place, remote_status, remote_code, remote_message, created_us, last_attempt_us, failed_us
  FROM holdfast_job
 WHERE state = 'failed' AND failed_us >= :since_us AND failed_us < :until_us
   AND (failed_us, id) < (:before_us, :before_id)
   AND (CAST(:queue AS TEXT) IS NULL OR queue = :queue) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
   AND (CAST(:code AS TEXT) IS NULL OR error_code = :code) AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant)
   AND (CAST(:remote_code AS TEXT) IS NULL OR remote_code = :remote_code)
   AND (CAST(:fingerprint AS TEXT) IS NULL OR fingerprint = :fingerprint)
   AND (CAST(:endpoint AS TEXT) IS NULL OR EXISTS (
        SELECT 1 FROM holdfast_webhook_delivery AS sent WHERE sent.job_id = id AND sent.endpoint_id = :endpoint))
   AND (CAST(:text AS TEXT) IS NULL OR /* postgresql: strpos */ /* sqlite: instr */ (
        lower(COALESCE(error_message, '') || ' ' || COALESCE(error_technical, '')), lower(:text)) > 0)
 ORDER BY failed_us DESC, id DESC LIMIT :count;

-- name: count
SELECT count(*)
  FROM holdfast_job
 WHERE state = 'failed' AND failed_us >= :since_us AND failed_us < :until_us
   AND (CAST(:queue AS TEXT) IS NULL OR queue = :queue) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
   AND (CAST(:code AS TEXT) IS NULL OR error_code = :code) AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant)
   AND (CAST(:remote_code AS TEXT) IS NULL OR remote_code = :remote_code)
   AND (CAST(:fingerprint AS TEXT) IS NULL OR fingerprint = :fingerprint)
   AND (CAST(:endpoint AS TEXT) IS NULL OR EXISTS (
        SELECT 1 FROM holdfast_webhook_delivery AS sent WHERE sent.job_id = id AND sent.endpoint_id = :endpoint))
   AND (CAST(:text AS TEXT) IS NULL OR /* postgresql: strpos */ /* sqlite: instr */ (
        lower(COALESCE(error_message, '') || ' ' || COALESCE(error_technical, '')), lower(:text)) > 0);

-- name: groups
SELECT alike.fingerprint, job.error_code AS code, job.kind, alike.count, alike.first_seen_us, alike.last_seen_us,
       alike.example_id, job.error_message AS message, job.error_technical AS technical,
       job.error_place AS place, job.remote_code
  FROM (
    SELECT fingerprint, count(*) AS count, min(failed_us) AS first_seen_us, max(failed_us) AS last_seen_us,
           max(id) AS example_id
      FROM holdfast_job AS job
     WHERE state = 'failed' AND failed_us >= :since_us AND failed_us < :until_us
       AND (CAST(:queue AS TEXT) IS NULL OR queue = :queue) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
       AND (CAST(:code AS TEXT) IS NULL OR error_code = :code) AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant)
       AND (CAST(:remote_code AS TEXT) IS NULL OR remote_code = :remote_code)
       AND (CAST(:fingerprint AS TEXT) IS NULL OR fingerprint = :fingerprint)
       AND (CAST(:endpoint AS TEXT) IS NULL OR EXISTS (
            SELECT 1 FROM holdfast_webhook_delivery AS sent WHERE sent.job_id = id AND sent.endpoint_id = :endpoint))
       AND (CAST(:text AS TEXT) IS NULL OR /* postgresql: strpos */ /* sqlite: instr */ (
            lower(COALESCE(error_message, '') || ' ' || COALESCE(error_technical, '')), lower(:text)) > 0)
     GROUP BY fingerprint ORDER BY count(*) DESC, max(failed_us) DESC LIMIT :most
  ) AS alike JOIN holdfast_job AS job ON job.id = alike.example_id
 ORDER BY alike.count DESC, alike.last_seen_us DESC;

-- name: pick
-- The next ones, held until the transaction ends. Everybody goes the same way, so two operators wait for each other
-- and never stand crosswise; what the first has moved, the second no longer finds.
SELECT id, tenant, queue, kind, dedupe_key, unique_until_us <= {now_us}, attempt_count, error_code, failed_us
  FROM holdfast_job
 WHERE state = 'failed' AND failed_us >= :since_us AND failed_us < :until_us
   AND (failed_us, id) < (:before_us, :before_id)
   AND (CAST(:queue AS TEXT) IS NULL OR queue = :queue) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
   AND (CAST(:code AS TEXT) IS NULL OR error_code = :code) AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant)
   AND (CAST(:remote_code AS TEXT) IS NULL OR remote_code = :remote_code)
   AND (CAST(:fingerprint AS TEXT) IS NULL OR fingerprint = :fingerprint)
   AND (CAST(:endpoint AS TEXT) IS NULL OR EXISTS (
        SELECT 1 FROM holdfast_webhook_delivery AS sent WHERE sent.job_id = id AND sent.endpoint_id = :endpoint))
   AND (CAST(:text AS TEXT) IS NULL OR /* postgresql: strpos */ /* sqlite: instr */ (
        lower(COALESCE(error_message, '') || ' ' || COALESCE(error_technical, '')), lower(:text)) > 0)
 ORDER BY failed_us DESC, id DESC LIMIT :count
 /* postgresql: FOR UPDATE */;

-- name: pick_one
SELECT id, tenant, queue, kind, dedupe_key, unique_until_us <= {now_us}, attempt_count, error_code, failed_us
  FROM holdfast_job WHERE id = :id AND state = 'failed'
   AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant) /* postgresql: FOR UPDATE */;

-- name: pick_these
-- (The state is written so that no partial index fits: this is a look-up by id.)
SELECT id, tenant, queue, kind, dedupe_key, unique_until_us <= {now_us}, attempt_count, error_code, failed_us
  FROM holdfast_job WHERE id {among: ids} AND state || '' = 'failed' ORDER BY id /* postgresql: FOR UPDATE */;

-- name: free_keys
-- A twin whose window is over no longer keeps others out.
UPDATE holdfast_job SET unique_key = NULL
 WHERE unique_until_us <= {now_us}
   AND id /* postgresql: = ANY(ARRAY( */ /* sqlite: IN ( */
       SELECT twin.id FROM holdfast_job AS dead
         JOIN holdfast_job AS twin ON twin.tenant = dead.tenant AND twin.queue = dead.queue AND twin.unique_key = dead.dedupe_key
        WHERE dead.id {among: ids} /* postgresql: )) */ /* sqlite: ) */;

-- name: twins
SELECT dead.id, twin.id FROM holdfast_job AS dead
  JOIN holdfast_job AS twin ON twin.tenant = dead.tenant AND twin.queue = dead.queue AND twin.unique_key = dead.dedupe_key
 WHERE dead.id {among: ids};

-- name: revive
-- Back to the queue with a clean slate; the journal keeps what was. A key whose window is over is not taken again. One
-- that belongs to a sequence is blocked until it has rejoined that.
-- (The state is written so that no partial index fits: this is a look-up by id.)
UPDATE holdfast_job
   SET state = 'queued', lane = CASE WHEN sequence IS NULL THEN 'ready' ELSE 'blocked' END, token = token + 1, due_us = {now_us}, attempt_count = 0, pardon_count = 0,
       code_counts = NULL, manual_retry_count = manual_retry_count + 1, started_us = NULL, failed_us = NULL,
       unique_key = CASE WHEN unique_until_us <= {now_us} THEN NULL ELSE dedupe_key END,
       error_code = NULL, error_message = NULL, error_technical = NULL, fingerprint = NULL, error_place = NULL,
       remote_status = NULL, remote_code = NULL, remote_message = NULL
 WHERE id {among: ids} AND state || '' = 'failed'
RETURNING id;

-- name: discard
DELETE FROM holdfast_job WHERE id {among: ids} AND state || '' = 'failed' RETURNING id;

-- name: walk_end
SELECT failed_us, id FROM holdfast_job
 WHERE state = 'failed' AND failed_us >= :since_us AND failed_us < :until_us
   AND (failed_us, id) < (:before_us, :before_id)
 ORDER BY failed_us DESC, id DESC LIMIT 1 OFFSET :scan;

-- name: walk
-- How many died of each thing in each slice of time, of those between two places in the order of death.
SELECT fingerprint, (failed_us - :slice_from_us) / :slice_us AS slice, count(*) AS count, min(failed_us) AS first_us,
       max(failed_us) AS last_us, max(id) AS example_id
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
        lower(COALESCE(error_message, '') || ' ' || COALESCE(error_technical, '')), lower(:text)) > 0)
 GROUP BY fingerprint, (failed_us - :slice_from_us) / :slice_us;

-- name: walk_deliveries
-- As `walk`, of deliveries, whatever their queue is called.
SELECT fingerprint, (failed_us - :slice_from_us) / :slice_us AS slice, count(*) AS count, min(failed_us) AS first_us,
       max(failed_us) AS last_us, max(id) AS example_id
  FROM holdfast_job AS job
 WHERE state = 'failed' AND failed_us >= :since_us AND failed_us < :until_us
   AND (failed_us, id) < (:before_us, :before_id) AND (failed_us, id) >= (:end_us, :end_id)
   AND EXISTS (SELECT 1 FROM holdfast_webhook_delivery AS sent WHERE sent.job_id = job.id)
 GROUP BY fingerprint, (failed_us - :slice_from_us) / :slice_us;

-- name: examples
SELECT id, error_code, kind, queue, error_message, error_technical, error_place, remote_code
  FROM holdfast_job WHERE id {among: ids};

-- name: first_seen
-- When each group was first seen: one look into the index for each, however many letters it has.
SELECT asked.fingerprint,
       (SELECT min(failed_us) FROM holdfast_job WHERE state = 'failed' AND fingerprint = asked.fingerprint) AS first_us
  FROM /* postgresql: unnest(:fingerprints::text[]) AS asked(fingerprint) */
       /* sqlite: (SELECT value AS fingerprint FROM json_each(:fingerprints)) AS asked */
 WHERE asked.fingerprint {among: fingerprints};

-- name: any_delivery
SELECT 1 FROM holdfast_webhook_delivery LIMIT 1;

-- name: blocked_count
-- As `bounded_summary`, of deliveries whose endpoint is disabled or removed.
SELECT count(*) FROM (
  SELECT 1 FROM holdfast_job AS job
   WHERE state = 'failed' AND failed_us >= :since_us AND failed_us < :until_us
     AND (failed_us, id) >= (:end_us, :end_id)
     AND EXISTS (SELECT 1 FROM holdfast_webhook_delivery AS sent
                   LEFT JOIN holdfast_webhook_endpoint AS endpoint ON endpoint.id = sent.endpoint_id
                  WHERE sent.job_id = job.id AND (endpoint.id IS NULL OR endpoint.disabled_us IS NOT NULL))
     AND (CAST(:queue AS TEXT) IS NULL OR queue || '' = :queue) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
     AND (CAST(:code AS TEXT) IS NULL OR error_code = :code)
     AND (CAST(:tenant AS TEXT) IS NULL OR tenant || '' = :tenant)
     AND (CAST(:remote_code AS TEXT) IS NULL OR remote_code = :remote_code)
     AND (CAST(:fingerprint AS TEXT) IS NULL OR fingerprint || '' = :fingerprint)
     AND (CAST(:endpoint AS TEXT) IS NULL OR EXISTS (
          SELECT 1 FROM holdfast_webhook_delivery AS sent WHERE sent.job_id = id AND sent.endpoint_id = :endpoint))
     AND (CAST(:text AS TEXT) IS NULL OR /* postgresql: strpos */ /* sqlite: instr */ (
          lower(COALESCE(error_message, '') || ' ' || COALESCE(error_technical, '')), lower(:text)) > 0)
   ORDER BY failed_us DESC, id DESC LIMIT :most) AS found;

-- name: bounded_summary
-- How many match, by queue and by what they died of. Bounded: more than `most` are counted no further.
SELECT queue, fingerprint, count(*), min(failed_us), max(failed_us), max(id) FROM (
  SELECT id, queue, fingerprint, failed_us FROM holdfast_job
   WHERE state = 'failed' AND failed_us >= :since_us AND failed_us < :until_us
     AND (failed_us, id) >= (:end_us, :end_id)
     AND (CAST(:queue AS TEXT) IS NULL OR queue || '' = :queue) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
     AND (CAST(:code AS TEXT) IS NULL OR error_code = :code)
     AND (CAST(:tenant AS TEXT) IS NULL OR tenant || '' = :tenant)
     AND (CAST(:remote_code AS TEXT) IS NULL OR remote_code = :remote_code)
     AND (CAST(:fingerprint AS TEXT) IS NULL OR fingerprint || '' = :fingerprint)
     AND (CAST(:endpoint AS TEXT) IS NULL OR EXISTS (
          SELECT 1 FROM holdfast_webhook_delivery AS sent WHERE sent.job_id = id AND sent.endpoint_id = :endpoint))
     AND (CAST(:text AS TEXT) IS NULL OR /* postgresql: strpos */ /* sqlite: instr */ (
          lower(COALESCE(error_message, '') || ' ' || COALESCE(error_technical, '')), lower(:text)) > 0)
   ORDER BY failed_us DESC, id DESC LIMIT :most) AS found
 GROUP BY queue, fingerprint;

-- name: alike_summary
SELECT queue, fingerprint, count(*), min(failed_us), max(failed_us), max(id) FROM (
  SELECT id, queue, fingerprint, failed_us FROM holdfast_job
   WHERE state = 'failed' AND fingerprint = :fingerprint ORDER BY failed_us DESC LIMIT :most) AS found
 GROUP BY queue, fingerprint;
