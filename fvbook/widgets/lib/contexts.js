// Contexts of N tokens with label noise s: their moment b, and what numbers measured of it tell about the leaf.

import { chiSquared } from "./random.js";
import { logScaledBesselK } from "./special.js";
import { logNormalised, projections } from "./tree.js";
import { dot } from "./vectors.js";

/** The moment b of a context about θ, (D,), by its exact law, from normal numbers that `gauss` draws. */
export function sampleMoment(theta, nTokens, noiseStd, gauss) {
  const norm = Math.sqrt(dot(theta, theta));
  const u = theta.map((entry) => entry / norm);
  const rootU = Math.sqrt(chiSquared(nTokens, gauss));
  const w = chiSquared(nTokens - 1, gauss);
  const h = norm * rootU + noiseStd * gauss();
  const gAll = theta.map(() => gauss());
  const across = Math.sqrt(h ** 2 + noiseStd ** 2 * w) / nTokens;
  const along = (rootU * h) / nTokens - across * dot(gAll, u);
  return u.map((entry, i) => along * entry + across * gAll[i]);
}

/** The log posterior of the leaves, (2^K,), given Φ = K b, (M,), with keys (M, D), as in fvbook.inference. */
export function functionVectorLogPosterior(energy, keys, phi, nTokens, noiseStd) {
  const basis = []; // orthonormal, by Gram and Schmidt, twice for what rounding leaves
  const seen = []; // b in this basis
  keys.forEach((key, i) => {
    let [rest, answer] = [key, phi[i]];
    for (let time = 0; time < 2; time += 1) {
      basis.forEach((direction, j) => {
        const share = dot(rest, direction);
        rest = rest.map((entry, n) => entry - share * direction[n]);
        answer -= share * seen[j];
      });
    }
    const length = Math.sqrt(dot(rest, rest));
    basis.push(rest.map((entry) => entry / length));
    seen.push(answer / length);
  });
  const norm2 = dot(seen, seen);
  const order = (nTokens - seen.length) / 2;
  const coordinates = basis.map((direction) => projections(energy, direction));
  const logWeights = Array.from({ length: 2 ** energy.length }, (_, leaf) => {
    const c = coordinates.map((values) => values[leaf]);
    const t = dot(seen, c);
    const zeta = Math.max(1 + noiseStd ** 2 - dot(c, c), 8 * Number.EPSILON);
    const r = Math.sqrt(zeta * norm2 + t ** 2);
    const shift = t > 0 ? -norm2 / (t + r) : (t - r) / zeta; // (t − r)/ζ without cancellation
    const bessel = logScaledBesselK(order, (nTokens * r) / zeta);
    return nTokens * shift - Math.log(zeta) / 2 + order * Math.log(r) + bessel;
  });
  return logNormalised(logWeights);
}
