// The buyer's page: what was paid, what is left, what each run cost. It shows only what the API says.
(() => {
  "use strict";

  const { root, gateway, shop } = document.body.dataset;
  const at = (id) => document.getElementById(id);
  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  };
  const REFRESH_MS = 5000;
  const KINDS = { purchase: "Bought", topup: "Top-up", charge: "Run" };

  const tell = (text, bad = false) => {
    const message = at("message");
    message.textContent = text;
    message.className = bad ? "message bad" : "message good";
    message.hidden = !text;
  };

  class Refused extends Error {
    constructor(status, error) {
      super(error.message || "The service does not answer. Try again in a moment.");
      this.status = status;
    }
  }

  const ask = async (url, options = {}) => {
    const response = await fetch(url, { credentials: "same-origin", ...options }).catch(() => null);
    if (response === null) throw new Refused(0, {});
    const body = await response.json().catch(() => ({}));
    if (!response.ok) throw new Refused(response.status, body.error || {});
    return body;
  };
  const post = (path, body, headers = {}) => ask(`${root}${path}`, {
    method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json", ...headers },
  });

  const when = (text) => element("time", { datetime: text }, new Date(text).toLocaleString());
  const signed = (credits) => (credits > 0 ? `+${credits}` : `${credits}`);

  let wallet = null;
  let chosen = null; // the instance whose runs are shown

  const showWallet = () => {
    const figures = [["Available", wallet.available], ["Held by runs", wallet.held], ["Spent", wallet.spent], ["Paid in", wallet.paidIn]];
    at("wallet").replaceChildren(...figures.map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, String(value)))));
  };

  const entryRow = (entry) => {
    const what = [KINDS[entry.kind] || entry.kind, entry.sku, entry.late ? "settled late" : ""].filter(Boolean).join(", ");
    const credits = entry.kind === "charge" ? -entry.credits : entry.credits;
    return element("tr", {},
      element("td", { class: "wide" }, when(entry.createdAt)),
      element("td", {}, what),
      element("td", { class: "number" }, signed(credits)),
      element("td", { class: "number wide" }, `${entry.balance.available} available`));
  };

  const runRow = (run) => element("tr", {},
    element("td", { class: "wide" }, when(run.createdAt)),
    element("td", {}, run.userId),
    element("td", {}, run.error ? `${run.status}: ${run.error}` : run.status),
    element("td", { class: "number wide" }, run.charged === null ? run.billing : `${run.charged} credit${run.charged === 1 ? "" : "s"}`));

  const pages = (url, list, rows, more, row) => {
    let cursor = null;
    const load = async (first) => {
      const page = await ask(first || !cursor ? url() : `${url()}?cursor=${encodeURIComponent(cursor)}`);
      const made = page[list].map(row);
      if (first) at(rows).replaceChildren(...made);
      else at(rows).append(...made);
      cursor = page.nextCursor;
      at(more).hidden = !cursor;
    };
    at(more).addEventListener("click", () => load(false).catch((error) => tell(error.message, true)));
    return () => load(true);
  };
  const loadEntries = pages(() => `${root}/wallets/${wallet.walletId}/entries`, "entries", "entries", "more-entries", entryRow);
  const loadRuns = pages(() => `${gateway}/v1/instances/${chosen}/runs`, "runs", "run-rows", "more-runs", runRow);

  const showRuns = async (instance) => {
    chosen = instance.instanceId;
    at("runs").hidden = false;
    at("runs-title").textContent = `Runs of ${instance.name}`;
    await loadRuns();
    at("runs").scrollIntoView({ block: "nearest" });
  };

  const act = (instance, verb) => async (event) => {
    event.target.disabled = true;
    try {
      await post(`/instances/${instance.instanceId}/${verb}`, {}, { "idempotency-key": crypto.randomUUID() });
      tell(`${instance.name} is ${verb === "pause" ? "paused" : "active again"}.`);
    } catch (error) {
      tell(error.message, true);
    }
    await load();
  };

  const card = (instance) => {
    const active = instance.status === "active";
    const links = gateway
      ? [element("a", { class: "button", href: `${gateway}/widget/${instance.instanceId}` }, "Chat"),
        element("button", { type: "button", class: "plain", onclick: () => showRuns(instance).catch((error) => tell(error.message, true)) }, "Runs")]
      : [];
    return element("li", { class: "card", id: instance.instanceId },
      element("div", { class: "row" }, element("h3", {}, instance.name),
        element("span", { class: active ? "badge" : "badge off" }, instance.status)),
      element("p", { class: "quiet" }, `${instance.plan}, at most ${instance.runBudget} credits a run`),
      element("p", {}, element("code", {}, instance.instanceId)),
      element("div", { class: "row" }, ...links,
        element("button", { type: "button", class: "plain", onclick: act(instance, active ? "pause" : "resume") }, active ? "Pause" : "Resume")));
  };

  const load = async () => {
    const me = await ask(`${root}/buyers/me`);
    wallet = me.wallet || { available: 0, held: 0, spent: 0, paidIn: 0 };
    showWallet();
    const before = document.activeElement?.closest(".card")?.id;
    at("instances").replaceChildren(...me.instances.map(card));
    if (before) at(before)?.querySelector("button:last-of-type")?.focus();
    at("no-instances").hidden = me.instances.length > 0;
    if (wallet.walletId) await loadEntries();
    if (chosen) await loadRuns();
    at("outside").hidden = true;
    at("inside").hidden = false;
  };

  const refresh = async () => {
    // A page that nobody looks at, or in which something is being chosen, is left alone.
    if (document.hidden || at("inside").hidden || document.activeElement?.closest(".cards, #runs")) return;
    const before = JSON.stringify(wallet);
    const me = await ask(`${root}/buyers/me`).catch(() => null);
    if (me && JSON.stringify(me.wallet) !== before) await load().catch(() => null);
  };

  const begin = async () => {
    if (shop) {
      at("top-up").append(element("a", { class: "button", href: `${shop}#top-up` }, "Top up"));
      at("to-shop").append(element("a", { class: "button", href: shop }, "To the shop"));
    }
    const ticket = new URLSearchParams(location.hash.slice(1)).get("ticket");
    if (ticket) {
      history.replaceState(null, "", location.pathname); // it works once: it does not belong into the history
      try {
        await post("/buyers/enter", { ticket });
      } catch (error) {
        tell(error.message, true);
      }
    }
    try {
      await load();
      if (location.hash.length > 1) at(location.hash.slice(1))?.scrollIntoView();
    } catch (error) {
      at("outside").hidden = false;
      if (![401, 403].includes(error.status)) tell(error.message, true);
    }
    setInterval(refresh, REFRESH_MS);
  };
  begin();
})();
