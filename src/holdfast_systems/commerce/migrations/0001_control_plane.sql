-- The control plane: what is sold, who bought it, and every credit from the day it was paid.

CREATE TABLE holdfast_commerce_offering (
  id TEXT PRIMARY KEY,
  title TEXT NOT NULL,
  flow TEXT NOT NULL,
  tools TEXT NOT NULL,
  updated_us BIGINT NOT NULL
);

-- What a product code of the shop buys: an agent with credits, or credits alone.
CREATE TABLE holdfast_commerce_plan (
  sku TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  title TEXT NOT NULL,
  credits BIGINT NOT NULL,
  offering_id TEXT,
  soft_fail INTEGER NOT NULL,
  run_budget BIGINT NOT NULL,
  run_timeout_us BIGINT NOT NULL,
  limits TEXT NOT NULL,
  capabilities TEXT NOT NULL,
  updated_us BIGINT NOT NULL,
  CONSTRAINT holdfast_commerce_plan_kind CHECK (kind IN ('agent', 'topup')),
  CONSTRAINT holdfast_commerce_plan_amounts CHECK (credits >= 0 AND run_budget >= 0 AND run_timeout_us > 0),
  CONSTRAINT holdfast_commerce_plan_soft_fail CHECK (soft_fail IN (0, 1)),
  CONSTRAINT holdfast_commerce_plan_offering CHECK (kind <> 'agent' OR offering_id IS NOT NULL)
);

-- One for each tenant. What was paid in is available, held by running runs, or spent; nothing else can be stored.
CREATE TABLE holdfast_commerce_wallet (
  id TEXT /* postgresql: COLLATE "C" */ PRIMARY KEY,
  tenant TEXT NOT NULL,
  available BIGINT NOT NULL,
  held BIGINT NOT NULL,
  spent BIGINT NOT NULL,
  paid_in BIGINT NOT NULL,
  entry_count BIGINT NOT NULL,
  created_us BIGINT NOT NULL,
  CONSTRAINT holdfast_commerce_wallet_tenant UNIQUE (tenant),
  CONSTRAINT holdfast_commerce_wallet_amounts CHECK (available >= 0 AND held >= 0 AND spent >= 0 AND paid_in >= 0),
  CONSTRAINT holdfast_commerce_wallet_sum CHECK (available + held + spent = paid_in),
  CONSTRAINT holdfast_commerce_wallet_entries CHECK (entry_count >= 0)
);

CREATE TABLE holdfast_commerce_instance (
  id TEXT /* postgresql: COLLATE "C" */ PRIMARY KEY,
  tenant TEXT NOT NULL,
  wallet_id TEXT NOT NULL,
  plan_sku TEXT NOT NULL,
  offering_id TEXT NOT NULL,
  name TEXT NOT NULL,
  status TEXT NOT NULL,
  order_id TEXT,
  line_id TEXT,
  tools TEXT NOT NULL,
  origins TEXT NOT NULL,
  rag_dataset_id TEXT,
  created_us BIGINT NOT NULL,
  CONSTRAINT holdfast_commerce_instance_status CHECK (status IN ('active', 'paused')),
  CONSTRAINT holdfast_commerce_instance_line UNIQUE (order_id, line_id)
);
CREATE INDEX holdfast_commerce_instance_tenant ON holdfast_commerce_instance (tenant, created_us);

-- What an instance may do beyond, or short of, its plan.
CREATE TABLE holdfast_commerce_entitlement (
  instance_id TEXT NOT NULL,
  capability TEXT NOT NULL,
  granted INTEGER NOT NULL,
  updated_us BIGINT NOT NULL,
  PRIMARY KEY (instance_id, capability),
  CONSTRAINT holdfast_commerce_entitlement_granted CHECK (granted IN (0, 1))
);

-- How an instance uses a tool: the path of its secret in the vault, never the secret.
CREATE TABLE holdfast_commerce_binding (
  instance_id TEXT NOT NULL,
  tool TEXT NOT NULL,
  status TEXT NOT NULL,
  fields TEXT NOT NULL,
  secret_path TEXT,
  updated_us BIGINT NOT NULL,
  PRIMARY KEY (instance_id, tool),
  CONSTRAINT holdfast_commerce_binding_status CHECK (status IN ('active', 'disabled'))
);

-- Credits that a run holds. Its wallet's row is locked whenever its state changes.
CREATE TABLE holdfast_commerce_reservation (
  id TEXT /* postgresql: COLLATE "C" */ PRIMARY KEY,
  instance_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  wallet_id TEXT NOT NULL,
  budget BIGINT NOT NULL,
  state TEXT NOT NULL,
  charged BIGINT,
  asked BIGINT,
  late INTEGER NOT NULL,
  entry_id TEXT,
  expires_us BIGINT NOT NULL,
  created_us BIGINT NOT NULL,
  ended_us BIGINT,
  CONSTRAINT holdfast_commerce_reservation_run UNIQUE (instance_id, run_id),
  CONSTRAINT holdfast_commerce_reservation_budget CHECK (budget > 0),
  CONSTRAINT holdfast_commerce_reservation_state CHECK (state IN ('held', 'settled', 'released', 'expired')),
  CONSTRAINT holdfast_commerce_reservation_charged CHECK (
    (state = 'settled') = (entry_id IS NOT NULL) AND (state = 'settled') = (charged IS NOT NULL)
    AND (state = 'settled') = (asked IS NOT NULL) AND (charged IS NULL OR charged BETWEEN 0 AND asked)
    AND (asked IS NULL OR asked <= budget) AND late IN (0, 1) AND (late = 1 OR charged IS NULL OR charged = asked)),
  CONSTRAINT holdfast_commerce_reservation_ended CHECK ((state = 'held') = (ended_us IS NULL))
);
CREATE INDEX holdfast_commerce_reservation_held ON holdfast_commerce_reservation (expires_us) WHERE state = 'held';
CREATE INDEX holdfast_commerce_reservation_wallet ON holdfast_commerce_reservation (wallet_id) WHERE state = 'held';

-- The ledger: every movement of credits, numbered within its wallet, with the wallet as it was afterwards.
CREATE TABLE holdfast_commerce_entry (
  wallet_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  credits BIGINT NOT NULL,
  available BIGINT NOT NULL,
  held BIGINT NOT NULL,
  spent BIGINT NOT NULL,
  paid_in BIGINT NOT NULL,
  instance_id TEXT,
  reservation_id TEXT,
  run_id TEXT,
  order_id TEXT,
  line_id TEXT,
  sku TEXT,
  quantity BIGINT,
  key TEXT,
  late INTEGER NOT NULL,
  shortfall BIGINT NOT NULL,
  created_us BIGINT NOT NULL,
  PRIMARY KEY (wallet_id, number),
  CONSTRAINT holdfast_commerce_entry_id UNIQUE (id),
  CONSTRAINT holdfast_commerce_entry_reservation UNIQUE (reservation_id),
  CONSTRAINT holdfast_commerce_entry_line UNIQUE (order_id, line_id),
  CONSTRAINT holdfast_commerce_entry_key UNIQUE (wallet_id, key),
  CONSTRAINT holdfast_commerce_entry_kind CHECK (kind IN ('purchase', 'topup', 'charge')),
  CONSTRAINT holdfast_commerce_entry_amounts CHECK (credits >= 0 AND shortfall >= 0 AND late IN (0, 1)),
  CONSTRAINT holdfast_commerce_entry_sum CHECK (
    available >= 0 AND held >= 0 AND spent >= 0 AND available + held + spent = paid_in),
  CONSTRAINT holdfast_commerce_entry_charge CHECK ((kind = 'charge') = (reservation_id IS NOT NULL))
);

-- The ledger is written once and never changed.
/* sqlite:
CREATE TRIGGER holdfast_commerce_entry_unchanged BEFORE UPDATE ON holdfast_commerce_entry
BEGIN
  SELECT RAISE(ABORT, 'holdfast_commerce_entry is append-only');
END;
CREATE TRIGGER holdfast_commerce_entry_undeleted BEFORE DELETE ON holdfast_commerce_entry
BEGIN
  SELECT RAISE(ABORT, 'holdfast_commerce_entry is append-only');
END;
*/
/* postgresql:
CREATE OR REPLACE FUNCTION holdfast_commerce_refuse() RETURNS trigger LANGUAGE plpgsql AS '
BEGIN
  RAISE EXCEPTION ''% is append-only'', TG_TABLE_NAME USING ERRCODE = ''restrict_violation'';
END';
CREATE TRIGGER holdfast_commerce_entry_unchanged BEFORE UPDATE OR DELETE ON holdfast_commerce_entry
  FOR EACH ROW EXECUTE FUNCTION holdfast_commerce_refuse();
CREATE TRIGGER holdfast_commerce_entry_untruncated BEFORE TRUNCATE ON holdfast_commerce_entry
  FOR EACH STATEMENT EXECUTE FUNCTION holdfast_commerce_refuse();
*/

-- Tickets of buyers' links that were used.
CREATE TABLE holdfast_commerce_ticket (
  id TEXT PRIMARY KEY,
  expires_us BIGINT NOT NULL
);
CREATE INDEX holdfast_commerce_ticket_expiry ON holdfast_commerce_ticket (expires_us);
