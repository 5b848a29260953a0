// Numbers in words.

/** A number with its sign and two decimals. */
export function signed(x) {
  return (x < 0 ? "−" : "+") + Math.abs(x).toFixed(2);
}
