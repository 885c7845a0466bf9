// The shop's page: an order is paid with one click, and the account that it made is one click away.
(() => {
  "use strict";

  const { root } = document.body.dataset;
  const at = (id) => document.getElementById(id);
  const buyer = at("buyer");
  const LOOK_MS = 1000;
  const LOOKS_MAX = 120;

  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const tell = (text, bad = false) => {
    at("message").textContent = text;
    at("message").className = bad ? "message bad" : "message good";
    at("message").hidden = !text;
  };
  const ask = async (path, body) => {
    const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } };
    const response = await fetch(`${root}${path}`, options).catch(() => null);
    if (!response) throw new Error("The shop does not answer. Try again in a moment.");
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(answer.detail || answer.error?.message || `The shop answered ${response.status}.`);
    return answer;
  };

  buyer.value = localStorage.getItem("standin-shop-buyer") || `buyer-${Math.floor(Math.random() * 1e6)}`;
  const named = () => {
    localStorage.setItem("standin-shop-buyer", buyer.value);
    return at("buyer-form").reportValidity();
  };

  const show = (paid) => {
    const got = new Map((paid.delivery.reply?.lines || []).map((line) => [line.lineId, line]));
    at("lines").replaceChildren(...paid.order.lines.map((line) => {
      const made = got.get(line.id);
      const state = made ? made.status.replace("_", " ") : paid.delivery.status;
      return element("tr", {}, element("td", {}, line.productSku), element("td", {}, state),
        element("td", { class: "wide" }, made ? element("code", {}, made.instanceId || made.ledgerEntryId) : "…"));
    }));
    at("order").hidden = false;
  };

  const follow = async (paid) => {
    for (let looks = 0; paid.delivery.status === "pending" && looks < LOOKS_MAX; looks += 1) {
      tell(`Paid. The shop tells the platform about it (${paid.delivery.attempts.length} tries so far) …`);
      await new Promise((done) => setTimeout(done, LOOK_MS));
      paid = await ask(`/orders/${encodeURIComponent(paid.orderId)}`);
      show(paid);
    }
    const delivered = paid.delivery.status === "delivered";
    tell(delivered ? "Paid and delivered. Open your account to chat." : "Paid, but the platform did not take the order.", !delivered);
  };

  at("buyer-form").addEventListener("submit", (event) => event.preventDefault());
  at("products").addEventListener("click", async (event) => {
    const { sku } = event.target.dataset;
    if (!sku || !named()) return;
    event.target.disabled = true;
    try {
      const order = { userId: buyer.value, email: `${buyer.value.replace(/[^A-Za-z0-9._-]/g, "_")}@shop.example`, lines: [{ productSku: sku, quantity: 1 }] };
      const paid = await ask("/orders", order);
      show(paid);
      await follow(paid);
    } catch (error) {
      tell(error.message, true);
    }
    event.target.disabled = false;
  });
  at("account").addEventListener("click", async () => {
    if (!named()) return;
    try {
      location.assign((await ask("/account", { userId: buyer.value })).url);
    } catch (error) {
      tell(error.message, true);
    }
  });
})();
