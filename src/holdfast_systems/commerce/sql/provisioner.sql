-- Shops that have installed the provisioner.

-- name: keep_shop
INSERT INTO holdfast_commerce_shop (origin, app_id, token, installed_us) VALUES (:origin, :app_id, :token, {now_us})
ON CONFLICT (origin) DO UPDATE SET app_id = excluded.app_id, token = excluded.token, installed_us = excluded.installed_us;

-- name: shop
SELECT app_id, token, installed_us FROM holdfast_commerce_shop WHERE origin = :origin;
