-- Rate limits shared by all processes: one row for each rule and subject, on the database's clock.

-- name: look
SELECT tat_us, {now_us} FROM holdfast_rate_limit
 WHERE rule = :rule AND subject = :subject /* postgresql: FOR UPDATE */;

-- name: begin
INSERT INTO holdfast_rate_limit (rule, subject, tat_us) VALUES (:rule, :subject, 0) ON CONFLICT (rule, subject) DO NOTHING;

-- name: keep
UPDATE holdfast_rate_limit SET tat_us = :tat_us WHERE rule = :rule AND subject = :subject;

-- name: prune
-- A row whose moment has passed says nothing. One that another transaction uses just now is passed over.
DELETE FROM holdfast_rate_limit
 WHERE /* postgresql: ctid = ANY(ARRAY(SELECT ctid */ /* sqlite: rowid IN (SELECT rowid */
         FROM holdfast_rate_limit
        WHERE tat_us <= {now_us}
        ORDER BY tat_us LIMIT :count
        /* postgresql: FOR UPDATE SKIP LOCKED )) */ /* sqlite: ) */;
