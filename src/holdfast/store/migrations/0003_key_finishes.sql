-- Finishing an idempotency key changes no index: its expiry stays as it was begun, unless the work took long.
--
-- PostgreSQL then keeps the new version of the row on the page of the old one, where there is room for it. On SQLite an
-- UPDATE that names a column rewrites its index entries, so the rare late expiry has an UPDATE of its own. What the
-- journal says of a key is made here, where no interpreter waits for it.
/* postgresql:
ALTER TABLE holdfast_idempotency SET (fillfactor = 50) */
/* sqlite:
DROP VIEW holdfast_key_write;

CREATE VIEW holdfast_key_write AS
SELECT '' AS tenant, '' AS operation, '' AS key, 0 AS token, '' AS request_hash, 0 AS status, '' AS headers,
       x'' AS body, '' AS resources, '' AS code, 0 AS duration_us, 0 AS at_us, 0 AS lease_until_us, 0 AS expires_us
 WHERE FALSE;

CREATE TRIGGER holdfast_key_write_begin INSTEAD OF INSERT ON holdfast_key_write WHEN NEW.status = 0
BEGIN
  INSERT INTO holdfast_idempotency (tenant, operation, key, request_hash, state, token, lease_until_us,
                           first_seen_us, last_seen_us, expires_us)
  VALUES (NEW.tenant, NEW.operation, NEW.key, NEW.request_hash, 'working', NEW.token, NEW.lease_until_us,
          NEW.at_us, NEW.at_us, NEW.expires_us);
END;

CREATE TRIGGER holdfast_key_write_finish INSTEAD OF INSERT ON holdfast_key_write WHEN NEW.status > 0
BEGIN
  UPDATE holdfast_idempotency
     SET state = 'done', lease_until_us = NULL, status = NEW.status, headers = NEW.headers, body = NEW.body,
         resources = NEW.resources
   WHERE tenant = NEW.tenant AND operation = NEW.operation AND key = NEW.key AND state = 'working'
     AND token = NEW.token;
  SELECT RAISE(ABORT, 'the key is not held under this token') WHERE changes() = 0;
  UPDATE holdfast_idempotency SET expires_us = NEW.expires_us
   WHERE tenant = NEW.tenant AND operation = NEW.operation AND key = NEW.key
     AND expires_us < NEW.expires_us - (NEW.expires_us - NEW.at_us) / 100;
  INSERT INTO holdfast_journal (at_us, subject, verb, kind, code, duration_us)
  VALUES (NEW.at_us, json_array(NEW.tenant, NEW.operation, NEW.key), 'key.finished', NEW.operation, NEW.code,
          NEW.duration_us);
END; */
