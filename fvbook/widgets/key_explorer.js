import { adopt, canvas, change, description, follow, slider, svg } from "./lib/ui.js";
import { drawTree } from "./lib/drawing.js";
import { locate } from "./lib/tree.js";

const FRAME = { width: 560, top: 30, step: 58 };

function render({ model, el }) {
  const levels = model.get("levels");
  const energy = model.get("energy");
  adopt(el, "fv-keys");

  const leaf = slider({ label: "leaf", min: 0, max: 2 ** levels - 1 }, (value) => change(model, { leaf: value }), el);
  const layer = slider({ label: "layer", min: 1, max: energy.length }, (value) => change(model, { layer: value }), el);
  const drawing = canvas(FRAME.width, FRAME.step * levels + 2 * FRAME.top, el);
  const say = description(drawing, el);
  const tree = drawTree(levels, FRAME, drawing);
  const discs = tree.nodes.flat().map((node) => {
    svg("circle", { r: 3, class: "node" }, node);
    return svg("circle", { class: "energy" }, node);
  });
  tree.leaves.forEach((group, index) => {
    svg("rect", { x: -5, y: -5, width: 10, height: 10, class: "leaf" }, group);
    group.addEventListener("click", () => change(model, { leaf: index }));
  });

  return follow(model, ["leaf", "layer"], () => {
    const [shown, asked] = [model.get("leaf"), model.get("layer")];
    const shares = energy[asked - 1][shown];
    leaf.set(shown);
    layer.set(asked);
    tree.mark(shown);
    discs.forEach((disc, node) => disc.setAttribute("r", 20 * Math.sqrt(shares[node])));
    const most = shares.indexOf(Math.max(...shares));
    const [row, index] = locate(most);
    const onPath = shown >> (levels - row) === index;
    say(
      `Leaf ${shown}, layer ${asked}: the key puts ${Math.round(100 * shares[most])} % of its energy on node ${most} ` +
        `(level ${row + 1}, ${onPath ? "on" : "off"} the path).`,
    );
  });
}

export default { render };
