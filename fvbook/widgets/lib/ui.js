// Elements of an explorable: controls that keyboard, touch and screen readers can use, and SVG.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, parent) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent?.append(element);
  return element;
}

/** An SVG element with these attributes, appended to the parent. */
export function svg(name, attributes = {}, parent = null) {
  return fill(document.createElementNS(SVG, name), attributes, parent);
}

/** An HTML element with this text and these attributes, appended to the parent. */
export function html(name, attributes = {}, parent = null, text = "") {
  const element = fill(document.createElement(name), attributes, parent);
  if (text) element.textContent = text;
  return element;
}

const OURS = new Set(["ArrowDown", "ArrowLeft", "ArrowRight", "ArrowUp", "End", "Enter", "Home", "PageDown", "PageUp", " "]);

/** Makes a page's element the place of an explorable, and keeps the keys of its controls from JupyterLab's shortcuts. */
export function adopt(element, name) {
  element.classList.add("fv", name);
  element.addEventListener("keydown", (event) => {
    if (OURS.has(event.key)) event.stopPropagation();
  });
}

/** A drawing of this size in its own units, as wide as the page allows; `describe` names it. */
export function canvas(width, height, parent) {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "fv-drawing" }, parent);
}

/** A polite live region below a drawing: the text alternative. `say` writes it there and names the drawing. */
export function description(drawing, parent) {
  const words = html("p", { "aria-live": "polite", class: "fv-words" }, parent);
  return function say(text) {
    if (words.textContent === text) return;
    words.textContent = text;
    drawing.setAttribute("aria-label", text);
  };
}

/** A labelled slider. `show(value)` is the text beside it. Returns { set(value) }; `pick(value)` hears the reader. */
export function slider({ label, min, max, step = 1, show = String }, pick, parent) {
  const row = html("label", { class: "fv-slider" }, parent);
  html("span", {}, row, label);
  const input = html("input", { type: "range", min, max, step }, row);
  const shown = html("output", {}, row);
  input.addEventListener("input", () => pick(Number(input.value)));
  return {
    set(value) {
      input.value = value;
      shown.textContent = show(value);
      input.setAttribute("aria-valuetext", show(value));
    },
  };
}

/** A button. Returns the element, to enable, disable and rename it. */
export function button(label, press, parent) {
  const element = html("button", { type: "button", class: "fv-button" }, parent, label);
  element.addEventListener("click", press);
  return element;
}

/** One of a few, as radio buttons: options are [value, label] pairs. Returns { set(value) }. */
export function choice(legend, options, pick, parent) {
  const field = html("fieldset", { class: "fv-choice" }, parent);
  html("legend", {}, field, legend);
  const group = `fv-choice-${Math.random()}`; // of its own among all widgets of a page
  const inputs = options.map(([value, label]) => {
    const row = html("label", {}, field);
    const input = html("input", { type: "radio", name: group, value }, row);
    html("span", {}, row, label);
    input.addEventListener("change", () => pick(value));
    return input;
  });
  return {
    set(value) {
      for (const input of inputs) input.checked = input.value === String(value);
    },
  };
}

/** Calls `draw` now and, at most once a frame, after any of these traits has changed. Returns a function that stops it. */
export function follow(model, names, draw) {
  let waiting = 0;
  const later = () => {
    waiting ||= requestAnimationFrame(() => {
      waiting = 0;
      draw();
    });
  };
  const events = names.map((name) => `change:${name}`).join(" ");
  model.on(events, later);
  draw();
  return () => {
    model.off(events, later);
    cancelAnimationFrame(waiting);
  };
}

/** Sets traits and tells the kernel, if there is one. */
export function change(model, values) {
  model.set(values);
  model.save_changes();
}

/** Whether the reader's system asks for no motion. */
export function still() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
