// The lower bounds of fvbook.theory: what no strategy, and what no fixed keys, can do. Each is a small convex
// programme over the levels, solved by Newton's method and certified by its linearisation.

import { shares } from "./tree.js";
import { variances } from "./theory.js";
import { dot } from "./vectors.js";

// The trapezoidal rule for m(ρ) = E exp(−ρ(1 + S²)/2), S of density ½ sech(πs/2), as in fvbook._bounds.
const STEP = 0.2;
const WEIGHTS = Array.from({ length: 121 }, (_, i) => STEP / (i ? 1 : 2) / Math.cosh((Math.PI / 2) * STEP * i));

/** m(ρ) of `theory.binary_mmse`, with its first two derivatives. */
export function binaryMmse(rho) {
  const squared = Math.exp(-rho * STEP * STEP);
  let factor = Math.exp((-rho * STEP * STEP) / 2); // from one term exp(−ρ s²/2) to the next
  let term = Math.exp(-rho / 2);
  let [value, slope, bend] = [0, 0, 0];
  for (let i = 0; i < WEIGHTS.length; i += 1) {
    const part = WEIGHTS[i] * term;
    const rate = (1 + (STEP * i) ** 2) / 2;
    value += part;
    slope -= rate * part;
    bend += rate * rate * part;
    if (rate * rate * part < 1e-17 * bend) break;
    term *= factor;
    factor *= squared;
  }
  return [value, slope, bend];
}

/** ψ(ρ) = 1/cosh² t with t tanh t = ρ, the least error of a sign read sequentially, with two derivatives. */
export function sequentialMmse(rho) {
  if (rho < 1e-8) return [1 - rho, -1 + (2 * rho) / 3, 2 / 3];
  let t = (rho + Math.sqrt(rho * rho + 4 * rho)) / 2; // above the root
  for (let i = 0; i < 30; i += 1) {
    const u = Math.tanh(t);
    const step = (t * u - rho) / (u + t * (1 - u * u));
    t = Math.max(t - step, Math.sqrt(rho), rho);
    if (Math.abs(step) < 1e-15 * t) break;
  }
  const u = Math.tanh(t);
  const value = 1 / Math.cosh(t) ** 2;
  const w = (t * value) / u;
  const wSlope = value / u - 2 * t * value - (t * value * value) / (u * u);
  const bend = (4 * u * value * (1 + w) + 2 * value * wSlope) / (u * (1 + w) ** 3);
  return [value, (-2 * value) / (1 + w), bend];
}

/** Solves A x = b for several b, A symmetric and positive definite; null if it is not. */
function solve(matrix, sides) {
  const n = matrix.length;
  const lower = matrix.map((row) => row.slice());
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j <= i; j += 1) {
      let sum = matrix[i][j];
      for (let k = 0; k < j; k += 1) sum -= lower[i][k] * lower[j][k];
      if (i === j && !(sum > 0)) return null;
      lower[i][j] = i === j ? Math.sqrt(sum) : sum / lower[j][j];
    }
  }
  return sides.map((side) => {
    const x = side.slice();
    for (let i = 0; i < n; i += 1) {
      for (let k = 0; k < i; k += 1) x[i] -= lower[i][k] * x[k];
      x[i] /= lower[i][i];
    }
    for (let i = n - 1; i >= 0; i -= 1) {
      for (let k = i + 1; k < n; k += 1) x[i] -= lower[k][i] * x[k];
      x[i] /= lower[i][i];
    }
    return x;
  });
}

const NOTHING = 1e-14; // a bound below it is none

/** min Σ_k a_k² f(ρ_k(P)) over ΣP = budget, 0 ≤ P_j ≤ most_j, ρ_k = (P_k v_k + ½ Σ_{j>k} P_j v_j)/τ².
 *
 * Newton's method on the logarithm of the sum, with a barrier −μ ln P_j − μ ln(most_j − P_j) at the ends, μ → 0.
 * The value returned is the minimum of the tangent plane at the point found: a lower bound in any case.
 */
function leastEnergyLoss(levels, decay, budget, noiseVar, curve, most) {
  const energy = shares(levels, decay);
  const v = variances(levels, decay).map((variance) => variance / noiseVar);

  function look(power) {
    let below = 0;
    const rho = new Array(levels);
    for (let k = levels - 1; k >= 0; k -= 1) {
      rho[k] = power[k] * v[k] + below;
      below += (power[k] * v[k]) / 2;
    }
    const at = rho.map(curve);
    return { at, total: at.reduce((sum, [value], k) => sum + energy[k] * value, 0) };
  }

  function derivatives({ at, total }) {
    const gradient = new Array(levels);
    const hessian = Array.from({ length: levels }, () => new Array(levels));
    let [slopes, bends] = [0, 0]; // of the levels above, whose ρ holds half of P_j v_j
    for (let j = 0; j < levels; j += 1) {
      const [slope, bend] = [energy[j] * at[j][1], energy[j] * at[j][2]];
      gradient[j] = (v[j] * (slope + slopes / 2)) / total;
      hessian[j][j] = (v[j] * v[j] * (bend + bends / 4)) / total;
      for (let i = j + 1; i < levels; i += 1) {
        hessian[i][j] = (v[i] * v[j] * (bend / 2 + bends / 4)) / total;
        hessian[j][i] = hessian[i][j];
      }
      slopes += slope;
      bends += bend;
    }
    return { gradient, hessian };
  }

  /** How far the tangent plane at `power` falls below the value there, in units of it: greedily. */
  function depth(power, gradient) {
    let [left, lowest] = [budget, 0];
    for (const j of gradient.map((_, level) => level).sort((i, k) => gradient[i] - gradient[k])) {
      const spent = Math.min(left, most[j]);
      lowest += gradient[j] * spent;
      left -= spent;
    }
    return dot(gradient, power) - lowest;
  }

  const room = most.reduce((sum, entry) => sum + entry, 0);
  let power = most.map((entry) => (entry * budget) / room);
  let here = look(power);
  if (budget >= room || levels === 1) return here.total;
  const merit = (point, { total }, mu) =>
    point.reduce((sum, p, j) => sum - mu * Math.log(p * (most[j] - p)), Math.log(total));
  let mu = 0.1;
  let low = power.map((p) => mu / p); // the prices of the ends P_j ≥ 0 and P_j ≤ most_j
  let high = power.map((p, j) => mu / (most[j] - p));
  for (let step = 0; step < 200; step += 1) {
    if (here.total < NOTHING) return 0;
    const { gradient, hessian } = derivatives(here);
    const gap = depth(power, gradient);
    if (gap < 1e-8) return here.total * (1 - gap);
    const inward = power.map((p, j) => gradient[j] - mu / p + mu / (most[j] - p));
    const bent = (share) =>
      hessian.map((row, i) =>
        row.map((entry, j) => {
          const ends = i === j ? low[i] / power[i] + high[i] / (most[i] - power[i]) : 0;
          return entry - share * gradient[i] * gradient[j] + ends;
        }),
      );
    const sides = [inward, new Array(levels).fill(1)];
    const [first, second] = solve(bent(1), sides) ?? solve(bent(0), sides); // the logarithm may not be convex
    const price = first.reduce((sum, x) => sum + x, 0) / second.reduce((sum, x) => sum + x, 0);
    const way = first.map((x, j) => price * second[j] - x);
    const descent = dot(inward, way);
    let length = 1;
    way.forEach((x, j) => {
      length = Math.min(length, 0.99 * (x < 0 ? power[j] / -x : (most[j] - power[j]) / x));
    });
    const before = merit(power, here, mu);
    for (let tries = 0; ; tries += 1, length /= 2) {
      const next = power.map((p, j) => p + length * way[j]);
      const there = look(next);
      if (tries < 30 && !(merit(next, there, mu) <= before + 0.01 * length * descent + 1e-13)) continue;
      low = low.map((z, j) => Math.max(z + length * (mu / power[j] - z - (z / power[j]) * way[j]), 0.01 * z));
      high = high.map((z, j) => {
        const left = most[j] - power[j];
        return Math.max(z + length * (mu / left - z + (z / left) * way[j]), 0.01 * z);
      });
      [power, here] = [next, there];
      break;
    }
    if (descent > -100 * mu) mu = Math.max(0.1 * mu, 1e-12);
  }
  return here.total * (1 - depth(power, derivatives(here).gradient));
}

/** The energy bound of fixed keys, before it is compared with other bounds. */
export function fixedEnergyBound(levels, decay, budget, noiseVar) {
  const most = Array.from({ length: levels }, (_, k) => 2 ** k);
  const least = leastEnergyLoss(levels, decay, budget, noiseVar, binaryMmse, most);
  const v = variances(levels, decay);
  return Math.max(least, dot(shares(levels, decay), v.map((x) => Math.exp((-budget * x) / noiseVar))));
}

/** The energy bound of all strategies: an answer aims the later keys no better than by the factor Λ. */
export function adaptiveEnergyBound(levels, decay, budget, noiseVar) {
  const leak = 1 + Math.sqrt((1 + shares(levels, decay)[0]) / (Math.PI * noiseVar));
  const last = variances(levels, decay)[levels - 1];
  let effective = 0;
  for (let i = 0; i < budget; i += 1) {
    effective = 1 + leak * effective;
    if (effective * last > 50 * noiseVar) return 0;
  }
  const most = new Array(levels).fill(effective);
  return leastEnergyLoss(levels, decay, effective, noiseVar, sequentialMmse, most);
}

/** The bits known about a sign whose log odds are ±2t. */
function bitsOf(t) {
  if (t > 350) return 1;
  const e = Math.exp(-2 * t);
  return 1 - ((2 * t * e) / (1 + e) + Math.log1p(e)) / Math.LN2;
}

/** t where tanh(t)/t = ratio, 0 where ratio ≥ 1. */
function oddsAt(ratio) {
  if (ratio >= 1 - 1e-15) return 0;
  const gap = 1 / ratio - 1;
  let t = gap < 2.5 ? Math.sqrt((3 * gap) / (1 - gap / 5)) : 1 / ratio; // above the root
  for (let i = 0; i < 20; i += 1) {
    const u = Math.tanh(t);
    const step = (u - ratio * t) / (1 - u * u - ratio);
    t -= step;
    if (!(step > 1e-12 * t)) break; // Newton's steps descend to the root
  }
  return t;
}

/** The root of a decreasing function with f(low) > 0 > f(high): regula falsi, the Illinois way. */
function rootBetween(f, low, high, fLow, fHigh) {
  for (let i = 0, side = 0; i < 100 && high - low > 1e-14 * high; i += 1) {
    const x = i % 8 === 7 ? (low + high) / 2 : (low * fHigh - high * fLow) / (fHigh - fLow);
    const value = f(x);
    if (value > 0) {
      [low, fLow, fHigh] = [x, value, side === 1 ? fHigh / 2 : fHigh];
      side = 1;
    } else {
      [high, fHigh, fLow] = [x, value, side === -1 ? fLow / 2 : fLow];
      side = -1;
    }
    if (Math.abs(value) < 1e-12) return x;
  }
  return low;
}

/** The information bound: the least Σ_k a_k² e_k that the channel allows, see `theory.lower_bound`. */
export function informationBound(levels, decay, budget, noiseVar) {
  const energy = shares(levels, decay);
  const odds = new Array(levels); // t_k of each level's sign, e_k = 1/cosh² t_k
  let tail = 0;
  for (let level = levels - 1; level >= 0; level -= 1) {
    tail += energy[level];
    odds[level] = Math.acosh(1 / Math.sqrt(binaryMmse((energy[level] + tail) / (2 * noiseVar))[0]));
    const allowed = budget ? ((budget / 2) * Math.log1p(tail / (budget * noiseVar))) / Math.LN2 : 0;
    const bits = (known) => known.reduce((sum, t) => sum + bitsOf(t), 0);
    const below = odds.slice(level);
    const spent = bits(below) - allowed;
    if (spent <= 0) continue;
    const at = (price) => below.map((t, i) => Math.min(t, oddsAt((price * energy[level]) / energy[level + i])));
    const price = rootBetween((x) => bits(at(x)) - allowed, 0, 1, spent, -allowed);
    odds.splice(level, below.length, ...at(price));
  }
  return energy.reduce((sum, share, k) => sum + share / Math.cosh(odds[k]) ** 2, 0);
}

/** Both bounds at one budget M ≥ 1: { any, fixed } as `theory.lower_bound`, `theory.nonadaptive_lower_bound`. */
export function lowerBounds(levels, decay, budget, noiseVar) {
  const fixed = fixedEnergyBound(levels, decay, budget, noiseVar);
  const any = Math.max(
    informationBound(levels, decay, budget, noiseVar),
    adaptiveEnergyBound(levels, decay, budget, noiseVar),
    budget === 1 ? fixed : 0,
  );
  return { any, fixed: Math.max(any, fixed) };
}
