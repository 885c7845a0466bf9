-- The platform: its dead letters as events, the oldest first, and the alerts about them.
-- The core's own list begins with the newest and does not know whose events they are: so its tables are read here, and
-- written by nobody but the core.

-- name: dead
-- Of the endpoints of one tenant; the position behind which to go on is a time and an id.
SELECT job.id, webhook_delivery.event_id, webhook_event.type, webhook_event.body, job.error_code, job.error_message, job.error_technical,
       (SELECT upstream_status FROM holdfast_journal AS journal
         WHERE journal.subject = job.id AND journal.verb = 'failed' ORDER BY journal.id DESC LIMIT 1),
       job.attempt_count, job.last_attempt_us, job.failed_us, webhook_delivery.endpoint_id
  FROM holdfast_job AS job JOIN holdfast_webhook_delivery AS webhook_delivery ON webhook_delivery.job_id = job.id
  JOIN holdfast_webhook_event AS webhook_event ON webhook_event.tenant = webhook_delivery.tenant
   AND webhook_event.id = webhook_delivery.event_id
 WHERE job.state = 'failed' AND webhook_event.tenant = :tenant
   AND (job.failed_us, job.id) > (:after_us, :after_id)
   AND (CAST(:event_id AS TEXT) IS NULL OR webhook_event.id = :event_id)
   AND (CAST(:event_type AS TEXT) IS NULL OR webhook_event.type = :event_type)
   AND (CAST(:endpoint_id AS TEXT) IS NULL OR webhook_delivery.endpoint_id = :endpoint_id)
   AND (CAST(:error_code AS TEXT) IS NULL OR job.error_code = :error_code)
 ORDER BY job.failed_us, job.id LIMIT :count;

-- name: count_dead
SELECT count(*) FROM holdfast_job AS job JOIN holdfast_webhook_delivery AS webhook_delivery ON webhook_delivery.job_id = job.id
  JOIN holdfast_webhook_event AS webhook_event ON webhook_event.tenant = webhook_delivery.tenant
   AND webhook_event.id = webhook_delivery.event_id
 WHERE job.state = 'failed' AND webhook_event.tenant = :tenant;

-- name: unalerted
SELECT job.id, job.failed_us, webhook_event.id, webhook_event.type, job.error_message
  FROM holdfast_job AS job JOIN holdfast_webhook_delivery AS webhook_delivery ON webhook_delivery.job_id = job.id
  JOIN holdfast_webhook_event AS webhook_event ON webhook_event.tenant = webhook_delivery.tenant
   AND webhook_event.id = webhook_delivery.event_id
 WHERE job.state = 'failed' AND webhook_event.tenant = :tenant AND job.failed_us >= :since_us
   AND NOT EXISTS (SELECT 1 FROM holdfast_credentials_alert AS credentials_alert
                    WHERE credentials_alert.job_id = job.id AND credentials_alert.failed_us = job.failed_us)
 ORDER BY job.failed_us, job.id LIMIT :count;

-- name: raise
INSERT INTO holdfast_credentials_alert (job_id, failed_us, event_id, event_type, message, error, raised_us)
VALUES (:job_id, :failed_us, :event_id, :event_type, :message, :error, {now_us})
ON CONFLICT (job_id, failed_us) DO NOTHING
RETURNING job_id;

-- name: alerts
SELECT job_id, event_id, event_type, message, error, raised_us FROM holdfast_credentials_alert
 ORDER BY raised_us DESC, job_id DESC LIMIT :count;
