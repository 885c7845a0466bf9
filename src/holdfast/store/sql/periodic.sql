-- name: save
-- A changed schedule begins anew; an unchanged one keeps its next firing.
INSERT INTO periodic (name, schedule, queue, kind, payload, due_us)
VALUES (:name, :schedule, :queue, :kind, :payload, :due_us)
ON CONFLICT (name) DO UPDATE
   SET schedule = :schedule, queue = :queue, kind = :kind, payload = :payload,
       due_us = CASE WHEN periodic.schedule = :schedule THEN periodic.due_us ELSE :due_us END;

-- name: forget
-- The group's entries that are no longer declared.
DELETE FROM periodic
 WHERE substr(name, 1, length(:prefix)) = :prefix AND NOT (name {among: kept});

-- name: due
SELECT name, schedule, queue, kind, payload, due_us, {now_us}
  FROM periodic WHERE due_us <= {now_us} ORDER BY due_us, name LIMIT :count;

-- name: fire
-- Whoever moves the due time has fired it; zero rows: somebody else did.
UPDATE periodic SET due_us = :next_us, fired_us = {now_us} WHERE name = :name AND due_us = :due_us RETURNING name;

-- name: next_due
SELECT min(due_us) - {now_us} FROM periodic;

-- name: list
SELECT name, schedule, queue, kind, payload, due_us, fired_us FROM periodic ORDER BY name LIMIT :count;
