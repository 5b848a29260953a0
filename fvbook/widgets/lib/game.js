// A game of questions on a tree: a question reads one node, and every player reads the same noisy answers.

import { normal, uniform } from "./random.js";
import { code, logNormalised, mean, reach, risk } from "./tree.js";

function answersOf(energy, noiseVar, leaf, gauss) {
  return code(energy, leaf).map((entry) => entry + Math.sqrt(noiseVar) * gauss());
}

/** A hidden leaf and what each node answers, b = θ + N(0, τ²), (D,). The seed fixes the leaf and noise/τ. */
export function drawGame(energy, noiseVar, seed) {
  const draw = uniform(seed);
  const leaf = Math.floor(draw() * 2 ** energy.length);
  return { leaf, answers: answersOf(energy, noiseVar, leaf, normal(draw)) };
}

/** Adds to the log weights of the leaves, (2^K,), what a node's answer says: of those below it and no others. */
function hear(logWeights, energy, noiseVar, node, answer) {
  const row = Math.floor(Math.log2(node + 1));
  const half = 2 ** (energy.length - row - 1);
  const first = 2 * half * (node + 1 - 2 ** row);
  const amplitude = Math.sqrt(energy[row]);
  for (let i = 0; i < 2 * half; i += 1) {
    const signal = i < half ? amplitude : -amplitude;
    logWeights[first + i] += (signal * answer - signal ** 2 / 2) / noiseVar;
  }
}

/** The nodes that `choose(energy, belief, nodes)` asks, and the beliefs about the leaf before and after each. */
export function play(energy, noiseVar, answers, choose, budget) {
  const logWeights = new Array(2 ** energy.length).fill(0);
  const believe = () => logNormalised(logWeights).map(Math.exp);
  const nodes = [];
  const beliefs = [believe()];
  while (nodes.length < budget) {
    const node = choose(energy, beliefs.at(-1), nodes);
    hear(logWeights, energy, noiseVar, node, answers[node]);
    nodes.push(node);
    beliefs.push(believe());
  }
  return { nodes, beliefs };
}

/** The adaptive player, policies.one_coordinate: down the tree to the side that the last answer points to.
 *
 * After K questions it reads the node of largest posterior variance.
 */
export function followSigns(energy, belief, nodes) {
  if (nodes.length === 0) return 0;
  const estimate = mean(energy, belief);
  const last = nodes.at(-1);
  if (nodes.length < energy.length) return 2 * last + (estimate[last] > 0 ? 1 : 2);
  const variances = reach(belief)
    .slice(0, -1)
    .flatMap((row, k) => row.map((chance) => energy[k] * chance))
    .map((power, node) => (nodes.includes(node) ? -1 : power - estimate[node] ** 2));
  return variances.indexOf(Math.max(...variances));
}

/** The player with a fixed list, policies.breadth_first_keys: node 0, 1, 2, … whatever it hears. */
export function inOrder(energy, belief, nodes) {
  return nodes.length;
}

/** A function that plays one more game and returns the mean risks after 0..D questions in all games so far. */
export function manyGames(energy, noiseVar, seed) {
  const leaves = 2 ** energy.length;
  const gauss = normal(uniform(seed));
  const players = { adaptive: followSigns, fixed: inOrder };
  const sums = { adaptive: new Array(leaves).fill(0), fixed: new Array(leaves).fill(0) };
  let games = 0;
  return () => {
    const leaf = (games * (leaves / 2 + 1)) % leaves; // all equally often, one half and the other in turn
    const answers = answersOf(energy, noiseVar, leaf, gauss);
    games += 1;
    const means = { games };
    for (const [name, choose] of Object.entries(players)) {
      play(energy, noiseVar, answers, choose, leaves - 1).beliefs.forEach((belief, m) => {
        sums[name][m] += risk(energy, belief);
      });
      means[name] = sums[name].map((sum) => sum / games);
    }
    return means;
  };
}

/** The losses after 0..D questions without noise: theory.one_coordinate_mmse and theory.linear_mmse. */
export function withoutNoise(energy) {
  const below = (values) => values.reduceRight((sums, value) => [sums[0] + value, ...sums], [0]);
  const variances = energy.flatMap((share, k) => new Array(2 ** k).fill(share / 2 ** k));
  const adaptive = below(energy);
  return { adaptive: variances.map((_, m) => adaptive[m] ?? 0).concat(0), fixed: below(variances) };
}
