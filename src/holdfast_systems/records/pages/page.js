"use strict";
// The operator's page: what it shows is what the API answers, and what it does are calls of the API.

const ROOT = document.body.dataset.root;
const POLL_MS = 700;
const SURE_MS = 4000;
const $ = (id) => document.getElementById(id);
const state = { tab: "companies", account: "", company: null, cursor: null, opened: new Set(), timer: 0, turn: 0 };

class Refused extends Error {
  constructor(body, status) {
    super(body.message || `The server answered ${status}.`);
    this.code = body.error_code || "";
    this.details = body.details || {};
    this.status = status;
  }
}

async function ask(method, path, body, type = "application/json") {
  const headers = { "X-Records-Page": "1" };
  if (state.account) headers["X-Account-Id"] = state.account;
  const options = { method, headers };
  if (body !== undefined) {
    headers["Content-Type"] = type;
    options.body = type === "application/json" ? JSON.stringify(body) : body;
    if (method !== "GET") headers["Idempotency-Key"] = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`;
  }
  const reply = await fetch(`${ROOT}${path}`, options);
  const said = await reply.json().catch(() => ({}));
  if (reply.status === 401) signIn();
  if (!reply.ok) throw new Refused(said, reply.status);
  return said;
}
const api = (method, path, body, type) => ask(method, `/v1${path}`, body, type);

function element(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
const button = (text, act, kind = "small") => element("button", { type: "button", className: `button ${kind}`, onclick: act }, text);
const pill = (text) => element("span", { className: `pill ${text}` }, text.replace("_", " "));
const what = (title, hint) => element("div", { className: "what" }, element("strong", {}, title), element("span", { className: "hint" }, hint));
const moment = (text) => (text ? new Date(text).toLocaleString() : "");
const fill = (id, rows, empty) => $(id).replaceChildren(...(rows.length ? rows : [element("li", { className: "empty wide" }, empty)]));

function notice(text, kind = "bad") {
  const line = $("notice");
  line.hidden = !text;
  line.className = `notice ${kind}`;
  line.textContent = text;
}
function say(text) { $("announce").textContent = text; notice(text, "good"); }

function complaint(error) {
  if (!(error instanceof Refused)) return String(error.message || error);
  const fields = (error.details.errors || []).map((one) => one.message).join(". ");
  return fields ? `${fields}.` : `${error.message} (${error.code})`;
}
/** Do something, and tell of what went wrong. */
async function attempt(work) {
  try { notice(""); return await work(); } catch (error) { notice(complaint(error)); return undefined; }
}
/** A button that is pressed twice before it does something that cannot be undone. */
function sure(text, question, act) {
  const made = button(text, () => {
    if (made.classList.contains("sure")) { made.classList.remove("sure"); made.textContent = text; attempt(act); return; }
    made.classList.add("sure");
    made.textContent = question;
    setTimeout(() => { made.classList.remove("sure"); made.textContent = text; }, SURE_MS);
  }, "small quiet");
  return made;
}
function values(form) {
  const found = Object.fromEntries(new FormData(form).entries());
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== ""));
}
function onSubmit(id, work) {
  $(id).addEventListener("submit", (event) => { event.preventDefault(); attempt(() => work(event.target)); });
}

// -- companies ---------------------------------------------------------------------------------------------------------

async function companies(more = false) {
  const query = new URLSearchParams({ limit: "25" });
  const q = $("company-search").value.trim();
  if (q) query.set("q", q);
  if (more && state.cursor) query.set("cursor", state.cursor);
  const found = await api("GET", `/companies?${query}`);
  state.cursor = found.next_cursor;
  const rows = found.companies.map(companyRow);
  if (more) $("company-rows").append(...rows);
  else fill("company-rows", rows, q ? "Nothing found." : "No companies yet.");
  $("company-more").hidden = !state.cursor;
}
function companyRow(company) {
  const filled = company.slots.filter((slot) => slot.person_uid).length;
  const hint = [company.company_uid, company.website, company.industry, company.title].filter(Boolean).join(" · ");
  return element("li", {}, what(company.name, hint), pillText(`${filled} of ${company.slots.length} slots`),
    element("div", { className: "acts" },
      button("Slots", () => openBoard(company), "small main"),
      company.website ? button("Read website", () => attempt(() => enrich(company))) : null,
      sure("Delete", "Really delete?", async () => { await api("DELETE", `/companies/${company.company_uid}`); say(`${company.name} was deleted.`); await companies(); })));
}
const pillText = (text) => element("span", { className: "pill" }, text);
async function enrich(company) {
  const asked = await api("POST", "/enrichments", { company_uid: company.company_uid });
  say(`The website of ${company.name} is being read.`);
  for (let turn = 0; turn < 40; turn += 1) {
    await new Promise((done) => setTimeout(done, 500));
    const found = await api("GET", `/enrichments/${asked.enrichment_id}`);
    if (found.status === "complete") {
      say(found.outcome === "filled" ? `${company.name} was filled in.` : `There is nothing to be had: ${found.reason.replaceAll("_", " ")}.`);
      return companies();
    }
    if (found.error) { notice(`${found.error.message} ${found.error.details?.reason || ""}`); if (found.status === "failed") return undefined; }
  }
  return undefined;
}

// -- the board of slots ------------------------------------------------------------------------------------------------

function openBoard(company) { state.company = company; choose("slots"); }
async function board() {
  $("board").hidden = !state.company;
  $("board-empty").hidden = Boolean(state.company);
  if (!state.company) return;
  const uid = state.company.company_uid;
  const [company, people] = await Promise.all([api("GET", `/companies/${uid}`), api("GET", `/people?company_uid=${uid}&limit=200`)]);
  state.company = company;
  $("board-title").textContent = company.name;
  $("board-slots").replaceChildren(...company.slots.map(slotCard));
  fill("people", people.people.map((person) => personCard(person, company)), "Nobody yet.");
}
function slotCard(slot) {
  const card = element("li", { className: slot.person_uid ? "taken" : "", "data-slot": slot.slot_uid },
    element("span", { className: "role" }, slot.role),
    slot.person_uid ? element("span", { className: "who" }, slot.full_name || slot.person_uid) : element("span", { className: "free" }, "Free"),
    slot.person_uid ? element("span", { className: "hint" }, `since ${moment(slot.assigned_at)}`) : null,
    slot.person_uid ? element("div", { className: "acts" }, button("Vacate", () => attempt(async () => { await api("DELETE", `/slots/${slot.slot_uid}`); await board(); }))) : null);
  card.addEventListener("dragover", (event) => { event.preventDefault(); card.classList.add("over"); });
  card.addEventListener("dragleave", () => card.classList.remove("over"));
  card.addEventListener("drop", (event) => {
    event.preventDefault();
    card.classList.remove("over");
    const person = event.dataTransfer.getData("text/plain");
    if (person) attempt(() => assign(slot.slot_uid, person));
  });
  return card;
}
function personCard(person, company) {
  const menu = element("select", { ariaLabel: `Slot for ${person.full_name}`, onchange: (event) => {
    const slot = event.target.value;
    event.target.value = "";
    if (slot) attempt(() => assign(slot, person.person_uid));
  } }, element("option", { value: "" }, "Assign…"), ...company.slots.map((slot) => element("option", { value: slot.slot_uid }, slot.role)));
  const card = element("li", { draggable: true, "data-person": person.person_uid }, element("strong", {}, person.full_name),
    element("span", { className: "hint" }, person.email, ...(person.role ? [element("br"), person.role] : [])), menu);
  card.addEventListener("dragstart", (event) => { event.dataTransfer.setData("text/plain", person.person_uid); card.classList.add("lifted"); });
  card.addEventListener("dragend", () => card.classList.remove("lifted"));
  return card;
}
async function assign(slot, person, way = "fail") {
  try {
    const done = await api("PUT", `/slots/${slot}`, { person_uid: person, on_conflict: way });
    if (done.review_id) say("A person has to decide; it stands in the reviews.");
    else say(done.status === "unchanged" ? "Nothing changed." : "The slot was assigned.");
  } catch (error) {
    if (error.code !== "SLOT_CONFLICT") throw error;
    const chosen = await wayOut(slot, error.details.current_occupant);
    if (chosen) return assign(slot, person, chosen);
  }
  await counts();
  return board();
}
function wayOut(slot, occupant) {
  const sitting = state.company?.slots.find((one) => one.slot_uid === slot);
  $("conflict-text").textContent = `${sitting?.full_name || occupant} sits in ${slot.slice(slot.lastIndexOf("-") + 1)} (${occupant}).`;
  const dialog = $("conflict");
  return new Promise((done) => {
    const end = (event) => { const way = event.target.dataset?.way; if (way === undefined) return; dialog.close(way); };
    dialog.addEventListener("click", end);
    dialog.addEventListener("close", () => { dialog.removeEventListener("click", end); done(dialog.returnValue); }, { once: true });
    dialog.returnValue = "";
    dialog.showModal();
  });
}

// -- reviews, imports, verifications -----------------------------------------------------------------------------------

async function reviews() {
  const found = await api("GET", "/reviews?limit=100");
  const rows = [...found.reviews].reverse().map((review) => element("li", {},
    what(`${review.person_uid} → ${review.slot_uid}`, `${review.current_occupant} sits there · asked ${moment(review.created_at)}${review.decided_by ? ` · decided by ${review.decided_by}` : ""}`),
    pill(review.status),
    review.status === "open" ? element("div", { className: "acts" },
      button("Approve", () => attempt(() => decide(review, "approve")), "small main"),
      button("Reject", () => attempt(() => decide(review, "reject")))) : null));
  fill("review-rows", rows, "Nothing to decide.");
  await counts();
}
async function decide(review, decision) { await api("POST", `/reviews/${review.review_id}/${decision}`); say(`The review was ${decision === "approve" ? "approved" : "rejected"}.`); await reviews(); }
async function counts() {
  const open = (await api("GET", "/reviews?status=open&limit=100")).reviews.length;
  $("reviews-count").hidden = !open;
  $("reviews-count").textContent = String(open);
}

async function imports() {
  const found = await api("GET", "/imports?limit=20");
  const rows = await Promise.all(found.imports.map(importRow));
  fill("import-rows", rows, "No imports yet.");
  return found.imports.some((one) => one.status === "queued" || one.status === "running");
}
async function importRow(one) {
  const done = one.rows_succeeded + one.rows_failed;
  const open = state.opened.has(one.import_id);
  const failed = open ? await api("GET", `/imports/${one.import_id}/rows?status=failed&limit=50`) : null;
  return element("li", { "data-import": one.import_id },
    what(`${done.toLocaleString()} of ${one.rows_total.toLocaleString()} rows`, `${one.format.toUpperCase()} · ${moment(one.created_at)} · ${one.rows_failed.toLocaleString()} failed${one.error ? ` · ${one.error.message}` : ""}`),
    pill(one.status),
    element("div", { className: "acts" },
      one.rows_failed ? button(open ? "Hide failed rows" : "Failed rows", () => { open ? state.opened.delete(one.import_id) : state.opened.add(one.import_id); attempt(imports); }) : null,
      one.status === "complete" ? button("Download", () => attempt(() => download(one.import_id))) : null),
    element("progress", { className: "wide", max: 1, value: one.progress, ariaLabel: "Progress" }),
    failed ? element("table", { className: "failures wide" }, element("tr", {}, ...["Row", "Code", "Message"].map((title) => element("th", {}, title))),
      ...failed.rows.map((row) => element("tr", {}, element("td", {}, String(row.row)), element("td", {}, element("code", {}, ...row.error_code.split("_").flatMap((part, at) => (at ? ["_", element("wbr"), part] : [part])))),
        element("td", {}, (row.details?.errors || []).map((bad) => bad.message).join(". ") || row.message)))) : null);
}
async function download(id) {
  const reply = await fetch(`${ROOT}/v1/imports/${id}/rows`, { headers: { "X-Records-Page": "1", "X-Account-Id": state.account, Accept: "application/x-ndjson" } });
  const link = element("a", { href: URL.createObjectURL(await reply.blob()), download: `import-${id}.ndjson` });
  link.click();
  URL.revokeObjectURL(link.href);
}

async function verifications() {
  const found = (await api("GET", "/verifications?limit=50")).verifications;
  const queued = found.filter((one) => one.status === "queued").length;
  $("verification-summary").textContent = queued ? `${queued} in the queue` : "";
  fill("verification-rows", found.map((one) => element("li", {},
    what(one.email, [moment(one.created_at), one.provider, one.error ? `${one.error.message} (${one.error.error_code})` : ""].filter(Boolean).join(" · ")),
    pill(one.result || one.status))), "Nothing verified yet.");
  return queued > 0;
}

// -- keys and quotas ---------------------------------------------------------------------------------------------------

async function keys() {
  const account = encodeURIComponent(state.account);
  const [found, quota] = await Promise.all([ask("GET", `/v1/admin/keys?account_id=${account}`), ask("GET", `/v1/admin/quotas/${account}`)]);
  fill("key-rows", found.keys.map((key) => element("li", {},
    what(`${key.prefix}…`, `${key.scopes.join(", ")} · expires ${moment(key.expires_at)}`),
    key.revoked_at ? pill("revoked") : pillText("in force"),
    key.revoked_at ? null : element("div", { className: "acts" }, sure("Revoke", "Really revoke?", async () => { await ask("DELETE", `/v1/admin/keys/${key.key_id}`); say("The key was revoked."); await keys(); })))), "No keys yet.");
  for (const name of ["daily", "monthly", "per_minute"]) $("quota-form").elements[name].value = quota[name] ?? "";
  $("quota-used").textContent = `${quota.used.daily.toLocaleString()} requests today, ${quota.used.monthly.toLocaleString()} this month`;
}

// -- the page itself ---------------------------------------------------------------------------------------------------

const TABS = { companies, slots: board, reviews, imports, verifications, keys };

function signIn() {
  clearTimeout(state.timer);
  location.assign(`${ROOT}/sign-in?next=${encodeURIComponent(`/${location.search}${location.hash}`)}`);
}
function choose(tab) { state.tab = tab; location.hash = tab; notice(""); refresh(); }
async function refresh() {
  clearTimeout(state.timer);
  const turn = (state.turn += 1);
  for (const one of document.querySelectorAll("#tabs button")) one.setAttribute("aria-selected", String(one.dataset.tab === state.tab));
  for (const name of Object.keys(TABS)) $(name).hidden = name !== state.tab || !state.account;
  $("no-account").hidden = Boolean(state.account);
  if (!state.account) return;
  const busy = await attempt(TABS[state.tab]);
  // What is under way is watched; a newer turn has taken over when somebody chose something else meanwhile.
  if (busy === true && turn === state.turn) state.timer = setTimeout(refresh, POLL_MS);
}
async function accounts() {
  const found = await ask("GET", "/v1/admin/accounts");
  $("accounts").replaceChildren(...found.accounts.map((name) => element("option", { value: name })));
  if (!state.account && found.accounts.length) setAccount(sessionStorage.getItem("account") || found.accounts[0]);
  else refresh();
}
function setAccount(name) {
  state.account = name;
  state.company = null;
  $("account").value = name;
  sessionStorage.setItem("account", name);
  refresh();
  attempt(counts);
}

$("tabs").addEventListener("click", (event) => { const tab = event.target.closest("button")?.dataset.tab; if (tab) choose(tab); });
$("account").addEventListener("change", (event) => setAccount(event.target.value.trim()));
$("company-search").addEventListener("input", () => { clearTimeout(state.search); state.search = setTimeout(() => attempt(companies), 250); });
$("company-more").addEventListener("click", () => attempt(() => companies(true)));
$("board-back").addEventListener("click", () => choose("companies"));
onSubmit("company-form", async (form) => { const made = await api("POST", "/companies", values(form)); form.reset(); say(`${made.company_uid} was created.`); await companies(); });
onSubmit("person-form", async (form) => { await api("POST", "/people", { company_uid: state.company.company_uid, ...values(form) }); form.reset(); await board(); });
onSubmit("import-form", async (form) => {
  const file = form.elements.file.files[0];
  const type = file.name.endsWith(".csv") ? "text/csv" : "application/x-ndjson";
  await api("POST", "/imports", file, type);
  form.reset();
  say("The file was received.");
  refresh();
});
onSubmit("verification-form", async (form) => { await api("POST", "/verifications", values(form)); form.reset(); refresh(); });
onSubmit("key-form", async (form) => {
  const made = await ask("POST", "/v1/admin/keys", { account_id: state.account, scopes: new FormData(form).getAll("scopes") });
  $("key-new").hidden = false;
  $("key-text").textContent = made.api_key;
  await keys();
});
onSubmit("quota-form", async (form) => {
  const given = Object.fromEntries(Object.entries(values(form)).map(([name, value]) => [name, Number(value)]));
  await ask("PUT", `/v1/admin/quotas/${encodeURIComponent(state.account)}`, given);
  say("The quota was set.");
  await keys();
});
onSubmit("maintenance-form", async (form) => {
  const until = new Date(Date.now() + Number(values(form).minutes) * 60_000).toISOString();
  await ask("PUT", "/v1/admin/maintenance", { until });
  say(`The API is closed until ${moment(until)}.`);
});
$("maintenance-end").addEventListener("click", () => attempt(async () => { await ask("DELETE", "/v1/admin/maintenance"); say("The API is open."); }));

if (TABS[location.hash.slice(1)]) state.tab = location.hash.slice(1);
attempt(accounts);
