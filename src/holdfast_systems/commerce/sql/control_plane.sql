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

-- name: add_instance
INSERT INTO holdfast_commerce_instance (id, tenant, wallet_id, plan_sku, offering_id, name, status, order_id, line_id, tools, origins, created_us)
VALUES (:id, :tenant, :wallet_id, :plan_sku, :offering_id, :name, 'active', :order_id, :line_id, :tools, :origins, {now_us});

-- name: instance
SELECT instance.id, instance.tenant, instance.wallet_id, instance.plan_sku, instance.offering_id, instance.name, instance.status,
       instance.tools, instance.origins, instance.rag_dataset_id, instance.created_us,
       plan.soft_fail, plan.run_budget, plan.run_timeout_us, plan.limits, offering.flow
  FROM holdfast_commerce_instance AS instance
  JOIN holdfast_commerce_plan AS plan ON plan.sku = instance.plan_sku
  JOIN holdfast_commerce_offering AS offering ON offering.id = instance.offering_id
 WHERE instance.id = :id;

-- name: instances
SELECT instance.id, instance.tenant, instance.wallet_id, instance.plan_sku, instance.offering_id, instance.name, instance.status,
       instance.tools, instance.origins, instance.rag_dataset_id, instance.created_us,
       plan.soft_fail, plan.run_budget, plan.run_timeout_us, plan.limits, offering.flow
  FROM holdfast_commerce_instance AS instance
  JOIN holdfast_commerce_plan AS plan ON plan.sku = instance.plan_sku
  JOIN holdfast_commerce_offering AS offering ON offering.id = instance.offering_id
 WHERE instance.tenant = :tenant AND instance.id < :before
 ORDER BY instance.id DESC LIMIT :count;

-- name: set_status
UPDATE holdfast_commerce_instance SET status = :status WHERE id = :id AND status = :was;

-- name: set_allowlist
UPDATE holdfast_commerce_instance SET tools = :tools, origins = :origins WHERE id = :id;

-- name: bindings
SELECT tool, status, fields, secret_path, updated_us FROM holdfast_commerce_binding
 WHERE instance_id = :instance_id ORDER BY tool LIMIT :count;

-- name: binding
SELECT tool, status, fields, secret_path, updated_us FROM holdfast_commerce_binding
 WHERE instance_id = :instance_id AND tool = :tool;

-- name: put_binding
INSERT INTO holdfast_commerce_binding (instance_id, tool, status, fields, secret_path, updated_us)
VALUES (:instance_id, :tool, :status, :fields, :secret_path, {now_us})
ON CONFLICT (instance_id, tool) DO UPDATE SET status = excluded.status, fields = excluded.fields,
  secret_path = excluded.secret_path, updated_us = excluded.updated_us;

-- name: entitlements
SELECT capability, granted FROM holdfast_commerce_entitlement WHERE instance_id = :instance_id ORDER BY capability;

-- name: clear_entitlements
DELETE FROM holdfast_commerce_entitlement WHERE instance_id = :instance_id;

-- name: put_entitlement
INSERT INTO holdfast_commerce_entitlement (instance_id, capability, granted, updated_us)
VALUES (:instance_id, :capability, :granted, {now_us});

-- name: use_ticket
INSERT INTO holdfast_commerce_ticket (id, expires_us) VALUES (:id, :expires_us)
ON CONFLICT (id) DO NOTHING;

-- name: forget_tickets
DELETE FROM holdfast_commerce_ticket WHERE expires_us < {now_us};
