// Option cards and the filter.

function actionBars(card) {
  if (!data.discrete) {
    const rows = card.actions.map((mean, a) => el("tr", {}, el("th", { scope: "row" }, data.actionNames[a]), el("td", {}, number(mean))));
    return el("div", {}, el("h4", {}, "Mean action"), el("table", { class: "values" }, el("tbody", {}, ...rows)));
  }
  const order = card.actions.map((share, a) => [share, a]).sort((one, other) => other[0] - one[0]).slice(0, 4);
  const rows = order.filter(([share]) => share >= 0.005).map(([share, a]) => el("li", {},
    el("span", { class: "name" }, data.actionNames[a]),
    el("span", { class: "bar", "aria-hidden": "true" }, el("span", { style: { width: `${100 * share}%` } })),
    el("span", { class: "share" }, percent(share))));
  return el("div", {}, el("h4", {}, "Actions"), el("ul", { class: "bars" }, ...rows));
}

function histogram(parts, description) {
  const [width, height] = [240, parts.length * 30];
  const bars = parts.flatMap(({ shares, down, faint }) => {
    const most = Math.max(...shares);
    return shares.map((share, i) => {
      const size = (28 * share) / most;
      const y = down ? 31 : 29 - size;
      return svg("rect", { x: (i * width) / shares.length + 0.5, y, width: width / shares.length - 1, height: size, class: faint ? "faint" : "solid" });
    });
  });
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": description, class: "histogram" },
    ...bars, svg("line", { x1: 0, x2: width, y1: 30, y2: 30, class: "axis" }));
}

const span = ({ low, width, shares }) => [low, low + width * shares.length - 1];
const scale = (low, high) => el("div", { class: "scale", "aria-hidden": "true" }, el("span", {}, String(low)), el("span", {}, String(high)));

function lengthPart(card) {
  if (!card.lengths) return el("p", {}, `A segment lasts ${number(card.meanLength)} steps on average.`);
  const [low, median, high] = card.lengthQuartiles.map((length) => String(Math.round(length)));
  const text = low === high ? `Lasts ${median} steps` : `Lasts ${median} steps (half of all ${low} to ${high})`;
  return el("div", {}, el("h4", {}, text), histogram([{ shares: card.lengths.shares }], `Histogram of lengths. ${text}`), scale(...span(card.lengths)));
}

function placePart(card) {
  if (!card.starts) return null;
  const parts = [{ shares: card.starts.shares }, { shares: card.stops.shares, down: true, faint: true }];
  const [first, last] = span(card.starts);
  return el("div", {}, el("h4", {}, "Starts ↑ and stops ↓, by step of the episode"),
    histogram(parts, `Histogram of the steps at which it starts (above) and stops (below), from ${first} to ${last}`), scale(first, last));
}

function followerPart(card) {
  if (!card.followers) return null;
  const items = card.followers.map(([option, share]) =>
    el("li", {}, option === null ? el("span", { class: "badge end" }, "end") : badge(option), ` ${percent(share)}`));
  return el("div", {}, el("h4", {}, "Then comes"), el("ul", { class: "followers" }, ...items));
}

function examplePart(card) {
  if (!card.examples || !card.examples.length) return null;
  const items = card.examples.map(([episode, first, last]) => {
    const { images, frames } = data.trajectories[episode];
    const times = [...new Set([first, Math.floor((first + last) / 2), last])];
    const pictures = images ? times.map((time) => el("img", { src: images[frames[time]], alt: "", loading: "lazy" })) : [];
    const where = first === last ? `step ${first}` : `steps ${first} to ${last}`;
    const label = `Go to trajectory ${episode}, ${where}`;
    return el("button", { class: "example", type: "button", "aria-label": label, onclick: () => views[episode].reveal(first) },
      ...pictures, el("span", {}, `trajectory ${episode}, ${where}`));
  });
  return el("div", {}, el("h4", {}, "For example"), el("div", { class: "examples" }, ...items));
}

function optionCard(card) {
  const { name, weight } = data.options[card.option];
  const facts = [`${percent(card.usage)} of steps`, card.segments ? plural(card.segments, "segment") : null, `weight ${weight.toFixed(3)}`];
  const node = el("article", { class: "card", style: colors(card.option), "aria-label": name },
    el("header", {}, badge(card.option), el("h3", {}, name)),
    el("p", { class: "facts" }, facts.filter(Boolean).join(" · ")),
    actionBars(card), lengthPart(card), placePart(card), followerPart(card), examplePart(card));
  cards.set(card.option, node);
  return node;
}

function options() {
  const idle = data.options.length - data.cards.length;
  const note = idle && data.cards.length ? el("p", { class: "note" }, `${idle} of ${plural(data.options.length, "option")} never on here.`) : null;
  const nodes = data.cards.map(optionCard);
  const empty = nodes.length ? null : el("p", { class: "note" }, "Nothing is known about what the options do: pass trajectories to the report.");
  document.getElementById("options").append(el("div", { class: "cards" }, ...nodes), ...[note, empty].filter(Boolean));
}

const status = el("p", { class: "status", role: "status" });
const everything = el("button", { type: "button", class: "chip", "aria-pressed": "true", onclick: () => choose(null) }, "all");

function choose(option) {
  if (option === null) filter.clear();
  else if (!filter.delete(option)) filter.add(option);
  everything.setAttribute("aria-pressed", String(filter.size === 0));
  for (const [k, chip] of chips) chip.setAttribute("aria-pressed", String(filter.has(k)));
  for (const [k, card] of cards) card.hidden = filter.size > 0 && !filter.has(k);
  const left = views.filter((view) => view.applyFilter()).length;
  status.textContent = filter.size ? `${left} of ${plural(views.length, "trajectory").replace(/trajectorys$/, "trajectories")}` : "";
}

function filterBar() {
  const bar = document.getElementById("filter");
  bar.append(el("span", { id: "filter-label" }, "Options"), everything);
  for (const option of data.cards.map((card) => card.option).sort((one, other) => one - other)) {
    const label = `Show only ${data.options[option].name}`;
    const chip = el("button", { type: "button", class: "chip", "aria-pressed": "false", "aria-label": label, title: label,
      style: colors(option), onclick: () => choose(option) }, String(option));
    chips.set(option, chip);
    bar.append(chip);
  }
  bar.append(status);
  bar.hidden = !data.trajectories.length;
}

function highlight(option) {
  for (const [k, card] of cards) card.classList.toggle("active", k === option);
  for (const [k, chip] of chips) chip.classList.toggle("active", k === option);
}
