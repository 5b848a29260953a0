import { adopt, canvas, change, choice, description, follow, html, slider, svg } from "./lib/ui.js";
import { handle } from "./lib/handle.js";
import { principal } from "./lib/gaussian.js";
import { gaussianQuestion, treeQuestion } from "./lib/questions.js";

// The plane of lib/questions.js: its first coordinate is drawn upwards and its second to the right, so that angles
// go clockwise from the top.
const SIZE = 350;
const UNIT = 102; // of θ, in units of the drawing
const RIM = 1.5; // radius of the dial that both handles run on
const FAR = 1.4; // largest |φ|
const GHOSTS = [-1, 0, 1];
const START = { gaussian: { angle: 40, outcome: 0.4 }, tree: { angle: 0, outcome: 0.6 } };
const PLOT = { left: 30, right: 292, top: 34, bottom: 198, width: 300, height: 236 };
const OUTCOMES = Array.from({ length: 71 }, (_, i) => FAR * (i / 35 - 1));

const screen = ([up, across]) => [SIZE / 2 + UNIT * across, SIZE / 2 - UNIT * up];
const polar = (radius, angle) => [radius * Math.cos(angle), radius * Math.sin(angle)];
const radians = (degrees) => (degrees * Math.PI) / 180;
const degrees = (angle) => (angle * 180) / Math.PI;
const turned = (angle) => ((((Math.round(angle) + 180) % 360) + 360) % 360) - 180;
const within = (value, far) => Math.max(-far, Math.min(far, value));
const signed = (value) => String(value).replace("-", "−");
const two = (value) => signed((Math.round(100 * value) / 100 + 0).toFixed(2));
const points = (list) => list.map((point) => screen(point).map((entry) => entry.toFixed(2)).join(" "));

/** The end of the chord at distance φ from the middle, on the side to which angles grow. */
function chordEnd(key, outcome, side = 1) {
  const half = side * Math.sqrt(Math.max(RIM ** 2 - outcome ** 2, 0));
  return [outcome * key[0] - half * key[1], outcome * key[1] + half * key[0]];
}

function drawEllipse(element, { mean, axes }) {
  const [x, y] = screen(mean);
  const [rx, ry] = axes.values.map((value) => Math.max(UNIT * Math.sqrt(value), 0.75));
  const values = { rx, ry, transform: `translate(${x} ${y}) rotate(${degrees(axes.angle) - 90})` };
  for (const [key, value] of Object.entries(values)) element.setAttribute(key, value);
}

/** Sets a line's ends to two points of the plane. */
function drawLine(element, from, to) {
  const [[x1, y1], [x2, y2]] = [screen(from), screen(to)];
  for (const [key, value] of Object.entries({ x1, y1, x2, y2 })) element.setAttribute(key, value);
}

/** Moves a text to a point of the plane. */
function write(element, point) {
  const [x, y] = screen(point);
  element.setAttribute("x", x);
  element.setAttribute("y", y + 4);
}

/** The second direction, through the mean and somewhat longer than the ellipse. */
function drawNext(element, { mean, axes }) {
  const [up, across] = polar(Math.sqrt(axes.values[0]) + 0.12, axes.angle);
  drawLine(element, [mean[0] - up, mean[1] - across], [mean[0] + up, mean[1] + across]);
}

/** A place for its name: beyond the end that is away from the handle of the outcome, within the plane. */
function besideNext({ mean, axes }, key) {
  const [up, across] = polar(Math.sqrt(axes.values[0]) + 0.28, axes.angle);
  const side = up * -key[1] + across * key[0] > 0 ? -1 : 1;
  return [within(mean[0] + side * up, RIM), within(mean[1] + side * across, 1.1)];
}

/** The tree in the plane: its two nodes, each with its gain, and its leaves. Returns `draw(question, now)`. */
function makeTree(plane) {
  const tree = svg("g", { class: "tree" }, plane);
  const nodes = ["left", "right"].map((name) => {
    const group = svg("g", { class: `child ${name}` }, tree);
    const [edge, pair] = ["edge", "pair"].map((kind) => svg("line", { class: kind }, group));
    const label = svg("text", { "text-anchor": "end" }, group);
    label.textContent = `${name} node`;
    return { group, edge, pair, label, gain: svg("text", {}, group) };
  });
  const leaves = ["start", "end", "start", "end"].map((anchor) => ({
    disc: svg("circle", { class: "leaf" }, tree),
    chance: svg("text", { "text-anchor": anchor }, tree),
  }));

  return function draw({ places, amplitude }, { gains, chances }) {
    nodes.forEach(({ group, edge, pair, label, gain }, i) => {
      const node = [i ? -amplitude : amplitude, 0];
      const [x, y] = screen(node);
      drawLine(edge, [0, 0], node);
      drawLine(pair, ...places.slice(2 * i, 2 * i + 2));
      group.classList.toggle("ask", gains[i] > gains[1 - i] - 1e-9);
      label.setAttribute("x", x - 8);
      gain.setAttribute("x", x + 8);
      for (const text of [label, gain]) text.setAttribute("y", y + (i ? 36 : -28));
      gain.textContent = `gains ${two(gains[i])}`;
    });
    leaves.forEach(({ disc, chance }, leaf) => {
      const [x, y] = screen(places[leaf]);
      disc.setAttribute("cx", x);
      disc.setAttribute("cy", y);
      disc.setAttribute("r", 2 + 18 * Math.sqrt(chances[leaf]));
      chance.setAttribute("x", x + (leaf % 2 ? -24 : 24));
      chance.setAttribute("y", y + 5);
      chance.textContent = `${Math.round(100 * chances[leaf])} %`;
    });
  };
}

/** The plane, its handles and `draw(question, state, now)`. */
function makePlane(model, parent) {
  const plane = canvas(SIZE, SIZE, parent);
  plane.setAttribute("role", "group");
  plane.setAttribute("aria-label", "Plane of the belief, with two handles: the direction and the outcome");
  const letter = (text, kind = "") => {
    const element = svg("text", { "text-anchor": "middle", class: kind }, plane);
    element.textContent = text;
    return element;
  };
  const [middle] = screen([0, 0]);
  svg("circle", { cx: middle, cy: middle, r: RIM * UNIT, class: "rim" }, plane);
  drawLine(svg("line", { class: "axis" }, plane), [-RIM, 0], [RIM, 0]);
  drawLine(svg("line", { class: "axis" }, plane), [0, -RIM], [0, RIM]);
  const band = svg("path", { class: "band" }, plane);
  const prior = svg("ellipse", { class: "prior" }, plane);
  const ghosts = GHOSTS.map(() => ["ellipse", "line"].map((name) => svg(name, { class: "ghost" }, plane)));
  const ellipse = svg("ellipse", { class: "belief" }, plane);
  const drawTree = makeTree(plane);
  const next = svg("line", { class: "next" }, plane);
  const nextName = letter("", "next");
  const mean = svg("circle", { r: 4, class: "mean" }, plane);
  const shaft = svg("line", { class: "key" }, plane);

  const cut = (value) => Math.round(100 * within(value, FAR)) / 100;
  const outcome = handle(
    {
      label: "outcome φ",
      min: -FAR,
      max: FAR,
      step: 0.05,
      show: two,
      read: () => model.get("outcome"),
      at(x, y) {
        const [up, across] = polar(1, radians(model.get("angle")));
        return (up * (SIZE / 2 - y) + across * (x - SIZE / 2)) / UNIT;
      },
    },
    (value) => change(model, { outcome: cut(value) }),
    plane,
  );
  const reach = svg("line", { class: "reach" }, outcome.group);
  const strip = svg("line", { class: "strip" }, outcome.group);
  const knob = svg("g", {}, outcome.group);
  svg("circle", { r: 22, class: "reach" }, knob);
  svg("circle", { r: 10, class: "knob" }, knob);
  const tip = handle(
    {
      label: "direction k",
      min: -180,
      max: 180,
      step: 5,
      show: (angle) => `${signed(angle)}°`,
      read: () => model.get("angle"),
      at: (x, y) => degrees(Math.atan2(x - SIZE / 2, SIZE / 2 - y)),
    },
    (angle) => change(model, { angle: turned(angle) }),
    plane,
  );
  svg("circle", { r: 22, class: "reach" }, tip.group);
  svg("path", { d: "M0-14 12 9H-12Z", class: "tip" }, tip.group);
  const [keyName, outcomeName] = [letter("k"), letter("φ")];

  plane.append(nextName); // on top of the lines
  return function draw(question, { angle, phi, noiseVar }, now) {
    const key = polar(1, radians(angle));
    outcome.set(phi);
    tip.set(angle);
    const [tipX, tipY] = screen(polar(RIM, radians(angle)));
    tip.group.setAttribute("transform", `translate(${tipX} ${tipY}) rotate(${angle})`);
    drawLine(shaft, [0, 0], polar(RIM - 0.08, radians(angle)));
    write(keyName, polar(RIM - 0.2, radians(angle + 7)));

    const ends = [-1, 1].map((side) => chordEnd(key, phi, side));
    drawLine(strip, ...ends);
    drawLine(reach, ...ends);
    const [knobX, knobY] = screen(ends[1]);
    knob.setAttribute("transform", `translate(${knobX} ${knobY})`);
    const beside = [ends[1][0] + 0.14 * key[0] + 0.24 * key[1], ends[1][1] + 0.14 * key[1] - 0.24 * key[0]];
    write(outcomeName, beside);
    const [low, high] = [-1, 1].map((side) => within(phi + side * Math.sqrt(noiseVar), RIM));
    const corners = [chordEnd(key, low, -1), chordEnd(key, low), chordEnd(key, high), chordEnd(key, high, -1)];
    const [a, b, c, d] = points(corners);
    const arc = `A${RIM * UNIT} ${RIM * UNIT} 0 0 `;
    band.setAttribute("d", `M${a}L${b}${arc}0 ${c}L${d}${arc}0 ${a}Z`);

    drawEllipse(prior, { ...question.prior, axes: principal(question.prior.covariance) });
    question.others.forEach((belief, i) => {
      drawEllipse(ghosts[i][0], belief);
      drawNext(ghosts[i][1], belief);
    });
    drawEllipse(ellipse, now);
    const [meanX, meanY] = screen(now.mean);
    mean.setAttribute("cx", meanX);
    mean.setAttribute("cy", meanY);
    drawNext(next, now);
    write(nextName, besideNext(now, key));
    nextName.textContent = `next: gains ${two(now.gains[0])}`;
    if (question.places) drawTree(question, now);
  };
}

const CURVES = {
  gaussian: [["now", "loss after the outcome"], ["after", "and after the best next question"]],
  tree: [
    ["now", "loss after the outcome"],
    ["left", "and after the left node"],
    ["right", "and after the right node"],
    ["flat", "a Gaussian with the tree's covariance"],
  ],
};

const ASIDE = {
  gaussian:
    "Ellipses lie one standard deviation around the mean: thick after this outcome, thin after −1, 0 and 1, " +
    "dashed before. The band is the outcome ± τ. Angles go clockwise from the top. The next question has noise " +
    "of its own.",
  tree:
    "Up: the root's entry of θ. Across: (left + right)/√2. The third direction, (left − right)/√2, points out " +
    "of the page: the ellipse is the belief's shadow, but the loss counts all three. Discs: the four leaves, by " +
    "their probability. The next question has noise of its own.",
};

/** The plot of the loss against the outcome: `trace(prior, question)` for its curves and `mark(phi, now)`. */
function makePlot(parent) {
  const plot = canvas(PLOT.width, PLOT.height, parent);
  const x = (outcome) => PLOT.left + ((outcome + FAR) / (2 * FAR)) * (PLOT.right - PLOT.left);
  const y = (loss) => PLOT.bottom - loss * (PLOT.bottom - PLOT.top);
  const label = (text, left, top, anchor = "middle") => {
    svg("text", { x: left, y: top, "text-anchor": anchor }, plot).textContent = text;
  };
  const hills = svg("path", { class: "hills" }, plot);
  for (const loss of [0, 0.5, 1]) {
    svg("line", { x1: PLOT.left, x2: PLOT.right, y1: y(loss), y2: y(loss), class: "axis" }, plot);
    label(String(loss), PLOT.left - 7, y(loss) + 5, "end");
  }
  for (const outcome of [-1, 0, 1]) label(signed(outcome), x(outcome), PLOT.bottom + 17);
  label("outcome φ", (PLOT.left + PLOT.right) / 2, PLOT.bottom + 34);
  const cursor = svg("line", { y1: y(0), y2: y(1), class: "cursor" }, plot);
  const lines = Object.fromEntries(
    ["flat", "left", "right", "after", "now"].map((name) => [name, svg("path", { class: `curve ${name}` }, plot)]),
  );
  const here = svg("circle", { r: 5, class: "mean" }, plot);
  const title = svg("text", { x: 4, y: 18, class: "number" }, plot);
  const legend = html("ul", { class: "fv-legend" }, parent);

  return {
    plot,
    trace(prior, question) {
      const beliefs = OUTCOMES.map(question.at);
      const curve = (values) =>
        `M${values.map((value, i) => `${x(OUTCOMES[i]).toFixed(1)} ${y(value).toFixed(1)}`).join("L")}`;
      const after = (i) => curve(beliefs.map(({ loss, gains }) => loss - gains[i]));
      lines.now.setAttribute("d", curve(beliefs.map(({ loss }) => loss)));
      lines[prior === "tree" ? "left" : "after"].setAttribute("d", after(0));
      if (prior === "tree") {
        lines.right.setAttribute("d", after(1));
        lines.flat.setAttribute("d", curve(OUTCOMES.map(() => question.flat)));
      }
      const densities = OUTCOMES.map(question.density);
      const most = Math.max(...densities);
      const hill = curve(densities.map((density) => (0.3 * density) / most));
      hills.setAttribute("d", `${hill}L${PLOT.right} ${PLOT.bottom}L${PLOT.left} ${PLOT.bottom}Z`);
      legend.replaceChildren();
      for (const [name, text] of [...CURVES[prior], ["hills", "how often an outcome occurs"]]) {
        html("li", { class: name }, legend, text);
      }
      return beliefs;
    },
    mark(phi, { loss, gains }) {
      cursor.setAttribute("x1", x(phi));
      cursor.setAttribute("x2", x(phi));
      here.setAttribute("cx", x(phi));
      here.setAttribute("cy", y(loss));
      const then = gains.map((less, i) => two(loss - less) + (gains.length > 1 ? [" (left)", " (right)"][i] : ""));
      title.textContent = `loss ${two(loss)}, then ${then.join(" or ")}`;
    },
  };
}

function words({ prior, angle, phi }, { axes, loss, gains }, beliefs) {
  const question = prior === "tree" && angle === 0 ? "about the root" : `in the direction ${signed(angle)}°`;
  const start = `The question ${question}, with the outcome ${two(phi)}, leaves the loss ${two(loss)}`;
  if (prior === "gaussian") {
    const direction = Math.round(degrees(axes.angle) + 180) % 180;
    return (
      `${start}, as any other outcome would. The best next question has the direction ${direction}° and gains ` +
      `${two(gains[0])}, whatever the outcome was.`
    );
  }
  const losses = beliefs.map((belief) => belief.loss);
  const range = `${two(Math.min(...losses))} to ${two(Math.max(...losses))}`;
  const [better, worse] = gains[0] > gains[1] ? [0, 1] : [1, 0];
  const names = ["left", "right"];
  const advice =
    two(gains[0]) === two(gains[1])
      ? `The left and the right node would each gain ${two(gains[0])}`
      : `Of the two nodes below, ask the ${names[better]} one next: it gains ${two(gains[better])} on average, ` +
        `the ${names[worse]} one ${two(gains[worse])}`;
  return `${start}; other outcomes leave from ${range}. ${advice}.`;
}

function render({ model, el }) {
  adopt(el, "fv-measurement");
  const prior = choice(
    "prior",
    [["gaussian", "Gaussian"], ["tree", "tree"]],
    (name) => change(model, { prior: name, ...START[name] }),
    el,
  );
  const panels = html("div", { class: "fv-panels" }, el);
  const [left, right] = [html("div", {}, panels), html("div", {}, panels)];
  const drawPlane = makePlane(model, left);
  const plot = makePlot(right);
  const row = (options, pick) => slider(options, pick, el);
  const outcome = row({ label: "outcome φ", min: -FAR, max: FAR, step: 0.01, show: two }, (value) =>
    change(model, { outcome: value }),
  );
  const angle = row({ label: "direction k", min: -180, max: 180, show: (value) => `${signed(value)}°` }, (value) =>
    change(model, { angle: value }),
  );
  const say = description(plot.plot, el);
  const logNoise = (value) => Number((10 ** value).toPrecision(2));
  const noise = row(
    { label: "noise τ²", min: -2, max: 0, step: 0.05, show: (value) => String(logNoise(value)) },
    (value) => change(model, { noise_var: logNoise(value) }),
  );
  const shapes = html("div", { class: "fv-shape" }, el);
  const ratio = slider({ label: "axis ratio", min: 1, max: 4, step: 0.1, show: String }, (value) =>
    change(model, { axis_ratio: value }), shapes);
  const decay = slider({ label: "decay α", min: 0.1, max: 0.9, step: 0.05, show: two }, (value) =>
    change(model, { decay: value }), shapes);

  const aside = html("p", { class: "fv-aside" }, el);

  let traced = "";
  let question = null;
  let beliefs = null;
  let later = 0;
  const stop = follow(model, ["prior", "axis_ratio", "decay", "angle", "outcome", "noise_var"], () => {
    const state = { prior: model.get("prior"), angle: model.get("angle"), phi: model.get("outcome") };
    state.noiseVar = model.get("noise_var");
    const shape = state.prior === "tree" ? model.get("decay") : model.get("axis_ratio");
    el.dataset.prior = state.prior;
    aside.textContent = ASIDE[state.prior];
    prior.set(state.prior);
    outcome.set(state.phi);
    angle.set(state.angle);
    noise.set(Math.log10(state.noiseVar));
    ratio.set(model.get("axis_ratio"));
    decay.set(model.get("decay"));

    const wanted = [state.prior, shape, state.angle, state.noiseVar].join();
    if (wanted !== traced) {
      const make = state.prior === "tree" ? treeQuestion : gaussianQuestion;
      question = make(shape, polar(1, radians(state.angle)), state.noiseVar);
      question.others = GHOSTS.map(question.at);
      beliefs = plot.trace(state.prior, question);
    }
    const now = question.at(state.phi);
    drawPlane(question, state, now);
    plot.mark(state.phi, now);
    clearTimeout(later);
    const speak = () => say(words(state, now, beliefs));
    if (traced) later = setTimeout(speak, 300); // not at every step of a drag
    else speak();
    traced = wanted;
  });
  return () => {
    stop();
    clearTimeout(later);
  };
}

export default { render };
