// The page of runs: a list, and one run with its graph, its numbers and its report. Everything comes from the API.

import { drawGraph } from "./graph.js";

const LOOK_MS = 700, REST_MS = 5000;
const at = (id) => document.getElementById(id);
let shown = null, drawn = "", listed = "", opened = "", following = null, timer = null;

async function ask(path, options = {}) {
  const reply = await fetch(path, {
    ...options,
    headers: { "x-holdfast-page": "1", "content-type": "application/json", ...options.headers },
  });
  if (reply.status === 401) location.assign(`sign-in?next=${encodeURIComponent(`/${location.hash}`)}`);
  const body = await reply.json();
  if (!reply.ok) throw new Error(body.error ? `${body.error.code}: ${body.error.message}` : `HTTP ${reply.status}`);
  return body;
}

function tell(problem) {
  at("problem").textContent = problem ? String(problem.message || problem) : "";
  at("problem").hidden = !problem;
}

// -- the list --------------------------------------------------------------------------------------------------------

async function listRuns(after) {
  const page = await ask(`v1/flow-runs?count=25${after ? `&after=${encodeURIComponent(after)}` : ""}`);
  const text = JSON.stringify([page, shown]);
  if (!after && text === listed) return page.flowRuns;
  if (!after) listed = text;
  following = page.next;
  const rows = page.flowRuns.map(listRow);
  if (after) at("runs").append(...rows);
  else at("runs").replaceChildren(...rows);
  at("none").hidden = at("runs").children.length > 0;
  at("more").hidden = !following;
  return page.flowRuns;
}

function listRow(run) {
  const link = made("a", { href: `#${run.runId}` });
  link.append(
    made("span", { class: "name" }, run.runId),
    made("span", { class: `badge ${run.status}` }, run.status),
    made("span", { class: "when" }, `${new Date(run.createdAt).toLocaleString()} · ${money(run.usage.costUsd)}`),
  );
  if (run.runId === shown) link.setAttribute("aria-current", "page");
  const row = made("li", {});
  row.append(link);
  return row;
}

// -- one run ---------------------------------------------------------------------------------------------------------

async function showRun() {
  const run = await ask(`v1/flow-runs/${encodeURIComponent(shown)}`);
  const text = JSON.stringify(run);
  if (text !== drawn || run.status === "RUNNING") draw(run);
  drawn = text;
  return run;
}

function draw(run) {
  at("run").hidden = false;
  at("run-id").textContent = run.runId;
  at("run-status").textContent = run.status;
  at("run-status").className = `badge ${run.status}`;
  const ends = run.finishedAt ? new Date(run.finishedAt) : new Date();
  facts({
    Submitted: new Date(run.createdAt).toLocaleString(),
    Took: span(ends - new Date(run.createdAt)),
    "Model calls": run.usage.modelCalls,
    Tokens: `${run.usage.inputTokens.toLocaleString()} in, ${run.usage.outputTokens.toLocaleString()} out`,
    Cost: money(run.usage.costUsd) + (run.budgetUsd === undefined ? "" : ` of ${money(run.budgetUsd)}`),
    ...(run.error ? { Error: `${run.error.code}: ${run.error.message}` } : {}),
  });
  at("graph").replaceChildren(drawGraph(run, (step) => describe(step)));
  at("steps").replaceChildren(...Object.entries(run.steps).map(([id, step]) => stepRow(run, id, step)));
  const reports = Object.entries(run.steps).filter(([, one]) => one.stepType === "LLM_REPORT" && one.state === "SUCCEEDED");
  if (!opened && reports.length) openReport(reports[reports.length - 1][0]);
}

function facts(values) {
  at("facts").replaceChildren(
    ...Object.entries(values).map(([name, value]) => {
      const pair = made("div", {});
      pair.append(made("dt", {}, name), made("dd", {}, value));
      return pair;
    }),
  );
}

function describe(step) {
  const parts = [];
  if (step.startedAt) parts.push(taken(step));
  if (step.attempts > 1) parts.push(`attempt ${step.attempts}`);
  if (step.usage) parts.push(money(step.usage.costUsd));
  if (step.error) return step.error.code;
  return parts.join(" · ") || step.stepType || "";
}

function stepRow(run, id, step) {
  const what = made("td", { class: "what" });
  what.append(made("strong", {}, id), made("span", { class: "quiet" }, ` ${step.stepType}`));
  if (step.error) what.append(made("span", { class: "error" }, `${step.error.code}: ${step.error.message}`));
  const state = made("td", {});
  state.append(made("span", { class: `badge ${step.state}` }, step.state || "PENDING"));
  const usage = step.usage;
  const deeds = made("td", {});
  const row = made("tr", {});
  row.append(
    what,
    state,
    made("td", {}, step.attempts || ""),
    made("td", {}, step.startedAt ? taken(step) : ""),
    made("td", {}, usage ? `${usage.inputTokens.toLocaleString()} / ${usage.outputTokens.toLocaleString()}` : ""),
    made("td", {}, usage ? money(usage.costUsd) : ""),
    deeds,
  );
  if (step.stepType === "LLM_REPORT" && step.state === "SUCCEEDED") {
    deeds.append(button("Read", () => openReport(id, true)));
  }
  if (step.state === "FAILED" || step.state === "SUCCEEDED") {
    deeds.append(" ", button("Run again", () => rerun(run.runId, id)));
  }
  return row;
}

async function rerun(runId, id) {
  const made = await ask(`v1/flow-runs/${encodeURIComponent(runId)}/steps/${encodeURIComponent(id)}/rerun`, { method: "POST" });
  opened = "";
  if (made.flowRun.steps[made.stepId].stepType === "LLM_REPORT") closeReport();
  look();
}

function openReport(id, wanted) {
  opened = id;
  const address = `v1/flow-runs/${encodeURIComponent(shown)}/steps/${encodeURIComponent(id)}/report.html`;
  at("report").hidden = false;
  at("report-title").textContent = `Report · ${id}`;
  at("report-link").href = address;
  at("report-frame").src = address;
  if (wanted) at("report").scrollIntoView({ behavior: "smooth" });
}

function closeReport() {
  opened = "";
  at("report").hidden = true;
  at("report-frame").removeAttribute("src");
}

// -- the sample ------------------------------------------------------------------------------------------------------

async function startSample() {
  const sample = await (await fetch("sample.json")).json();
  const put = (path, body) => ask(path, { method: "PUT", body: JSON.stringify(body) });
  await put(`v1/prompts/${sample.promptId}`, { template: sample.template });
  await put(`v1/schemas/${sample.schemaId}`, { jsonSchema: sample.jsonSchema });
  const run = await ask("v1/flow-runs", { method: "POST", body: JSON.stringify(sample.run) });
  location.hash = run.runId;
}

// -- going on --------------------------------------------------------------------------------------------------------

async function look() {
  clearTimeout(timer);
  let wait = REST_MS;
  try {
    const runs = await listRuns();
    if (!shown && runs.length) return void (location.hash = runs[0].runId);
    if (shown && (await showRun()).status === "RUNNING") wait = LOOK_MS;
    tell("");
  } catch (problem) {
    tell(problem);
  }
  timer = setTimeout(look, document.hidden ? REST_MS : wait);
}

function choose() {
  shown = decodeURIComponent(location.hash.slice(1)) || null;
  drawn = "";
  closeReport();
  at("run").hidden = true;
  look();
}

function button(text, work) {
  const element = made("button", { type: "button" }, text);
  element.addEventListener("click", () => guarded(element, work));
  return element;
}

async function guarded(element, work) {
  element.disabled = true;
  try {
    await work();
  } catch (problem) {
    tell(problem);
  } finally {
    element.disabled = false;
  }
}

function made(name, attributes, text) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function taken(step) {
  return span((step.finishedAt ? new Date(step.finishedAt) : new Date()) - new Date(step.startedAt));
}

function span(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 120_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.round(ms / 60_000)} min`;
}

function money(usd) {
  return usd ? `$${usd.toFixed(usd < 0.01 ? 5 : 2)}` : "$0";
}

at("sample").addEventListener("click", () => guarded(at("sample"), startSample));
at("more").addEventListener("click", () => guarded(at("more"), () => listRuns(following)));
addEventListener("hashchange", choose);
choose();
