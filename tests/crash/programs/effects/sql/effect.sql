-- name: record
INSERT INTO effect (job_id, attempt, process) VALUES (:job_id, :attempt, :process);
