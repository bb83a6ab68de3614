// Flows over the map: those of five minutes of the last hour, which the slider chooses. At its right end they are those of now, and are asked for again.
"use strict";

function atollTime(cy, { query, say, fits }) {
  const minute = 60000, beat = 10000, patience = 150;
  const range = document.getElementById("minutes"), when = document.getElementById("when"), why = document.getElementById("flows-why"), panel = document.getElementById("panel");
  // end is when the window ends, in milliseconds; null: now.
  const state = { end: null, asked: 0, waits: 0 };
  const ago = (n) => (n === 0 ? "now" : n === 1 ? "1 minute ago" : n + " minutes ago");
  const tell = (words) => {
    when.textContent = words;
    range.setAttribute("aria-valuetext", words);
  };

  function draw(picture) {
    const chosen = cy.$(".chosen").map((e) => e.id());
    cy.batch(() => {
      cy.remove("[kind='flow'], [kind='end']");
      cy.add(picture.nodes.map((n) => ({ group: "nodes", data: n, position: { x: n.x, y: n.y } })));
      // What came since the map was drawn has no box yet.
      const there = (id) => cy.getElementById(id).nonempty();
      cy.add(picture.edges.filter((e) => there(e.from) && there(e.to)).map((e) => ({ group: "edges", data: { ...e, source: e.from, target: e.to } })));
      chosen.forEach((id) => cy.getElementById(id).addClass("chosen"));
    });
    fits();
  }

  // list puts the table of the window where one is, or nothing else is.
  function list(at, byHand) {
    const article = panel.querySelector(":scope > article");
    const shows = article ? article.dataset.shows : "";
    const reading = panel.contains(document.activeElement) && document.activeElement !== panel;
    if (shows === "flows" ? byHand || (state.end === null && !reading) : byHand && shows === "home") {
      const network = new URLSearchParams(location.search).get("network");
      const asks = new URLSearchParams({ ...(at && { at }), ...(shows === "flows" && location.pathname === "/flows" && network && { network }) });
      htmx.ajax("GET", "/flows?" + asks, { target: "#panel", swap: "innerHTML show:none", source: panel, headers: { "Atoll-Quietly": "1" } });
    }
  }

  async function load(byHand) {
    const asked = ++state.asked;
    const asks = query();
    if (state.end !== null) {
      asks.set("at", new Date(state.end).toISOString().replace(/\.\d+/, ""));
    }
    try {
      const answer = await fetch("/graph/flows?" + asks, { headers: { Accept: "application/json" } });
      if (!answer.ok) {
        throw new Error(await answer.text());
      }
      const picture = await answer.json();
      // What was asked for later counts.
      if (asked !== state.asked) {
        return;
      }
      tell(picture.words);
      const problem = picture.why || picture.note || "";
      if (why.textContent !== problem) {
        why.textContent = problem;
      }
      draw(picture);
      if (byHand) {
        say(picture.said);
      }
      list(picture.ends, byHand);
      document.getElementById("time").dataset.drawn = String(asked);
    } catch (problem) {
      if (asked === state.asked) {
        why.textContent = "Flows: " + problem.message;
      }
    }
  }

  const ends = (n) => (n === 0 ? null : Math.floor(Date.now() / minute) * minute + n * minute);
  range.addEventListener("input", () => {
    const n = Number(range.value);
    state.end = ends(n);
    tell(ago(-n));
    clearTimeout(state.waits);
    state.waits = setTimeout(() => load(true), patience);
  });
  document.getElementById("now").addEventListener("click", () => {
    range.value = "0";
    state.end = null;
    load(true);
  });
  setInterval(() => {
    if (document.hidden) {
      return;
    }
    if (state.end === null) {
      load(false);
      return;
    }
    // A window stays when it is while time goes on, until the hour is over.
    range.value = String(Math.max(Number(range.min), Math.round((state.end - Date.now()) / minute)));
  }, beat);
  range.value = "0";

  // adopt is the window of the page beside the map, where that has one.
  function adopt(article) {
    if (!article || (article.dataset.shows !== "flows" && article.dataset.shows !== "line")) {
      return;
    }
    const end = article.dataset.ends ? Date.parse(article.dataset.ends) : null;
    if (end !== state.end) {
      state.end = end;
      range.value = end === null ? "0" : String(Math.round((end - Math.floor(Date.now() / minute) * minute) / minute));
      load(false);
    }
  }
  return { load: () => load(false), adopt };
}
