// Work in small pieces, between the frames that the reader sees.

/** Calls step(i) for i = 0..count−1, at most `slice` milliseconds at a time when the page is idle, then done().
 *
 * Returns a function that drops what is left.
 */
export function inChunks(count, step, done, slice = 3) {
  let [next, waiting] = [0, null];
  const idle = typeof requestIdleCallback === "function";
  const later = () => {
    waiting = idle ? requestIdleCallback(work, { timeout: 100 }) : setTimeout(work);
  };
  function work() {
    const end = performance.now() + slice;
    while (next < count && performance.now() < end) {
      step(next);
      next += 1;
    }
    if (next < count) later();
    else done();
  }
  later();
  return () => (idle ? cancelIdleCallback(waiting) : clearTimeout(waiting));
}
