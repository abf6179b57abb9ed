// More than two classes: the arithmetic of adacsl.costs and adacsl.thresholds (the class of least expected cost, the lower one of equals), and
// the explorer of single prices.
"use strict";

const adacslClasses = (() => {
  const kept = new WeakMap();

  /** What each decision is expected to cost, row by row; a slider changes the prices of one decision only. */
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

  /** What each row is called at these prices, matrix[decided][actual]; methods that are blind to prices stay so. */
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

  /** Counts, money and costs of decisions, decided x actual. */
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

  /** Everything the explorer shows: each method at these prices, the cheapest first. */
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
    cheapest: "cheapest class at your prices",
    likeliest: "likeliest class, whatever the prices",
    kept: "as it did",
  };
  const SPAN = 3; // the slider goes from a thousandth of the mean price to a thousand times it

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
      choose(...dearest());
    }

    /** The dearest kind of error of the chosen method. */
    function dearest() {
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

    /** The lowest and highest price that makes sense: being wrong is never cheaper than being right. */
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
        `Estimated from ${show(sample.n)} of ${show(sample.all)} test cases, drawn separately from each class and ` +
        "weighted back, so that the page stays small. The tables above use all cases.";
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
          `really ${state.view.classes[j]}, decided ${state.view.classes[i]}: ${count} cases, cost ` +
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
        (i === j ? `Deciding “${classes[i]}” rightly` : `Deciding “${classes[i]}” when it is really “${classes[j]}”`) +
        ` costs ${withUnit(show(price))}${price === was ? "" : ` (it was ${show(was)})`}. ` +
        `${first.name} is cheapest, ${withUnit(show(first.mean))} per case` +
        (first.name === before.name ? ". " : `; with the prices that were run it was ${before.name}. `) +
        (mine.rule === "cheapest"
          ? `${state.method} decides ${showCount(mine.changed)} of ${showCount(state.samples[0].all / state.samples[0].repeats)} cases differently.`
          : `${state.method} does not look at prices.`);
      // a screen reader should hear where the slider stops, not every step
      clearTimeout(saying);
      saying = setTimeout(() => ($("#class-summary").textContent = text), 200);
    }

    function reset() {
      for (const cell of state.cells) delete cell.dataset.count; // all are written anew
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
