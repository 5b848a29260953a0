// Gaussian beliefs and linear measurements, as in fvbook.inference and fvbook.theory. A belief has a mean, (D,),
// and a covariance, (D, D).

import { dot } from "./vectors.js";

/** The belief after an outcome φ = k·θ + N(0, τ²): its covariance does not depend on φ. */
export function measured({ mean, covariance }, key, outcome, noiseVar) {
  const cross = covariance.map((row) => dot(row, key));
  const scale = 1 / (dot(cross, key) + noiseVar);
  const surprise = outcome - dot(key, mean);
  return {
    mean: mean.map((entry, i) => entry + cross[i] * scale * surprise),
    covariance: covariance.map((row, i) => row.map((entry, j) => entry - cross[i] * cross[j] * scale)),
  };
}

/** tr C, the loss of the belief's mean. */
export function spread(covariance) {
  return covariance.reduce((sum, row, i) => sum + row[i], 0);
}

/** The eigenvalues of a 2 × 2 covariance, largest first, and the angle of the first eigenvector, in (−π/2, π/2].
 *
 * The angle goes from the first axis to the second. Where both are equal it is `tied`.
 */
export function principal([[a, b], [, c]], tied = 0) {
  const radius = Math.hypot((a - c) / 2, b);
  const middle = (a + c) / 2;
  const angle = radius > 1e-9 * middle ? Math.atan2(2 * b, a - c) / 2 : tied;
  return { values: [middle + radius, Math.max(middle - radius, 0)], angle };
}

/** By how much the loss falls when a direction of this variance is measured, λ²/(λ + τ²); most for the largest. */
export function gain(variance, noiseVar) {
  return variance ** 2 / (variance + noiseVar);
}

/** The belief that points, (n, D), with these probabilities, (n,), add up to: their mean and covariance. */
export function moments(points, probabilities) {
  const weighted = (f) => points.reduce((sum, point, i) => sum + probabilities[i] * f(point), 0);
  const mean = points[0].map((_, i) => weighted((point) => point[i]));
  const covariance = mean.map((_, i) => mean.map((__, j) => weighted((x) => (x[i] - mean[i]) * (x[j] - mean[j]))));
  return { mean, covariance };
}
