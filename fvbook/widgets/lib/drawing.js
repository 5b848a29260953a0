// A tree that explorables draw on.

import { svg } from "./ui.js";
import { place } from "./tree.js";

/** Draws the edges and nodes of a tree with K levels. `frame` is { width, top, step }, see `place`.
 *
 * Returns { edges, nodes, leaves }: edges[row][index] the line that ends at row 1..K, nodes[row][index] a group
 * at the node (row < K) to draw into, leaves[index] a group at each leaf, and mark(leaf), which gives the path to
 * a leaf (or, without one, none) the class "path".
 */
export function drawTree(levels, frame, parent) {
  const edges = [[]];
  const groups = [];
  for (let row = 0; row <= levels; row += 1) {
    groups.push([]);
    if (row) edges.push([]);
    for (let index = 0; index < 2 ** row; index += 1) {
      const [x2, y2] = place(row, index, frame);
      if (row) {
        const [x1, y1] = place(row - 1, index >> 1, frame);
        edges[row].push(svg("line", { x1, y1, x2, y2, class: "edge" }));
      }
      groups[row].push(svg("g", { transform: `translate(${x2} ${y2})` }));
    }
  }
  parent.append(...edges.flat(), ...groups.flat());
  return {
    edges,
    nodes: groups.slice(0, levels),
    leaves: groups[levels],
    mark(leaf = null) {
      for (let row = 0; row <= levels; row += 1) {
        const here = leaf === null ? -1 : leaf >> (levels - row);
        groups[row].forEach((group, index) => group.classList.toggle("path", index === here));
        edges[row].forEach((line, index) => line.classList.toggle("path", index === here));
      }
    },
  };
}
