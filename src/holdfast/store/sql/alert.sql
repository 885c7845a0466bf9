-- Alerts: where each cause stands. Every move names the version that it leaves; zero rows: another process moved it.

-- name: states
SELECT rule, cause, phase, began_us, fired_us, resolved_us, value, at_us, version, notices
  FROM holdfast_alert ORDER BY rule, cause LIMIT :most;

-- name: begin
INSERT INTO holdfast_alert (rule, cause, phase, began_us, fired_us, resolved_us, value, at_us)
VALUES (:rule, :cause, :phase, :began_us, :fired_us, :resolved_us, :value, :at_us)
ON CONFLICT (rule, cause) DO NOTHING;

-- name: move
UPDATE holdfast_alert
   SET phase = :phase, began_us = :began_us, fired_us = :fired_us, resolved_us = :resolved_us, value = :value,
       at_us = :at_us, version = version + 1
 WHERE rule = :rule AND cause = :cause AND version = :version;

-- name: remember_notices
UPDATE holdfast_alert SET notices = :notices WHERE rule = :rule AND cause = :cause;

-- name: version
SELECT version FROM holdfast_alert WHERE rule = :rule AND cause = :cause;

-- name: prune
DELETE FROM holdfast_alert WHERE phase IN ('inactive', 'resolved') AND at_us < {now_us} - :older_us;

-- name: journal
INSERT INTO holdfast_journal (at_us, subject, verb, code, reason) VALUES ({now_us}, :subject, :verb, :code, :reason);

-- Switches. A flip names the side that it leaves: zero rows, and it stood there already.

-- name: declare_switch
-- A switch whose links were changed begins anew on its primary side.
INSERT INTO holdfast_switch AS switch (name, primary_link, fallback_link) VALUES (:name, :primary_link, :fallback_link)
ON CONFLICT (name) DO UPDATE
   SET primary_link = EXCLUDED.primary_link, fallback_link = EXCLUDED.fallback_link, side = 'primary',
       flipped_by = NULL, flipped_us = NULL, reason = NULL
 WHERE switch.primary_link <> EXCLUDED.primary_link OR switch.fallback_link <> EXCLUDED.fallback_link;

-- name: switches
SELECT name, primary_link, fallback_link, side, flipped_by, flipped_us, reason FROM holdfast_switch ORDER BY name LIMIT :most;

-- name: flip_switch
UPDATE holdfast_switch SET side = :side, flipped_by = :by, flipped_us = {now_us}, reason = :reason
 WHERE name = :name AND side <> :side RETURNING name;

-- name: divert
-- Away from a link that fails, wherever it is the primary one.
UPDATE holdfast_switch SET side = 'fallback', flipped_by = :by, flipped_us = {now_us}, reason = :reason
 WHERE primary_link = :link AND side = 'primary' RETURNING name;

-- name: restore
-- Back, where it was this one who flipped it.
UPDATE holdfast_switch SET side = 'primary', flipped_by = :by, flipped_us = {now_us}, reason = :reason
 WHERE primary_link = :link AND side = 'fallback' AND flipped_by = :by RETURNING name;
