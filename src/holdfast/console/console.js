"use strict";

// The part of an address after # is known to the browser alone: whoever signs in comes back to it.
(function () {
  const next = document.querySelector("input[name=next]");
  if (next && location.hash && !next.value.includes("#")) next.value += location.hash;
})();

// Keeps the marked parts of a page up to date. Without it every page works, and shows how things stood when it was made.
(function () {
  const main = document.querySelector("[data-live]");
  if (!main || !window.EventSource) return;
  const state = document.getElementById("live-state");
  let source = null;
  const held = new Map();  // parts that came while somebody was choosing text in the one that is shown
  let newest = Number(main.dataset.version);  // of everything that is shown

  function tell(words, kind) {
    if (state.textContent !== words) state.textContent = words;
    state.className = kind;
  }

  // What somebody is reading or using right now is left alone: an opened detail, a chosen text, a place of focus.
  function keep(old, fresh) {
    old.querySelectorAll("details").forEach((one, place) => {
      const twin = fresh.querySelectorAll("details")[place];
      if (twin) twin.open = one.open;
    });
    const places = [...old.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    const focused = old.contains(document.activeElement)
      ? [...old.querySelectorAll("a, button, summary, [tabindex]")].indexOf(document.activeElement)
      : -1;
    old.replaceWith(fresh);
    fresh.querySelectorAll(".scroll").forEach((one, place) => { one.scrollLeft = places[place] || 0; });
    if (focused >= 0) {
      const next = fresh.querySelectorAll("a, button, summary, [tabindex]")[focused];
      if (next) next.focus({ preventScroll: true });
    }
  }

  function chosen(part) {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  }

  function show(event) {
    const { id, version, html } = JSON.parse(event.data);
    const old = document.getElementById(id);
    // What is shown never goes back: a part that was read earlier than the one in the page is dropped.
    if (!old || version < Number(old.dataset.version)) return;
    if (chosen(old)) {
      held.set(id, event);
      return;
    }
    const fresh = new DOMParser().parseFromString(html, "text/html").body.firstElementChild;
    if (!fresh) return;
    fresh.dataset.version = version;
    newest = Math.max(newest, version);
    if (old.innerHTML === fresh.innerHTML) old.dataset.version = version;
    else keep(old, fresh);
  }

  function release() {
    const waiting = [...held.values()];
    held.clear();
    waiting.forEach(show);
  }

  function begin() {
    if (source) return;
    source = new EventSource(`${main.dataset.live}&since=${newest}`);
    source.addEventListener("open", () => tell("Live", "on"));
    source.addEventListener("part", show);
    source.addEventListener("error", () => {
      tell("Not live", "off");
      // A browser gives up where the server refuses; it asks again when the page is looked at next.
      if (source && source.readyState === EventSource.CLOSED) source = null;
    });
  }

  function end() {
    if (source) source.close();
    source = null;
  }

  document.addEventListener("selectionchange", release);
  document.addEventListener("visibilitychange", () => (document.hidden ? end() : begin()));
  window.addEventListener("pagehide", end);
  window.addEventListener("pageshow", begin);  // by the way back, without being loaded again
  begin();
})();
