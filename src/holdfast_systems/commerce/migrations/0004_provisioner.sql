-- The provisioner: shops that have installed it. The token is encrypted where HOLDFAST_SECRET_KEY is set.
CREATE TABLE holdfast_commerce_shop (
  origin TEXT PRIMARY KEY,
  app_id TEXT NOT NULL,
  token TEXT NOT NULL,
  installed_us BIGINT NOT NULL
);
