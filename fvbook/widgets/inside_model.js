import { functionVectorLogPosterior, sampleMoment } from "./lib/contexts.js";
import { drawTree } from "./lib/drawing.js";
import { patchKeys, readModel, trace } from "./lib/network.js";
import { normal, uniform } from "./lib/random.js";
import { signed } from "./lib/text.js";
import { code, locate, path, shares } from "./lib/tree.js";
import { adopt, button, canvas, change, choice, description, follow, html, slider, svg } from "./lib/ui.js";
import { squaredDistance } from "./lib/vectors.js";

const WIDTH = 350; // about that of a phone
const FRAME = { width: WIDTH, top: 26, step: 38 };
const RADIUS = 20; // of the disc of an entry of size 1
const BELIEF = 56; // height of the bar of a sure leaf
const ANSWER = 24; // height of the bar of an answer of size 1
const SUBSCRIPTS = "₀₁₂₃₄₅₆";

const percent = (share) => `${Math.round(100 * share)} %`;

/** |θ − θ̂|² in text. */
function tellLoss(run, theta) {
  const loss = squaredDistance(run.thetaHat, theta);
  return loss < 0.0005 ? "<0.001" : loss.toFixed(loss < 0.0995 ? 3 : 2);
}

const inWords = (run, theta) => tellLoss(run, theta).replace("<", "below ");

/** What a layer asks and hears, in words. */
function tellLayer({ run, layer, levels, leaf }) {
  if (layer > run.keys.length) return "decoded";
  const energies = run.keys[layer - 1].map((entry) => entry ** 2);
  const most = energies.indexOf(Math.max(...energies));
  const level = locate(most)[0] + 1;
  const where = path(levels, leaf).nodes[level - 1] === most ? "on" : "off";
  return (
    `layer ${layer} looks mainly at node ${most} (level ${level}, ${where} the path; ` +
    `${percent(energies[most])} of the key's energy) and hears ${signed(run.functionVector[layer - 1])}`
  );
}

function tellClean(shown) {
  const { run, belief, theta, leaf } = shown;
  const spread = Math.exp(-belief.reduce((sum, p) => sum + p * Math.log(p), 0)); // by the entropy
  return (
    `Leaf ${leaf}: ${tellLayer(shown)}; the belief is spread over about ${spread.toFixed(1)} leaves, ` +
    `with ${percent(belief[leaf])} for leaf ${leaf}. After all ${run.keys.length} layers the loss |θ\u00a0−\u00a0θ̂|² is ` +
    `${inWords(run, theta)}.`
  );
}

function tellPatched(shown, patch) {
  const { run, belief, theta, levels, leaf, donor } = shown;
  const level = levels - Math.floor(Math.log2(leaf ^ donor));
  const where = leaf === donor ? "the same leaf" : `whose path parts at level ${level}`;
  return (
    `With the key of a context of leaf ${donor}, ${where}, in layer ${patch}: ${tellLayer(shown)}; ` +
    `leaf ${leaf} has ${percent(belief[leaf])} of the belief, and in the end the loss is ${inWords(run, theta)}.`
  );
}

/** The tree, the belief and the function vector of a run. Returns a function that shows one. */
function panel(levels, layers, pick, parent) {
  const box = html("div", { class: "panel" }, parent);
  const title = html("p", { class: "title" }, box);
  const bottom = FRAME.top + FRAME.step * levels;
  const middle = bottom + BELIEF + 24;
  const strip = middle + 14;
  const drawing = canvas(WIDTH, strip + 92, box);
  const write = (x, y, anchor, text = "", group = drawing) => {
    const element = svg("text", { x, y, "text-anchor": anchor }, group);
    element.textContent = text;
    return element;
  };

  const asked = write(0, 14, "start");
  const heard = write(WIDTH, 14, "end");
  const tree = drawTree(levels, FRAME, drawing);
  const nodes = tree.nodes.flat().map((node) => {
    svg("circle", { r: 2.5, class: "node" }, node);
    return { disc: svg("circle", {}, node), ring: svg("circle", { class: "ring" }, node) };
  });
  const bars = tree.leaves.map((leaf) => {
    svg("rect", { x: -3.5, y: -4, width: 7, height: 8, class: "leaf" }, leaf);
    return svg("rect", { x: -4, y: 7, width: 8, class: "belief" }, leaf);
  });
  const given = write(0, middle, "start");
  svg("circle", { cx: WIDTH - 78, cy: middle - 5, r: 6, class: "plus" }, drawing);
  write(WIDTH - 67, middle, "start", "> 0");
  svg("circle", { cx: WIDTH - 33, cy: middle - 5, r: 6, class: "minus" }, drawing);
  write(WIDTH, middle, "end", "< 0");
  const band = { y: bottom - 16, width: WIDTH, height: BELIEF + 24, class: "target" };
  svg("rect", band, drawing).addEventListener("click", (event) => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    const share = Math.min(Math.max((event.clientX - left) / width, 0), 0.999);
    pick("leaf")(Math.floor(share * 2 ** levels));
  });

  const column = WIDTH / (layers + 1);
  const cells = Array.from({ length: layers + 1 }, (_, index) => {
    const group = svg("g", { transform: `translate(${column * (index + 0.5)} ${strip})` }, drawing);
    const frame = { x: 2 - column / 2, y: 1, width: column - 4, height: 90, rx: 5 };
    svg("rect", { ...frame, class: "cell" }, group);
    const last = index === layers;
    write(0, 16, "middle", last ? "θ̂" : `φ${SUBSCRIPTS[index + 1]}`, group);
    if (last) ["final", "loss"].forEach((word, line) => write(0, 42 + 17 * line, "middle", word, group));
    else svg("path", { d: "M-14 48h28", class: "edge" }, group);
    const bar = svg("rect", { x: -8, width: 16 }, group);
    const number = write(0, 84, "middle", "", group);
    svg("rect", { ...frame, class: "target" }, group).addEventListener("click", () => pick("layer")(index + 1));
    return { group, bar, number };
  });

  return function show({ name, run, layer, belief, theta, leaf, donor }) {
    const decoded = layer > layers;
    const values = decoded ? run.thetaHat : run.keys[layer - 1];
    title.textContent = name;
    drawing.setAttribute("aria-label", name);
    asked.textContent = decoded ? "estimate θ̂" : `key of layer ${layer}`;
    heard.textContent = decoded ? "rings: θ" : `answer ${signed(run.functionVector[layer - 1])}`;
    tree.mark(leaf);
    tree.edges.forEach((lines, row) => {
      const there = donor === null ? -1 : donor >> (levels - row);
      lines.forEach((line, index) => line.classList.toggle("donor", index === there));
    });
    nodes.forEach(({ disc, ring }, node) => {
      const size = Math.abs(values[node]);
      disc.setAttribute("r", size < 0.07 ? 0 : RADIUS * size); // half a per cent of the energy is too small to see
      disc.setAttribute("class", values[node] < 0 ? "minus" : "plus");
      ring.setAttribute("r", decoded ? RADIUS * Math.abs(theta[node]) : 0);
    });
    bars.forEach((bar, index) => bar.setAttribute("height", BELIEF * belief[index]));
    given.textContent = `belief given Φ${SUBSCRIPTS[Math.min(layer, layers)]}`;
    cells.forEach(({ group, bar, number }, index) => {
      const known = index < Math.min(layer, layers);
      const value = known ? run.functionVector[index] : 0;
      const height = ANSWER * Math.min(Math.abs(value), 1.2);
      group.classList.toggle("now", index === layer - 1);
      number.textContent = known ? signed(value) : "";
      bar.setAttribute("class", value < 0 ? "minus" : "plus");
      bar.setAttribute("y", value < 0 ? 48 : 48 - height);
      bar.setAttribute("height", height);
    });
    cells.at(-1).number.textContent = tellLoss(run, theta);
  };
}

function render({ model, el }) {
  const traits = ["levels", "decay", "layers", "width", "weights", "n_tokens", "noise_std"];
  const [levels, decay, layers, width, weights, nTokens, noiseStd] = traits.map((name) => model.get(name));
  const energy = shares(levels, decay);
  const network = readModel(weights, { dim: 2 ** levels - 1, layers, width });
  const last = 2 ** levels - 1;
  const pick = (name) => (value) => change(model, { [name]: value });
  adopt(el, "fv-inside");

  const leafSlider = slider({ label: "leaf", min: 0, max: last }, pick("leaf"), el);
  const showLayer = (value) => (value > layers ? "output" : String(value));
  const layerSlider = slider({ label: "show layer", min: 1, max: layers + 1, show: showLayer }, pick("layer"), el);
  const patching = html("div", {}, el);
  const donorSlider = slider({ label: "donor leaf", min: 0, max: last }, pick("donor"), patching);
  const numbers = Array.from({ length: layers }, (_, index) => [index + 1, String(index + 1)]);
  const patchChoice = choice("patch layer", [[0, "none"], ...numbers], pick("patch"), patching);
  const buttons = html("div", { class: "fv-buttons" }, el);
  button("another context", () => change(model, { seed: (model.get("seed") + 1) % 2 ** 31 }), buttons);
  const panels = html("div", { class: "panels", role: "group" }, el);
  const showClean = panel(levels, layers, pick, panels);
  const showPatched = panel(levels, layers, pick, panels);
  const say = description(panels, el);

  return follow(model, ["leaf", "seed", "layer", "donor", "patch"], () => {
    const [leaf, seed, layer, donor] = ["leaf", "seed", "layer", "donor"].map((name) => model.get(name));
    const patch = donor === null ? 0 : model.get("patch");
    const theta = code(energy, leaf);
    const moment = (one, stream) =>
      sampleMoment(code(energy, one), nTokens, noiseStd, normal(uniform(2 * seed + stream)));
    const read = Math.min(layer, layers);
    const b = moment(leaf, 0);
    const look = (name, run, other) => {
      const [keys, phi] = [run.keys.slice(0, read), run.functionVector.slice(0, read)];
      const belief = functionVectorLogPosterior(energy, keys, phi, nTokens, noiseStd).map(Math.exp);
      return { name, run, levels, layer, belief, theta, leaf, donor: other };
    };
    const clean = look(donor === null ? "a run of the network" : "clean run", trace(network, b), null);
    leafSlider.set(leaf);
    layerSlider.set(layer);
    showClean(clean);

    for (const part of [patching, panels.lastChild]) part.hidden = donor === null;
    panels.classList.toggle("single", donor === null);
    if (donor === null) return say(tellClean(clean));
    donorSlider.set(donor);
    patchChoice.set(patch);
    const run = patch ? patchKeys(network, b, moment(donor, 1), patch) : clean.run;
    const patched = look(patch ? `layer ${patch} asks the donor's question` : "no layer patched", run, donor);
    showPatched(patched);
    return say(`${tellClean(clean)} ${patch ? tellPatched(patched, patch) : "No layer is patched."}`);
  });
}

export default { render };
