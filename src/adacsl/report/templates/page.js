// The script of every page: arithmetic of the explorers, figures, views and details.
//
// adacsl: two classes, the same as adacsl.costs and adacsl.thresholds: positive where score > threshold; every cut
// between two distinct scores is a candidate; of equally good thresholds the one nearest the target is taken.
"use strict";

const adacsl = (() => {
  const TIE_TOLERANCE = 1e-12;
  const SMALLEST_NORMAL = 1.1754943508222875e-38;
  const KINDS = { f4: Float32Array, f8: Float64Array, u1: Uint8Array, u2: Uint16Array };

  function bytes(text) {
    const raw = atob(text);
    const out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  }

  /** An array as it was written: {kind, data}, little-endian, in base64. */
  const decode = (packed) => new KINDS[packed.kind](bytes(packed.data).buffer);

  /** The next smaller number of the scores' own type, or a small negative one for zero. */
  function below(value, kind) {
    if (value <= 0) return -SMALLEST_NORMAL;
    const view = new DataView(new ArrayBuffer(8));
    if (kind === "f4") {
      view.setFloat32(0, value);
      view.setUint32(0, view.getUint32(0) - 1);
      return view.getFloat32(0);
    }
    view.setFloat64(0, value);
    view.setBigUint64(0, view.getBigUint64(0) - 1n);
    return view.getFloat64(0);
  }

  const onGrid = (value, kind) => (kind === "f4" ? Math.fround(value) : value);
  const priceOf = (price, i) => (typeof price === "number" ? price : price[i]);
  const mapPrice = (f, ...prices) =>
    prices.every((p) => typeof p === "number")
      ? f(...prices)
      : Float64Array.from(prices.find((p) => typeof p !== "number"), (_, i) => f(...prices.map((p) => priceOf(p, i))));

  /** Costs with another ratio: the cost of a false negative moves, that of a false positive stays. */
  function priced(sample, ratio, { fp, fn, tp, tn } = sample.costs) {
    const scaled = sample.ownCosts
      ? mapPrice((miss, hit) => hit + ratio * (miss - hit), fn, tp)
      : tp + ratio * (fp - tn);
    return { fp, fn: scaled, tp, tn };
  }

  /** Scores in rising order with what they bring along; done once for each method. */
  function prepare(sample) {
    const n = sample.scores.length;
    const order = Uint32Array.from({ length: n }, (_, i) => i).sort((a, b) => sample.scores[a] - sample.scores[b]);
    return { ...sample, n, order, rising: sample.scores.map((_, k) => sample.scores[order[k]]) };
  }

  /** Cost of predicting the first k = 0 .. n of the sorted samples negative. */
  function cuts(sample, costs) {
    const { n, order, labels, weights } = sample;
    const missed = new Float64Array(n + 1);
    const alarmed = new Float64Array(n + 1);
    let base = 0;
    if ([costs.fp, costs.fn, costs.tp, costs.tn].every((p) => typeof p === "number")) {
      const positives = new Float64Array(n + 1);
      for (let k = 0; k < n; k++) positives[k + 1] = positives[k] + labels[order[k]];
      const all = positives[n];
      const miss = (costs.fn - costs.tp) * weights[1];
      const alarm = (costs.fp - costs.tn) * weights[0];
      for (let k = 0; k <= n; k++) {
        missed[k] = positives[k] * miss;
        alarmed[k] = (n - k - (all - positives[k])) * alarm;
      }
      base = costs.tp * all * weights[1] + costs.tn * (n - all) * weights[0];
    } else {
      for (let k = 0; k < n; k++) {
        const i = order[k];
        const w = weights[labels[i]];
        missed[k + 1] = missed[k] + (labels[i] ? (priceOf(costs.fn, i) - priceOf(costs.tp, i)) * w : 0);
        base += (labels[i] ? priceOf(costs.tp, i) : priceOf(costs.tn, i)) * w;
      }
      for (let k = n - 1; k >= 0; k--) {
        const i = order[k];
        const extra = labels[i] ? 0 : (priceOf(costs.fp, i) - priceOf(costs.tn, i)) * weights[0];
        alarmed[k] = alarmed[k + 1] + extra;
      }
    }
    const total = missed.map((value, k) => value + alarmed[k]);
    return { total, base };
  }

  const isCut = (rising, k) => k === 0 || k === rising.length || rising[k - 1] !== rising[k];

  /** The cost-optimal threshold: {value, cost, low, high}, as find_threshold gives it. */
  function cheapest(sample, { total, base }, target = 0.5) {
    const { rising, n, kind } = sample;
    const goal = onGrid(target, kind);
    let least = Infinity;
    for (let k = 0; k <= n; k++) if (isCut(rising, k) && total[k] < least) least = total[k];
    const found = [];
    for (let k = 0; k <= n; k++) {
      if (isCut(rising, k) && total[k] <= least * (1 + TIE_TOLERANCE))
        found.push({ low: k === 0 ? 0 : rising[k - 1], high: k === n ? Infinity : rising[k], cost: total[k] });
    }
    const nearest = nearestInterval(found, goal);
    let [first, last] = [nearest, nearest];
    while (first > 0 && found[first - 1].high === found[first].low) first--;
    while (last < found.length - 1 && found[last].high === found[last + 1].low) last++;
    const { low, high, cost } = found[nearest];
    const value = low >= high || goal >= high ? below(high, kind) : Math.max(low, goal);
    return { value, cost: cost + base, low: Math.min(found[first].low, value), high: Math.min(found[last].high, 1) };
  }

  function nearestInterval(found, goal) {
    const under = found.filter(({ high }) => high <= goal).length;
    if (under === found.length) return under - 1;
    if (under === 0 || found[under].low <= goal) return under;
    return found[under].low - goal < goal - found[under - 1].high ? under : under - 1;
  }

  /** Counts and costs of predictions; decide(i) tells whether sample i is predicted positive. */
  function evaluate(sample, costs, decide) {
    const { n, labels, weights } = sample;
    const counts = { tp: 0, fn: 0, fp: 0, tn: 0 };
    const money = { tp: 0, fn: 0, fp: 0, tn: 0 };
    let [reduced, allPositive, allNegative, reducedPositive, reducedNegative] = [0, 0, 0, 0, 0];
    for (let i = 0; i < n; i++) {
      const w = weights[labels[i]];
      const called = decide(i);
      const cell = labels[i] ? (called ? "tp" : "fn") : called ? "fp" : "tn";
      const right = priceOf(labels[i] ? costs.tp : costs.tn, i);
      const wrong = priceOf(labels[i] ? costs.fn : costs.fp, i);
      counts[cell] += w;
      money[cell] += priceOf(costs[cell], i) * w;
      if (cell === "fn" || cell === "fp") reduced += (wrong - right) * w;
      if (labels[i]) {
        allPositive += right * w;
        allNegative += wrong * w;
        reducedNegative += (wrong - right) * w;
      } else {
        allPositive += wrong * w;
        allNegative += right * w;
        reducedPositive += (wrong - right) * w;
      }
    }
    const total = money.tp + money.fn + money.fp + money.tn;
    const best = Math.min(allPositive, allNegative);
    const scale = Math.min(reducedPositive, reducedNegative);
    return {
      counts,
      money,
      total,
      mean: total / (counts.tp + counts.fn + counts.fp + counts.tn),
      normalized: scale === 0 ? NaN : reduced / scale,
      savings: best === 0 ? NaN : (best - total) / Math.abs(best),
    };
  }

  /** The Bayes threshold of sample i: above it, positive has the lower expected cost. */
  function bayes(costs, i) {
    const alarm = priceOf(costs.fp, i) - priceOf(costs.tn, i);
    const miss = priceOf(costs.fn, i) - priceOf(costs.tp, i);
    return alarm + miss === 0 ? 1 : alarm / (alarm + miss);
  }

  /** Everything the explorer shows at one ratio and threshold (null: as the method predicted, with its own thresholds). */
  function explore(sample, ratio, threshold = null) {
    const costs = priced(sample, ratio);
    const known = sample.known ? priced(sample, ratio, sample.known) : costs; // at prediction time
    const curve = cuts(sample, costs);
    const best = cheapest(sample, curve);
    const above = (value) => (i) => sample.scores[i] > value;
    const decided = evaluate(sample, costs, (i) => sample.decisions[i] === 1);
    return {
      threshold,
      costs,
      curve,
      cheapest: best,
      bayes: sample.ownCosts ? null : bayes(costs, 0),
      chosen: threshold === null ? decided : evaluate(sample, costs, above(threshold)),
      best: evaluate(sample, costs, above(best.value)),
      trusted: evaluate(sample, costs, (i) => sample.scores[i] > bayes(known, i)),
      decided,
    };
  }

  /** Whole numbers in the proportions of some amounts that add up to a total, as report/apportionment.py rounds them. */
  function whole(amounts, last) {
    const sum = amounts.reduce((a, b) => a + b, 0);
    const total = Math.round(sum);
    const tidy = (value) => Math.round(value * 1e9) / 1e9;
    const exact = amounts.map((amount) => (sum > 0 ? tidy((amount * total) / sum) : 0));
    const found = exact.map(Math.floor);
    const rest = exact.map((value, i) => tidy(value - found[i]));
    const order = [...amounts.keys()].sort((a, b) => rest[b] - rest[a] || (a === last) - (b === last) || a - b);
    for (const i of order.slice(0, total - found.reduce((a, b) => a + b, 0))) found[i] += 1;
    return found;
  }

  return { decode, bytes, prepare, explore, isCut, whole };
})();

// adacslClasses: more than two classes (the class of least expected cost, the lower one of equals), and their explorer.

const adacslClasses = (() => {
  const kept = new WeakMap();

  /** Expected cost of each prediction, sample by sample; a slider changes the costs of one prediction only. */
  function expected(sample, matrix) {
    const { n, scores } = sample;
    const k = matrix[0].length;
    if (!kept.has(sample)) kept.set(sample, []);
    const known = kept.get(sample);
    matrix.forEach((prices, i) => {
      if (known[i] && known[i].prices.every((price, j) => price === prices[j])) return;
      const costs = new Float64Array(n);
      for (let row = 0, at = 0; row < n; row++, at += k) {
        let cost = scores[at] * prices[0];
        for (let j = 1; j < k; j++) cost += scores[at + j] * prices[j];
        costs[row] = cost;
      }
      known[i] = { prices: [...prices], costs };
    });
    return known.map(({ costs }) => costs);
  }

  /** The predictions at these costs, matrix[predicted][actual]; methods that ignore costs stay as they are. */
  function decide(sample, matrix) {
    if (sample.rule !== "cheapest") return sample.decisions;
    const out = new Uint16Array(sample.n);
    const each = expected(sample, matrix);
    // sums of equal costs may differ by their rounding: that is a tie
    const slack = 4 * matrix[0].length * Number.EPSILON * Math.max(...matrix.map((row) => Math.max(...row.map(Math.abs))));
    for (let row = 0; row < sample.n; row++) {
      let least = Infinity;
      for (let i = 0; i < each.length; i++) if (each[i][row] < least) least = each[i][row];
      let first = 0;
      while (each[first][row] > least + slack) first++;
      out[row] = first;
    }
    return out;
  }

  /** Counts and costs of predictions, predicted x actual. */
  function evaluate(sample, matrix, called) {
    const { n, labels, weights } = sample;
    const k = matrix[0].length;
    const counts = matrix.map(() => new Float64Array(k));
    const cases = new Float64Array(k);
    for (let row = 0; row < n; row++) {
      counts[called[row]][labels[row]] += weights[labels[row]];
      cases[labels[row]] += weights[labels[row]];
    }
    const priced = (price) => counts.reduce((sum, own, i) => sum + own.reduce((s, c, j) => s + c * price(i, j), 0), 0);
    const constants = (price) => matrix.map((_, i) => cases.reduce((sum, c, j) => sum + c * price(i, j), 0));
    const paid = (i, j) => matrix[i][j];
    const reduced = (i, j) => matrix[i][j] - matrix[j][j];
    const total = priced(paid);
    const best = Math.min(...constants(paid));
    const scale = Math.min(...constants(reduced));
    return {
      counts,
      total,
      mean: total / cases.reduce((a, b) => a + b, 0),
      normalized: scale > 0 ? priced(reduced) / scale : NaN,
      savings: best === 0 ? NaN : (best - total) / Math.abs(best),
    };
  }

  /** Everything the explorer shows: each method at these costs, lowest first. */
  function explore(samples, matrix) {
    const found = samples.map((sample) => {
      const called = decide(sample, matrix);
      let changed = 0;
      for (let row = 0; row < sample.n; row++)
        if (called[row] !== sample.decisions[row]) changed += sample.weights[sample.labels[row]];
      return { name: sample.name, rule: sample.rule, changed, ...evaluate(sample, matrix, called) };
    });
    return found.sort((a, b) => a.mean - b.mean);
  }

  const RULES = {
    cheapest: "class of least expected cost",
    likeliest: "likeliest class, whatever the costs",
    kept: "as in the comparison",
  };
  const SPAN = 3; // the slider goes from a thousandth of the mean cost to a thousand times it

  /** The explorer; ``page`` has what both explorers need. */
  function explorer(page) {
    const { $, $$, show, withUnit, percent, put } = page;
    const showCount = (value) => page.showCount(value, state.samples[0].repeats);
    const root = $("#class-explorer");
    const field = (name) => $(`#class-${name}`);
    const state = { view: null, samples: [], matrix: [], before: [], now: [], method: "", decided: 0, actual: 1 };

    function start(view, samples, heat) {
      const names = view.classes;
      const numbered = $(".number", heat) !== null;
      Object.assign(state, { view, samples, matrix: view.matrix.map((row) => [...row]) });
      state.before = explore(samples, view.matrix);
      const options = (list) => list.map((name, i) => new Option(name, i));
      field("method").replaceChildren(...samples.map((sample) => new Option(sample.label, sample.name)));
      for (const which of ["decided", "actual"])
        field(which).replaceChildren(...options(numbered ? names.map((name, i) => `${i + 1} ${name}`) : names));
      state.method = (samples.find((sample) => sample.name === view.recommended) || samples[0]).name;
      field("method").value = state.method;
      const prices = view.matrix.flatMap((row, i) => row.filter((price, j) => i !== j && price > 0));
      state.scale = prices.length ? prices.reduce((a, b) => a + b, 0) / prices.length : 1;
      state.heat = heat.cloneNode(true);
      state.cells = $$("td[data-decided]", state.heat);
      state.heat.removeAttribute("id");
      $("#class-heat").replaceChildren(state.heat);
      choose(...costliest());
    }

    /** The most costly kind of error of the chosen method. */
    function costliest() {
      const { counts } = state.before.find((found) => found.name === state.method);
      let best = [0, 1, -Infinity];
      counts.forEach((own, i) =>
        own.forEach((count, j) => {
          if (i !== j && count * state.view.matrix[i][j] > best[2]) best = [i, j, count * state.view.matrix[i][j]];
        }),
      );
      return best;
    }

    function choose(decided, actual) {
      Object.assign(state, { decided, actual });
      field("decided").value = String(decided);
      field("actual").value = String(actual);
      update();
    }

    const position = (price) => (price > 0 ? Math.max(-SPAN, Math.log10(price / state.scale)) : -SPAN);

    /** The lowest and highest cost that makes sense: an error never costs less than the correct prediction. */
    function limits() {
      const [i, j] = [state.decided, state.actual];
      if (i !== j) return [state.matrix[j][j], Infinity];
      return [-Infinity, Math.min(...state.matrix.map((row, other) => (other === j ? Infinity : row[j])))];
    }

    function setPrice(price) {
      const [low, high] = limits();
      state.matrix[state.decided][state.actual] = Math.min(Math.max(price, low), high);
      update();
    }

    function isGood(price) {
      const [low, high] = limits();
      return Number.isFinite(price) && price >= low && price <= high;
    }

    function update() {
      state.now = explore(state.samples, state.matrix);
      fillFields();
      fillMethods();
      fillHeat();
      say();
    }

    function fillFields() {
      const price = state.matrix[state.decided][state.actual];
      const [slider, text] = [field("price"), field("price-text")];
      slider.value = String(position(price));
      slider.setAttribute("aria-valuetext", show(price));
      if (document.activeElement !== text) text.value = String(Number(price.toPrecision(6)));
      text.removeAttribute("aria-invalid");
      const sample = state.samples[0];
      const note = $("#class-sample-note");
      note.hidden = sample.n === sample.all;
      note.textContent =
        `Estimated from ${show(sample.n)} of ${show(sample.all)} test samples, drawn by class and weighted, so that the ` +
        "file stays small. The tables use all samples.";
    }

    function fillMethods() {
      const rank = (list, name) => 1 + list.findIndex((found) => found.name === name);
      const rows = state.now.map((found) => {
        const row = document.createElement("tr");
        row.className = found.name === state.method ? "marked" : "";
        row.dataset.method = found.name;
        const cell = (kind, text, value, name) => {
          const made = document.createElement(kind);
          if (kind === "th") made.scope = "row";
          if (name) made.dataset.field = name;
          put(made, text, value);
          row.append(made);
          return made;
        };
        const [now, was] = [rank(state.now, found.name), rank(state.before, found.name)];
        const before = state.before[was - 1];
        cell("th", found.name);
        cell("td", now === was ? String(now) : `${now} (was ${was})`, now, "rank");
        cell("td", withUnit(show(found.mean)), found.mean, "mean");
        cell("td", withUnit(show(before.mean)), before.mean, "before");
        cell("td", show(found.normalized), found.normalized, "normalized");
        cell("td", percent(found.savings), found.savings, "savings");
        cell("td", showCount(found.changed), found.changed, "changed");
        cell("td", RULES[found.rule]).className = "text";
        return row;
      });
      $("tbody", $("#class-methods")).replaceChildren(...rows);
    }

    function fillHeat() {
      const { counts, total } = state.now.find((found) => found.name === state.method);
      const cases = counts[0].map((_, j) => counts.reduce((sum, own) => sum + own[j], 0));
      const people = [...cases.keys()].map((j) => adacsl.whole(counts.map((own) => own[j]), j));
      const money = (i, j) => counts[i][j] * state.matrix[i][j];
      const top = Math.max(...counts.map((own, i) => Math.max(...[...own].map((_, j) => (i === j ? 0 : money(i, j))))));
      for (const cell of state.cells) {
        const [i, j] = [Number(cell.dataset.decided), Number(cell.dataset.actual)];
        const chosen = i === state.decided && j === state.actual;
        if (!chosen && !cell.classList.contains("chosen") && cell.dataset.count === "0" && !counts[i][j]) continue;
        const share = i === j ? counts[i][j] / (cases[j] || 1) : top > 0 ? Math.sqrt(Math.max(money(i, j), 0) / top) : 0;
        const count = page.showWhole(people[j][i], counts[i][j]);
        cell.style.setProperty("--share", String(share));
        cell.dataset.count = String(counts[i][j]);
        cell.dataset.money = String(money(i, j));
        cell.classList.toggle("chosen", chosen);
        cell.classList.toggle("none", count === "0");
        const free = i === j && money(i, j) === 0;
        $(".money", cell).textContent = free ? "" : withUnit(show(money(i, j)));
        $(".count", cell).textContent = count;
        $(".percent", cell).textContent = free ? "" : percent(total ? money(i, j) / total : 0);
        cell.title =
          `actual ${state.view.classes[j]}, predicted ${state.view.classes[i]}: ${count} samples, cost ` +
          `${withUnit(show(money(i, j)))}, ${percent(total ? money(i, j) / total : 0)} of all; ` +
          `${show(state.matrix[i][j])} each`;
      }
    }

    let saying = 0;
    function say() {
      const { classes, matrix } = state.view;
      const [i, j] = [state.decided, state.actual];
      const [price, was] = [state.matrix[i][j], matrix[i][j]];
      const mine = state.now.find((found) => found.name === state.method);
      const [first, before] = [state.now[0], state.before[0]];
      const text =
        (i === j ? `Predicting “${classes[i]}” correctly` : `Predicting “${classes[i]}” for “${classes[j]}”`) +
        ` costs ${withUnit(show(price))}${price === was ? "" : ` (${show(was)} in the comparison)`}. ` +
        `${first.name} has the lowest cost, ${withUnit(show(first.mean))} per sample` +
        (first.name === before.name ? ". " : `; in the comparison ${before.name} has. `) +
        (mine.rule === "cheapest"
          ? `${state.method} changes ${showCount(mine.changed)} of ${showCount(state.samples[0].all / state.samples[0].repeats)} predictions.`
          : `${state.method} ignores the costs.`);
      // a screen reader should hear where the slider stops, not every step
      clearTimeout(saying);
      saying = setTimeout(() => ($("#class-summary").textContent = text), 200);
    }

    function reset() {
      for (const cell of state.cells) delete cell.dataset.count; // all are written again
      state.matrix = state.view.matrix.map((row) => [...row]);
      update();
    }

    if (root) {
      field("method").addEventListener("change", () => ((state.method = field("method").value), update()));
      for (const which of ["decided", "actual"])
        field(which).addEventListener("change", () => choose(Number(field("decided").value), Number(field("actual").value)));
      field("price").addEventListener("input", () => {
        const at = Number(field("price").value);
        setPrice(at <= -SPAN ? 0 : Number((state.scale * 10 ** at).toPrecision(3)));
      });
      page.number(field("price-text"), isGood, setPrice, update);
      field("reset").addEventListener("click", reset);
      $("#class-heat").addEventListener("click", (event) => {
        const cell = event.target.closest("td[data-decided]");
        if (cell) choose(Number(cell.dataset.decided), Number(cell.dataset.actual));
      });
    }
    return { start, state };
  }

  return { decide, evaluate, explore, explorer };
})();

// The page: its views, figures, details, and the explorer of two classes.

(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const report = JSON.parse($("#report-data").textContent);
  const darkness = matchMedia("(prefers-color-scheme: dark)");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const NARROW = 560;
  const PRINT_WIDTH = 660;
  const PRINT_HEIGHTS = { category: 460, other: 265 }; // a list of methods; two curves on a page
  let printing = false;
  let current = 0;

  document.documentElement.classList.add("js");

  // numbers for readers; the exact one stays in data-value

  function show(value) {
    if (value === null || !Number.isFinite(value)) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    const text =
      size >= 999.5
        ? size.toLocaleString("en", { maximumFractionDigits: 0 })
        : size < 1e-4
          ? size.toExponential(2)
          : String(Number(size.toPrecision(4)));
    return (value < 0 ? "−" : "") + text;
  }
  // the mean of several repeats may have a fraction
  const showCount = (value, repeats) => value.toLocaleString("en", { maximumFractionDigits: repeats > 1 ? 1 : 0 });
  const showWhole = (whole, exact) => (whole === 0 && exact > 0 ? "<1" : whole.toLocaleString("en"));
  const withUnit = (text) => (report.unit && text !== "–" ? `${text} ${report.unit}` : text);
  const percent = (value) => (Number.isFinite(value) ? `${show(Math.round(value * 1000) / 10)}\u00a0%` : "–");

  function put(element, text, value) {
    element.textContent = text;
    if (value !== undefined) element.dataset.value = String(value);
  }

  // figures

  async function unpacked(id) {
    const packed = new Blob([adacsl.bytes($(id).textContent.trim())]);
    return new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  const plotly = (async () => {
    report.figures = JSON.parse(await unpacked("#report-figures"));
    const script = document.createElement("script");
    script.textContent = await unpacked("#plotly-js");
    document.head.append(script);
    if (!window.Plotly) throw new Error("plotly did not start");
    return window.Plotly;
  })();
  plotly.catch(() => document.documentElement.classList.add("no-plots"));

  const isDark = () => darkness.matches && !printing;

  function themed(figure) {
    let text = JSON.stringify(figure);
    if (isDark()) for (const [light, dark] of report.colors) text = text.replaceAll(light, dark);
    const spec = JSON.parse(text);
    spec.layout.template = report.themes[isDark() ? "dark" : "light"];
    return spec;
  }

  function fitted(spec, width) {
    const { layout } = spec;
    layout.width = width;
    if (width < NARROW) {
      const ends = (layout.annotations || []).filter((note) => note.name === "line-end");
      if (ends.length) {
        layout.annotations = layout.annotations.filter((note) => note.name !== "line-end");
        layout.showlegend = true;
        layout.margin = { ...layout.margin, r: 12 };
      }
      layout.font = { ...layout.font, size: 12 };
    }
    // without a title the room on top is the legend's, which grows upwards line by line
    layout.height -= 42;
    layout.margin = { ...layout.margin, t: 14 };
    if (layout.showlegend !== false) {
      const names = spec.data.filter((trace) => trace.showlegend !== false && trace.name).map((trace) => trace.name);
      const longest = Math.max(0, ...names.map((name) => name.length)) * 7.2 + 44;
      const lines = Math.ceil(names.length / Math.max(1, Math.floor((width - 40) / longest)));
      const extra = names.length > 1 || layout.showlegend ? lines * 20 + 14 : 14;
      layout.height += extra - 14;
      layout.margin = { ...layout.margin, t: extra };
    }
    if (printing) layout.height = Math.min(layout.height, PRINT_HEIGHTS[layout.yaxis?.type] ?? PRINT_HEIGHTS.other);
    return spec;
  }

  async function draw(place) {
    const Plotly = await plotly;
    const figure = place.id === "explorer-plot" ? explorerFigure() : report.figures[place.dataset.figure];
    if (!figure || !isShown(place)) return;
    const width = printing ? Math.min(PRINT_WIDTH, place.clientWidth || PRINT_WIDTH) : place.clientWidth;
    const { data, layout } = fitted(themed(figure), width);
    Plotly.react(place, data, layout, { displayModeBar: false, responsive: false, scrollZoom: false });
    place.dataset.drawn = isDark() ? "dark" : "light";
  }

  const isShown = (place) => !place.closest("[hidden], details:not([open])");
  const drawInto = (root) => plotly.then(() => Promise.all($$(".plot", root).filter(isShown).map(draw)));
  const drawAll = () => drawInto($("main"));

  // details: figures are drawn when they are opened; links and paper open the sections

  for (const part of $$("details", $("main"))) part.addEventListener("toggle", () => part.open && drawInto(part));

  function reveal(place) {
    for (let part = place.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  }

  let opened = [];
  function unfold(all) {
    if (all) opened = $$("details.part:not([open])", $("main"));
    for (const part of opened) part.open = all;
    if (!all) opened = [];
  }

  // views

  function showView(index) {
    current = index;
    const views = $$(".view");
    views.forEach((view, i) => (view.hidden = i !== index));
    const slot = $(".explorer-slot", views[index]);
    const { samples, classes } = report.views[index];
    const place = (explorer, shown, start) => {
      if (!explorer) return;
      explorer.hidden = !shown;
      if (slot) slot.append(explorer);
      if (shown) start();
    };
    place($("#explorer"), samples.length > 0 && !classes, startExplorer);
    place($("#class-explorer"), samples.length > 0 && Boolean(classes), () =>
      classExplorer.start(report.views[index], samples.map((_, i) => classSample(index, i)), $(".heat", views[index])));
    return drawAll();
  }

  function selectViews() {
    const [data, ratio] = [$("#choose-data"), $("#choose-ratio")];
    if (!data) return;
    const fill = () => {
      const found = report.views.map((view, index) => ({ ...view, index })).filter((view) => view.data === data.value);
      const before = ratio.selectedOptions[0]?.textContent;
      ratio.replaceChildren(...found.map((view) => new Option(view.ratio, view.index)));
      const same = [...ratio.options].find((option) => option.textContent === before);
      if (same) same.selected = true;
    };
    data.replaceChildren(...[...new Set(report.views.map((view) => view.data))].map((name) => new Option(name, name)));
    fill();
    ratio.value = String(report.start);
    data.addEventListener("change", () => (fill(), showView(Number(ratio.value))));
    ratio.addEventListener("change", () => showView(Number(ratio.value)));
  }

  // the explorer

  const arrays = new Map();
  const prepared = new Map();

  function array(number) {
    if (!arrays.has(number)) {
      const packed = report.arrays[number];
      let values;
      if (packed.kind === "bits") {
        const raw = adacsl.bytes(packed.data);
        values = Uint8Array.from({ length: packed.n }, (_, i) => (raw[i >> 3] >> (7 - (i & 7))) & 1);
      } else values = adacsl.decode(packed);
      arrays.set(number, values);
    }
    return arrays.get(number);
  }

  function sampleOf(view, index) {
    const key = `${view}/${index}`;
    if (!prepared.has(key)) {
      const packed = report.views[view].samples[index];
      const price = (value) => (typeof value === "number" ? value : array(value.array));
      const prices = (by) => Object.fromEntries(Object.entries(by).map(([name, value]) => [name, price(value)]));
      const [costs, known] = [prices(packed.costs), prices(packed.known ?? packed.costs)];
      const columns = { scores: array(packed.scores), labels: array(packed.labels), decisions: array(packed.decisions) };
      prepared.set(key, adacsl.prepare({ ...packed, ...columns, costs, known }));
    }
    return prepared.get(key);
  }

  function classSample(view, index) {
    const key = `${view}/${index}`;
    if (!prepared.has(key)) {
      const packed = report.views[view].samples[index];
      const columns = { scores: array(packed.scores), labels: array(packed.labels), decisions: array(packed.decisions) };
      prepared.set(key, { ...packed, ...columns, n: columns.labels.length });
    }
    return prepared.get(key);
  }

  const state = { sample: 0, ratio: 1, threshold: 0.5, now: null };
  const fields = () => ({
    method: $("#method"),
    ratio: $("#ratio"),
    ratioText: $("#ratio-text"),
    threshold: $("#threshold"),
    thresholdText: $("#threshold-text"),
  });

  function startExplorer() {
    const view = report.views[current];
    const { method, ratio } = fields();
    method.replaceChildren(...view.samples.map((sample, i) => new Option(sample.label, i)));
    state.sample = Math.max(0, view.samples.findIndex((sample) => sample.name === view.recommended));
    method.value = String(state.sample);
    const { ownCosts } = view.samples[state.sample];
    $("#ratio-label").textContent = ownCosts
      ? "Cost ratio, times"
      : "Cost ratio, fn : fp";
    const [low, high] = ratioRange(view.samples[state.sample].ratio);
    ratio.min = Math.log10(low).toFixed(2);
    ratio.max = Math.log10(high).toFixed(2);
    asItRan();
  }

  function ratioRange(ratio) {
    return [Math.min(0.1, ratio / 10), Math.max(100, ratio * 10)];
  }

  /** Another method with its own predictions; the costs stay. */
  function chooseSample() {
    state.threshold = sampleOf(current, state.sample).threshold;
    update();
  }

  function asItRan() {
    state.ratio = sampleOf(current, state.sample).ratio;
    chooseSample();
  }

  function update() {
    const sample = sampleOf(current, state.sample);
    state.now = adacsl.explore(sample, state.ratio, state.threshold);
    fillFields(sample);
    fillRules(sample);
    fillMatrix();
    say(sample);
    schedulePlot();
  }

  function fillFields(sample) {
    const { ratio, ratioText, threshold, thresholdText } = fields();
    ratio.value = String(Math.log10(state.ratio));
    ratio.setAttribute("aria-valuetext", sample.ownCosts ? `times ${show(state.ratio)}` : `${show(state.ratio)} to 1`);
    // samples or splits with their own thresholds have no place on the slider: it waits at the oracle threshold
    const own = state.threshold === null;
    threshold.value = String(own ? state.now.cheapest.value : state.threshold);
    threshold.setAttribute("aria-valuetext", own ? "as the method predicted" : show(state.threshold));
    threshold.classList.toggle("unset", own);
    for (const [field, value] of [[ratioText, state.ratio], [thresholdText, own ? null : Math.max(state.threshold, 0)]]) {
      if (document.activeElement !== field) field.value = value === null ? "" : String(Number(value.toPrecision(4)));
      field.removeAttribute("aria-invalid");
    }
  }

  function fillRules(sample) {
    const { now } = state;
    const thresholds = {
      yours: now.threshold,
      cheapest: now.cheapest.value,
      trusted: now.bayes,
      decided: sample.threshold,
    };
    const results = { yours: now.chosen, cheapest: now.best, trusted: now.trusted, decided: now.decided };
    for (const [rule, result] of Object.entries(results)) {
      const row = $(`[data-rule="${rule}"]`);
      const cell = (name) => $(`[data-field="${name}"]`, row);
      const at = thresholds[rule];
      put(cell("threshold"), at === null ? (sample.ownCosts ? "per sample" : "varies") : show(Math.max(at, 0)), at);
      put(cell("mean"), withUnit(show(result.mean)), result.mean);
      put(cell("total"), withUnit(show(result.total)), result.total);
      put(cell("normalized"), show(result.normalized), result.normalized);
      put(cell("savings"), percent(result.savings), result.savings);
    }
    const decided = $('[data-rule="decided"] th');
    decided.textContent = `as ${sample.name} predicted`;
    const note = $("#sample-note");
    note.hidden = sample.n === sample.all;
    note.textContent =
      `Estimated from ${show(sample.n)} of ${show(sample.all)} test samples, drawn by class and weighted, so that the ` +
      "file stays small. The tables use all samples.";
  }

  function fillMatrix() {
    const { counts, money } = state.now.chosen;
    const [fn, tp] = adacsl.whole([counts.fn, counts.tp], 1);
    const [tn, fp] = adacsl.whole([counts.tn, counts.fp], 0);
    const people = { tp, fn, fp, tn };
    const largest = Math.max(...Object.values(money).map(Math.abs));
    for (const name of ["tp", "fn", "fp", "tn"]) {
      const cell = $(`[data-cell="${name}"]`);
      cell.dataset.count = String(counts[name]);
      cell.dataset.money = String(money[name]);
      $(".money", cell).textContent = withUnit(show(money[name]));
      $(".count", cell).textContent = `${showWhole(people[name], counts[name])} samples`;
      cell.style.setProperty("--share", largest ? String(Math.abs(money[name]) / largest) : "0");
    }
  }

  let saying = 0;
  function say(sample) {
    const { chosen, cheapest, best, threshold } = state.now;
    const saved = chosen.total - best.total;
    const rule = threshold === null ? `As ${sample.name} predicted` : `At threshold ${show(Math.max(threshold, 0))}`;
    const text =
      `${rule}, the mean cost is ${withUnit(show(chosen.mean))} per sample` +
      (Number.isFinite(chosen.savings) ? `, ${percent(Math.abs(chosen.savings))} ${chosen.savings < 0 ? "more" : "less"} ` +
        "than the best constant baseline. " : ". ") +
      (saved > Math.abs(best.total) * 1e-9
        ? `The oracle threshold ${show(Math.max(cheapest.value, 0))} costs ${withUnit(show(best.mean))}.`
        : "No single threshold costs less on these samples.");
    // a screen reader should hear where the slider stops, not every step
    clearTimeout(saying);
    saying = setTimeout(() => ($("#explorer-summary").textContent = text), 200);
  }

  let scheduled = false;
  function schedulePlot() {
    if (scheduled || !window.Plotly || !$("#explorer").open) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      draw($("#explorer-plot"));
    });
  }

  function explorerFigure() {
    const { now } = state;
    const sample = sampleOf(current, state.sample);
    const { rising } = sample;
    const rows = sample.all / sample.repeats;
    const places = [];
    for (let k = 0; k <= sample.n; k++) if (adacsl.isCut(rising, k)) places.push(k);
    const step = Math.max(1, Math.floor(places.length / 700));
    const kept = places.filter((_, j) => j % step === 0 || j === places.length - 1);
    const x = kept.map((k) => (k === 0 ? 0 : rising[k - 1]));
    const y = kept.map((k) => (now.curve.total[k] + now.curve.base) / rows);
    const figure = structuredClone(report.figures[report.views[current].threshold]);
    const [line, chosen, cheapest, bayes] = figure.data;
    Object.assign(line, { x: [...x, 1], y: [...y, y.at(-1)] });
    if (now.threshold !== null) Object.assign(chosen, { x: [now.threshold], y: [now.chosen.mean], name: "your threshold" });
    else Object.assign(chosen, { x: [0, 1], y: [now.chosen.mean, now.chosen.mean], mode: "lines", name: "as predicted",
      line: { color: chosen.marker.color, width: 2, dash: "dash" } });
    Object.assign(cheapest, { x: [now.cheapest.value], y: [now.best.mean] });
    Object.assign(bayes, now.bayes === null ? { x: [], y: [] } : { x: [now.bayes], y: [now.trusted.mean] });
    const top = Math.max(...y);
    const low = Math.min(0, ...y);
    figure.layout.yaxis.range = [low * 1.05, Math.max(Math.min(top * 1.08, now.best.mean * 6 || top), now.chosen.mean * 1.1) || 1];
    return figure;
  }

  function number(field, isGood, use, again = update) {
    field.addEventListener("input", () => {
      const value = Number(field.value);
      if (field.value.trim() === "" || !isGood(value)) field.setAttribute("aria-invalid", "true");
      else use(value);
    });
    field.addEventListener("change", () => {
      if (!field.hasAttribute("aria-invalid")) return;
      field.blur();
      again();
    });
  }

  function wireExplorer() {
    const { method, ratio, ratioText, threshold, thresholdText } = fields();
    const set = (changes) => (Object.assign(state, changes), update());
    method.addEventListener("change", () => ((state.sample = Number(method.value)), chooseSample()));
    ratio.addEventListener("input", () => set({ ratio: Number((10 ** Number(ratio.value)).toPrecision(3)) }));
    threshold.addEventListener("input", () => set({ threshold: Number(threshold.value) }));
    number(ratioText, (value) => value > 0 && Number.isFinite(value), (value) => set({ ratio: value }));
    number(thresholdText, (value) => value >= 0 && value <= 1, (value) => set({ threshold: value }));
    $("#use-cheapest").addEventListener("click", () => set({ threshold: state.now.cheapest.value }));
    $("#reset").addEventListener("click", asItRan);
  }

  // surroundings

  let resizing = 0;
  addEventListener("resize", () => {
    if (printing) return;
    clearTimeout(resizing);
    resizing = setTimeout(drawAll, 120);
  });
  darkness.addEventListener("change", () => drawAll());
  function print(now) {
    if (printing === now) return;
    printing = now;
    unfold(now);
    drawAll();
  }
  matchMedia("print").addEventListener("change", (event) => print(event.matches));
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  for (const link of $$('a[href^="#"]'))
    link.addEventListener("click", (event) => {
      const goal = document.getElementById(link.hash.slice(1));
      if (!goal) return;
      event.preventDefault();
      reveal(goal);
      goal.scrollIntoView({ behavior: calm.matches ? "auto" : "smooth" });
      goal.focus({ preventScroll: true });
    });

  // the text of a cell of a confusion matrix stands below it
  for (const heat of $$(".heat"))
    for (const kind of ["pointerover", "click"])
      heat.addEventListener(kind, (event) => {
        const cell = event.target.closest("td[data-decided]");
        const place = heat.parentElement.querySelector(".heat-say");
        if (cell && place) place.textContent = cell.title;
      });

  const classExplorer = adacslClasses.explorer({ $, $$, show, showCount, showWhole, withUnit, percent, put, number });
  if ($("#explorer")) wireExplorer();
  selectViews();
  showView(report.start).then(() => (document.documentElement.dataset.ready = "true"), () => {});
  window.adacslReport = { report, state, sampleOf, explore: adacsl.explore, classes: classExplorer.state };
})();
