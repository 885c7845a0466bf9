"use strict";

// The queue page. What the server says is kept in `jobs`, what is on its way up in `uploads` (uploads.js); `draw` shows both and
// touches only what has changed, so that the focus stays where it is.

const { root, bytesMax, tooLarge } = document.body.dataset;
const LIMIT = Number(bytesMax);
const POLL_S = [3, 5, 10, 20, 40, 60];
const SURE_MS = 4000;
const DEAF_MAX = 2; // a stream that has ended is opened again at once: only failing to do so says something

const jobs = new Map();
const rows = new Map();
const find = (id) => document.getElementById(id);

let clockAhead_ms = 0; // how far the server's clock is ahead of ours
let counts = { active: 0, ready: 0, failed: 0, retryable: 0, ended: 0 }; // of all files, also of those not shown
let held = false; // whether the gateway gets no jobs for now
let nextPage = null;
let reachedOlder = false;
let stream = null;
let deaf = 0; // how often in a row the stream could not be opened
let pollTimer = 0;
let polls = 0;

// -- talking ---------------------------------------------------------------------------------------------------------

async function ask(method, path) {
  const reply = await fetch(root + path, { method, headers: { accept: "application/json" } });
  if (reply.status === 204) return null;
  const said = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Error(said.error?.message || "Something unexpected went wrong.");
  return said;
}

function take(listing) {
  clockAhead_ms = Date.parse(listing.now) - Date.now();
  const told = new Set(listing.jobs.map((job) => job.id));
  const oldest = listing.next === null ? "" : listing.jobs.at(-1).id;
  // What is missing from the part that was told is gone; what is older was not told about.
  for (const id of jobs.keys()) if (id >= oldest && !told.has(id)) jobs.delete(id);
  for (const job of listing.jobs) note(job);
  if (!reachedOlder) nextPage = listing.next;
  counts = listing.counts;
  held = listing.gateway.paused;
  find("gate").hidden = !held;
  find("gate").textContent = listing.gateway.message || "";
  find("offline").hidden = true;
  draw();
}

function note(job) {
  const before = jobs.get(job.id);
  jobs.set(job.id, job);
  if (before && before.status !== job.status && ["complete", "failed"].includes(job.status))
    say(`${job.file_name}: ${job.status === "complete" ? "ready" : job.error_message}`);
}

async function refresh() {
  try {
    take(await ask("GET", "/api/jobs"));
    return true;
  } catch {
    find("offline").hidden = false;
    return false;
  }
}

// While something is going on the server tells us; else we ask now and then, and less and less often.
function watch() {
  clearTimeout(pollTimer);
  if (stream) return;
  stream = new EventSource(`${root}/api/events`);
  stream.addEventListener("open", () => { deaf = 0; find("offline").hidden = true; });
  stream.addEventListener("jobs", (event) => { polls = 0; take(JSON.parse(event.data)); });
  stream.addEventListener("rest", () => { unwatch(); pollLater(); });
  stream.addEventListener("error", () => {
    if (stream?.readyState === EventSource.CLOSED) { unwatch(); pollLater(); }
    else if (++deaf >= DEAF_MAX || !navigator.onLine) find("offline").hidden = false;
  });
}

function unwatch() {
  stream?.close();
  stream = null;
}

function pollLater() {
  clearTimeout(pollTimer);
  const wait_s = POLL_S[Math.min(polls++, POLL_S.length - 1)];
  pollTimer = setTimeout(async () => {
    if (document.hidden) return pollLater();
    const heard = await refresh();
    if (heard && (counts.active || held)) watch();
    else pollLater();
  }, wait_s * 1000);
}

document.addEventListener("visibilitychange", () => { if (!document.hidden && !stream) { polls = 0; watch(); } });
addEventListener("online", () => { if (!stream) { polls = 0; watch(); } });

// -- showing ---------------------------------------------------------------------------------------------------------

function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1048576 ? `${Math.round(bytes / 1024)} kB` : `${(bytes / 1048576).toFixed(1)} MB`;
}

function wait_s(job) {
  return Math.max(0, Math.ceil((Date.parse(job.waiting.next_attempt_at) - Date.now() - clockAhead_ms) / 1000));
}

function shownUpload(upload) {
  const failed = upload.state === "failed";
  return {
    name: upload.file.name,
    hint: `${upload.mapping} · ${size(upload.file.size)}`,
    pill: failed ? "failed" : "uploading",
    word: failed ? "Failed" : upload.state === "uploading" ? `Uploading ${Math.floor(upload.sent * 100)} %` : "Waiting",
    line: upload.line,
    bad: failed,
    progress: upload.state === "uploading" ? upload.sent : null,
    retry: canResend(upload) ? () => { resend(upload); sendNext(); draw(); } : null,
    remove: () => { upload.request?.abort(); upload.state = "gone"; drop(upload); sendNext(); draw(); },
  };
}

function shownJob(job) {
  const [pill, word, line] = standing(job);
  return {
    name: job.file_name,
    hint: `${job.mapping} · ${size(job.bytes)}` + (job.can_download ? ` → ${size(job.result_bytes)} of XML` : ""),
    pill, word, line,
    bad: job.status === "failed",
    progress: null,
    download: job.can_download ? `${root}/api/jobs/${job.id}/download` : null,
    retry: job.can_retry ? () => act(job, "POST", "/retry") : null,
    remove: () => act(job, "DELETE", ""),
  };
}

function standing(job) {
  if (job.status === "failed") return ["failed", "Failed", job.error_message];
  if (job.expired) return ["expired", "Removed", "File was removed by retention. Re-upload to regenerate."];
  if (job.status === "complete") return ["complete", "Ready", job.note || ""];
  const attempt = job.attempt_count > 1 ? `Attempt ${job.attempt_count} of ${job.attempts_max}` : "";
  if (job.status === "processing") return ["processing", "Converting", attempt];
  if (!job.waiting) return ["queued", "Queued", ""];
  return ["waiting", "Waiting", `${job.waiting.message} ${next(job)} (${job.attempt_count + 1} of ${job.attempts_max}).`];
}

// While the queue is held nothing is tried, whatever the clock says.
function next(job) {
  if (held) return "Next attempt when the queue goes on";
  const left_s = wait_s(job);
  return left_s > 0 ? `Next attempt in ${left_s} s` : "Next attempt now";
}

async function act(job, method, path) {
  try {
    const told = await ask(method, `/api/jobs/${job.id}${path}`);
    if (told) note(told); else { jobs.delete(job.id); say(`${job.file_name}: deleted`); }
    watch();
    refresh(); // a deleted row tells nobody, and the counts have changed
  } catch (failed) {
    say(failed.message);
    const row = rows.get(job.id);
    if (row) { row.parts.line.textContent = failed.message; row.shown = ""; }
    setTimeout(refresh, SURE_MS);
    return;
  }
  draw();
}

function draw() {
  const wanted = [
    ...uploads.map((upload) => [upload.id, shownUpload(upload)]),
    ...[...jobs.values()].sort((one, other) => (one.id < other.id ? 1 : -1)).map((job) => [job.id, shownJob(job)]),
  ];
  const list = find("rows");
  const ids = new Set(wanted.map(([id]) => id));
  for (const [id, row] of rows) if (!ids.has(id)) { leave(row.item); row.item.remove(); rows.delete(id); }
  wanted.forEach(([id, shown], place) => {
    if (!rows.has(id)) rows.set(id, makeRow());
    const row = rows.get(id);
    fill(row, shown);
    if (list.children[place] !== row.item) list.insertBefore(row.item, list.children[place] || null);
  });
  find("empty").hidden = wanted.length > 0;
  find("more").hidden = nextPage === null;
  summarise();
}

// Whoever uses the keyboard goes on where they were: at the row that follows, or at the list's title.
function leave(item) {
  if (!item.contains(document.activeElement)) return;
  const beside = item.nextElementSibling || item.previousElementSibling;
  (beside?.querySelector(".button:not([hidden])") || find("queue-title")).focus();
}

function summarise() {
  const lost = uploads.filter((one) => one.state === "failed").length;
  const parts = [["in work", counts.active + uploads.length - lost], ["ready", counts.ready], ["failed", counts.failed + lost]];
  find("summary").textContent = parts.filter(([, count]) => count).map(([word, count]) => `${count} ${word}`).join(" · ");
  const again = counts.retryable + uploads.filter(canResend).length;
  offerAll("retry-all", `Retry all (${again})`, again > 0);
  offerAll("download-all", `Download all (${counts.ready})`, counts.ready > 1);
  if (!find("clear").classList.contains("sure")) offerAll("clear", `Clear finished (${counts.ended + lost})`, counts.ended + lost > 0);
  find("all").hidden = [...find("all").children].every((one) => one.hidden);
}

function offerAll(id, text, wanted) {
  const button = find(id);
  if (!wanted && button === document.activeElement) find("queue-title").focus();
  button.textContent = text;
  button.hidden = !wanted;
}

async function actOnAll(path, verb, word) {
  try {
    const told = await ask("POST", path);
    say(`${told[verb]} ${word}` + (told.left ? `, ${told.left} left as they were` : ""));
  } catch (failed) {
    say(failed.message);
  }
  await refresh();
  if (counts.active || held) watch();
}

function make(tag, className, ...children) {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...children);
  return made;
}

function makeRow() {
  const parts = {
    name: make("strong", ""), hint: make("span", "hint"), progress: make("progress", ""), pill: make("span", "pill"),
    line: make("p", "line"), download: make("a", "button main", "Download"), retry: make("button", "button main", "Retry"),
    remove: make("button", "button quiet", "Delete"),
  };
  const row = { parts, shown: "", acts: {}, busy: false }; // a button that is disabled would lose the focus
  parts.progress.max = 1;
  parts.retry.type = parts.remove.type = "button";
  parts.download.setAttribute("download", "");
  parts.retry.addEventListener("click", () => { if (!row.busy) { row.busy = true; row.acts.retry(); } });
  parts.remove.addEventListener("click", () => sure(row));
  row.item = make("li", "row", make("div", "name", parts.name, parts.hint, parts.progress), make("div", "state", parts.pill),
    parts.line, make("div", "acts", parts.download, parts.retry, parts.remove));
  return row;
}

// Deleting is asked for twice; the second time within a few seconds.
function sure(row) {
  const button = row.parts.remove;
  if (button.classList.contains("sure")) return row.acts.remove();
  const word = (text) => { button.textContent = text; button.setAttribute("aria-label", `${text} ${row.acts.name}`); };
  button.classList.add("sure");
  word("Sure?");
  say(`Press again to delete ${row.acts.name}.`);
  setTimeout(() => { button.classList.remove("sure"); word("Delete"); }, SURE_MS);
}

function clearAll() {
  const button = find("clear");
  const unsure = () => { button.classList.remove("sure"); draw(); };
  if (button.classList.contains("sure")) {
    uploads.filter((one) => one.state === "failed").forEach(drop);
    return actOnAll("/api/clear", "deleted", "deleted").then(unsure);
  }
  const lost = uploads.filter((one) => one.state === "failed").length;
  button.classList.add("sure");
  button.textContent = `Delete ${counts.ready} ready and ${counts.ended + lost - counts.ready} other files?`;
  say(`Press again to delete ${counts.ended + lost} files.`);
  setTimeout(unsure, SURE_MS);
}

function fill(row, shown) {
  row.acts = shown;
  const said = JSON.stringify(shown) + Boolean(shown.retry);
  if (row.shown === said) return;
  row.shown = said;
  row.busy = false;
  const { name, hint, progress, pill, line, download, retry, remove } = row.parts;
  name.textContent = name.title = shown.name;
  hint.textContent = shown.hint;
  pill.className = `pill ${shown.pill}`;
  pill.textContent = shown.word;
  line.className = shown.bad ? "line bad" : "line";
  line.textContent = shown.line;
  progress.hidden = shown.progress === null;
  progress.value = shown.progress ?? 0;
  progress.setAttribute("aria-label", `Upload of ${shown.name}`);
  download.hidden = !shown.download;
  if (shown.download) download.href = shown.download;
  const left = document.activeElement === retry && !shown.retry;
  retry.hidden = !shown.retry;
  if (left) remove.focus();
  download.setAttribute("aria-label", `Download the XML of ${shown.name}`);
  retry.setAttribute("aria-label", `Retry ${shown.name}`);
  if (!remove.classList.contains("sure")) remove.setAttribute("aria-label", `Delete ${shown.name}`);
}

function say(text) {
  find("announce").textContent = text;
}

// -- beginning -------------------------------------------------------------------------------------------------------

find("limit").textContent = size(LIMIT).replace(".0", "");
find("mapping").addEventListener("change", (event) => {
  find("mapping-hint").textContent = event.target.selectedOptions[0].dataset.hint;
});
find("files").addEventListener("change", (event) => { offer(event.target.files); event.target.value = ""; });
find("retry-all").addEventListener("click", () => {
  uploads.filter(canResend).forEach(resend);
  sendNext();
  actOnAll("/api/retry", "retried", "queued again");
});
find("clear").addEventListener("click", clearAll);
find("form").addEventListener("submit", (event) => event.preventDefault());
find("more").addEventListener("click", async () => {
  const listing = await ask("GET", `/api/jobs?before=${encodeURIComponent(nextPage)}`).catch((failed) => say(failed.message));
  if (!listing) return;
  reachedOlder = true;
  nextPage = listing.next;
  listing.jobs.forEach(note);
  draw();
});

const carriesFiles = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
addEventListener("dragover", (event) => { if (carriesFiles(event)) { event.preventDefault(); find("veil").hidden = false; } });
addEventListener("dragleave", (event) => { if (event.relatedTarget === null) find("veil").hidden = true; });
addEventListener("drop", (event) => {
  find("veil").hidden = true;
  if (carriesFiles(event)) { event.preventDefault(); offer(event.dataTransfer.files); }
});

setInterval(() => { if (!held && [...jobs.values()].some((job) => job.waiting)) draw(); }, 250);
refresh().then(() => (counts.active || held ? watch() : pollLater()));
