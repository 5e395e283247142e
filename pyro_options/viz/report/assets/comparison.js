// Figures of two runs side by side, and how their options overlap.

const otherBadge = ({ option, color, ink }) =>
  el("span", { class: "badge", style: { "--color": color, "--ink": ink } }, option);

function figureTable({ names, figures }) {
  const head = el("tr", {}, el("td"), ...names.map((name) => el("th", { scope: "col" }, name)));
  const rows = figures.map(([label, one, two]) =>
    el("tr", {}, el("th", { scope: "row" }, label), el("td", {}, one ?? "–"), el("td", {}, two ?? "–")));
  return el("table", { class: "compared" }, el("thead", {}, head), el("tbody", {}, ...rows));
}

function overlapTable({ names, rows, columns, overlap }) {
  const head = el("tr", {}, el("td"),
    ...columns.map((column) => el("th", { scope: "col", title: column.name }, otherBadge(column))));
  const body = rows.map((option, i) => {
    const cells = overlap[i].map((share) =>
      el("td", { style: { "--share": share } }, share >= 0.005 ? percent(share) : ""));
    const title = { scope: "row", title: data.options[option].name };
    return el("tr", {}, el("th", title, badge(option)), ...cells);
  });
  const text = `Share of the steps of each option of ${names[0]} (rows) at which an option of ${names[1]} is active (columns)`;
  return el("div", {}, el("p", { class: "note" }, text),
    el("div", { class: "scroll" }, el("table", { class: "overlap" }, el("thead", {}, head), el("tbody", {}, ...body))));
}

function comparison() {
  if (!data.comparison) return;
  const section = document.getElementById("comparison");
  section.hidden = false;
  const agreement = `Adjusted Rand index of the two segmentations: ${number(data.comparison.agreement)} ` +
    "(1: the same up to the numbers of options; 0: as by chance).";
  section.append(el("div", { class: "columns" }, figureTable(data.comparison), overlapTable(data.comparison)),
    el("p", {}, agreement));
}
