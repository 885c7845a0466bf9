-- name: takes_writes
/* postgresql: SELECT NOT pg_is_in_recovery() AND current_setting('default_transaction_read_only') = 'off' */
/* sqlite: SELECT 1 */;

-- name: now
SELECT {now_us};

-- name: notify
-- It may be lost, so it need not wait for the disk; what it tells of is on disk already.
/* postgresql: SELECT set_config('synchronous_commit', 'off', true), pg_notify(:channel, :queue) */
/* sqlite: SELECT 1 */;

-- name: place
-- Which server, which database, and which of our tables a connection means.
/* postgresql:
SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,
       (SELECT oid::bigint FROM pg_database WHERE datname = current_database()),
       to_regclass(CAST(:jobs AS text))::oid::bigint, current_database()::text, host(inet_server_addr()),
       inet_server_port()
*/
/* sqlite: SELECT 1 */;

-- name: cluster
-- The same identifier on every server that is a copy of another one: a standby, or one that has taken over.
/* postgresql: SELECT system_identifier::text, pg_is_in_recovery() FROM pg_control_system() */
/* sqlite: SELECT 1 */;

-- name: files
/* sqlite: PRAGMA database_list */
/* postgresql: SELECT 1 */;
