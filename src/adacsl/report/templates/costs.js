// The arithmetic of the explorer, the same as adacsl.costs and adacsl.thresholds: positive where score > threshold; every cut between two
// distinct scores is looked at; among equally cheap thresholds the one nearest the target is taken.
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

  /** Prices with another ratio: a miss gets dearer, a false alarm stays. */
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

  /** What it costs to call the first k = 0 .. n of the sorted rows negative. */
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

  /** The cheapest threshold: {value, cost, low, high}, as find_threshold gives it. */
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

  /** Counts, money and costs of decisions; decide(i) says whether row i is called positive. */
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

  /** The Bayes threshold of row i: above it, positive is the cheaper decision. */
  function bayes(costs, i) {
    const alarm = priceOf(costs.fp, i) - priceOf(costs.tn, i);
    const miss = priceOf(costs.fn, i) - priceOf(costs.tp, i);
    return alarm + miss === 0 ? 1 : alarm / (alarm + miss);
  }

  /** Everything the explorer shows at one ratio and threshold (null: as the method decided, whatever it decided at). */
  function explore(sample, ratio, threshold = null) {
    const costs = priced(sample, ratio);
    const known = sample.known ? priced(sample, ratio, sample.known) : costs; // when deciding
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
