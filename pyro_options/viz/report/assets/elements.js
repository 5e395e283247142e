// What the others are built from. Text only ever becomes a text node, so no name can turn into markup.

const data = JSON.parse(document.getElementById("data").textContent);
const filter = new Set(); // options to show; all of them if it is empty
const views = []; // of the trajectories
const cards = new Map(); // by option
const chips = new Map();

function build(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [name, text] of Object.entries(value)) node.style.setProperty(name, text);
    else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

const el = (tag, attributes = {}, ...children) => build(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const tableRow = (name, cell) => el("tr", {}, el("th", { scope: "row" }, name), cell);

function button(label, attributes, ...children) {
  return el("button", { type: "button", "aria-label": label, title: label, ...attributes }, ...children);
}

const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
const number = (value) => (value === null ? "–" : String(Number(value.toPrecision(4))).replace("-", "−"));
const plural = (count, noun, nouns = `${noun}s`) => `${count.toLocaleString("en")} ${count === 1 ? noun : nouns}`;

const colors = (option) => ({ "--color": data.options[option].color, "--ink": data.options[option].ink });
const badge = (option) => el("span", { class: "badge", style: colors(option) }, option);

const ICONS = {
  play: "M3 2 L13 8 L3 14 Z",
  pause: "M3 2 H6.5 V14 H3 Z M9.5 2 H13 V14 H9.5 Z",
  next: "M2 2 L10 8 L2 14 Z M11 2 H13.5 V14 H11 Z",
  previous: "M14 2 L6 8 L14 14 Z M2.5 2 H5 V14 H2.5 Z",
};

function icon(name) {
  const size = { viewBox: "0 0 16 16", width: 14, height: 14 };
  return svg("svg", { ...size, class: "icon", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
}
