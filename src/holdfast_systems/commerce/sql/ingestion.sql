-- Uploads, and how far the knowledge base is with each.

-- name: add_upload
INSERT INTO holdfast_commerce_upload (id, instance_id, tenant, filename, content_type, bytes, expires_us, created_us)
VALUES (:id, :instance_id, :tenant, :filename, :content_type, :bytes, {now_us} + :lasting_us, {now_us});

-- name: count_uploads
SELECT COUNT(*) FROM holdfast_commerce_upload WHERE instance_id = :instance_id;

-- name: upload
SELECT id, instance_id, tenant, filename, content_type, bytes, expires_us, created_us
  FROM holdfast_commerce_upload WHERE id = :id;

-- name: add
INSERT INTO holdfast_commerce_ingestion
  (id, upload_id, instance_id, tenant, status, attempts, give_up_us, created_us, changed_us)
VALUES (:id, :upload_id, :instance_id, :tenant, 'PENDING', 0, {now_us} + :total_us, {now_us}, {now_us})
ON CONFLICT (upload_id) DO NOTHING
RETURNING id;

-- name: show
SELECT i.id, i.upload_id, i.instance_id, i.tenant, i.status, i.attempts, i.code, i.document_id, i.retry_us,
       i.give_up_us, i.created_us, i.changed_us, u.filename, u.content_type, u.bytes
  FROM holdfast_commerce_ingestion i JOIN holdfast_commerce_upload u ON u.id = i.upload_id
 WHERE i.id = :id;

-- name: of_upload
SELECT id FROM holdfast_commerce_ingestion WHERE upload_id = :upload_id;

-- name: listed
SELECT i.id, i.upload_id, i.instance_id, i.tenant, i.status, i.attempts, i.code, i.document_id, i.retry_us,
       i.give_up_us, i.created_us, i.changed_us, u.filename, u.content_type, u.bytes
  FROM holdfast_commerce_ingestion i JOIN holdfast_commerce_upload u ON u.id = i.upload_id
 WHERE i.instance_id = :instance_id AND i.id < :before
 ORDER BY i.id DESC LIMIT :count;

-- name: begin
UPDATE holdfast_commerce_ingestion SET
  attempts = attempts + CASE WHEN status = 'PROCESSING' THEN 0 ELSE 1 END,
  status = 'PROCESSING', retry_us = NULL, changed_us = {now_us}
 WHERE id = :id AND status IN ('PENDING', 'PROCESSING', 'RETRY_PENDING') AND give_up_us > {now_us}
RETURNING attempts;

-- name: postpone
UPDATE holdfast_commerce_ingestion SET
  status = 'RETRY_PENDING', code = :code, retry_us = {now_us} + :delay_us, changed_us = {now_us}
 WHERE id = :id AND status = 'PROCESSING' AND give_up_us > {now_us}
RETURNING id;

-- name: complete
UPDATE holdfast_commerce_ingestion SET
  status = 'COMPLETED', code = NULL, retry_us = NULL, document_id = :document_id, changed_us = {now_us}
 WHERE id = :id AND status IN ('PROCESSING', 'RETRY_PENDING')
RETURNING id;

-- name: fail
UPDATE holdfast_commerce_ingestion SET status = 'FAILED', code = :code, retry_us = NULL, changed_us = {now_us}
 WHERE id = :id AND status IN ('PENDING', 'PROCESSING', 'RETRY_PENDING')
RETURNING id;

-- name: fail_overdue
UPDATE holdfast_commerce_ingestion SET
  status = 'FAILED', code = 'INGESTION_EXPIRED', retry_us = NULL, changed_us = {now_us}
 WHERE status IN ('PENDING', 'PROCESSING', 'RETRY_PENDING') AND give_up_us <= {now_us};

-- name: set_dataset
UPDATE holdfast_commerce_instance SET rag_dataset_id = :dataset_id WHERE id = :instance_id;

-- name: unused_uploads
SELECT u.id FROM holdfast_commerce_upload u
 WHERE u.expires_us < {now_us} - :kept_us
   AND NOT EXISTS (SELECT 1 FROM holdfast_commerce_ingestion i WHERE i.upload_id = u.id)
 ORDER BY u.expires_us LIMIT :count;

-- name: drop_upload
DELETE FROM holdfast_commerce_upload
 WHERE id = :id AND NOT EXISTS (SELECT 1 FROM holdfast_commerce_ingestion i WHERE i.upload_id = :id);
