-- Idempotency keys on SQLite: begins and finishes of many requests in one statement, which commits by itself.
--
-- Between two statements the interpreter hands its lock to another thread and waits to get it back; a batch of one
-- statement does that once. So the moves of a key stand here, in triggers of a view that shows nothing. A key that is
-- there already, or is not held under the token, refuses the whole batch.
/* sqlite:
CREATE VIEW holdfast_key_write AS
SELECT 0 AS finished, '' AS tenant, '' AS operation, '' AS key, '' AS request_hash, 0 AS token, 0 AS at_us,
       0 AS lease_until_us, 0 AS expires_us, 0 AS status, '' AS headers, x'' AS body, '' AS resources, '' AS subject,
       '' AS code, 0 AS duration_us
 WHERE FALSE;

CREATE TRIGGER holdfast_key_write_begin INSTEAD OF INSERT ON holdfast_key_write WHEN NOT NEW.finished
BEGIN
  INSERT INTO holdfast_idempotency (tenant, operation, key, request_hash, state, token, lease_until_us,
                           first_seen_us, last_seen_us, expires_us)
  VALUES (NEW.tenant, NEW.operation, NEW.key, NEW.request_hash, 'working', NEW.token, NEW.lease_until_us,
          NEW.at_us, NEW.at_us, NEW.expires_us);
END;

CREATE TRIGGER holdfast_key_write_finish INSTEAD OF INSERT ON holdfast_key_write WHEN NEW.finished
BEGIN
  UPDATE holdfast_idempotency
     SET state = 'done', lease_until_us = NULL, status = NEW.status, headers = NEW.headers, body = NEW.body,
         resources = NEW.resources, expires_us = NEW.expires_us
   WHERE tenant = NEW.tenant AND operation = NEW.operation AND key = NEW.key AND state = 'working'
     AND token = NEW.token;
  SELECT RAISE(ABORT, 'the key is not held under this token') WHERE changes() = 0;
  INSERT INTO holdfast_journal (at_us, subject, verb, kind, code, duration_us)
  VALUES (NEW.at_us, NEW.subject, 'key.finished', NEW.operation, NEW.code, NEW.duration_us);
END; */
