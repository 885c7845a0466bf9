// The chat widget: one script tag on any page.
//
//   <script src="https://gateway.example/widget.js" data-instance="inst_…" data-user="u1" defer></script>
//
// data-user    who chats; without it, a random name that this browser keeps
// data-title   the heading of the chat
// data-manage  where the owner tops up and resumes; without it, the buyer's page of this installation
// data-inline  the chat stands where the script tag stands, instead of behind a button in the corner
//
// A message keeps its clientRunId for as long as it is unanswered: sending it again never charges twice.
(() => {
  "use strict";

  const DEFAULT_MANAGE = "{manage}";
  const script = document.currentScript;
  const gateway = new URL(".", script.src).href.replace(/\/$/, "");
  const option = (name, otherwise = "") => script.dataset[name] || otherwise;
  const instance = option("instance");
  const manage = option("manage", DEFAULT_MANAGE);
  const inline = "inline" in script.dataset;
  const LONGEST = 32000;
  const OVER = ["RUN_INTERRUPTED", "RUN_TIMEOUT"]; // a run that ended like this is never run again

  if (!instance) {
    console.error("widget.js: name the instance, as in <script src=… data-instance=\"inst_…\">");
    return;
  }

  const STYLE = `
    :host { all: initial; --panel: #ffffff; --ground: #f6f7f6; --line: #d5d9d7; --text: #1c2321; --quiet: #55605d;
      --accent: #0f766e; --on-accent: #ffffff; --mine: #dcf3ec; --note: #fdf3dc; --note-line: #b7791f; }
    @media (prefers-color-scheme: dark) {
      :host { --panel: #1a211f; --ground: #121716; --line: #3a4642; --text: #e6ebe9; --quiet: #a3b0ac;
        --accent: #5fd3c4; --on-accent: #08211d; --mine: #143b36; --note: #33290f; --note-line: #d9a441; }
    }
    * { box-sizing: border-box; font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
    [hidden] { display: none !important; }
    button, .link { min-height: 44px; padding: .5rem 1rem; border: 1px solid var(--accent); border-radius: 8px;
      background: var(--accent); color: var(--on-accent); font-weight: 600; cursor: pointer; text-decoration: none;
      display: inline-flex; align-items: center; justify-content: center; }
    button.plain { background: transparent; color: var(--accent); }
    button[disabled] { opacity: .55; cursor: not-allowed; }
    :focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
    .launcher { position: fixed; right: 1rem; bottom: 1rem; z-index: 2147483000; border-radius: 99px;
      box-shadow: 0 4px 16px rgb(0 0 0 / .25); }
    .chat { display: flex; flex-direction: column; background: var(--panel); color: var(--text);
      border: 1px solid var(--line); border-radius: 12px; overflow: hidden; }
    .chat.floating { position: fixed; right: 1rem; bottom: 5rem; z-index: 2147483000; width: min(24rem, calc(100vw - 2rem));
      height: min(34rem, calc(100vh - 7rem)); box-shadow: 0 12px 40px rgb(0 0 0 / .3); }
    .chat.inline { height: min(40rem, calc(100vh - 8rem)); min-height: 22rem; }
    header { display: flex; align-items: center; justify-content: space-between; gap: 1rem; padding: .6rem .6rem .6rem 1rem;
      border-bottom: 1px solid var(--line); }
    h2 { margin: 0; font-size: 1.05rem; font-weight: 650; }
    .log { flex: 1; overflow-y: auto; padding: 1rem; background: var(--ground); display: flex; flex-direction: column; gap: .7rem; }
    .message { max-width: 85%; padding: .55rem .85rem; border: 1px solid var(--line); border-radius: 12px; background: var(--panel);
      white-space: pre-wrap; overflow-wrap: anywhere; }
    .message.mine { align-self: flex-end; background: var(--mine); border-color: transparent; }
    .message small { display: block; margin-top: .25rem; color: var(--quiet); font-size: .85rem; }
    .typing::after { content: "▍"; color: var(--accent); }
    .empty { margin: auto; color: var(--quiet); text-align: center; }
    .notice { border-top: 1px solid var(--note-line); background: var(--note); padding: .8rem 1rem; }
    .notice p { margin: 0 0 .6rem; }
    .notice .ways { display: flex; flex-wrap: wrap; gap: .6rem; }
    form { display: flex; gap: .6rem; padding: .7rem; border-top: 1px solid var(--line); align-items: flex-end; }
    textarea { flex: 1; min-height: 44px; max-height: 9rem; padding: .55rem .7rem; resize: none; color: var(--text);
      background: var(--ground); border: 1px solid var(--quiet); border-radius: 8px; }
    .sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
    @media (max-width: 30rem) {
      .chat.floating { right: 0; bottom: 0; width: 100vw; height: 100dvh; border-radius: 0; border: 0; }
    }`;

  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "class") made.className = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null) made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  };

  // -- what is said to the gateway ---------------------------------------------------------------------------------

  class Refused extends Error {
    constructor(status, error, retryAfter) {
      super(error.message || `status ${status}`);
      this.status = status;
      this.code = error.code || "";
      this.details = error.details || {};
      this.retryAfter = retryAfter;
    }
  }

  const randomId = () => crypto.randomUUID ? crypto.randomUUID() :
    Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

  const user = () => {
    if (option("user")) return option("user");
    try {
      const known = localStorage.getItem("holdfast-widget-user") || `visitor-${randomId()}`;
      localStorage.setItem("holdfast-widget-user", known);
      return known;
    } catch {
      return `visitor-${randomId()}`; // a browser that keeps nothing
    }
  };

  const refusal = async (response) => {
    const body = await response.json().catch(() => ({}));
    return new Refused(response.status, body.error || {}, Number(response.headers.get("retry-after")) || 0);
  };

  const post = async (path, body, headers = {}) => {
    let response;
    try {
      response = await fetch(`${gateway}${path}`, {
        method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json", ...headers },
      });
    } catch {
      throw new Refused(0, { code: "UNREACHABLE" }, 0);
    }
    if (!response.ok) throw await refusal(response);
    return response;
  };

  let token = null;
  const person = user();
  const session = async () => {
    token ??= (await (await post("/v1/widget/sessions", { instanceId: instance, userId: person })).json()).token;
    return token;
  };

  async function* eventsOf(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
        const data = rest.slice(0, end).split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5));
        rest = rest.slice(end + 2);
        if (data.length) yield JSON.parse(data.join("\n"));
      }
    }
  }

  const run = async (message, onText) => {
    const asked = { input: message.text, clientRunId: message.id };
    const path = `/v1/instances/${encodeURIComponent(instance)}/runs`;
    const send = async () =>
      post(path, asked, { authorization: `Bearer ${await session()}`, accept: "text/event-stream" });
    let response;
    try {
      response = await send();
    } catch (error) {
      if (error.status !== 401) throw error;
      token = null; // it was over: a new session, once
      response = await send();
    }
    try {
      for await (const event of eventsOf(response)) {
        if (event.type === "delta") onText(event.text);
        else if (event.type === "error") throw new Refused(503, event.error || {}, 0);
        else if (event.type === "end") return event;
      }
    } catch (error) {
      throw error instanceof Refused ? error : new Refused(0, { code: "UNREACHABLE" }, 0);
    }
    throw new Refused(0, { code: "UNREACHABLE" }, 0); // the connection ended before the answer did
  };

  // -- what a person sees ------------------------------------------------------------------------------------------

  const host = element("div");
  const root = host.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet(); // not a style element: pages may forbid those
  sheet.replaceSync(STYLE);
  root.adoptedStyleSheets = [sheet];

  const title = option("title", "Chat");
  const empty = element("p", { class: "empty" }, "Ask something to begin.");
  const log = element("div", { class: "log", role: "log", "aria-label": "Conversation", "aria-live": "polite", tabindex: "0" }, empty);
  const notice = element("div", { class: "notice", role: "alert", hidden: true });
  const input = element("textarea", { id: "input", rows: "1", maxlength: String(LONGEST), placeholder: "Message" });
  const send = element("button", { type: "submit" }, "Send");
  const form = element("form", {}, element("label", { class: "sr", for: "input" }, "Message"), input, send);
  const close = element("button", { class: "plain", type: "button" }, "Close");
  const chat = element(
    "section",
    { class: `chat ${inline ? "inline" : "floating"}`, role: inline ? "region" : "dialog", "aria-label": title, hidden: !inline },
    element("header", {}, element("h2", {}, title), ...(inline ? [] : [close])), log, notice, form,
  );
  const launcher = element("button", { class: "launcher", type: "button", "aria-expanded": "false", hidden: inline }, title);
  root.append(chat, launcher);

  let waiting = null; // the message that has no answer yet
  let clock = null;

  const show = (open) => {
    chat.hidden = !open;
    launcher.setAttribute("aria-expanded", String(open));
    (open ? input : launcher).focus();
  };
  launcher.addEventListener("click", () => show(chat.hidden));
  close.addEventListener("click", () => show(false));
  chat.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !inline) show(false);
  });

  const bubble = (text, mine) => {
    empty.remove();
    const made = element("div", { class: mine ? "message mine" : "message" }, element("span", { class: "sr" }, mine ? "You: " : "Answer: "), text);
    log.append(made);
    log.scrollTop = log.scrollHeight;
    return made;
  };

  const busy = (working) => {
    log.setAttribute("aria-busy", String(working)); // a screen reader reads the answer when it is whole
    send.disabled = working || waiting !== null;
    send.textContent = working ? "Sending …" : "Send";
  };

  const settle = () => {
    clearInterval(clock);
    notice.hidden = true;
    notice.replaceChildren();
  };

  const tell = (text, ...ways) => {
    settle();
    const said = element("p", {}, text);
    notice.append(said, element("div", { class: "ways" }, ...ways));
    notice.hidden = false;
    return said;
  };

  const again = (label = "Try again") => element("button", { type: "button", onclick: () => deliver() }, label);
  const drop = () => element("button", { class: "plain", type: "button", onclick: () => {
    waiting = null;
    settle();
    busy(false);
    input.focus();
  } }, "Do not send");
  const owner = (label, anchor) => manage
    ? [element("a", { class: "link", href: `${manage}#${anchor}`, target: "_blank", rel: "noopener" }, label)]
    : [];

  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

  const countDown = (seconds, why) => {
    const button = again("Send again");
    button.disabled = true;
    const said = tell("", button, drop());
    let left = Math.max(1, Math.ceil(seconds));
    const tick = () => {
      button.disabled = left > 0;
      said.textContent = left > 0 ? `${why} You can send it again in ${plural(left, "second")}.` : `${why} You can send it again now.`;
      if (left-- <= 0) {
        clearInterval(clock);
        button.focus();
      }
    };
    said.setAttribute("aria-live", "off"); // a screen reader is told once, not every second
    clock = setInterval(tick, 1000);
    tick();
  };

  const resume = () => element("button", { type: "button", onclick: async () => {
    const page = new URL(manage, location.href);
    const path = `instances/${encodeURIComponent(instance)}/resume`;
    const headers = { "idempotency-key": randomId() };
    // The owner's own cookie decides; whoever has none is sent to the page that asks for it.
    const reply = page.origin === location.origin
      ? await fetch(new URL(path, page), { method: "POST", headers, credentials: "same-origin" }).catch(() => null)
      : null;
    if (reply && reply.ok) deliver();
    else open(`${manage}#${instance}`, "_blank", "noopener");
  } }, "Resume");

  const explain = (error) => {
    const { status, code, details } = error;
    if (OVER.includes(code)) waiting.id = randomId(); // nothing was charged for it: the next try is a run of its own
    if (code === "INSUFFICIENT_CREDITS") {
      const left = Number.isInteger(details.balance) ? ` ${plural(details.balance, "credit")} left, ${details.requiredBudget} needed.` : "";
      tell(`There are not enough credits for this.${left}`, ...owner("Top up", "top-up"), again(), drop());
    } else if (code === "INSTANCE_PAUSED") {
      tell("This assistant is paused.", ...(manage ? [resume()] : []), again(), drop());
    } else if (status === 429 || status === 409) {
      countDown(error.retryAfter || 5, status === 409 ? "The answer is still on its way." : "Too many messages at once.");
    } else if (status === 0) {
      tell("The connection was lost. Sending it again does not charge it again.", again(), drop());
    } else if (status >= 500) {
      tell("The assistant is not available right now. Your message was not answered, and nothing was charged for it.", again(), drop());
    } else if (status === 404 || code === "ORIGIN_NOT_ALLOWED") {
      waiting = null;
      tell("This assistant cannot be used on this page.");
    } else {
      tell(error.message, again(), drop());
    }
  };

  const deliver = async () => {
    settle();
    waiting.answer ??= bubble("", false);
    const said = waiting.answer;
    said.replaceChildren(said.firstChild);
    const text = document.createTextNode("");
    said.append(text);
    said.classList.add("typing");
    busy(true);
    try {
      const end = await run(waiting, (piece) => {
        text.data += piece;
        log.scrollTop = log.scrollHeight;
      });
      text.data = end.output;
      said.append(element("small", {}, end.charged === null || end.charged === undefined ? "charged later" : plural(end.charged, "credit")));
      waiting = null;
      busy(false);
      input.focus();
    } catch (error) {
      said.remove();
      waiting.answer = null;
      if (!(error instanceof Refused)) console.error(error);
      explain(error instanceof Refused ? error : new Refused(0, { code: "UNREACHABLE" }, 0));
      busy(false);
      notice.querySelector("button:not([disabled]), a")?.focus();
    } finally {
      said.classList.remove("typing");
      log.scrollTop = log.scrollHeight;
    }
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!text || waiting) return;
    waiting = { id: randomId(), text, answer: null };
    bubble(text, true);
    input.value = "";
    deliver();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });

  if (inline) script.after(host);
  else if (document.body) document.body.append(host);
  else addEventListener("DOMContentLoaded", () => document.body.append(host));
})();
