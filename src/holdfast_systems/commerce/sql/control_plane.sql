-- What the control plane keeps beside the ledger: offerings, plans, instances, entitlements, bindings, tickets.

-- name: offerings
SELECT id, title, flow, tools, updated_us FROM holdfast_commerce_offering ORDER BY id LIMIT :count;

-- name: offering
SELECT id, title, flow, tools, updated_us FROM holdfast_commerce_offering WHERE id = :id;

-- name: seed_offering
INSERT INTO holdfast_commerce_offering (id, title, flow, tools, updated_us)
VALUES (:id, :title, :flow, :tools, {now_us})
ON CONFLICT (id) DO NOTHING;

-- name: put_offering
INSERT INTO holdfast_commerce_offering (id, title, flow, tools, updated_us)
VALUES (:id, :title, :flow, :tools, {now_us})
ON CONFLICT (id) DO UPDATE SET title = excluded.title, flow = excluded.flow, tools = excluded.tools, updated_us = excluded.updated_us;

-- name: plans
SELECT sku, kind, title, credits, offering_id, soft_fail, run_budget, run_timeout_us, limits, capabilities, updated_us
  FROM holdfast_commerce_plan ORDER BY sku LIMIT :count;

-- name: plan
SELECT sku, kind, title, credits, offering_id, soft_fail, run_budget, run_timeout_us, limits, capabilities, updated_us
  FROM holdfast_commerce_plan WHERE sku = :sku;

-- name: seed_plan
INSERT INTO holdfast_commerce_plan (sku, kind, title, credits, offering_id, soft_fail, run_budget, run_timeout_us, limits, capabilities, updated_us)
VALUES (:sku, :kind, :title, :credits, :offering_id, :soft_fail, :run_budget, :run_timeout_us, :limits, :capabilities, {now_us})
ON CONFLICT (sku) DO NOTHING;

-- name: put_plan
INSERT INTO holdfast_commerce_plan (sku, kind, title, credits, offering_id, soft_fail, run_budget, run_timeout_us, limits, capabilities, updated_us)
VALUES (:sku, :kind, :title, :credits, :offering_id, :soft_fail, :run_budget, :run_timeout_us, :limits, :capabilities, {now_us})
ON CONFLICT (sku) DO UPDATE SET kind = excluded.kind, title = excluded.title, credits = excluded.credits,
  offering_id = excluded.offering_id, soft_fail = excluded.soft_fail, run_budget = excluded.run_budget,
  run_timeout_us = excluded.run_timeout_us, limits = excluded.limits, capabilities = excluded.capabilities,
  updated_us = excluded.updated_us;
