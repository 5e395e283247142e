// Figures, growth and settings.

const MARKS = {
  birth: ["born", "M0-6 L6 5 L-6 5 Z"],
  refusal: ["birth refused", "M-4-4 L4 4 M4-4 L-4 4"],
  prune: ["pruned", "M0 6 L6-5 L-6-5 Z"],
  merge: ["merged", "M0-6 L6 0 L0 6 L-6 0 Z"],
};

const symbol = (kind, x, y) => svg("path", { d: MARKS[kind][1], class: `mark ${kind}`, transform: `translate(${x} ${y})` });

function legend(kinds) {
  const items = kinds.map((kind) =>
    el("li", {}, svg("svg", { width: 16, height: 16, viewBox: "-8 -8 16 16", "aria-hidden": "true" }, symbol(kind, 0, 0)), MARKS[kind][0]));
  return el("ul", { class: "legend" }, ...items);
}

function ticks(most) {
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((size) => most / size <= 6) || most;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

function growthChart({ sizes, marks }) {
  const [width, height, left, bottom, top] = [560, 220, 40, 40, 12];
  const last = marks.length ? marks[marks.length - 1] : null;
  const most = Math.max(...sizes, ...marks.map((mark) => mark.num_components)) + 1;
  const x = (epoch) => left + ((width - left - 12) * epoch) / sizes.length;
  const y = (size) => height - bottom - ((height - bottom - top) * size) / most;
  let line = `M${x(0)} ${y(sizes[0])}`;
  sizes.forEach((size, i) => (line += ` V${y(size)} H${x(i + 1)}`));
  if (last && last.epoch === sizes.length) line += ` V${y(last.num_components)}`;
  const grid = ticks(most).map((size) => svg("g", {},
    svg("line", { class: "grid", x1: left, x2: width - 12, y1: y(size), y2: y(size) }),
    Object.assign(svg("text", { x: left - 8, y: y(size) + 4, "text-anchor": "end" }), { textContent: size })));
  const epochs = ticks(sizes.length).map((epoch) =>
    Object.assign(svg("text", { x: x(epoch), y: height - bottom + 18, "text-anchor": "middle" }), { textContent: epoch }));
  const names = [["epoch", (left + width) / 2, height - 4, ""], ["options K", 0, 0, `translate(12 ${(top + height - bottom) / 2}) rotate(-90)`]];
  const labels = names.map(([text, at, down, transform]) =>
    Object.assign(svg("text", { x: at, y: down, transform, "text-anchor": "middle", class: "label" }), { textContent: text }));
  const seen = new Map(); // marks of one check stand side by side
  const symbols = marks.map((mark) => {
    const beside = seen.get(mark.epoch) || 0;
    seen.set(mark.epoch, beside + 1);
    const node = symbol(mark.kind, x(mark.epoch) + 9 * beside, y(mark.num_components));
    node.append(Object.assign(svg("title"), { textContent: `epoch ${mark.epoch}: ${mark.count} ${MARKS[mark.kind][0]}, K = ${mark.num_components}` }));
    return node;
  });
  const final = last ? last.num_components : sizes[sizes.length - 1];
  const description = `The number of options over ${plural(sizes.length, "epoch")}: from ${sizes[0]} to ${final}`;
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": description, class: "growth" },
    ...grid, ...epochs, ...labels, svg("path", { d: line, class: "line" }), ...symbols);
  const kinds = Object.keys(MARKS).filter((kind) => marks.some((mark) => mark.kind === kind));
  return el("figure", {}, el("figcaption", {}, "Growth"), chart, legend(kinds));
}

function overview() {
  const tiles = data.tiles.map(([label, value, unit]) =>
    el("div", {}, el("dt", {}, label), el("dd", {}, value, el("small", {}, unit))));
  const rows = data.settings.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value)));
  const settings = rows.length
    ? el("details", {}, el("summary", {}, "Method and settings"), el("div", { class: "scroll" }, el("table", {}, el("tbody", {}, ...rows))))
    : null;
  const content = el("div", { class: "columns" }, el("dl", { class: "tiles" }, ...tiles), data.growth ? growthChart(data.growth) : null);
  document.getElementById("overview").append(content, ...[settings].filter(Boolean));
}
