// Parts of a drawing that one drags.

import { svg } from "./ui.js";

/** A group to drag, which is a slider to keyboard and screen reader: draw into its `group`.
 *
 * `read()` is its value, `at(x, y)` that for a pointer there, in units of the drawing; `pick(value)` hears the
 * reader, who may go beyond the range. Returns { group, set(value) }.
 */
export function handle({ label, min, max, step, show = String, read, at }, pick, parent) {
  const group = svg("g", { role: "slider", tabindex: 0, class: "fv-handle", "aria-label": label }, parent);
  group.setAttribute("aria-valuemin", min);
  group.setAttribute("aria-valuemax", max);
  let grip = null; // by how much the value exceeds that of the place where it was seized

  const under = ({ clientX, clientY }) => {
    const toDrawing = group.ownerSVGElement.getScreenCTM().inverse();
    const { x, y } = new DOMPoint(clientX, clientY).matrixTransform(toDrawing);
    return at(x, y);
  };
  group.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    group.setPointerCapture(event.pointerId);
    grip = read() - under(event);
  });
  // not to scroll: inside a drawing Chromium does not heed `touch-action`
  group.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
  group.addEventListener("pointermove", (event) => {
    if (grip !== null) pick(under(event) + grip);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    group.addEventListener(end, () => {
      grip = null;
    });
  }
  group.addEventListener("keydown", (event) => {
    const value = read();
    const next = {
      ArrowRight: value + step,
      ArrowUp: value + step,
      ArrowLeft: value - step,
      ArrowDown: value - step,
      PageUp: value + 5 * step,
      PageDown: value - 5 * step,
      Home: min,
      End: max,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    pick(next);
  });
  return {
    group,
    set(value) {
      group.setAttribute("aria-valuenow", value);
      group.setAttribute("aria-valuetext", show(value));
    },
  };
}
