// Axes of a plot, linear or logarithmic.

import { html, svg } from "./ui.js";

/** A scale from values low..high to places from..to. Returns { at(value), back(place), low, high, kind }. */
export function scale(kind, [low, high], [from, to]) {
  const inside = (x) => Math.min(Math.max(x, low / 1e3), high * 1e3); // far enough out to be cut off
  const [into, out] = kind === "log" ? [(x) => Math.log(inside(x)), Math.exp] : [Number, Number];
  const stretch = (to - from) / (into(high) - into(low) || 1);
  return {
    kind,
    low,
    high,
    at: (value) => from + stretch * (into(value) - into(low)),
    back: (place) => out(into(low) + (place - from) / stretch),
  };
}

/** Where a scale has ticks: powers of two for whole numbers, else decades, with 2 and 5 if they are few. */
export function ticks({ kind, low, high }, whole = false) {
  const few = high < 8 ? [1, 2, 3, 4, 5, 6, 7] : [1, 2, 4, 8, 16, 32, 64, 128, 256];
  if (kind === "log" && whole) return few.filter((x) => x >= low && x <= high);
  if (kind === "log") {
    const first = Math.round(Math.log10(low));
    const last = Math.round(Math.log10(high));
    const steps = last - first > 2 ? [1] : [1, 2, 5];
    const all = Array.from({ length: last - first + 1 }, (_, i) => steps.map((x) => x * 10 ** (first + i))).flat();
    return all.filter((x) => x <= high * 1.001).map((x) => Number(x.toPrecision(1)));
  }
  const step = [1, 2, 4, 5, 8, 10, 20, 50].find((size) => (high - low) / size <= 8);
  return Array.from({ length: Math.floor(high / step) }, (_, i) => (i + 1) * step).filter((x) => x >= low);
}

/** A path through points; where the scale cannot show a value it runs off the plot. */
export function polyline(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

/** Draws a grid with numbers, and the name of the vertical axis, into a group that is emptied before. */
export function drawAxes(group, { x, y, yName, left, right, top, bottom }) {
  group.replaceChildren();
  for (const value of ticks(x, true)) {
    const place = x.at(value);
    svg("line", { x1: place, x2: place, y1: top, y2: bottom, class: "grid" }, group);
    svg("text", { x: place, y: bottom + 17, "text-anchor": "middle" }, group).textContent = value;
  }
  for (const value of ticks(y)) {
    const place = y.at(value);
    svg("line", { x1: left, x2: right, y1: place, y2: place, class: "grid" }, group);
    svg("text", { x: left - 6, y: place + 4, "text-anchor": "end" }, group).textContent = value;
  }
  svg("path", { d: `M${left} ${top}V${bottom}H${right}`, class: "frame" }, group);
  svg("text", { x: 2, y: top - 12 }, group).textContent = yName;
}

/** A short sample of a line, for a legend. `classes` are those of the line itself. */
export function sample(classes, parent) {
  const swatch = svg("svg", { viewBox: "0 0 34 16", width: 34, height: 16, "aria-hidden": "true" }, parent);
  svg("path", { d: "M1 8H33", class: classes }, swatch);
  return swatch;
}

/** A checkbox with what `draw` puts behind it, a name and a value. Returns show(name, on, value). */
export function legendEntry(draw, pick, parent) {
  const row = html("label", { class: "fv-entry" }, parent);
  const input = html("input", { type: "checkbox" }, row);
  draw(row);
  const name = html("span", {}, row);
  const shown = html("span", { class: "fv-value" }, row);
  input.addEventListener("change", () => pick(input.checked));
  return (label, on, value) => {
    input.checked = on;
    name.textContent = label;
    shown.textContent = value;
  };
}
