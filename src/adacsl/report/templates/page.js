// The page: which view is shown, its pictures, and the explorer.
"use strict";

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

  // numbers as people read them; the exact one stays in data-value

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

  // pictures

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
    if (!figure || place.closest("[hidden]")) return;
    const width = printing ? Math.min(PRINT_WIDTH, place.clientWidth || PRINT_WIDTH) : place.clientWidth;
    const { data, layout } = fitted(themed(figure), width);
    Plotly.react(place, data, layout, { displayModeBar: false, responsive: false, scrollZoom: false });
    place.dataset.drawn = isDark() ? "dark" : "light";
  }

  const places = () => $$(".plot", $("main")).filter((place) => !place.closest("[hidden]"));
  const drawAll = () => plotly.then(() => Promise.all(places().map(draw)));

  // views

  function showView(index) {
    current = index;
    $$(".view").forEach((view, i) => (view.hidden = i !== index));
    const slot = $(".explorer-slot", $$(".view")[index]);
    const { samples, classes } = report.views[index];
    const [explorer, ofClasses] = [$("#explorer"), $("#class-explorer")];
    explorer.hidden = !samples.length || Boolean(classes);
    slot.append(explorer);
    if (!explorer.hidden) startExplorer();
    if (ofClasses) {
      ofClasses.hidden = !samples.length || !classes;
      slot.append(ofClasses);
      if (!ofClasses.hidden) {
        const own = samples.map((_, i) => classSample(index, i));
        classExplorer.start(report.views[index], own, $(".heat", $$(".view")[index]));
      }
    }
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
    for (const link of $$("[data-view]"))
      link.addEventListener("click", () => {
        const view = report.views[Number(link.dataset.view)];
        data.value = view.data;
        fill();
        ratio.value = link.dataset.view;
        showView(Number(link.dataset.view));
      });
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
      ? "Cost of a miss, times"
      : "Cost of a miss, in false alarms";
    const [low, high] = ratioRange(view.samples[state.sample].ratio);
    ratio.min = Math.log10(low).toFixed(2);
    ratio.max = Math.log10(high).toFixed(2);
    asItRan();
  }

  function ratioRange(ratio) {
    return [Math.min(0.1, ratio / 10), Math.max(100, ratio * 10)];
  }

  /** Another method decides as it did; the prices stay what they are. */
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
    // rows or splits with thresholds of their own have no place on the slider: it waits at the cheapest one
    const own = state.threshold === null;
    threshold.value = String(own ? state.now.cheapest.value : state.threshold);
    threshold.setAttribute("aria-valuetext", own ? "as the method decided" : show(state.threshold));
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
      put(cell("threshold"), at === null ? (sample.ownCosts ? "own of each" : "varies") : show(Math.max(at, 0)), at);
      put(cell("mean"), withUnit(show(result.mean)), result.mean);
      put(cell("total"), withUnit(show(result.total)), result.total);
      put(cell("normalized"), show(result.normalized), result.normalized);
      put(cell("savings"), percent(result.savings), result.savings);
    }
    const decided = $('[data-rule="decided"] th');
    decided.textContent = `${sample.name} as it decided`;
    const note = $("#sample-note");
    note.hidden = sample.n === sample.all;
    note.textContent =
      `Estimated from ${show(sample.n)} of ${show(sample.all)} test cases, drawn separately from each class and ` +
      "weighted back, so that the page stays small. The tables above use all cases.";
  }

  function fillMatrix() {
    const { counts, money } = state.now.chosen;
    const [fn, tp] = adacsl.whole([counts.fn, counts.tp], 1);
    const [tn, fp] = adacsl.whole([counts.tn, counts.fp], 0);
    const people = { tp, fn, fp, tn };
    const dearest = Math.max(...Object.values(money).map(Math.abs));
    for (const name of ["tp", "fn", "fp", "tn"]) {
      const cell = $(`[data-cell="${name}"]`);
      cell.dataset.count = String(counts[name]);
      cell.dataset.money = String(money[name]);
      $(".money", cell).textContent = withUnit(show(money[name]));
      $(".count", cell).textContent = `${showWhole(people[name], counts[name])} cases`;
      cell.style.setProperty("--share", dearest ? String(Math.abs(money[name]) / dearest) : "0");
    }
  }

  let saying = 0;
  function say(sample) {
    const { chosen, cheapest, best, threshold } = state.now;
    const saved = chosen.total - best.total;
    const rule = threshold === null ? `as ${sample.name} did` : `“${report.classes[1]}” above ${show(Math.max(threshold, 0))}`;
    const text =
      `Deciding ${rule} costs ${withUnit(show(chosen.mean))} per case` +
      (Number.isFinite(chosen.savings) ? `, ${percent(Math.abs(chosen.savings))} ${chosen.savings < 0 ? "more" : "less"} ` +
        "than the best constant decision. " : ". ") +
      (saved > Math.abs(best.total) * 1e-9
        ? `With hindsight ${show(Math.max(cheapest.value, 0))} would have been cheapest: ${withUnit(show(best.mean))} per case.`
        : "No single threshold is cheaper on these cases.");
    // a screen reader should hear where the slider stops, not every step
    clearTimeout(saying);
    saying = setTimeout(() => ($("#explorer-summary").textContent = text), 200);
  }

  let scheduled = false;
  function schedulePlot() {
    if (scheduled || !window.Plotly) return;
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
    else Object.assign(chosen, { x: [0, 1], y: [now.chosen.mean, now.chosen.mean], mode: "lines", name: "as decided",
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
    printing = now;
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
      goal.scrollIntoView({ behavior: calm.matches ? "auto" : "smooth" });
      goal.focus({ preventScroll: true });
    });

  // a cell of a confusion matrix says below what its colour stands for
  for (const heat of $$(".heat"))
    for (const kind of ["pointerover", "click"])
      heat.addEventListener(kind, (event) => {
        const cell = event.target.closest("td[data-decided]");
        const place = heat.parentElement.querySelector(".heat-say");
        if (cell && place) place.textContent = cell.title;
      });

  const classExplorer = adacslClasses.explorer({ $, $$, show, showCount, showWhole, withUnit, percent, put, number });
  wireExplorer();
  selectViews();
  showView(report.start).then(() => (document.documentElement.dataset.ready = "true"), () => {});
  window.adacslReport = { report, state, sampleOf, explore: adacsl.explore, classes: classExplorer.state };
})();
