// Random numbers from a seed: the same in every browser.

/** A generator of uniform numbers in [0, 1): mulberry32. */
export function uniform(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let z = Math.imul(state ^ (state >>> 15), state | 1);
    z = (z + Math.imul(z ^ (z >>> 7), z | 61)) ^ z;
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A generator of standard normal numbers (Box and Muller) from one of uniform numbers. */
export function normal(draw) {
  return () => Math.sqrt(-2 * Math.log(1 - draw())) * Math.cos(2 * Math.PI * draw());
}

/** A chi-squared number with n degrees of freedom. */
export function chiSquared(n, gauss) {
  let sum = 0;
  for (let i = 0; i < n; i += 1) sum += gauss() ** 2;
  return sum;
}
