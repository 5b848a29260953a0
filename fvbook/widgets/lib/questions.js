// A first question to a Gaussian and to a tree, and what its outcome leaves for a second one.
//
// Both live in a plane. Its first coordinate is the long axis of the Gaussian, or the root's entry of θ; the
// second is the short axis, or (left + right)/√2 of the tree's other nodes. Each question has noise of its own.

import { gain, measured, moments, principal, spread } from "./gaussian.js";
import { code, logPosterior, projections, risk, shares } from "./tree.js";

const PER_SD = 4; // points of the quadrature to a standard deviation τ: the plain sum converges fast here

/** The density of an outcome at each of these values, (n, 2^K), for each leaf. */
export function likelihoods(energy, key, outcomes, noiseVar) {
  const signals = projections(energy, key);
  const scale = 1 / Math.sqrt(2 * Math.PI * noiseVar);
  return outcomes.map((y) => signals.map((signal) => scale * Math.exp(-((y - signal) ** 2) / (2 * noiseVar))));
}

/** A function from probabilities of the leaves, (2^K,), to the expected risk after an outcome of the key, (D,).
 *
 * `leaves` are the codes, (2^K, D). The risk is 1 − ∫ |Σ_θ θ p(θ, y)|² / p(y) dy.
 */
export function riskAfter(energy, leaves, key, noiseVar) {
  const sd = Math.sqrt(noiseVar);
  const size = Math.ceil((Math.max(...projections(energy, key)) / sd + 7) * PER_SD);
  const grid = Array.from({ length: 2 * size + 1 }, (_, i) => ((i - size) * sd) / PER_SD);
  const table = likelihoods(energy, key, grid, noiseVar);
  const sums = leaves[0].map(() => 0);
  return (probabilities) => {
    let squares = 0;
    for (const row of table) {
      let total = 0;
      sums.fill(0);
      for (let leaf = 0; leaf < row.length; leaf += 1) {
        const weight = probabilities[leaf] * row[leaf];
        total += weight;
        for (let i = 0; i < sums.length; i += 1) sums[i] += weight * leaves[leaf][i];
      }
      for (const sum of sums) squares += total > 0 ? sum ** 2 / total : 0;
    }
    return 1 - (squares * sd) / PER_SD;
  };
}

/** The question with this unit key, (2,), to N(0, C), tr C = 1, with this ratio of axes: { prior, at, density }.
 *
 * `at(φ)` is the belief after an outcome: its mean, (2,), and covariance, (2, 2), with its principal `axes`, its
 * `loss`, and the `gains` of the next questions, by how much the loss will fall on average: here of the best
 * direction, which is the first axis. `density(φ)` is the density of an outcome.
 */
export function gaussianQuestion(ratio, key, noiseVar) {
  const covariance = [
    [ratio ** 2 / (1 + ratio ** 2), 0],
    [0, 1 / (1 + ratio ** 2)],
  ];
  const prior = { mean: [0, 0], covariance };
  const tied = Math.atan2(key[1], key[0]) + Math.PI / 2;
  const at = (outcome) => {
    const belief = measured(prior, key, outcome, noiseVar);
    const axes = principal(belief.covariance, tied);
    const loss = spread(belief.covariance);
    return { ...belief, axes, loss, gains: [gain(axes.values[0], noiseVar)] };
  };
  const variance = key[0] ** 2 * covariance[0][0] + key[1] ** 2 * covariance[1][1] + noiseVar;
  const density = (outcome) => Math.exp(-(outcome ** 2) / (2 * variance)) / Math.sqrt(2 * Math.PI * variance);
  return { prior, at, density };
}

/** The same question to the tree of two levels, whose next questions are about the left and about the right node.
 *
 * Also { places, amplitude, flat }: where the leaves lie in the plane, (4, 2), the root's entry of θ, and the loss
 * of the same question to a Gaussian with the tree's covariance, whatever its outcome. A belief has `chances`, the
 * probabilities of the leaves.
 */
export function treeQuestion(decay, [up, across], noiseVar) {
  const energy = shares(2, decay);
  const leaves = [0, 1, 2, 3].map((leaf) => code(energy, leaf));
  const places = leaves.map(([root, left, right]) => [root, (left + right) / Math.SQRT2]);
  const key = [up, across / Math.SQRT2, across / Math.SQRT2];
  const next = [[0, 1, 0], [0, 0, 1]].map((node) => riskAfter(energy, leaves, node, noiseVar));
  const at = (outcome) => {
    const chances = logPosterior(energy, [key], [outcome], noiseVar).map(Math.exp);
    const belief = moments(places, chances);
    const loss = risk(energy, chances);
    const gains = next.map((expected) => loss - expected(chances));
    return { ...belief, chances, axes: principal(belief.covariance), loss, gains };
  };
  const density = (outcome) =>
    likelihoods(energy, key, [outcome], noiseVar)[0].reduce((sum, p) => sum + p / leaves.length, 0);
  const uniform = leaves.map(() => 1 / leaves.length);
  const flat = spread(measured(moments(leaves, uniform), key, 0, noiseVar).covariance);
  return { prior: moments(places, uniform), at, density, places, amplitude: Math.sqrt(energy[0]), flat };
}
