// Timelines that move through trajectories.

function runs(length, same) {
  const found = [];
  for (let t = 0; t < length; t++) {
    if (t && same(t - 1, t)) found[found.length - 1].stop = t + 1;
    else found.push({ start: t, stop: t + 1 });
  }
  return found;
}

const track = (width, height, kind, ...children) =>
  svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", class: `track ${kind}`, "aria-hidden": "true" }, ...children);

const polyline = (values, low, high, attributes) => {
  const at = (value) => (1 - ((value === null ? low : value) - low) / (high - low || 1)) * 100;
  return svg("polyline", { points: values.map((value, t) => `${t + 0.5},${at(value)}`).join(" "), ...attributes });
};

const area = (shares) => svg("path", { class: "area", d: `M0 100 ${shares.map((share, t) => `V${100 - 100 * share} H${t + 1}`).join(" ")} V100 Z` });

function actionTrack({ options: on, actions }) {
  const lanes = data.actionNames.length;
  if (data.discrete) {
    const pieces = runs(on.length, (a, b) => on[a] === on[b] && actions[a] === actions[b]);
    const bars = pieces.map(({ start, stop }) => svg("rect", { x: start, y: (lanes - 1 - actions[start]) * 10 + 1, width: stop - start, height: 8,
      fill: data.options[on[start]].color, "data-option": on[start] }));
    return [[...data.actionNames].reverse(), track(on.length, lanes * 10, "actions", ...bars), Math.min(lanes, MAX_LANES) * 12];
  }
  const all = actions.flat();
  const lines = data.actionNames.map((_, a) => polyline(actions.map((row) => row[a]), Math.min(...all), Math.max(...all), { class: `series s${a % 4}` }));
  return [["actions"], track(on.length, 100, "actions", ...lines), 48];
}

class View {
  constructor(episode, row) {
    Object.assign(this, { episode, row, time: 0, timer: null });
    this.segments = runs(row.options.length, (a, b) => row.options[a] === row.options[b]);
    this.node = this.draw();
    this.move(0, false);
  }

  draw() {
    const { row, episode } = this;
    const steps = row.options.length;
    this.slider = el("input", { type: "range", min: 0, max: steps - 1, value: 0, step: 1, "aria-label": `Step of trajectory ${episode}`,
      oninput: () => this.move(Number(this.slider.value)), onkeydown: (event) => this.key(event) });
    this.playhead = el("div", { class: "playhead" });
    this.readout = el("p", { class: "readout" });
    this.play = el("button", { type: "button", class: "play", "aria-label": `Play trajectory ${episode}`, onclick: () => this.toggle() }, icon("play"));
    const jump = (by, name, label) => el("button", { type: "button", "aria-label": `${label} segment of trajectory ${episode}`, title: `${label} segment`, onclick: () => this.jump(by) }, icon(name));
    const cut = row.length > steps ? ` (the first ${steps} shown)` : "";
    const head = el("header", {}, el("h3", {}, `Trajectory ${episode}`),
      el("span", { class: "facts" }, `${plural(row.length, "step")}${cut} · ${plural(this.segments.length, "segment")} · ${number(row.nats)} nats per step`),
      el("div", { class: "controls" }, jump(-1, "previous", "Previous"), this.play, jump(1, "next", "Next")));
    this.image = row.images ? el("img", { class: "frame", alt: "" }) : null;
    this.values = data.stateNames.map(() => el("td"));
    const cells = data.stateNames.map((name, i) => el("tr", {}, el("th", { scope: "row" }, name), this.values[i]));
    const table = el("details", row.images ? {} : { open: "" }, el("summary", {}, "State"), el("table", { class: "values wide" }, el("tbody", {}, ...cells)));
    const body = el("div", { class: "body" }, head, this.tracks(), this.readout, cells.length ? table : null);
    return el("article", { class: `trajectory${row.images ? " pictured" : ""}`, "aria-label": `Trajectory ${episode}` }, this.image, body);
  }

  tracks() {
    const { row } = this;
    const steps = row.options.length;
    const strip = track(steps, 10, "strip", ...this.segments.map(({ start, stop }) =>
      svg("rect", { x: start, y: 0, width: stop - start, height: 10, fill: data.options[row.options[start]].color, "data-option": row.options[start] })));
    const labels = this.segments.filter(({ start, stop }) => (stop - start) / steps > 0.025).map(({ start, stop }) => {
      const option = row.options[start];
      return el("span", { style: { left: `${(100 * start) / steps}%`, width: `${(100 * (stop - start)) / steps}%`, ...colors(option) }, "data-option": option }, String(option));
    });
    const [lanes, actions, height] = actionTrack(row);
    actions.style.height = `${height}px`;
    const choices = track(steps, 100, "choices", area(row.choices));
    this.surface = el("div", { class: "surface", onpointerdown: (event) => this.grab(event), onpointermove: (event) => this.drag(event) },
      strip, el("div", { class: "labels", "aria-hidden": "true" }, ...labels), actions, choices, this.playhead, this.slider);
    const names = lanes.length <= MAX_LANES ? lanes : ["actions"];
    const gutter = el("div", { class: "gutter", "aria-hidden": "true" }, el("span", { class: "for-strip" }, "option"),
      el("div", { class: "for-actions", style: { height: `${height}px` } }, ...names.map((name) => el("span", {}, name))), el("span", { class: "for-choices" }, "p(new choice)"));
    return el("div", { class: "tracks" }, gutter, this.surface);
  }

  grab(event) {
    this.surface.setPointerCapture(event.pointerId);
    this.slider.focus();
    event.preventDefault(); // or the focus would go to nothing
    this.drag(event, true);
  }

  drag(event, pressed = event.buttons > 0) {
    if (!pressed) return;
    const { left, width } = this.surface.getBoundingClientRect();
    this.move(Math.floor(((event.clientX - left) / width) * this.row.options.length));
  }

  key(event) {
    if (!event.shiftKey || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    event.preventDefault();
    this.jump(event.key === "ArrowRight" ? 1 : -1);
  }

  jump(by) {
    const starts = this.segments.map(({ start }) => start).filter((start) => !filter.size || filter.has(this.row.options[start]));
    const next = by > 0 ? starts.find((start) => start > this.time) : starts.reverse().find((start) => start < this.time);
    if (next !== undefined) this.move(next);
  }

  toggle() {
    if (this.timer) return this.stop();
    if (this.time === this.row.options.length - 1) this.move(0);
    this.play.replaceChildren(icon("pause"));
    this.play.setAttribute("aria-label", `Pause trajectory ${this.episode}`);
    this.timer = setInterval(() => (this.time < this.row.options.length - 1 ? this.move(this.time + 1) : this.stop()),
      this.row.options.length <= SHORT ? 6 * FRAME_MS : FRAME_MS);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.play.replaceChildren(icon("play"));
    this.play.setAttribute("aria-label", `Play trajectory ${this.episode}`);
  }

  reveal(time) {
    this.node.scrollIntoView({ block: "center" });
    this.slider.focus({ preventScroll: true });
    this.move(time);
  }

  move(time, active = true) {
    const { row } = this;
    const steps = row.options.length;
    this.time = Math.max(0, Math.min(steps - 1, time));
    const option = row.options[this.time];
    const action = data.discrete ? data.actionNames[row.actions[this.time]] : row.actions[this.time].map(number).join(", ");
    const { name } = data.options[option];
    this.slider.value = this.time;
    this.slider.setAttribute("aria-valuetext", `step ${this.time} of ${steps}, ${name}, action ${action}`);
    this.playhead.style.left = `${(100 * (this.time + 0.5)) / steps}%`;
    this.playhead.style.width = `max(3px, ${steps <= SHORT ? 100 / steps : 0}%)`;
    const fact = (key, value) => el("span", {}, el("b", {}, `${key} `), value);
    const sure = data.discrete && row.certainty ? ` (the option gives it ${percent(row.certainty[this.time])})` : "";
    this.readout.replaceChildren(fact("step", String(this.time)), el("span", {}, badge(option), " ", name), fact("does", action + sure),
      fact("new choice", percent(row.choices[this.time])));
    this.values.forEach((cell, i) => (cell.textContent = number(row.states[this.time][i])));
    if (this.image) {
      this.image.src = row.images[row.frames[this.time]];
      this.image.alt = `Frame at step ${this.time}`;
      this.image.style.setProperty("--color", data.options[option].color);
    }
    if (active) highlight(option);
  }

  applyFilter() {
    for (const piece of this.surface.querySelectorAll("[data-option]"))
      piece.classList.toggle("dim", filter.size > 0 && !filter.has(Number(piece.dataset.option)));
    const kept = !filter.size || this.row.options.some((option) => filter.has(option));
    this.node.hidden = !kept;
    if (!kept) this.stop();
    return kept;
  }
}

function trajectories() {
  const section = document.getElementById("trajectories");
  section.hidden = !data.trajectories.length;
  const help = "Drag over a timeline, or focus it and use the arrow keys; Page Up and Down move faster, Home and End to the ends, Shift and an arrow to the next segment.";
  section.append(el("p", { class: "note" }, help));
  data.trajectories.forEach((row, episode) => {
    views.push(new View(episode, row));
    section.append(views[episode].node);
  });
  const left = data.numTrajectories - data.trajectories.length;
  if (left > 0) section.append(el("p", { class: "note" }, `${left} more not shown; all figures and cards count them.`));
}
