// What a game of questions looks like: the tree with what is believed, the losses, and the list of questions.

import { drawTree } from "./drawing.js";
import { withoutNoise } from "./game.js";
import { signed } from "./text.js";
import { locate, mean, place, reach } from "./tree.js";
import { canvas, html, svg } from "./ui.js";

/** The players and what they are called, in the order of the table. */
export const NAMES = { you: "you", adaptive: "adaptive", fixed: "fixed list" };

const STRATEGIES = ["fixed", "adaptive"];
const TREE = { top: 20, step: 52, bar: 56, sunk: 26 };
const PLOT = { left: 30, right: 10, top: 12, bottom: 34, height: 200 };

export function percent(chance) {
  if (chance > 0.995) return "over 99 %";
  return chance < 0.005 ? "under 1 %" : `${Math.round(100 * chance)} %`;
}

export function small(x) {
  return x < 0.005 ? "< 0.01" : x.toFixed(2);
}

/** The tree of K levels, this wide, each node a button: `ask(node)` hears it. Returns { drawing, draw(game) }. */
export function questionTree(levels, width, ask, parent) {
  // Where the lowest nodes would be narrower than a finger's tip, every other one sinks.
  const crowded = width / 2 ** (levels - 1) < 24;
  const sink = (row, index) => {
    if (!crowded || row < levels - 1) return 0;
    return row === levels ? TREE.sunk : TREE.sunk * (index % 2);
  };
  const bottom = TREE.top + TREE.step * levels + sink(levels, 0);
  const drawing = canvas(width, bottom + TREE.bar + 24, parent);
  drawing.setAttribute("role", "group"); // it holds buttons, which an image may not
  const frame = { width, top: TREE.top, step: TREE.step, sink };
  const tree = drawTree(levels, frame, drawing);

  const nodes = tree.nodes.flat().map((group, node) => {
    const [row, index] = locate(node);
    const low = crowded && row === levels - 1;
    const x = Math.min(width / 2 ** (row + (low ? 0 : 1)), 32);
    const y = low ? TREE.sunk / 2 : 24;
    group.setAttribute("class", "node");
    group.setAttribute("role", "button");
    group.setAttribute("tabindex", node === 0 ? 0 : -1);
    svg("rect", { x: -x, y: -y, width: 2 * x, height: 2 * y, class: "target" }, group);
    svg("circle", { r: 10, class: "paper" }, group);
    const estimate = svg("circle", { class: "estimate" }, group);
    svg("circle", { r: 10, class: "ring" }, group);
    svg("text", { y: 4, class: "name" }, group).textContent = node;
    group.addEventListener("click", () => ask(node));
    group.addEventListener("focus", () => {
      for (const other of nodes) other.group.setAttribute("tabindex", other.group === group ? 0 : -1);
    });
    group.addEventListener("keydown", (event) => {
      const [up, down] = [(node - 1) >> 1, 2 * node + 1];
      const to = { ArrowLeft: node - 1, ArrowRight: node + 1, ArrowUp: up, ArrowDown: down };
      if (event.key === "Enter" || event.key === " ") ask(node);
      else if (event.key in to) nodes[to[event.key]]?.group.focus();
      else return;
      event.preventDefault();
    });
    const [middle, height] = place(row, index, frame);
    // Outside the button, whose name would have to contain it.
    const answer = svg("text", { x: middle, y: height + 25, class: "answer" }, drawing);
    return { group, estimate, answer };
  });

  const cell = width / 2 ** levels;
  const bars = tree.leaves.map((group) => {
    const size = { x: -0.38 * cell, width: 0.76 * cell, y: 2 };
    svg("rect", { ...size, height: TREE.bar, class: "slot" }, group);
    return svg("rect", { ...size, class: "bar" }, group);
  });
  const most = svg("text", { y: bottom + TREE.bar + 18, class: "middle" }, drawing);

  /** Draws a player's nodes, answers and belief, `open` to more questions; and the path to the leaf, if told. */
  function draw({ player, energy, nodes: read, belief, answers, open, leaf }) {
    const rows = reach(belief);
    const theta = mean(energy, belief);
    drawing.dataset.player = player;
    tree.mark(leaf);
    rows.slice(1).forEach((row, k) => {
      row.forEach((chance, i) => tree.edges[k + 1][i].setAttribute("stroke-width", 0.8 + 7 * chance));
    });
    nodes.forEach(({ group, estimate, answer }, node) => {
      const [row, index] = locate(node);
      const asked = read.includes(node);
      group.classList.toggle("asked", asked);
      answer.textContent = asked ? signed(answers[node]) : "";
      estimate.setAttribute("r", 20 * Math.abs(theta[node]));
      group.setAttribute("aria-disabled", asked || !open);
      const said = asked ? `, answered ${answer.textContent}` : "";
      const chance = percent(rows[row][index]);
      group.setAttribute("aria-label", `node ${node}, level ${row + 1}${said}; on the path: ${chance}`);
    });
    bars.forEach((bar, i) => bar.setAttribute("height", TREE.bar * belief[i]));
    const top = belief.indexOf(Math.max(...belief));
    most.textContent = belief[top] > 0.3 ? percent(belief[top]).replace("over ", "> ") : "";
    most.setAttribute("x", Math.min(Math.max(cell * (top + 0.5), 24), width - 24));
  }
  return { drawing, draw };
}

/** A plot of losses after 0..D questions, this wide. Returns { means(found), game(now) }. */
export function lossPlot(drawing, dim, width) {
  drawing.replaceChildren();
  drawing.setAttribute("viewBox", `0 0 ${width} ${PLOT.height}`);
  const floor = PLOT.height - PLOT.bottom;
  const x = (m) => PLOT.left + ((width - PLOT.left - PLOT.right) * m) / dim;
  const y = (loss) => floor - (floor - PLOT.top) * loss;
  const line = (losses) => `M${losses.map((loss, m) => `${x(m).toFixed(1)} ${y(loss).toFixed(1)}`).join("L")}`;
  const write = (text, at, where = drawing) => {
    svg("text", { class: "middle", ...at }, where).textContent = text;
  };

  for (const loss of [0, 0.5, 1]) {
    svg("line", { x1: x(0), x2: x(dim), y1: y(loss), y2: y(loss), class: "grid" }, drawing);
    write(loss, { x: x(0) - 5, y: y(loss) + 4, class: "end" });
  }
  write("expected loss", { x: x(dim), y: y(1) + 15, class: "end" });
  write("questions", { x: x(dim / 2), y: PLOT.height - 3 });
  const limit = svg("line", { y1: y(1), y2: floor, class: "limit" }, drawing);
  const each = (make) => Object.fromEntries(STRATEGIES.map((player) => [player, make(player)]));
  const ideal = each(() => svg("path", { class: "ideal" }, drawing));
  const curves = each((player) => svg("path", { class: "mean", "data-player": player }, drawing));
  const averages = svg("g", { class: "labels" }, drawing);
  const game = svg("g", { class: "labels" }, drawing);

  return {
    /** Draws mean losses of the strategies over many games. */
    means(found) {
      const at = Math.round(0.53 * dim);
      const [high, low] = [y(found.fixed[at]), y(found.adaptive[at])];
      averages.replaceChildren();
      write(NAMES.fixed, { x: x(at), y: high - 9 }, averages);
      write(NAMES.adaptive, { x: x(at), y: floor - low > 24 ? low + 18 : low - 6 }, averages);
      for (const player of STRATEGIES) curves[player].setAttribute("d", line(found[player]));
    },
    /** Draws what each player has lost so far in this game, the budget, and the losses without noise. */
    game({ energy, budget, seen }) {
      const limits = withoutNoise(energy);
      for (const player of STRATEGIES) ideal[player].setAttribute("d", line(limits[player]));
      limit.setAttribute("x1", x(budget));
      limit.setAttribute("x2", x(budget));
      game.replaceChildren();
      for (const m of new Set([0, budget, dim])) write(m, { x: x(m), y: floor + 16 }, game);
      for (const player of [...STRATEGIES, "you"]) {
        (seen[player]?.losses ?? []).forEach((loss, m) => {
          const r = player === "you" ? 5 : 4;
          svg("circle", { cx: x(m), cy: y(loss), r, class: "dot", "data-player": player }, game);
        });
      }
      const { losses } = seen.you;
      write("you", { x: x(losses.length - 1) + 8, y: y(losses.at(-1)) - 6, class: "start" }, game);
    },
  };
}

/** All questions and answers so far, a column for each player; at the end also how far off the estimates are. */
export function fillTable(table, { budget, answers, seen, errors }) {
  table.replaceChildren();
  const row = (head, text, kind = "td") => {
    const tr = html("tr", {}, table);
    html("th", { scope: kind === "th" ? "col" : "row" }, tr, head);
    for (const player of Object.keys(NAMES)) {
      const cell = html(kind, { "data-player": player }, tr, text(player) ?? "");
      if (kind === "th") cell.setAttribute("scope", "col");
    }
  };
  row("#", (player) => NAMES[player], "th");
  for (let m = 0; m < budget; m += 1) {
    row(String(m + 1), (player) => {
      const node = seen[player]?.nodes[m];
      return node === undefined ? "" : `${node}: ${signed(answers[node])}`;
    });
  }
  row("expected loss", (player) => seen[player] && small(seen[player].losses.at(-1)));
  if (errors) row("squared error", (player) => small(errors[player]));
}
