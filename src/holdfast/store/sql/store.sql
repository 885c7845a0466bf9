-- name: now
SELECT {now_us};

-- name: notify
/* postgresql: SELECT pg_notify(:channel, :queue) */ /* sqlite: SELECT 1 */;
