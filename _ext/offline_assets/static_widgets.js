/* Draws the anywidgets of a page from the state saved with the notebook, without a kernel.
 *
 * The state is what the page's scripts of that type hold. One with `data-src` names a script instead that puts it
 * into `window.widgetState`; that is loaded when the first widget is less than a screen away from view.
 * Supported: widgets whose model is anywidget's `AnyModel`. The module in `_esm` may export
 * `default` (an object, or a function that returns one) with `initialize` and `render`, or a bare
 * `render`; `_css` is applied once per widget class. `render` receives
 *   el      an empty <div> in the place of the cell's output;
 *   model   get(name), set(name, value) or set({name: value}), save_changes(), on, off, once for
 *           "change" and "change:name" (several, divided by spaces), send (does nothing);
 *   signal  an AbortSignal that is never aborted;
 *   experimental.invoke  always rejected, as there is nobody to answer.
 * Binary traits arrive as DataViews, as in Jupyter. Two outputs of the same model share it.
 * Not supported: any other widget (`interact`, sliders, boxes) and references to other models.
 * In their place the page says that they need a kernel.
 */
(() => {
  "use strict";
  const STATE = 'script[type="application/vnd.jupyter.widget-state+json"]';
  const VIEW = 'script[type="application/vnd.jupyter.widget-view+json"]';
  const styled = new Set();

  function decodeBuffers(state, buffers) {
    for (const { path, data, encoding } of buffers || []) {
      const text = encoding === "hex"
        ? data.match(/../g).map((pair) => String.fromCharCode(parseInt(pair, 16))).join("")
        : atob(data);
      const bytes = Uint8Array.from(text, (char) => char.charCodeAt(0));
      const parent = path.slice(0, -1).reduce((node, key) => node[key], state);
      parent[path[path.length - 1]] = new DataView(bytes.buffer);
    }
    return state;
  }

  function makeModel(state) {
    const listeners = [];
    const emit = (name, ...args) => listeners
      .filter((listener) => listener.name === name)
      .forEach((listener) => listener.callback(...args));
    const model = {
      get: (name) => state[name],
      set(name, value) {
        const values = typeof name === "object" ? name : { [name]: value };
        const changed = Object.keys(values).filter((key) => state[key] !== values[key]);
        Object.assign(state, values);
        changed.forEach((key) => emit(`change:${key}`, model, state[key]));
        if (changed.length) emit("change", model);
      },
      save_changes() {},
      send() {},
      on(names, callback) {
        names.split(/\s+/).forEach((name) => listeners.push({ name, callback }));
      },
      off(names, callback) {
        const wanted = names ? names.split(/\s+/) : null;
        for (let i = listeners.length - 1; i >= 0; i -= 1) {
          const { name, callback: own } = listeners[i];
          if ((!wanted || wanted.includes(name)) && (!callback || callback === own)) {
            listeners.splice(i, 1);
          }
        }
      },
      once(names, callback) {
        const only = (...args) => { model.off(names, only); callback(...args); };
        model.on(names, only);
      },
    };
    return model;
  }

  function applyCss(state) {
    const key = state._anywidget_id || state._css;
    if (!state._css || styled.has(key)) return;
    styled.add(key);
    const style = document.createElement("style");
    style.textContent = state._css;
    document.head.append(style);
  }

  async function load(entry) {
    const state = decodeBuffers(entry.state, entry.buffers);
    const url = URL.createObjectURL(new Blob([state._esm], { type: "text/javascript" }));
    const module = await import(url);
    URL.revokeObjectURL(url);
    let widget = module.default ?? { render: module.render };
    if (typeof widget === "function") widget = await widget();
    const extras = {
      model: makeModel(state),
      signal: new AbortController().signal,
      experimental: { invoke: () => Promise.reject(new Error("no kernel on a static page")) },
    };
    applyCss(state);
    await widget.initialize?.(extras);
    return { model: extras.model, render: (el) => widget.render?.({ ...extras, el }) };
  }

  /** Resolves when one of these places is less than a screen away from view, or when `drawWidgets` is called. */
  function wanted(places) {
    return new Promise((resolve) => {
      const look = (seen) => seen.some(({ isIntersecting }) => isIntersecting) && resolve();
      const watch = new IntersectionObserver(look, { rootMargin: "100%" });
      places.forEach(({ el }) => watch.observe(el));
      window.drawWidgets = resolve;
    });
  }

  function run(src) {
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      Object.assign(script, { src, onload: resolve, onerror: reject });
      document.head.append(script);
    });
  }

  async function readStates() {
    const entries = {};
    for (const { dataset: { src }, textContent } of document.querySelectorAll(STATE)) {
      if (src) await run(src);
      Object.assign(entries, (src ? window.widgetState : JSON.parse(textContent)).state);
    }
    return entries;
  }

  async function main() {
    const places = [...document.querySelectorAll(VIEW)].map((script) => {
      const el = document.createElement("div");
      el.className = "fvbook-widget";
      script.replaceWith(el);
      return { el, id: JSON.parse(script.textContent).model_id };
    });
    if (document.querySelector(`${STATE}[data-src]`)) await wanted(places);
    const entries = await readStates();
    const loaded = new Map();
    for (const { el, id } of places) {
      const entry = entries[id];
      if (!entry || entry.model_name !== "AnyModel") {
        el.className = "fvbook-needs-kernel";
        el.textContent = "This control needs a running kernel: open the chapter on Binder, on "
          + "Colab or in Jupyter.";
        continue;
      }
      if (!loaded.has(id)) loaded.set(id, load(entry));
      const { model, render } = await loaded.get(id);
      el.model = model; // for whoever wants to read or set the state from outside
      await render(el);
      el.dataset.ready = "true";
    }
  }

  if (document.readyState === "complete") main();
  else document.addEventListener("DOMContentLoaded", main); // after all deferred scripts
})();
