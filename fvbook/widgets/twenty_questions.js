import { adopt, button, canvas, change, choice, description, follow, html, slider, still } from "./lib/ui.js";
import { signed } from "./lib/text.js";
import { code, locate, mean, reach, risk, shares } from "./lib/tree.js";
import { inChunks } from "./lib/chunks.js";
import { drawGame, followSigns, inOrder, manyGames, play } from "./lib/game.js";
import { NAMES, fillTable, lossPlot, percent, questionTree, small } from "./lib/game_drawing.js";

const GAMES = 400;
const PAUSE = 900; // ms between two questions of a strategy that is watched
const TRAITS = ["levels", "decay", "noise_var", "budget", "seed", "asked", "player"];

/** The game as the state of the widget has it. */
function gameOf(model) {
  const [levels, decay, noiseVar, most, seed, , player] = TRAITS.map((name) => model.get(name));
  const dim = 2 ** levels - 1;
  const energy = shares(levels, decay);
  const { leaf, answers } = drawGame(energy, noiseVar, seed);
  const budget = Math.min(most, dim);
  const asked = [...new Set(model.get("asked"))].filter((node) => node >= 0 && node < dim).slice(0, budget);
  const over = asked.length === budget;
  const open = player === "you" && !over;
  return { levels, dim, energy, noiseVar, leaf, answers, budget, seed, asked, player, over, open };
}

/** The run of each player that is to be seen: the reader, whoever is watched and, when the game is over, all. */
function runsOf({ energy, noiseVar, answers, asked, budget, player, over }, step) {
  const reader = (_, __, nodes) => asked[nodes.length];
  const seen = {};
  for (const [name, choose] of Object.entries({ you: reader, adaptive: followSigns, fixed: inOrder })) {
    if (name !== "you" && name !== player && !over) continue;
    const shown = name === player ? step : budget;
    const { nodes, beliefs } = play(energy, noiseVar, answers, choose, name === "you" ? asked.length : shown);
    seen[name] = { nodes, belief: beliefs.at(-1), losses: beliefs.map((belief) => risk(energy, belief)) };
  }
  return seen;
}

/** |θ − θ̂|² of each run. */
function errorsOf({ energy, leaf }, seen) {
  const theta = code(energy, leaf);
  const error = ({ belief }) => mean(energy, belief).reduce((sum, entry, n) => sum + (entry - theta[n]) ** 2, 0);
  return Object.fromEntries(Object.entries(seen).map(([player, run]) => [player, error(run)]));
}

function promptOf({ player, over, asked, budget }) {
  if (player === "adaptive") return "Adaptive: each answer says where next.";
  if (player === "fixed") return "Fixed list: 0, 1, 2, … whatever it hears.";
  if (over) return "The hidden path is violet. Now watch the other players.";
  return `Question ${asked.length + 1} of ${budget}: choose a node.`;
}

function rulesOf({ energy }) {
  const [top, bottom] = [energy[0], energy.at(-1)].map((share) => Math.sqrt(share).toFixed(2));
  return (
    "A node answers +a if the hidden path turns left there, −a if it turns right, 0 if it does not come by, " +
    `and always with noise. (a is ${top} at the top, ${bottom} at the bottom.)`
  );
}

/** What is believed of a node: that the path turns left there, turns right there, or does not come by. */
function verdict(belief, node) {
  const [row, index] = locate(node);
  const [left, right] = reach(belief)[row + 1].slice(2 * index, 2 * index + 2);
  const views = [
    [left, "the path turns left there"],
    [right, "the path turns right there"],
    [1 - left - right, "the path is elsewhere"],
  ];
  const [chance, view] = views.sort((a, b) => b[0] - a[0])[0];
  return `${view} (${percent(chance)})`;
}

function wordsOf({ player, answers, budget, over }, seen, errors) {
  const { nodes, losses, belief } = seen[player];
  const loss = small(losses.at(-1));
  if (over && player === "you") {
    const [adaptive, fixed] = [seen.adaptive, seen.fixed].map((run) => small(run.losses.at(-1)));
    return (
      `After ${budget} questions you expect a loss of ${loss}; your actual error is ${small(errors.you)}. ` +
      `With the same answers the adaptive player expects ${adaptive}, the fixed list ${fixed}.`
    );
  }
  if (nodes.length === 0) return "Nothing asked yet: every leaf is equally likely, the expected loss is 1.";
  const last = nodes.at(-1);
  return (
    `Node ${last} answered ${signed(answers[last])}: ${verdict(belief, last)}. ` +
    `Expected loss ${loss} after ${nodes.length} of ${budget} questions.`
  );
}

function meansInWords({ adaptive, fixed }, budget) {
  const enough = fixed.findIndex((loss) => loss < adaptive[budget] + 0.005);
  return (
    `On average the adaptive player loses ${small(adaptive[budget])} with ${budget} questions, ` +
    `the fixed list ${small(fixed[budget])}. The list needs ${enough} questions to lose as little.`
  );
}

function render({ model, el }) {
  adopt(el, "fv-twenty");
  const newGame = (values) => change(model, { asked: [], player: "you", ...values });
  const head = html("div", { class: "fv-head" }, el);
  const prompt = html("p", { class: "fv-prompt" }, head);
  const again = button("New game", () => newGame({ seed: model.get("seed") + 1 }), head);
  const rules = html("p", { class: "fv-small" }, el);
  const who = choice("Player:", Object.entries(NAMES), (player) => change(model, { player }), el);
  const stage = html("div", {}, el);
  html("p", { class: "fv-small" }, el, "Lines and bars: how likely the path is. Discs: the estimate θ̂.");
  const words = html("div", {}, el);
  const plot = canvas(1, 1, el);
  plot.setAttribute("aria-label", "Expected loss against the number of questions");
  html("p", { class: "fv-small" }, el, `Lines: mean of ${GAMES} games. Dots: this game. Dashed: without noise.`);
  const sayMeans = description(plot, el);
  const table = html("table", {}, el);
  const decimals = (x) => x.toFixed(2);
  const levels = slider({ label: "levels K", min: 2, max: 5 }, (K) => newGame({ levels: K, budget: K }), el);
  const decay = slider(
    { label: "decay α", min: 0.3, max: 0.95, step: 0.05, show: decimals },
    (alpha) => change(model, { decay: alpha }),
    el,
  );
  const noise = slider(
    { label: "noise τ", min: 0.05, max: 0.6, step: 0.05, show: decimals },
    (tau) => change(model, { noise_var: tau ** 2 }),
    el,
  );

  let size = ""; // of what is drawn: levels and width
  let tree = null;
  let curves = null;
  let say = null;
  let watched = null; // whom, in which game
  let step = 0; // how many of its questions are shown
  let timer = 0;
  let averaged = ""; // the settings of the means
  let dropGames = () => {};

  function ask(node) {
    const { open, asked } = gameOf(model);
    if (open && !asked.includes(node)) change(model, { asked: [...asked, node] });
  }

  const widthNow = () => Math.round(Math.min(Math.max(el.clientWidth, 280), 640));

  function build(game) {
    const wanted = `${game.levels} ${widthNow()}`;
    if (wanted === size) return;
    size = wanted;
    stage.replaceChildren();
    words.replaceChildren();
    tree = questionTree(game.levels, widthNow(), ask, stage);
    say = description(tree.drawing, words);
    curves = lossPlot(plot, game.dim, widthNow());
    averaged = "";
  }

  /** A strategy that comes on plays from the start, one question after another. */
  function watch({ player, seed, levels: K, budget }) {
    const now = [player, seed, K, budget].join();
    if (now === watched) return;
    const first = watched === null;
    watched = now;
    clearTimeout(timer);
    step = budget;
    if (first || player === "you" || still()) return;
    step = 0;
    timer = setTimeout(function forward() {
      step += 1;
      if (step < budget) timer = setTimeout(forward, PAUSE);
      draw();
    }, PAUSE / 2);
  }

  /** Plays many games with these settings, a few at a time, and draws how the means form. */
  function average({ energy, noiseVar, budget }) {
    const now = [...energy, noiseVar, budget].join();
    if (now === averaged) return;
    averaged = now;
    dropGames();
    const next = manyGames(energy, noiseVar, 1);
    let found = null;
    const one = () => {
      found = next();
      if (found.games % 20 === 0) curves.means(found);
    };
    dropGames = inChunks(GAMES, one, () => sayMeans(meansInWords(found, budget)), 3);
  }

  function draw() {
    const game = gameOf(model);
    build(game);
    watch(game);
    const { energy, answers, asked, budget, over, player, leaf } = game;
    const seen = runsOf(game, step);
    const errors = over ? errorsOf(game, seen) : null;
    levels.set(game.levels);
    decay.set(model.get("decay"));
    noise.set(Math.sqrt(game.noiseVar));
    who.set(player);
    again.classList.toggle("fv-next", over);
    prompt.textContent = promptOf(game);
    rules.textContent = rulesOf(game);
    tree.draw({ ...game, ...seen[player], leaf: over ? leaf : null });
    curves.game({ energy, budget, seen });
    fillTable(table, { budget, answers, seen, errors });
    const done = player === "you" || step === budget;
    say(done ? wordsOf(game, seen, errors) : `The player “${NAMES[player]}” asks its questions.`);
    average(game);

    const outcomes = asked.map((node) => answers[node]);
    if (outcomes.join() !== model.get("outcomes").join()) change(model, { outcomes });
  }

  const stop = follow(model, TRAITS, draw);
  const resized = new ResizeObserver(() => {
    if (el.clientWidth && !size.endsWith(` ${widthNow()}`)) draw();
  });
  resized.observe(el);
  return () => {
    stop();
    resized.disconnect();
    clearTimeout(timer);
    dropGames();
  };
}

export default { render };
