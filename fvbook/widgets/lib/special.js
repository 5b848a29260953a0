// Special functions in float64.

/** The error function, 2/√π e^(−x²) Σ_n 2^n x^(2n+1) / (1·3·…·(2n+1)), whose terms have one sign. */
export function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let odd = 3; Math.abs(term) > 1e-17 * Math.abs(sum); odd += 2) {
    term *= (2 * x * x) / odd;
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

/** log(e^x K_ν(x)), x > 0, by the trapezoidal rule for K_ν(x) = ½ ∫ exp(ν v − x cosh v) dv. */
export function logScaledBesselK(order, x) {
  const peak = Math.asinh(order / x); // of the integrand
  const width = (order ** 2 + x ** 2 + 1) ** -0.25;
  const exponent = (v) => order * v - 2 * x * Math.sinh(v / 2) ** 2; // + x
  const top = exponent(peak);
  let total = 0;
  for (let step = -12; step <= 12; step += 0.5) total += Math.exp(exponent(peak + step * width) - top);
  return top + Math.log((total * width) / 4);
}
