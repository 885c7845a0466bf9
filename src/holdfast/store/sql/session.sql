-- Operators' sessions that were ended before their time.

-- name: end
INSERT INTO holdfast_ended_session (id, until_us) VALUES (:id, :until_us) ON CONFLICT (id) DO NOTHING;

-- name: ended
SELECT 1 FROM holdfast_ended_session WHERE id = :id;

-- name: prune
DELETE FROM holdfast_ended_session WHERE until_us < {now_us};
