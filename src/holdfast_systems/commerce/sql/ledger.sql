-- Wallets, reservations and the ledger. A reservation changes and an entry is added only while the row of the wallet is
-- locked, wallets in the order of their ids: so nobody waits for each other crosswise, and sums cannot drift.

-- name: instances
SELECT id, tenant, wallet_id, status FROM holdfast_commerce_instance WHERE id {among: ids};

-- name: wallets_of_reservations
SELECT DISTINCT wallet_id FROM holdfast_commerce_reservation WHERE id {among: ids};

-- name: lock_wallets
SELECT id, tenant, available, held, spent, paid_in, entry_count FROM holdfast_commerce_wallet
 WHERE id {among: ids} ORDER BY id /* postgresql: FOR UPDATE */;

-- name: reservations
SELECT id, instance_id, run_id, wallet_id, budget, state, charged, asked, late, entry_id
  FROM holdfast_commerce_reservation WHERE id {among: ids};

-- name: reservations_of_runs
SELECT reservation.id, reservation.instance_id, reservation.run_id, reservation.wallet_id, reservation.budget, reservation.state,
       reservation.charged, reservation.asked, reservation.late, reservation.entry_id
  FROM {given: instance_id text, run_id text}
  JOIN holdfast_commerce_reservation AS reservation
    ON reservation.instance_id = given.instance_id AND reservation.run_id = given.run_id;

-- name: hold
INSERT INTO holdfast_commerce_reservation (id, instance_id, run_id, wallet_id, budget, state, late, expires_us, created_us)
SELECT given.id, given.instance_id, given.run_id, given.wallet_id, given.budget, 'held', 0, {now_us} + :lasting_us, {now_us}
  FROM {given: id text, instance_id text, run_id text, wallet_id text, budget bigint};

-- name: end_reservations
UPDATE holdfast_commerce_reservation AS reservation
   SET state = given.state, charged = given.charged, asked = given.asked, late = given.late, entry_id = given.entry_id,
       ended_us = COALESCE(reservation.ended_us, {now_us})
  FROM {given: id text, was text, state text, charged bigint, asked bigint, late bigint, entry_id text}
 WHERE reservation.id = given.id AND reservation.state = given.was;

-- name: move_credits
UPDATE holdfast_commerce_wallet AS wallet
   SET available = given.available, held = given.held, spent = given.spent, paid_in = given.paid_in,
       entry_count = given.entry_count
  FROM {given: id text, available_was bigint, held_was bigint, entry_count_was bigint, available bigint, held bigint, spent bigint, paid_in bigint, entry_count bigint}
 WHERE wallet.id = given.id AND wallet.available = given.available_was AND wallet.held = given.held_was
   AND wallet.entry_count = given.entry_count_was;

-- name: charge
INSERT INTO holdfast_commerce_entry (wallet_id, number, id, kind, credits, available, held, spent, paid_in, instance_id, reservation_id, run_id, late, shortfall, created_us)
SELECT given.wallet_id, given.number, given.id, 'charge', given.credits, given.available, given.held, given.spent, given.paid_in,
       given.instance_id, given.reservation_id, given.run_id, given.late, given.shortfall, {now_us}
  FROM {given: wallet_id text, number bigint, id text, credits bigint, available bigint, held bigint, spent bigint, paid_in bigint, instance_id text, reservation_id text, run_id text, late bigint, shortfall bigint};

-- name: expired
SELECT id FROM holdfast_commerce_reservation WHERE state = 'held' AND expires_us <= {now_us}
 ORDER BY expires_us LIMIT :count;

-- name: open_wallet
INSERT INTO holdfast_commerce_wallet (id, tenant, available, held, spent, paid_in, entry_count, created_us)
VALUES (:id, :tenant, 0, 0, 0, 0, 0, {now_us})
ON CONFLICT (tenant) DO NOTHING;

-- name: lock_wallet_of
SELECT id, tenant, available, held, spent, paid_in, entry_count FROM holdfast_commerce_wallet
 WHERE tenant = :tenant /* postgresql: FOR UPDATE */;

-- name: pay_in
UPDATE holdfast_commerce_wallet
   SET available = available + :credits, paid_in = paid_in + :credits, entry_count = entry_count + 1
 WHERE id = :id AND entry_count = :entry_count
RETURNING available, held, spent, paid_in, entry_count;

-- name: add_entry
INSERT INTO holdfast_commerce_entry (wallet_id, number, id, kind, credits, available, held, spent, paid_in, instance_id, order_id, line_id, sku, quantity, key, late, shortfall, created_us)
VALUES (:wallet_id, :number, :id, :kind, :credits, :available, :held, :spent, :paid_in, :instance_id, :order_id, :line_id, :sku, :quantity, :key, 0, 0, {now_us});

-- name: entry_of_line
SELECT id, wallet_id, kind, credits, instance_id, sku, quantity FROM holdfast_commerce_entry
 WHERE order_id = :order_id AND line_id = :line_id;

-- name: entry_of_key
SELECT id, credits FROM holdfast_commerce_entry WHERE wallet_id = :wallet_id AND key = :key;

-- name: wallet
SELECT id, tenant, available, held, spent, paid_in FROM holdfast_commerce_wallet WHERE id = :id;

-- name: wallet_of
SELECT id, tenant, available, held, spent, paid_in FROM holdfast_commerce_wallet WHERE tenant = :tenant;

-- name: entries
SELECT number, id, kind, credits, available, held, spent, paid_in, instance_id, reservation_id, run_id, order_id, line_id, sku, quantity, late, shortfall, created_us
  FROM holdfast_commerce_entry WHERE wallet_id = :wallet_id AND number < :before ORDER BY number DESC LIMIT :count;

-- name: proofs
-- Each wallet beside what its entries and reservations say, in one statement and so at one moment.
SELECT wallet.id, wallet.tenant, wallet.available, wallet.held, wallet.spent, wallet.paid_in, wallet.entry_count,
       (SELECT count(*) FROM holdfast_commerce_entry AS entry WHERE entry.wallet_id = wallet.id) AS entries,
       (SELECT COALESCE(sum(entry.credits), 0) FROM holdfast_commerce_entry AS entry
         WHERE entry.wallet_id = wallet.id AND entry.kind <> 'charge') AS entries_paid_in,
       (SELECT COALESCE(sum(entry.credits), 0) FROM holdfast_commerce_entry AS entry
         WHERE entry.wallet_id = wallet.id AND entry.kind = 'charge') AS entries_spent,
       (SELECT COALESCE(sum(reservation.budget), 0) FROM holdfast_commerce_reservation AS reservation
         WHERE reservation.wallet_id = wallet.id AND reservation.state = 'held') AS reservations_held,
       -- Charges whose reservation does not say the same.
       (SELECT count(*) FROM holdfast_commerce_entry AS entry
          LEFT JOIN holdfast_commerce_reservation AS reservation ON reservation.id = entry.reservation_id
         WHERE entry.wallet_id = wallet.id AND entry.kind = 'charge'
           AND (reservation.id IS NULL OR reservation.state <> 'settled' OR reservation.entry_id <> entry.id
                OR reservation.charged <> entry.credits OR reservation.wallet_id <> entry.wallet_id)) AS unmatched,
       -- Entries that do not follow from the one before: what was paid and spent grows by exactly what the entry moves.
       (SELECT count(*) FROM holdfast_commerce_entry AS entry
          LEFT JOIN holdfast_commerce_entry AS earlier
            ON earlier.wallet_id = entry.wallet_id AND earlier.number = entry.number - 1
         WHERE entry.wallet_id = wallet.id
           AND ((entry.number > 1 AND earlier.number IS NULL)
                OR entry.paid_in <> COALESCE(earlier.paid_in, 0) + CASE WHEN entry.kind <> 'charge' THEN entry.credits ELSE 0 END
                OR entry.spent <> COALESCE(earlier.spent, 0) + CASE WHEN entry.kind = 'charge' THEN entry.credits ELSE 0 END
                OR entry.available + entry.held + entry.spent <> entry.paid_in)) AS broken
  FROM holdfast_commerce_wallet AS wallet WHERE wallet.id > :after ORDER BY wallet.id LIMIT :count;

-- name: orphans
-- What was settled without its charge, and what belongs to no wallet.
SELECT (SELECT count(*) FROM holdfast_commerce_reservation AS reservation
          LEFT JOIN holdfast_commerce_entry AS entry ON entry.id = reservation.entry_id
         WHERE reservation.state = 'settled' AND (entry.id IS NULL OR entry.reservation_id <> reservation.id)) AS uncharged,
       (SELECT count(*) FROM holdfast_commerce_entry AS entry
         WHERE NOT EXISTS (SELECT 1 FROM holdfast_commerce_wallet AS wallet WHERE wallet.id = entry.wallet_id)) AS entries,
       (SELECT count(*) FROM holdfast_commerce_reservation AS reservation
         WHERE NOT EXISTS (SELECT 1 FROM holdfast_commerce_wallet AS wallet WHERE wallet.id = reservation.wallet_id)) AS reservations;
