// Vectors, as arrays of numbers.

/** a·b. */
export function dot(a, b) {
  return a.reduce((sum, entry, i) => sum + entry * b[i], 0);
}

/** |a − b|². */
export function squaredDistance(a, b) {
  return a.reduce((sum, entry, i) => sum + (entry - b[i]) ** 2, 0);
}
