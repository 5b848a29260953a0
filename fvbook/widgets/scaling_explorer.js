import { drawAxes, legendEntry, polyline, sample, scale } from "./lib/axes.js";
import { lowerBounds } from "./lib/bounds.js";
import { inChunks } from "./lib/chunks.js";
import { handle } from "./lib/handle.js";
import {
  closedFormBounds,
  groupCodeLosses,
  linearExponent,
  linearLosses,
  nonadaptiveExponent,
  oneCoordinateLosses,
} from "./lib/theory.js";
import { adopt, canvas, change, choice, description, follow, html, slider, svg } from "./lib/ui.js";

const WIDE = { width: 600, height: 418, left: 46, right: 588, top: 30, bottom: 354 };
const NARROW = { width: 312, height: 404, left: 40, right: 304, top: 30, bottom: 340 };
const everyBudget = (levels, loss) => Array.from({ length: 2 ** levels }, (_, budget) => loss(budget));

// A curve has its `losses` for every M at once, or is a `bound`, which takes longer; `says` describes it.
const CURVES = [
  {
    name: "one_coordinate",
    look: "a",
    label: () => "one coordinate at a time, by signs",
    losses: oneCoordinateLosses,
    says: (loss) => `one coordinate at a time loses ${loss}`,
  },
  {
    name: "one_coordinate_clean",
    look: "a thin",
    label: () => "without noise: exponential",
    losses: (levels, decay) => oneCoordinateLosses(levels, decay, 0),
  },
  {
    name: "linear",
    look: "c",
    label: () => "fixed keys, linear decoder",
    losses: linearLosses,
    says: (loss) => `fixed keys with a linear decoder lose ${loss}`,
  },
  {
    name: "linear_law",
    look: "c thin",
    label: (decay) => `without noise: power law, exponent ${linearExponent(decay).toFixed(2)}`,
    losses: (levels, decay) => everyBudget(levels, (budget) => (budget + 1) ** -linearExponent(decay)),
  },
  {
    name: "group_code",
    look: "d",
    label: () => "fixed keys in groups, by signs",
    losses: groupCodeLosses,
    says: (loss) => `fixed keys in groups lose ${loss}`,
  },
  {
    name: "fixed_law",
    look: "d thin",
    label: (decay) => `power law, exponent γ = ${nonadaptiveExponent(decay).toFixed(2)}`,
    losses(levels, decay, noiseVar) {
      const through = Math.min(4, 2 ** levels - 1);
      const loss = groupCodeLosses(levels, decay, noiseVar)[through];
      return everyBudget(levels, (budget) => loss * (budget / through) ** -nonadaptiveExponent(decay));
    },
  },
  {
    name: "fixed_bound",
    look: "b dashed",
    label: () => "below it: no fixed keys, any decoder",
    bound: "fixed",
    says: (loss) => `no fixed keys lose less than ${loss}, whatever their decoder`,
  },
  {
    name: "fixed_bound_closed",
    look: "b thin",
    label: () => "the same in closed form",
    losses: closedFormBounds,
  },
  {
    name: "any_bound",
    look: "theory dashed",
    label: () => "below it: no strategy at all",
    bound: "any",
    says: (loss) => `no strategy at all loses less than ${loss}`,
  },
];
const NETWORKS = {
  A: { look: "a", d: "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0-5 0" },
  B: { look: "b", d: "M-4.5-4.5h9v9h-9z" },
  C: { look: "c", d: "M0-6 6 5-6 5z" },
};

/** Where bounds are computed and the marker rests: every M up to 16, some in each doubling beyond, and 2^m − 1. */
function rests(dim) {
  const all = new Set(Array.from({ length: 16 }, (_, i) => i + 1));
  for (let size = 16; size < 256; size *= 2) {
    for (const part of [1.25, 1.5, 1.75, 2]) all.add(size * part);
    all.add(2 * size - 1);
  }
  return [...all].filter((budget) => budget <= dim).sort((x, y) => x - y);
}

/** Two significant digits; of a lower bound never more than it is. */
function rounded(loss, isBound = false) {
  if (loss < 1e-4) return loss > 0 && !isBound ? "< 0.0001" : "0";
  const unit = 10 ** (Math.floor(Math.log10(loss)) - 1);
  return (isBound ? Math.floor(loss / unit) * unit : loss).toPrecision(2);
}

/** τ², as a fraction 1/n if it is one. */
function noiseText(noiseVar) {
  const n = Math.round(1 / noiseVar);
  return n > 1 && near(n * noiseVar, 1) ? `1/${n}` : shortly(noiseVar);
}

const shortly = (value) => String(Number(value.toPrecision(3)));
const near = (x, y) => Math.abs(x / y - 1) < 1e-6;

/** Whether a setting is this one. */
function isAt({ levels, decay, noiseVar }) {
  return (it) => it.levels === levels && near(it.decay, decay) && near(it.noiseVar, noiseVar);
}

/** The settings { levels, decay, noiseVar, networks } at which there are trained networks. */
function trainedSettings(trained) {
  const settings = [];
  for (const network of trained) {
    const noiseVar = (1 + network.noise_std ** 2) / network.n_tokens;
    const { levels, decay } = network;
    let setting = settings.find(isAt({ levels, decay, noiseVar }));
    if (!setting) settings.push((setting = { levels, decay, noiseVar, networks: [] }));
    setting.networks.push(network);
  }
  return settings.sort((x, y) => y.levels - x.levels || x.decay - y.decay || y.noiseVar - x.noiseVar);
}

/** Draws the controls. Returns a function that shows the state in them. */
function drawControls(model, settings, parent) {
  let select = null;
  if (settings.length) {
    const row = html("label", { class: "fv-slider" }, parent);
    html("span", {}, row, "go to");
    select = html("select", {}, row);
    html("option", { value: -1 }, select, "trained networks at …");
    settings.forEach(({ levels, decay, noiseVar }, i) => {
      html("option", { value: i }, select, `K = ${levels}, α = ${decay}, τ² = ${noiseText(noiseVar)}`);
    });
    select.addEventListener("change", () => {
      const setting = settings[Number(select.value)];
      if (setting) change(model, { levels: setting.levels, decay: setting.decay, noise_var: setting.noiseVar });
    });
  }
  const tokens = () => {
    const [noiseVar, noiseStd] = [model.get("noise_var"), model.get("noise_std")];
    const count = Math.round((1 + noiseStd ** 2) / noiseVar);
    const context = [`N = ${count}`, ...(noiseStd ? [`s = ${shortly(noiseStd)}`] : [])];
    const unbroken = context.map((part) => part.replaceAll(" ", "\u00a0")).join(", ");
    return count ? `${noiseText(noiseVar)} (${unbroken})` : noiseText(noiseVar);
  };
  const steps = 4; // of the slider for a factor of two in τ²
  const pick = (name, of) => (value) => change(model, { [name]: of(value) });
  const levels = slider({ label: "levels K", min: 1, max: 8 }, pick("levels", Number), parent);
  const decay = slider(
    { label: "decay α", min: 0.05, max: 0.95, step: 0.05, show: () => shortly(model.get("decay")) },
    pick("decay", Number),
    parent,
  );
  const noise = slider(
    { label: "noise τ²", min: -12 * steps, max: 0, show: tokens },
    pick("noise_var", (value) => 2 ** (value / steps)),
    parent,
  );
  return (state, setting) => {
    levels.set(state.levels);
    decay.set(state.decay);
    noise.set(Math.round(steps * Math.log2(state.noiseVar)));
    if (select) select.value = settings.indexOf(setting);
  };
}

/** Draws checkboxes with samples of the lines. Returns a function that shows the values at the marker. */
function drawLegend(model, withNetworks, parent) {
  const field = html("fieldset", { class: "fv-legend" }, parent);
  const title = html("legend", {}, field);
  const entries = CURVES.map(({ name, look, bound }) => {
    const draw = (row) => {
      const swatch = sample(`curve ${look}`, row);
      if (bound) svg("path", { d: "M1 8H33V16H1z", class: `shade ${look}` }, swatch);
    };
    const pick = (on) => {
      const others = model.get("curves").filter((other) => other !== name);
      change(model, { curves: on ? [...others, name] : others });
    };
    return legendEntry(draw, pick, field);
  });
  const networks = {};
  if (withNetworks) {
    const row = html("p", { class: "fv-networks" }, field, "trained networks:");
    for (const [name, { look, d }] of Object.entries(NETWORKS)) {
      const entry = html("span", {}, row);
      const swatch = svg("svg", { viewBox: "-8 -8 16 16", width: 16, height: 16, "aria-hidden": "true" }, entry);
      svg("path", { d, class: `network ${look}` }, swatch);
      networks[name] = html("span", {}, entry);
    }
  }
  return ({ decay, budget, curves }, values, trained) => {
    title.textContent = `Loss at M = ${budget}`;
    CURVES.forEach(({ name, label }, i) => entries[i](label(decay), curves.includes(name), values[name] ?? ""));
    for (const [name, shown] of Object.entries(networks)) shown.textContent = `${name} ${trained[name] ?? "–"}`;
  };
}

/** What the reader should notice, in a sentence, if the curves that show it are on. */
function comparison({ levels, dim, curves }, losses, bounds) {
  if (!curves.includes("one_coordinate")) return "";
  const leaves = losses.one_coordinate;
  if (curves.includes("fixed_bound")) {
    const reached = leaves[levels];
    const short = rests(dim).findLast((budget) => bounds.get(budget).fixed > reached);
    return short > levels
      ? ` What ${levels} numbers chosen in turn reach, ${rounded(reached)}, takes more than ${short} fixed ones.`
      : "";
  }
  if (!curves.includes("linear")) return "";
  const floor = losses.linear[dim];
  const enough = leaves.findIndex((loss) => loss < floor);
  return enough > 0 && enough < dim
    ? ` All ${dim} coordinates read linearly leave ${rounded(floor)}; chosen in turn, ${enough} leave less.`
    : "";
}

/** The mean loss of the trained networks of each model at a budget, in words. */
function trainedLosses(networks, budget) {
  const found = {};
  for (const name of Object.keys(NETWORKS)) {
    const losses = networks.filter((it) => it.model === name && it.budget === budget).map((it) => it.loss);
    if (losses.length) found[name] = rounded(losses.reduce((sum, loss) => sum + loss, 0) / losses.length);
  }
  return found;
}

function render({ model, el }) {
  adopt(el, "fv-scaling");
  const settings = trainedSettings(model.get("trained"));
  const showControls = drawControls(model, settings, el);
  const drawing = canvas(WIDE.width, WIDE.height, el);
  drawing.setAttribute("role", "group"); // it holds a slider, which an image may not
  drawing.setAttribute("aria-label", "Loss against the budget M"); // until the bounds are there
  const showLegend = drawLegend(model, settings.length > 0, el);
  const kinds = [
    ["log", "logarithmic"],
    ["linear", "linear"],
  ];
  const axisChoice = choice("axis of M", kinds, (kind) => change(model, { axis: kind }), el);
  const say = description(drawing, el); // last: it comes late and must push nothing away

  const grid = svg("g", { "aria-hidden": "true" }, drawing);
  const plot = svg("svg", {}, drawing); // cuts off what runs out of it
  const areas = svg("g", {}, plot);
  const lines = svg("g", {}, plot);
  const points = svg("g", {}, drawing);
  const line = svg("line", { class: "marker" }, drawing);
  const dots = svg("g", {}, drawing);

  let x = null; // the scales
  let y = null;
  let frame = el.clientWidth < 480 ? NARROW : WIDE;
  let cheap = { key: "", losses: {} };
  let bounds = { key: "", at: new Map([[0, { any: 1, fixed: 1 }]]), whole: false };
  let drop = () => {}; // the computation of bounds that is under way
  let drawn = ""; // what the curves on the page belong to
  let soon = 0;

  function read() {
    const levels = model.get("levels");
    const dim = 2 ** levels - 1;
    const [decay, noiseVar, curves] = [model.get("decay"), model.get("noise_var"), model.get("curves")];
    const budget = Math.min(model.get("budget"), dim);
    const key = `${levels} ${decay} ${noiseVar}`;
    const linear = model.get("axis") === "linear";
    const last = linear ? Math.min(dim, 4 * levels) : dim;
    return { levels, dim, decay, noiseVar, budget, curves, linear, last, key, marks: rests(dim) };
  }

  const mover = handle(
    {
      label: "budget M",
      min: 0,
      max: rests(255).length - 1,
      step: 1,
      show: (index) => `M = ${read().marks[index]}`,
      read: () => nearest(read().budget),
      at: (place) => nearest(x.back(place)),
    },
    (index) => {
      const { marks } = read();
      change(model, { budget: marks[Math.min(Math.max(index, 0), marks.length - 1)] });
    },
    drawing,
  );
  svg("rect", { x: -46, y: -22, width: 92, height: 44, class: "room" }, mover.group);
  svg("rect", { x: -40, y: -13, width: 80, height: 26, rx: 13, class: "pill" }, mover.group);
  const pill = svg("text", { y: 4.5, "text-anchor": "middle" }, mover.group);
  drawing.addEventListener("click", ({ clientX, clientY }) => {
    const place = new DOMPoint(clientX, clientY).matrixTransform(drawing.getScreenCTM().inverse());
    if (place.y > frame.bottom || place.x < frame.left) return;
    change(model, { budget: Math.min(Math.max(Math.round(x.back(place.x)), 1), read().dim) });
  });

  function nearest(budget) {
    const { marks, linear } = read();
    const far = (mark) => Math.abs(linear ? mark - budget : Math.log(mark / Math.max(budget, 0.5)));
    return marks.reduce((best, mark, i) => (far(mark) < far(marks[best]) ? i : best), 0);
  }

  /** The loss of a curve at a budget; undefined while it is not known. */
  function lossOf({ name, bound }, budget) {
    return bound ? bounds.at.get(budget)?.[bound] : cheap.losses[name][budget];
  }

  function drawCurve(curve, state) {
    const budgets = curve.bound ? [0, ...state.marks] : Array.from({ length: state.dim + 1 }, (_, i) => i);
    const inside = budgets.filter((budget) => budget >= (state.linear ? 0 : 1) && budget <= state.last);
    const d = polyline(inside.map((budget) => [x.at(budget), y.at(lossOf(curve, budget))]));
    svg("path", { d, class: `curve ${curve.look}`, "data-name": curve.name }, lines);
    if (!curve.bound) return;
    const base = `V${frame.bottom}H${x.at(inside[0]).toFixed(1)}z`;
    svg("path", { d: d + base, class: `shade ${curve.look}`, "data-name": curve.name }, areas);
  }

  /** Everything but the bounds that are not known yet: these stay as they were, in a fainter line. */
  function drawCurves(state, setting) {
    const { left, right, top, bottom } = frame;
    drawing.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
    for (const [name, value] of Object.entries({ x: left, y: top, width: right - left, height: bottom - top })) {
      plot.setAttribute(name, value);
    }
    plot.setAttribute("viewBox", `${left} ${top} ${right - left} ${bottom - top}`);
    const lowest = 0.7 * oneCoordinateLosses(state.levels, state.decay, state.noiseVar)[state.levels];
    const decade = Math.min(Math.max(Math.floor(Math.log10(lowest)), -4), -1);
    const range = state.linear ? [0, state.last] : [1, Math.max(state.last, 2)];
    const before = x && [x.kind, x.high, y.low, x.at(range[1])];
    x = scale(state.linear ? "linear" : "log", range, [left, right]);
    y = scale("log", [10 ** decade, 1], [bottom, top]);
    const sameAxes = before && String(before) === String([x.kind, x.high, y.low, right]);
    if (!sameAxes) drawAxes(grid, { x, y, yName: "loss E|θ − θ̂|²", left, right, top, bottom });

    for (const part of [...lines.children, ...areas.children]) {
      const curve = CURVES.find(({ name }) => name === part.dataset.name);
      const waits = curve.bound && !bounds.whole && sameAxes && state.curves.includes(curve.name);
      if (waits) part.classList.add("stale");
      else part.remove();
    }
    for (const curve of CURVES) {
      if (state.curves.includes(curve.name) && (!curve.bound || bounds.whole)) drawCurve(curve, state);
    }
    points.replaceChildren();
    for (const { model: name, budget, loss } of setting?.networks ?? []) {
      if (budget > state.last) continue;
      const { look, d } = NETWORKS[name];
      const at = `translate(${x.at(budget).toFixed(1)} ${y.at(loss).toFixed(1)})`;
      const point = svg("path", { d, class: `network ${look}`, transform: at }, points);
      svg("title", {}, point).textContent = `${name}, M = ${budget}: ${rounded(loss)}`;
    }
  }

  function drawMarker(state, setting) {
    const { left, right, top, bottom } = frame;
    const place = x.at(Math.min(state.budget, state.last));
    for (const [name, value] of Object.entries({ x1: place, x2: place, y1: top, y2: bottom })) {
      line.setAttribute(name, value);
    }
    line.classList.toggle("away", state.budget > state.last);
    const middle = Math.min(Math.max(place, left), right - 32);
    mover.group.setAttribute("transform", `translate(${middle} ${bottom + 42})`);
    mover.group.setAttribute("aria-valuemax", state.marks.length - 1);
    mover.set(nearest(state.budget));
    mover.group.setAttribute("aria-valuetext", `M = ${state.budget}`);
    pill.textContent = `◂ M = ${state.budget} ▸`;
    dots.replaceChildren();
    const values = {};
    for (const curve of CURVES) {
      if (!state.curves.includes(curve.name)) continue;
      const loss = bounds.whole || !curve.bound ? lossOf(curve, state.budget) : undefined;
      values[curve.name] = loss === undefined ? "…" : rounded(loss, Boolean(curve.bound));
      const height = loss === undefined ? bottom : y.at(loss);
      if (height >= top && height < bottom && state.budget <= state.last) {
        svg("circle", { cx: place, cy: height, r: 4, class: `dot ${curve.look}` }, dots);
      }
    }
    const trained = trainedLosses(setting?.networks ?? [], state.budget);
    showLegend(state, values, trained);
    clearTimeout(soon);
    soon = setTimeout(() => describe(state, values, trained), 150); // once a slider rests
  }

  function describe(state, values, trained) {
    const waits = CURVES.some(({ name, bound }) => bound && state.curves.includes(name) && !bounds.whole);
    if (waits) return;
    const tells = ({ name, says, bound }) => says && values[name] && !(bound && values[name] === "0");
    const told = CURVES.filter(tells);
    const losses = told.map(({ name, says }) => says(values[name])).join("; ") || "no curve is shown";
    const where = `K = ${state.levels}, α = ${shortly(state.decay)}, τ² = ${noiseText(state.noiseVar)}`;
    const found = Object.entries(trained).map((pair) => pair.join(" "));
    const networks = found.length ? ` Trained networks: ${found.join(", ")}.` : "";
    const numbers = state.budget > 1 ? "numbers" : "number";
    const more = comparison(state, cheap.losses, bounds.at);
    say(`With ${state.budget} ${numbers} (${where}): ${losses}.${networks}${more}`.replaceAll("<", "less than"));
  }

  /** Computes the bounds between frames, and draws all again when they are known. */
  function fetchBounds(state) {
    const { levels, decay, noiseVar, marks, budget } = state;
    const add = (at) => bounds.at.set(at, lowerBounds(levels, decay, at, noiseVar));
    if (bounds.key === state.key) {
      if (bounds.whole && !bounds.at.has(budget)) add(budget);
      return;
    }
    drop();
    bounds = { key: state.key, at: new Map([[0, { any: 1, fixed: 1 }]]), whole: false };
    const done = () => {
      bounds.whole = true;
      drawn = "";
      draw();
    };
    drop = inChunks(marks.length, (i) => add(marks[i]), done);
  }

  function draw() {
    const state = read();
    const setting = settings.find(isAt(state));
    if (cheap.key !== state.key) cheap = { key: state.key, losses: {} };
    for (const { name, losses } of CURVES) {
      if (losses && state.curves.includes(name)) {
        cheap.losses[name] ??= losses(state.levels, state.decay, state.noiseVar);
      }
    }
    if (CURVES.some(({ name, bound }) => bound && state.curves.includes(name))) fetchBounds(state);
    const wanted = `${state.key} ${state.linear} ${state.curves} ${frame.width}`;
    if (drawn !== wanted) drawCurves(state, setting);
    drawn = wanted;
    showControls(state, setting);
    axisChoice.set(model.get("axis"));
    drawMarker(state, setting);
  }

  const resized = new ResizeObserver(() => {
    frame = el.clientWidth < 480 ? NARROW : WIDE;
    draw();
  });
  resized.observe(el);
  const names = ["levels", "decay", "noise_var", "noise_std", "budget", "curves", "axis"];
  const stop = follow(model, names, draw);
  return () => {
    stop();
    drop();
    clearTimeout(soon);
    resized.disconnect();
  };
}

export default { render };
