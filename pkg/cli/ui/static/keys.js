// The map by keyboard: arrow keys choose the next box or line in that direction or order, Enter opens it, + - 0 zoom.
"use strict";

function atollKeys(box, cy, { open, say }) {
  let chosen = null;
  const order = () => [...cy.nodes().filter((n) => n.data("kind") !== "tenant").sort((a, b) => a.position("y") - b.position("y") || a.position("x") - b.position("x")), ...cy.edges("[link]")];
  const choose = (next) => {
    cy.elements(".chosen").removeClass("chosen");
    chosen = next.id();
    next.addClass("chosen");
    const at = next.renderedBoundingBox();
    if (at.x1 < 0 || at.y1 < 0 || at.x2 > cy.width() || at.y2 > cy.height()) {
      cy.center(next);
    }
    say(next.data("says") || "from " + label(next.source()) + " to " + label(next.target()) + ", " + next.data("label"));
  };
  const label = (n) => n.data("says").replace(/,.*/, "");
  const zoom = (by) => cy.zoom({ level: cy.zoom() * by, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
  const step = (by) => {
    const all = order();
    if (all.length > 0) {
      const at = all.findIndex((e) => e.id() === chosen);
      choose(all[at < 0 ? (by > 0 ? 0 : all.length - 1) : (at + by + all.length) % all.length]);
    }
  };
  const keys = {
    ArrowRight: () => step(1), ArrowDown: () => step(1), ArrowLeft: () => step(-1), ArrowUp: () => step(-1), "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: () => cy.fit(undefined, 20),
    Enter: () => {
      const what = chosen === null ? cy.collection() : cy.getElementById(chosen);
      if (what.nonempty()) {
        open(what);
      }
    },
  };
  box.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (act && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      act();
    }
  });
  document.getElementById("zoom-in").addEventListener("click", () => zoom(1.25));
  document.getElementById("zoom-out").addEventListener("click", () => zoom(0.8));
  document.getElementById("fit").addEventListener("click", () => cy.fit(undefined, 20));
}
