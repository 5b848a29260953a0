// The tree in heap order: node n has the children 2n + 1 (left) and 2n + 2 (right); below the last level, the leaves.
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 560;
const ROW = 58;
const MARGIN = 30;

function draw(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}

function slider(text, minimum, maximum, value, parent) {
  const label = document.createElement("label");
  const input = document.createElement("input");
  Object.assign(input, { type: "range", min: minimum, max: maximum, step: 1, value });
  const caption = document.createElement("span");
  caption.textContent = text;
  label.append(caption, input);
  parent.append(label);
  return input;
}

function render({ model, el }) {
  const levels = model.get("levels");
  const energy = model.get("energy");
  const leaves = 2 ** levels;
  el.classList.add("fvbook-keys");

  const controls = document.createElement("div");
  const leafInput = slider("leaf", 0, leaves - 1, model.get("leaf"), controls);
  const layerInput = slider("layer", 1, energy.length, model.get("layer"), controls);
  const height = ROW * levels + 2 * MARGIN;
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img" }, el);
  const words = document.createElement("p");
  words.setAttribute("aria-live", "polite");
  el.append(controls, svg, words);

  // Rows 0..K−1 hold nodes, row K the leaves; place(row, index) is the middle of its share of the width.
  const place = (row, index) => [(WIDTH * (index + 0.5)) / 2 ** row, MARGIN + ROW * row];
  const edges = [];
  const nodes = [];
  for (let row = 0; row < levels; row += 1) {
    for (let index = 0; index < 2 ** row; index += 1) {
      const [x1, y1] = place(row, index);
      for (const turn of [0, 1]) {
        const [x2, y2] = place(row + 1, 2 * index + turn);
        edges.push({ row: row + 1, index: 2 * index + turn, line: draw("line", { x1, y1, x2, y2 }, svg) });
      }
    }
  }
  for (let row = 0; row < levels; row += 1) {
    for (let index = 0; index < 2 ** row; index += 1) {
      const [cx, cy] = place(row, index);
      draw("circle", { cx, cy, r: 3, class: "node" }, svg);
      nodes.push({ row, index, disc: draw("circle", { cx, cy, r: 0, class: "energy" }, svg) });
    }
  }
  const squares = [];
  for (let index = 0; index < leaves; index += 1) {
    const [x, y] = place(levels, index);
    const square = draw("rect", { x: x - 5, y: y - 5, width: 10, height: 10, class: "leaf" }, svg);
    square.addEventListener("click", () => choose("leaf", index));
    squares.push(square);
  }

  function choose(name, value) {
    model.set(name, Number(value));
    model.save_changes();
  }

  function update() {
    const leaf = model.get("leaf");
    const layer = model.get("layer");
    const shares = energy[layer - 1][leaf];
    const onPath = (row, index) => leaf >> (levels - row) === index;
    for (const { row, index, line } of edges) line.classList.toggle("path", onPath(row, index));
    for (const { row, index, disc } of nodes) {
      disc.setAttribute("r", 20 * Math.sqrt(shares[2 ** row - 1 + index]));
      disc.classList.toggle("path", onPath(row, index));
    }
    squares.forEach((square, index) => square.classList.toggle("path", index === leaf));
    leafInput.value = leaf;
    layerInput.value = layer;
    const most = shares.indexOf(Math.max(...shares));
    const row = Math.floor(Math.log2(most + 1));
    const where = onPath(row, most - (2 ** row - 1)) ? "on the path" : "off the path";
    const percent = Math.round(100 * shares[most]);
    words.textContent =
      `Leaf ${leaf}, layer ${layer}: the key puts ${percent} % of its energy on node ${most} (level ${row + 1}, ${where}).`;
    svg.setAttribute("aria-label", words.textContent);
  }

  leafInput.addEventListener("input", () => choose("leaf", leafInput.value));
  layerInput.addEventListener("input", () => choose("layer", layerInput.value));
  model.on("change:leaf change:layer", update);
  update();
}

export default { render };
