// A chart of a result, drawn by ECharts. The library is loaded once a chart is opened.

import { AGGREGATES, choose, drawn, KINDS } from "./charting.js";
import { alert, h, replace } from "./dom.js";
import { download, downloadFrom } from "./download.js";
import { count } from "./format.js";
import { typeOf } from "./numbers.js";

const LIBRARY = "/static/vendor/echarts/echarts.common.min.js";
const COLOURS = { light: ["#2b5fb3", "#c2571a", "#22703a", "#7a3fa0", "#a4262c", "#0f7280", "#7d6208", "#5c6672"],
  dark: ["#7fa9ea", "#ec9a62", "#7fc795", "#c79be8", "#f08b8f", "#5fc3cf", "#d9bd5a", "#b3bcc7"] };
const SYMBOLS = ["circle", "rect", "triangle", "diamond", "pin", "arrow", "roundRect"];
const FONT = "system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif";
const MANY = 400; // points of a line above which they have no symbols
const dark = window.matchMedia("(prefers-color-scheme: dark)");

let loading = null;

function library() {
  loading ??= new Promise((resolve, reject) => {
    const script = h("script", { src: LIBRARY, onload: () => resolve(globalThis.echarts), onerror: () => {
      loading = null;
      script.remove();
      reject(new Error("The library for charts cannot be loaded."));
    } });
    document.head.append(script);
  });
  return loading;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export class Chart {
  // `more` tells that the query had more rows than were fetched.
  constructor(columns, rows, more) {
    this.columns = columns;
    this.rows = rows;
    this.choice = choose(columns, rows);
    this.plot = null;
    this.selects = {};
    const options = (names) => names.map((name) => h("option", { value: name }, name));
    const pick = (label, key, list, of = String) => {
      const select = h("select", { "aria-label": label, onchange: () => this.change({ [key]: of(select.value) }) }, list);
      select.value = String(this.choice[key]);
      this.selects[key] = select;
      return h("span", { class: "pair" }, h("span", { class: "hint" }, label), select);
    };
    const all = columns.map((column, at) => h("option", { value: String(at) }, column.name));
    this.ys = h("fieldset", {}, h("legend", {}, "y"), columns.flatMap((column, at) => (typeOf(column) === "number" ? [h("label", {},
      h("input", { type: "checkbox", value: String(at), checked: this.choice.ys.includes(at), onchange: () => this.change({ ys: this.checked() }) }), ` ${column.name}`)] : [])));
    this.canvas = h("div", { class: "canvas", role: "img", "aria-label": "Chart", tabindex: "0" });
    this.notes = h("p", { class: "hint", role: "status" });
    const save = (kind) => h("button", { type: "button", onclick: () => this.save(kind) }, kind.toUpperCase());
    this.problem = h("div", {});
    this.element = h("div", { class: "chart" },
      h("div", { class: "actions" }, pick("Kind", "kind", options(KINDS)), pick("x", "x", all, Number), this.ys,
        pick("Series", "series", [h("option", { value: "-1" }, "(none)"), all.map((one) => one.cloneNode(true))].flat(), Number),
        pick("Aggregate", "aggregate", options(AGGREGATES)), save("png"), save("svg")),
      more ? h("p", { class: "hint" }, `Only the ${count(rows.length)} fetched rows are drawn; the query has more rows. GROUP BY in the statement counts all of them.`) : null,
      this.problem, this.canvas, this.notes);
    this.observer = new ResizeObserver(() => this.plot?.resize());
    this.recolour = () => this.draw();
  }

  checked() {
    return [...this.ys.querySelectorAll("input:checked")].map((box) => Number(box.value));
  }

  change(part) {
    this.choice = { ...this.choice, ...part };
    this.draw();
  }

  // Draw the chart; it must be in the document, because the library measures it.
  async open() {
    try {
      this.echarts = await library();
    } catch (error) {
      replace(this.problem, alert(error));
      return;
    }
    if (!this.canvas.isConnected || this.plot) return;
    this.plot = this.echarts.init(this.canvas, null, { renderer: "canvas" });
    this.observer.observe(this.canvas);
    dark.addEventListener("change", this.recolour);
    this.draw();
  }

  close() {
    this.observer.disconnect();
    dark.removeEventListener("change", this.recolour);
    this.plot?.dispose();
    this.plot = null;
  }

  draw() {
    if (!this.plot) return;
    if (!this.element.isConnected) {
      this.close();
      return;
    }
    const { kind } = this.choice;
    this.selects.series.disabled = kind === "pie" || kind === "histogram";
    this.ys.disabled = this.selects.aggregate.disabled = kind === "histogram";
    const found = drawn(this.columns, this.rows, this.choice);
    this.notes.textContent = found.notes.join(" ");
    this.plot.setOption(this.options(found), { notMerge: true });
    this.canvas.setAttribute("aria-label", this.summary(found));
  }

  summary({ labels, sets }) {
    const points = labels ? labels.length : sets.reduce((sum, one) => sum + one.values.length, 0);
    return `Chart of kind ${this.choice.kind}: ${sets.map((one) => one.name).join(", ")} by ${this.columns[this.choice.x].name}, ${count(points)} points. The tab Table has the values.`;
  }

  options({ labels, sets }) {
    const { kind, x } = this.choice;
    const [text, soft, line, back] = ["text", "soft", "line", "back"].map(colour);
    const style = { color: soft, fontFamily: FONT };
    const axis = { axisLabel: { ...style, hideOverlap: true }, axisLine: { lineStyle: { color: line } }, splitLine: { lineStyle: { color: line } }, nameTextStyle: style };
    const several = sets.length > 1;
    const own = {
      color: COLOURS[dark.matches ? "dark" : "light"], backgroundColor: back, animation: false, useUTC: true, textStyle: { color: text, fontFamily: FONT },
      // The page allows no styles in markup, so the library must draw its tooltips itself.
      tooltip: { trigger: kind === "pie" || kind === "scatter" ? "item" : "axis", renderMode: "richText", confine: true, backgroundColor: back, borderColor: line, textStyle: { color: text } },
      aria: { enabled: false, decal: { show: several || kind === "pie" } },
      legend: several || kind === "pie" ? { type: "scroll", top: 0, textStyle: { color: text }, pageTextStyle: { color: text }, pageIconColor: text } : undefined,
    };
    if (kind === "pie") {
      return { ...own, aria: { enabled: true, decal: { show: true } }, series: [{ type: "pie", radius: "62%", center: ["50%", "56%"], label: { color: text, formatter: "{b}: {d} %" },
        data: labels.map((name, at) => ({ name, value: sets[0].values[at] })) }] };
    }
    const type = labels ? "category" : typeOf(this.columns[x]) === "time" ? "time" : "value";
    const series = sets.map(({ name, values }, at) => ({
      name, data: values, type: { histogram: "bar" }[kind] ?? kind, symbol: SYMBOLS[at % SYMBOLS.length], symbolSize: 7,
      showSymbol: values.length <= MANY, barCategoryGap: kind === "histogram" ? "2%" : undefined,
    }));
    const named = sets.length === 1 ? sets[0].name : "";
    return { ...own, aria: { enabled: several, decal: { show: several } }, grid: { left: 8, right: 24, top: several ? 56 : 36, bottom: 30, containLabel: true },
      xAxis: { ...axis, type, data: labels ?? undefined, name: this.columns[x].name, nameLocation: "middle", nameGap: 30, scale: true, splitLine: { show: false } },
      yAxis: { ...axis, type: "value", name: named, nameTextStyle: { ...style, align: "left" }, scale: kind === "scatter" || kind === "line" }, series };
  }

  save(kind) {
    if (!this.plot) return;
    if (kind === "png") {
      downloadFrom("chart.png", this.plot.getDataURL({ type: "png", pixelRatio: 2, backgroundColor: colour("back") }));
      return;
    }
    const { clientWidth, clientHeight } = this.canvas;
    const plot = this.echarts.init(null, null, { renderer: "svg", ssr: true, width: clientWidth, height: clientHeight });
    plot.setOption(this.options(drawn(this.columns, this.rows, this.choice)));
    download("chart.svg", plot.renderToSVGString(), "image/svg+xml");
    plot.dispose();
  }
}
