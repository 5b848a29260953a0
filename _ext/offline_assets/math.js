/* Typesets the mathematics of a page where the reader is, in small steps, so that the page answers meanwhile.
 *
 * A formula is typeset once it is in view and, from the reader's first move on, less than a screen away from it;
 * before printing, all that is left.
 * `typesetPage()` does the whole page at once and returns a promise. MathJax lies beside this file; it is loaded when the
 * first formula needs it, in parts for the same reason.
 */
(() => {
  "use strict";
  const STEP = 6; // milliseconds of work between two breaths
  const MOVES = ["keydown", "pointerdown", "pointermove", "scroll", "touchstart", "wheel"];
  const folder = new URL("mathjax/", document.currentScript.src).href;
  const formulas = new Set(document.querySelectorAll(".math")); // those left to do
  const near = new Set();
  let loaded = null;
  let working = null;

  const pause = () => new Promise((resolve) => setTimeout(resolve));

  function load() {
    window.MathJax = {
      ...window.MathJax,
      loader: {
        paths: { mathjax: folder },
        load: ["core", "input/tex", "output/chtml", "a11y/assistive-mml"],
      },
      startup: { typeset: false },
    };
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `${folder}startup.js`;
      script.onload = () => MathJax.startup.promise.then(resolve, reject);
      script.onerror = reject;
      document.head.append(script);
    });
  }

  function take(list, count) {
    const taken = [...list].slice(0, count);
    for (const formula of taken) {
      formulas.delete(formula);
      near.delete(formula);
      watch.unobserve(formula);
    }
    return taken;
  }

  /** Let the keyboard reach what scrolls inside its own box. */
  function markWide(list) {
    const boxes = list.flatMap((formula) => [...formula.querySelectorAll("mjx-container")]);
    const wide = boxes.filter((box) => box.scrollWidth > box.clientWidth + 1);
    wide.forEach((box) => { box.tabIndex = 0; });
  }

  async function typeset(list) {
    loaded ??= load();
    await loaded;
    while (list.size) {
      const end = performance.now() + STEP;
      const done = [];
      do {
        const some = take(list, 2);
        await MathJax.typesetPromise(some);
        done.push(...some);
      } while (list.size && performance.now() < end);
      markWide(done);
      await pause();
    }
  }

  function look(entries) {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting && formulas.has(target)) near.add(target);
      else near.delete(target);
    }
    if (near.size) working ??= typeset(near).finally(() => { working = null; });
  }

  let watch = new IntersectionObserver(look);
  formulas.forEach((formula) => watch.observe(formula));

  function lookAhead() {
    MOVES.forEach((move) => window.removeEventListener(move, lookAhead));
    watch.disconnect();
    watch = new IntersectionObserver(look, { rootMargin: "100%" });
    formulas.forEach((formula) => watch.observe(formula));
  }
  MOVES.forEach((move) => window.addEventListener(move, lookAhead, { passive: true }));

  window.typesetPage = async () => {
    if (!formulas.size) return working;
    loaded ??= load();
    await loaded;
    await working;
    const rest = take(formulas, formulas.size);
    await MathJax.typesetPromise(rest);
    markWide(rest);
  };
  window.addEventListener("beforeprint", () => {
    if (formulas.size) window.MathJax?.typeset?.(take(formulas, formulas.size));
  });
})();
