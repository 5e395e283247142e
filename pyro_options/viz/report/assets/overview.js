// Figures, growth and settings.

const MARKS = {
  birth: ["born", "M0-6 L6 5 L-6 5 Z"],
  refusal: ["birth refused", "M-4-4 L4 4 M4-4 L-4 4"],
  prune: ["pruned", "M0 6 L6-5 L-6-5 Z"],
  merge: ["merged", "M0-6 L6 0 L0 6 L-6 0 Z"],
};

function symbol(kind, x, y, ...children) {
  const place = `translate(${x} ${y})`;
  return svg("path", { d: MARKS[kind][1], class: `mark ${kind}`, transform: place }, ...children);
}

function legend(kinds) {
  const size = { width: 16, height: 16, viewBox: "-8 -8 16 16", "aria-hidden": "true" };
  const items = kinds.map((kind) => el("li", {}, svg("svg", size, symbol(kind, 0, 0)), MARKS[kind][0]));
  return el("ul", { class: "legend" }, ...items);
}

function ticks(most) {
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((size) => most / size <= 6) || most;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

function growthChart({ sizes, marks }) {
  const [width, height, left, right, bottom, top] = [560, 220, 40, 12, 40, 12];
  const most = Math.max(...sizes, ...marks.map((mark) => mark.num_components)) + 1;
  const x = (epoch) => left + ((width - left - right) * epoch) / sizes.length;
  const y = (size) => height - bottom - ((height - bottom - top) * size) / most;
  const text = (content, attributes) => svg("text", { "text-anchor": "middle", ...attributes }, content);

  const last = marks[marks.length - 1];
  const final = last.epoch === sizes.length ? last.num_components : sizes[sizes.length - 1];
  const steps = sizes.map((size, i) => `V${y(size)} H${x(i + 1)}`).join(" ");
  const line = svg("path", { d: `M${x(0)} ${y(sizes[0])} ${steps} V${y(final)}`, class: "line" });

  const grid = ticks(most).flatMap((size) => [
    svg("line", { class: "grid", x1: left, x2: width - right, y1: y(size), y2: y(size) }),
    text(size, { x: left - 8, y: y(size) + 4, "text-anchor": "end" }),
  ]);
  const epochs = ticks(sizes.length).map((epoch) => text(epoch, { x: x(epoch), y: height - bottom + 18 }));
  const middle = `translate(12 ${(top + height - bottom) / 2}) rotate(-90)`;
  const labels = [
    text("epoch", { x: (left + width) / 2, y: height - 4, class: "label" }),
    text("options K", { transform: middle, class: "label" }),
  ];

  const beside = new Map(); // marks of one check stand side by side
  const symbols = marks.map(({ epoch, kind, count, num_components: size }) => {
    beside.set(epoch, (beside.get(epoch) ?? -1) + 1);
    const title = svg("title", {}, `epoch ${epoch}: ${count} ${MARKS[kind][0]}, K = ${size}`);
    return symbol(kind, x(epoch) + 9 * beside.get(epoch), y(size), title);
  });

  const description = `The number of options over ${plural(sizes.length, "epoch")}: from ${sizes[0]} to ${final}`;
  const look = { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": description, class: "growth" };
  const chart = svg("svg", look, ...grid, ...epochs, ...labels, line, ...symbols);
  const kinds = Object.keys(MARKS).filter((kind) => marks.some((mark) => mark.kind === kind));
  return el("figure", {}, el("figcaption", {}, "Growth"), chart, legend(kinds));
}

function glossary() {
  const rows = data.glossary.flatMap(([term, meaning]) => [el("dt", {}, term), el("dd", {}, meaning)]);
  return el("details", { class: "glossary" }, el("summary", {}, "What do these words and figures mean?"),
    el("dl", {}, ...rows));
}

function overview() {
  const tiles = data.tiles.map(([label, value, unit]) =>
    el("div", {}, el("dt", {}, label), el("dd", {}, value, el("small", {}, unit))));
  const growth = data.growth ? growthChart(data.growth) : null;
  const section = document.getElementById("overview");
  section.append(el("div", { class: "columns" }, el("dl", { class: "tiles" }, ...tiles), growth));
  if (data.trust.length) {
    const lines = data.trust.map((text) => el("li", text.startsWith("Warning") ? { class: "warning" } : {}, text));
    section.append(el("h3", {}, "How far can this be trusted?"), el("ul", { class: "trust" }, ...lines));
  }
  section.append(glossary());
  if (!data.settings.length) return;
  const rows = data.settings.map(([name, value]) => tableRow(name, el("td", {}, value)));
  const table = el("div", { class: "scroll", tabindex: "0" }, el("table", {}, el("tbody", {}, ...rows)));
  section.append(el("details", {}, el("summary", {}, "Method and settings"), table));
}
