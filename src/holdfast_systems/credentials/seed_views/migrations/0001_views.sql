-- What the contract calls its tables. Times are points in time, so that a comparison with NOW() holds in every time zone
-- of a session; on SQLite they are text in UTC, as its own functions write it.

-- The join with a single row says that nobody writes here: PostgreSQL would pass a DELETE on to the table below.
CREATE VIEW processed_events AS
SELECT event_id, event_type,
       /* postgresql: to_timestamp(processed_us / 1000000.0) */
       /* sqlite: strftime('%Y-%m-%d %H:%M:%f', processed_us / 1000000.0, 'unixepoch') */ AS processed_at,
       /* postgresql: CAST(NULLIF(result, '') AS JSONB) */ /* sqlite: NULLIF(result, '') */ AS result
  FROM holdfast_credentials_processed_event CROSS JOIN (SELECT 1 AS only) AS read_only
 WHERE platform = 'gotong_royong';

CREATE VIEW webhook_failures AS
SELECT /* postgresql: CAST(job.id AS UUID) */ /* sqlite: job.id */ AS id, event.id AS event_id, event.type AS event_type,
       /* postgresql: CAST(event.body AS JSONB) */ /* sqlite: event.body */ AS payload, job.error_message,
       job.remote_status AS status_code, job.attempt_count AS attempts,
       /* postgresql: to_timestamp(job.last_attempt_us / 1000000.0) */
       /* sqlite: strftime('%Y-%m-%d %H:%M:%f', job.last_attempt_us / 1000000.0, 'unixepoch') */ AS last_attempt_at,
       /* postgresql: to_timestamp(job.failed_us / 1000000.0) */
       /* sqlite: strftime('%Y-%m-%d %H:%M:%f', job.failed_us / 1000000.0, 'unixepoch') */ AS created_at
  FROM holdfast_job AS job
  JOIN holdfast_webhook_delivery AS delivery ON delivery.job_id = job.id
  JOIN holdfast_webhook_event AS event ON event.tenant = delivery.tenant AND event.id = delivery.event_id
 WHERE job.state = 'failed' AND delivery.tenant = 'credentials';
