// The page about a model in use: its pictures, in the colours and the width that the reader has.
"use strict";

(() => {
  const $ = (selector) => document.querySelector(selector);
  const report = JSON.parse($("#report-data").textContent);
  const darkness = matchMedia("(prefers-color-scheme: dark)");
  const NARROW = 560;
  let printing = false;
  document.documentElement.classList.add("js");

  async function unpacked(id) {
    const bytes = Uint8Array.from(atob($(id).textContent.trim()), (sign) => sign.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
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

  async function draw(place) {
    const Plotly = await plotly;
    const { data, layout } = themed(report.figures[place.dataset.figure]);
    layout.width = place.clientWidth;
    layout.margin = { ...layout.margin, t: 34 };
    if (layout.width < NARROW) layout.font = { ...layout.font, size: 12 };
    Plotly.react(place, data, layout, { displayModeBar: false, responsive: false, scrollZoom: false });
    place.dataset.drawn = isDark() ? "dark" : "light";
  }

  const drawAll = () => Promise.all([...document.querySelectorAll(".plot")].map(draw));
  const reprint = (now) => () => ((printing = now), drawAll());
  let width = innerWidth;
  addEventListener("resize", () => innerWidth !== width && ((width = innerWidth), drawAll()));
  darkness.addEventListener("change", drawAll);
  addEventListener("beforeprint", reprint(true));
  addEventListener("afterprint", reprint(false));
  drawAll().then(() => (document.documentElement.dataset.ready = ""));
})();
