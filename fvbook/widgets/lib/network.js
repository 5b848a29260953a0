// The constrained transformer of fvbook.models with one channel a layer and MLPs: the same parts under the same
// names, for one context, in float64.

import { erf } from "./special.js";
import { dot } from "./vectors.js";

const gelu = (x) => (x / 2) * (1 + erf(x / Math.SQRT2));

/** A network from its weights: a DataView of little-endian float32, in the order of `model.parameters()`. */
export function readModel(weights, { dim, layers, width }) {
  let at = 0;
  const next = () => weights.getFloat32(4 * at++, true);
  const vector = (n) => Array.from({ length: n }, next);
  const matrix = (rows, columns) => Array.from({ length: rows }, () => vector(columns));
  const linear = (nIn, nOut) => ({ weight: matrix(nOut, nIn), bias: vector(nOut) });
  const mlp = (nIn, nOut) => [linear(nIn, width), linear(width, width), linear(width, nOut)];
  const routers = Array.from({ length: layers }, (_, nIn) => ({
    constant: vector(dim),
    mlp: nIn ? mlp(nIn, dim) : null,
  }));
  return { routers, decoder: { linear: matrix(layers, dim), mlp: mlp(layers, dim) } };
}

function runMlp(layers, phi) {
  const linear = ({ weight, bias }, x) => weight.map((row, i) => dot(row, x) + bias[i]);
  const [first, second, last] = layers;
  return linear(last, linear(second, linear(first, phi).map(gelu)).map(gelu));
}

/** The key of a layer, (D,), from Φ, (ℓ,): a constant plus an MLP of Φ, scaled to unit norm. */
export function router({ constant, mlp }, phi) {
  let key = constant;
  if (mlp) {
    const nonlinear = runMlp(mlp, phi);
    key = key.map((entry, i) => entry + nonlinear[i]);
  }
  const norm = Math.max(Math.sqrt(dot(key, key)), 1e-12);
  return key.map((entry) => entry / norm);
}

/** θ̂, (D,), from Φ_L, (M,): a linear map plus an MLP. */
export function decoder({ linear, mlp }, phi) {
  const nonlinear = runMlp(mlp, phi);
  return nonlinear.map((entry, i) => linear.reduce((sum, row, j) => sum + row[i] * phi[j], entry));
}

/** What each layer does with the moment b, (D,): { keys, functionVector, thetaHat }.
 *
 * With a patch { layer, key } that layer, counted from 1, asks with this key instead of its own.
 */
export function trace(model, b, patch = null) {
  const phi = []; // Φ_0 is empty
  const keys = [];
  for (const part of model.routers) {
    const patched = patch?.layer === keys.length + 1;
    keys.push(patched ? patch.key : router(part, phi)); // the MLP chooses
    phi.push(dot(keys.at(-1), b)); // attention pools, and the workspace grows
  }
  return { keys, functionVector: phi, thetaHat: decoder(model.decoder, phi) };
}

/** The run on b in which a layer asks with the key that the moment of a donor makes there. */
export function patchKeys(model, b, donor, layer) {
  return trace(model, b, { layer, key: trace(model, donor).keys[layer - 1] });
}
