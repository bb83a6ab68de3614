// How the map looks: colours are those of atoll.css, so that light and dark have one source.
"use strict";

function atollLook() {
  const all = getComputedStyle(document.documentElement);
  const color = (name) => all.getPropertyValue("--" + name).trim();
  const box = {
    shape: "round-rectangle", width: "data(w)", height: "data(h)", label: "data(label)", "text-valign": "center", "text-halign": "center", "text-wrap": "wrap",
    "text-max-width": 180, "font-size": 12, "font-family": "system-ui, DejaVu Sans, sans-serif", color: color("text"), "background-color": color("part"),
    "border-width": 1, "border-color": color("wire"),
  };
  // Arrows bow, the longer the more, so that they go around what is between, and two are never one line.
  const bow = (e) => {
    const a = e.source().position(), b = e.target().position();
    return Math.min(160, 40 + Math.hypot(a.x - b.x, a.y - b.y) / 6);
  };
  const around = { "text-valign": "top", "text-margin-y": 18, "font-size": 13, "text-max-width": 600, padding: 22, "border-width": 1, "border-color": color("line") };
  return [
    { selector: "node", style: box },
    { selector: "node[kind='tenant']", style: { ...around, "background-color": color("tenant"), "border-style": "dashed", color: color("faint") } },
    { selector: "node[kind='island']", style: { ...around, "background-color": color("island"), "border-width": 2, "border-color": color("link") } },
    { selector: "node[kind='network'], node[kind='alike']", style: { "background-color": color("island"), "border-width": 2 } },
    { selector: "node[kind='alike']", style: { "border-style": "double", "border-width": 4 } },
    { selector: "node[kind='stranger']", style: { "background-opacity": 0.4, color: color("faint"), "border-style": "dashed" } },
    { selector: "node[state='good']", style: { "border-color": color("good") } },
    { selector: "node[state='late']", style: { "border-color": color("late"), "border-style": "dashed" } },
    { selector: "node[state='bad']", style: { "border-color": color("bad"), "border-width": 4 } },
    { selector: "node[kind='router']", style: { shape: "ellipse" } },
    { selector: "node[kind='policy']", style: { shape: "cut-rectangle", "font-size": 10, color: color("faint") } },
    { selector: "node[kind='gateway']", style: { shape: "round-hexagon", "font-size": 11 } },
    { selector: "node[kind='pod']", style: { "font-size": 10 } },
    {
      selector: "edge",
      style: { width: 1, "line-color": color("wire"), "curve-style": "straight", "font-size": 11, color: color("text"), "text-background-color": color("ground"),
        "text-background-opacity": 0.85, "text-background-padding": 2, "min-zoomed-font-size": 7 },
    },
    { selector: "edge[label]", style: { label: "data(label)" } },
    { selector: "edge[kind='reach']", style: { width: 3, "curve-style": "unbundled-bezier", "control-point-distances": bow, "control-point-weights": 0.5, "target-arrow-shape": "triangle", "arrow-scale": 1.4, "line-color": color("good"), "target-arrow-color": color("good"), "source-arrow-color": color("good") } },
    { selector: "edge[?both]", style: { "source-arrow-shape": "triangle" } },
    { selector: "edge[state='late']", style: { "line-style": "dashed", "line-color": color("late"), "target-arrow-color": color("late") } },
    { selector: "edge[state='bad']", style: { "line-style": "dashed", "line-color": color("bad"), "target-arrow-color": color("bad") } },
    // Flows bow to the other side than who reaches whom. What was dropped has dashes, another head and the word, not only another colour.
    { selector: "node[kind='end']", style: { shape: "round-tag", "border-style": "dotted", "background-opacity": 0.6, color: color("faint") } },
    {
      selector: "edge[kind='flow']",
      style: { width: "data(size)", "curve-style": "unbundled-bezier", "control-point-distances": (e) => (e.data("state") === "bad" ? -1.6 : -0.8) * bow(e), "control-point-weights": 0.5, "text-wrap": "wrap", "text-max-width": 260,
        "target-arrow-shape": "vee", "z-compound-depth": "top", "z-index": 9, "line-color": color("link"), "target-arrow-color": color("link"), "line-opacity": 0.85 },
    },
    { selector: "edge[kind='flow']:loop", style: { "curve-style": "bezier", "loop-direction": "40deg", "loop-sweep": "-50deg", "control-point-step-size": 60 } },
    { selector: "edge[kind='flow'][state='bad']", style: { "line-style": "dashed", "target-arrow-shape": "tee", "line-color": color("bad"), "target-arrow-color": color("bad") } },
    { selector: "edge[kind='flow'][state='bad']:loop", style: { "loop-direction": "-40deg" } },
    { selector: ".chosen", style: { "border-color": color("focus"), "border-width": 5, "line-color": color("focus"), "target-arrow-color": color("focus"), "underlay-color": color("focus"), "underlay-opacity": 0.2, "underlay-padding": 5 } },
  ];
}
