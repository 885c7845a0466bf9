-- name: now
SELECT {now_us};

-- name: notify
-- It may be lost, so it need not wait for the disk; what it tells of is on disk already.
/* postgresql: SELECT set_config('synchronous_commit', 'off', true), pg_notify(:channel, :queue) */
/* sqlite: SELECT 1 */;
