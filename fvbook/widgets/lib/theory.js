// Losses on the tree prior in closed form, as in fvbook.theory: each function returns the loss at every budget
// M = 0..D, D = 2^K − 1, for isotropic noise of variance τ² > 0.

import { erf } from "./special.js";
import { shares } from "./tree.js";

/** v_k = a_k²/2^(k−1), (K,): the prior variance of a coordinate of each level. */
export function variances(levels, decay) {
  return shares(levels, decay).map((share, k) => share / 2 ** k);
}

/** Q(x) = P(N(0, 1) > x) for x ≥ 0, to a relative 1e-14. */
export function normalTail(x) {
  const z = x / Math.SQRT2;
  if (z < 1) return (1 - erf(z)) / 2;
  const step = 0.5; // the trapezoidal rule for e^(−z²) z/π ∫ e^(−t²)/(t² + z²) dt, less the residue of its pole
  let sum = 1 / (z * z);
  for (let t = step; t < 7; t += step) sum += (2 * Math.exp(-t * t)) / (t * t + z * z);
  const pole = z < Math.PI / step ? 2 / Math.expm1((2 * Math.PI * z) / step) : 0;
  return ((step * z * Math.exp(-z * z) * sum) / Math.PI - pole) / 2;
}

/** `theory.gaussian_mmse` of the prior's covariance: the best linear estimate from fixed keys. */
export function linearLosses(levels, decay, noiseVar) {
  const losses = [1];
  variances(levels, decay).forEach((v, k) => {
    for (let node = 0; node < 2 ** k; node += 1) losses.push(losses.at(-1) - v ** 2 / (v + noiseVar));
  });
  return losses;
}

/** `theory.one_coordinate_mmse`: one coordinate at a time, by signs; `noiseVar` may be 0. */
export function oneCoordinateLosses(levels, decay, noiseVar) {
  const losses = [1];
  let reached = 1;
  for (const share of shares(levels, decay)) {
    const wrong = noiseVar > 0 ? normalTail(Math.sqrt(share / noiseVar)) : 0;
    losses.push(Math.max(losses.at(-1) - share * (reached * (1 - 2 * wrong)) ** 2, 0));
    reached *= 1 - wrong;
  }
  if (noiseVar === 0) losses[levels] = 0;
  const last = losses[levels];
  return Array.from({ length: 2 ** levels }, (_, budget) => losses[budget] ?? last);
}

/** `theory.group_code_mmse`: the best group-testing code under the sign decoder. */
export function groupCodeLosses(levels, decay, noiseVar) {
  const [energy, v] = [shares(levels, decay), variances(levels, decay)];
  let gain = new Array(2 ** levels).fill(0); // of the levels below, for what is left of the budget
  for (let k = levels - 1; k >= 0; k -= 1) {
    const counts = [0, ...Array.from({ length: k + 1 }, (_, e) => 2 ** e)];
    const options = counts.map((count) => {
      const wrong = normalTail(Math.sqrt((count * v[k]) / noiseVar));
      return [count, energy[k] * (1 - 2 * wrong) ** 2, (1 - wrong) ** 2];
    });
    const below = gain;
    gain = below.map((_, left) => {
      let most = 0;
      for (const [count, own, right] of options) {
        if (count <= left) most = Math.max(most, own + right * below[left - count]);
      }
      return most;
    });
  }
  return gain.map((share) => 1 - share);
}

/** `theory.nonadaptive_closed_form_bound`: Σ_k a_k² exp(−M v_k/τ²). */
export function closedFormBounds(levels, decay, noiseVar) {
  const [energy, v] = [shares(levels, decay), variances(levels, decay)];
  return Array.from({ length: 2 ** levels }, (_, budget) =>
    energy.reduce((sum, share, k) => sum + share * Math.exp((-budget * v[k]) / noiseVar), 0),
  );
}

/** γ = ln(1/α)/ln(2/α), `theory.nonadaptive_exponent`. */
export function nonadaptiveExponent(decay) {
  return Math.log(decay) / Math.log(decay / 2);
}

/** log2(1/α), `theory.linear_exponent`. */
export function linearExponent(decay) {
  return -Math.log2(decay);
}
