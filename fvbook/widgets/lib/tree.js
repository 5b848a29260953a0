// The tree prior and its exact Bayes decoder, as in fvbook.priors and fvbook.inference. Nodes in heap order: the
// children of n are 2n + 1 (left) and 2n + 2 (right); row k holds the nodes of level k + 1, row K the leaves.

/** a_k², (K,), in proportion to α^(k−1), summing to 1. */
export function shares(levels, decay) {
  const total = (1 - decay ** levels) / (1 - decay);
  return Array.from({ length: levels }, (_, k) => decay ** k / total);
}

/** The nodes on the path of a leaf, (K,), and its signs, (K,), left = +1. */
export function path(levels, leaf) {
  const nodes = [];
  const signs = [];
  for (let k = 0; k < levels; k += 1) {
    nodes.push(2 ** k - 1 + (leaf >> (levels - k)));
    signs.push(1 - 2 * ((leaf >> (levels - 1 - k)) & 1));
  }
  return { nodes, signs };
}

/** θ of a leaf, (D,), for squared amplitudes a_k², (K,). */
export function code(energy, leaf) {
  const { nodes, signs } = path(energy.length, leaf);
  const theta = new Array(2 ** energy.length - 1).fill(0);
  nodes.forEach((node, k) => {
    theta[node] = signs[k] * Math.sqrt(energy[k]);
  });
  return theta;
}

/** k·θ for every leaf, (2^K,), from a key, (D,). */
export function projections(energy, key) {
  let totals = [0];
  energy.forEach((share, k) => {
    const amplitude = Math.sqrt(share);
    totals = totals.flatMap((total, i) => {
      const step = amplitude * key[2 ** k - 1 + i];
      return [total + step, total - step];
    });
  });
  return totals;
}

/** Log probabilities in proportion to the weights, none below e^-60 of the largest. */
export function logNormalised(logWeights) {
  const most = Math.max(...logWeights);
  const shifted = logWeights.map((weight) => Math.max(weight - most, -60));
  const total = Math.log(shifted.reduce((sum, weight) => sum + Math.exp(weight), 0));
  return shifted.map((weight) => weight - total);
}

/** The log posterior of the leaves, (2^K,), given outcomes y_i = k_i·θ + N(0, τ²). */
export function logPosterior(energy, keys, outcomes, noiseVar) {
  const weights = new Array(2 ** energy.length).fill(0);
  keys.forEach((key, i) => {
    projections(energy, key).forEach((signal, leaf) => {
      weights[leaf] -= (outcomes[i] - signal) ** 2 / (2 * noiseVar);
    });
  });
  return logNormalised(weights);
}

/** The probability that the path visits each node, rows 0..K of 1, 2, 4, …, 2^K numbers. */
export function reach(probabilities) {
  const rows = [probabilities];
  while (rows[0].length > 1) {
    const below = rows[0];
    rows.unshift(Array.from({ length: below.length / 2 }, (_, i) => below[2 * i] + below[2 * i + 1]));
  }
  return rows;
}

/** E[θ], (D,), under probabilities of the leaves, (2^K,). */
export function mean(energy, probabilities) {
  const rows = reach(probabilities);
  return energy.flatMap((share, k) =>
    rows[k].map((_, i) => Math.sqrt(share) * (rows[k + 1][2 * i] - rows[k + 1][2 * i + 1])),
  );
}

/** The posterior risk E|θ − E[θ]|² = 1 − |E[θ]|². */
export function risk(energy, probabilities) {
  return 1 - mean(energy, probabilities).reduce((sum, entry) => sum + entry ** 2, 0);
}

/** The row of a node and its place in the row. */
export function locate(node) {
  const row = Math.floor(Math.log2(node + 1));
  return [row, node + 1 - 2 ** row];
}

/** Where the tree is drawn: the middle of each node's (row < K) or leaf's (row = K) share of the width.
 *
 * `sink(row, index)`, if given, says how much lower than its row.
 */
export function place(row, index, { width, top, step, sink = () => 0 }) {
  return [(width * (index + 0.5)) / 2 ** row, top + step * row + sink(row, index)];
}
