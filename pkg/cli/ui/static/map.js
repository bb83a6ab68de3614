// The map: draws what /graph tells, and asks htmx for the page about what is clicked. Where things are, the server says.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const box = document.getElementById("graph");
  const said = document.getElementById("said");
  const state = { open: new Set(), pods: new Set(), all: false, whole: false, asked: 0 };
  const cy = cytoscape({
    container: box, style: atollLook(), layout: { name: "preset" }, minZoom: 0.02, maxZoom: 3, boxSelectionEnabled: false, autoungrabify: true, autounselectify: true,
    // A map of a thousand Networks is moved as a picture, and drawn anew where it stops.
    textureOnViewport: true, hideEdgesOnViewport: false, pixelRatio: 1,
  });
  // Tests look at it.
  box.cy = cy;

  const say = (text) => { said.textContent = text; };
  const show = (link) => htmx.ajax("GET", link, { target: "#panel", swap: "innerHTML show:none", source: box, push: link });
  const elements = (p) => [
    ...p.nodes.map((n) => ({ group: "nodes", data: n, position: { x: n.x, y: n.y } })),
    ...p.edges.map((e) => ({ group: "edges", data: { ...e, source: e.from, target: e.to } })),
  ];

  const query = () => {
    const asks = new URLSearchParams();
    state.open.forEach((name) => asks.append("open", name));
    state.pods.forEach((name) => asks.append("pods", name));
    if (state.all) {
      asks.set("all", "1");
    }
    return asks;
  };
  // Flows may have boxes of their own: where the whole was shown, it is again.
  const fits = () => {
    if (state.whole) {
      cy.fit(undefined, 20);
      state.whole = false;
    }
  };
  const time = atollTime(cy, { query, say, fits });

  async function draw(whole) {
    const asked = ++state.asked;
    box.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch("/graph?" + query(), { headers: { Accept: "application/json" } });
      if (!answer.ok) {
        throw new Error(await answer.text());
      }
      const picture = await answer.json();
      // What was asked for later counts.
      if (asked !== state.asked) {
        return;
      }
      cy.batch(() => {
        cy.elements().remove();
        cy.add(elements(picture));
      });
      state.open = new Set(picture.open);
      state.pods = new Set(picture.pods);
      document.getElementById("map-title").textContent = picture.title;
      const opened = cy.nodes("[kind='island']");
      state.whole = whole || opened.empty();
      if (state.whole) {
        cy.fit(undefined, 20);
      } else {
        cy.fit(opened, 40);
      }
      box.dataset.drawn = String(asked);
      time.load();
    } catch (problem) {
      say("The map: " + problem.message);
    } finally {
      if (asked === state.asked) {
        box.removeAttribute("aria-busy");
      }
    }
  }

  // open shows what is clicked; an open Network is folded.
  function open(what) {
    const data = what.data();
    if (data.kind === "island") {
      const name = data.id.replace("network/", "");
      state.open.delete(name);
      state.pods.delete(name);
      say("Network " + name + " is folded");
      draw(false);
      return;
    }
    if (data.link) {
      show(data.link);
    }
  }
  cy.on("tap", "node, edge", (event) => open(event.target));
  atollKeys(box, cy, { open, say });

  // sees opens on the map what the page beside it is about.
  function sees() {
    const article = document.querySelector("#panel > article");
    const names = article ? article.dataset.open.split(" ").filter(Boolean) : [];
    const before = [...state.open, "|", ...state.pods].join(" ");
    names.forEach((name) => {
      state.open.add(name);
      if (article.dataset.shows === "pods") {
        state.pods.add(name);
      }
    });
    return before !== [...state.open, "|", ...state.pods].join(" ");
  }
  function answered(quietly) {
    if (quietly) {
      return;
    }
    const heading = document.querySelector("#panel h1");
    if (heading) {
      heading.focus({ preventScroll: true });
    }
    document.getElementById("panel").scrollTop = 0;
    time.adopt(document.querySelector("#panel > article"));
    if (sees()) {
      draw(false);
    }
  }
  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id === "panel") {
      const asked = event.detail.requestConfig;
      answered(Boolean(asked && asked.headers["Atoll-Quietly"]));
    }
  });
  document.body.addEventListener("htmx:historyRestore", () => answered(false));

  // A link that fills a field of the form does so; without a script it is a page with the field filled.
  document.body.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-fill]");
    if (link) {
      event.preventDefault();
      event.stopPropagation();
      document.getElementById(link.dataset.fill).value = link.dataset.value;
      say(link.dataset.fill + ": " + link.dataset.value);
      const next = document.getElementById("from").value === "" ? "from" : document.getElementById("to").value === "" ? "to" : "port";
      document.getElementById(next).focus();
    }
  }, true);

  document.getElementById("shut").addEventListener("click", () => {
    state.open.clear();
    state.pods.clear();
    draw(true);
  });
  document.getElementById("again").addEventListener("click", () => draw(false));
  // The file has all that is drawn, in the colours that it is drawn in.
  document.getElementById("save").addEventListener("click", () => {
    if (cy.elements().empty()) {
      say("The map is empty");
      return;
    }
    const { w, h } = cy.elements().boundingBox();
    // Browsers give up on a canvas that is much longer than this.
    const scale = Math.min(2, 8000 / w, 8000 / h);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(cy.png({ output: "blob", full: true, scale, bg: getComputedStyle(document.body).backgroundColor }));
    link.download = "networks.png";
    link.click();
    // The browser reads the file after this.
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    say("The picture is saved as " + link.download);
  });
  const all = document.getElementById("all");
  if (all) {
    all.addEventListener("change", () => { state.all = all.checked; draw(true); });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cy.style(atollLook()));
  sees();
  time.adopt(document.querySelector("#panel > article"));
  draw(state.open.size === 0);
});
