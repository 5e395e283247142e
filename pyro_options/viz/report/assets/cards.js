// Option cards and the filter.

const titled = (title, ...content) => el("div", {}, el("h4", {}, title), ...content);

function actionPart(card) {
  if (!data.discrete) {
    const rows = card.actions.map((mean, a) => tableRow(data.columnNames[a], el("td", {}, number(mean))));
    return titled("Mean action", el("table", { class: "values" }, el("tbody", {}, ...rows)));
  }
  const order = card.actions.map((share, a) => [share, a]).sort((one, other) => other[0] - one[0]);
  const rows = order.slice(0, 4).filter(([share]) => share >= 0.005).map(([share, a]) => el("li", {},
    el("span", { class: "name" }, data.actionNames[a]),
    el("span", { class: "bar", "aria-hidden": "true" }, el("span", { style: { width: `${100 * share}%` } })),
    el("span", { class: "share" }, percent(share))));
  return titled("Actions", el("ul", { class: "bars" }, ...rows));
}

function bars(shares, width, upwards) {
  const [step, most] = [width / shares.length, Math.max(...shares)];
  return shares.map((share, i) => {
    const height = (28 * share) / most;
    const y = upwards ? 29 - height : 31;
    return svg("rect", { x: i * step + 0.5, y, width: step - 1, height, class: upwards ? "solid" : "faint" });
  });
}

// Bars above a line and, if there are `below`, under it, with the ends of the axis.
function histogram(description, above, below = null) {
  const width = 240;
  const look = { viewBox: `0 0 ${width} ${below ? 60 : 30}`, role: "img", "aria-label": description, class: "histogram" };
  const axis = svg("line", { x1: 0, x2: width, y1: 30, y2: 30, class: "axis" });
  const down = below ? bars(below.shares, width, false) : [];
  const [low, high] = [above.low, above.low + above.width * above.shares.length - 1];
  const scale = el("div", { class: "scale", "aria-hidden": "true" }, el("span", {}, low), el("span", {}, high));
  return [svg("svg", look, ...bars(above.shares, width, true), ...down, axis), scale];
}

function lengthPart(card) {
  if (!card.lengths) return el("p", {}, `A segment lasts ${number(card.meanLength)} steps on average.`);
  const [low, median, high] = card.lengthQuartiles.map(Math.round);
  const text = low === high ? `Lasts ${median} steps` : `Lasts ${median} steps (half of all ${low} to ${high})`;
  return titled(text, ...histogram(`Histogram of lengths. ${text}`, card.lengths));
}

function placePart(card) {
  if (!card.startSteps) return null;
  const description = "Histogram of the steps at which it starts, above, and stops, below";
  return titled("Starts ↑ and stops ↓, by step of the episode", ...histogram(description, card.startSteps, card.stopSteps));
}

function moment([episode, step]) {
  const { images, frames } = data.trajectories[episode];
  if (!images) return null;
  const label = `Go to trajectory ${episode}, step ${step}`;
  const picture = el("img", { src: images[frames[step]], alt: "", loading: "lazy" });
  return button(label, { class: "moment", onclick: () => views[episode].reveal(step) }, picture);
}

function whereList(title, phrases, moments) {
  const pictures = (moments || []).map(moment).filter((one) => one !== null);
  if (!phrases.length && !pictures.length) return null;
  return titled(title, el("ul", { class: "where" }, ...phrases.map((text) => el("li", {}, text))),
    pictures.length ? el("div", { class: "moments" }, ...pictures) : null);
}

const startPart = (card) => whereList("Starts where", card.starts, card.startFrames);
const stopPart = (card) => whereList("Stops where", card.stops, card.stopFrames);

function followerPart(card) {
  if (!card.followers) return null;
  const items = card.followers.map(([option, share]) =>
    el("li", {}, option === null ? el("span", { class: "badge end" }, "end") : badge(option), ` ${percent(share)}`));
  return titled("Then comes", el("ul", { class: "followers" }, ...items));
}

function example([episode, first, last]) {
  const { images, frames } = data.trajectories[episode];
  const times = [...new Set([first, Math.floor((first + last) / 2), last])];
  const pictures = images ? times.map((time) => el("img", { src: images[frames[time]], alt: "", loading: "lazy" })) : [];
  const where = first === last ? `step ${first}` : `steps ${first} to ${last}`;
  const look = { class: "example", onclick: () => views[episode].reveal(first) };
  const text = el("span", {}, `trajectory ${episode}, ${where}`);
  return button(`Go to trajectory ${episode}, ${where}`, look, ...pictures, text);
}

function examplePart(card) {
  if (!card.examples || !card.examples.length) return null;
  return titled("For example", el("div", { class: "examples" }, ...card.examples.map(example)));
}

function optionCard(card) {
  const { name, weight } = data.options[card.option];
  const segments = card.segments ? [plural(card.segments, "segment")] : [];
  const facts = [`${percent(card.usage)} of steps`, ...segments, `weight ${weight.toFixed(3)}`];
  const node = el("article", { class: "card", style: colors(card.option), "aria-label": name },
    el("header", {}, badge(card.option), el("h3", {}, name)),
    el("p", { class: "facts" }, facts.join(" · ")),
    ...[actionPart, startPart, stopPart, lengthPart, placePart, followerPart, examplePart].map((part) => part(card)));
  cards.set(card.option, node);
  return node;
}

function options() {
  const section = document.getElementById("options");
  section.append(el("div", { class: "cards" }, ...data.cards.map(optionCard)));
  const idle = data.options.length - data.cards.length;
  let note = idle ? `${idle} of ${plural(data.options.length, "option")} never on here.` : "";
  if (!data.cards.length) note = "Nothing is known about what the options do: pass trajectories to the report.";
  section.append(el("p", { class: "note" }, note));
}

const status = el("p", { class: "status", role: "status" });
const shown = { class: "chip", "aria-pressed": "true", onclick: () => choose(null) };
const everything = button("Show all options", shown, "all");

function choose(option) {
  if (option === null) filter.clear();
  else if (!filter.delete(option)) filter.add(option);
  everything.setAttribute("aria-pressed", filter.size === 0);
  for (const [k, chip] of chips) chip.setAttribute("aria-pressed", filter.has(k));
  for (const [k, card] of cards) card.hidden = filter.size > 0 && !filter.has(k);
  const left = views.filter((view) => view.applyFilter()).length;
  status.textContent = filter.size ? `${left} of ${plural(views.length, "trajectory", "trajectories")}` : "";
}

function filterBar() {
  const bar = document.getElementById("filter");
  bar.hidden = !data.trajectories.length;
  bar.append(el("span", { class: "title" }, "Options"), everything);
  for (const option of data.cards.map((card) => card.option).sort((one, other) => one - other)) {
    const look = { class: "chip", "aria-pressed": "false", style: colors(option), onclick: () => choose(option) };
    chips.set(option, button(`Show only ${data.options[option].name}`, look, option));
    bar.append(chips.get(option));
  }
  bar.append(status);
}

function highlight(option) {
  for (const [k, card] of cards) card.classList.toggle("active", k === option);
  for (const [k, chip] of chips) chip.classList.toggle("active", k === option);
}
