// Timelines that move through trajectories.

const FRAME_MS = 66;
const SHORT = 20; // steps of an episode whose steps are wide, and played slowly
const MAX_LANES = 18; // actions that have room for a name each

// Stretches of steps that are the `same` as the step before: start <= t < stop.
function runs(length, same) {
  const found = [];
  for (let t = 0; t < length; t++) {
    if (t && same(t - 1, t)) found[found.length - 1].stop = t + 1;
    else found.push({ start: t, stop: t + 1 });
  }
  return found;
}

// A drawing as wide as the timeline, whose horizontal unit is a step.
function track(steps, height, kind, ...children) {
  const look = { viewBox: `0 0 ${steps} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" };
  return svg("svg", { ...look, class: `track ${kind}` }, ...children);
}

function block({ start, stop }, option, y, height) {
  const fill = data.options[option].color;
  return svg("rect", { x: start, y, width: stop - start, height, fill, "data-option": option });
}

function area(shares) {
  const path = shares.map((share, t) => `V${100 - 100 * share} H${t + 1}`).join(" ");
  return svg("path", { class: "area", d: `M0 100 ${path} V100 Z` });
}

function series(values, low, high, number) {
  const y = (value) => 100 - (100 * (value - low)) / (high - low || 1);
  const points = values.map((value, t) => `${t + 0.5},${y(value)}`).join(" ");
  return svg("polyline", { points, class: `series s${number % 4}` });
}

// A lane for each discrete action, or a line for each dimension: names, drawing, height.
function actionTrack({ options: on, actions }) {
  const lanes = data.actionNames.length;
  if (!data.discrete) {
    const all = actions.flat();
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const lines = data.actionNames.map((_, a) => series(actions.map((row) => row[a]), low, high, a));
    return [["actions"], track(on.length, 100, "actions", ...lines), 48];
  }
  const pieces = runs(on.length, (a, b) => on[a] === on[b] && actions[a] === actions[b]);
  const blocks = pieces.map((piece) => block(piece, on[piece.start], (lanes - 1 - actions[piece.start]) * 10 + 1, 8));
  const names = lanes <= MAX_LANES ? [...data.actionNames].reverse() : ["actions"];
  return [names, track(on.length, lanes * 10, "actions", ...blocks), Math.min(lanes, MAX_LANES) * 12];
}

class View {
  constructor(episode, row) {
    Object.assign(this, { episode, row, steps: row.options.length, time: 0, timer: null });
    this.segments = runs(this.steps, (a, b) => row.options[a] === row.options[b]);
    this.image = row.images ? el("img", { class: "frame", alt: "" }) : null;
    this.playhead = el("div", { class: "playhead" });
    this.readout = el("p", { class: "readout" });
    this.values = data.stateNames.map(() => el("td"));
    this.slider = el("input", {
      ...{ type: "range", min: 0, max: this.steps - 1, step: 1, "aria-label": `Step of trajectory ${episode}` },
      oninput: () => this.move(Number(this.slider.value)),
      onkeydown: (event) => this.key(event),
    });
    const body = el("div", { class: "body" }, this.header(), this.tracks(), this.readout, this.stateTable());
    const kind = `trajectory${this.image ? " pictured" : ""}`;
    this.node = el("article", { class: kind, "aria-label": `Trajectory ${episode}` }, this.image, body);
    this.move(0, false);
  }

  header() {
    const { row, episode, steps } = this;
    const of = `of trajectory ${episode}`;
    this.play = button(`Play trajectory ${episode}`, { class: "play", onclick: () => this.toggle() }, icon("play"));
    const previous = button(`Previous segment ${of}`, { onclick: () => this.jump(-1) }, icon("previous"));
    const next = button(`Next segment ${of}`, { onclick: () => this.jump(1) }, icon("next"));
    const length = plural(row.length, "step") + (row.length > steps ? ` (the first ${steps} shown)` : "");
    const facts = [length, plural(this.segments.length, "segment"), `${number(row.nats)} nats per step`];
    return el("header", {}, el("h3", {}, `Trajectory ${row.name ?? episode}`), el("span", { class: "facts" }, facts.join(" · ")),
      el("div", { class: "controls" }, previous, this.play, next));
  }

  stateTable() {
    if (!this.values.length) return null;
    const rows = data.stateNames.map((name, i) => tableRow(name, this.values[i]));
    const table = el("table", { class: "values wide" }, el("tbody", {}, ...rows));
    return el("details", this.image ? {} : { open: "" }, el("summary", {}, "State"), table);
  }

  label({ start, stop }) {
    const option = this.row.options[start];
    const place = { left: `${(100 * start) / this.steps}%`, width: `${(100 * (stop - start)) / this.steps}%` };
    return el("span", { style: { ...place, ...colors(option) }, "data-option": option }, option);
  }

  tracks() {
    const { row, steps } = this;
    const strip = track(steps, 10, "strip", ...this.segments.map((one) => block(one, row.options[one.start], 0, 10)));
    const wide = this.segments.filter(({ start, stop }) => (stop - start) / steps > 0.025);
    const labels = el("div", { class: "labels", "aria-hidden": "true" }, ...wide.map((one) => this.label(one)));
    const [names, actions, height] = actionTrack(row);
    actions.style.height = `${height}px`;
    const choices = track(steps, 100, "choices", area(row.choices));
    const pointer = { onpointerdown: (event) => this.grab(event), onpointermove: (event) => this.drag(event) };
    const parts = [strip, labels, actions, choices, this.playhead, this.slider];
    this.surface = el("div", { class: "surface", ...pointer }, ...parts);
    const lanes = el("div", { class: "for-actions", style: { height: `${height}px` } },
      ...names.map((name) => el("span", {}, name)));
    const gutter = el("div", { class: "gutter", "aria-hidden": "true" },
      el("span", { class: "for-strip" }, "option"), lanes, el("span", { class: "for-choices" }, "p(new choice)"));
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
    this.move(Math.floor(((event.clientX - left) / width) * this.steps));
  }

  key(event) {
    if (!event.shiftKey || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    event.preventDefault();
    this.jump(event.key === "ArrowRight" ? 1 : -1);
  }

  jump(by) {
    const wanted = ({ start }) => !filter.size || filter.has(this.row.options[start]);
    const starts = this.segments.filter(wanted).map(({ start }) => start);
    const later = (start) => start > this.time;
    const earlier = (start) => start < this.time;
    const next = by > 0 ? starts.find(later) : starts.findLast(earlier);
    if (next !== undefined) this.move(next);
  }

  showPlaying(playing) {
    const label = `${playing ? "Pause" : "Play"} trajectory ${this.episode}`;
    this.play.replaceChildren(icon(playing ? "pause" : "play"));
    for (const name of ["aria-label", "title"]) this.play.setAttribute(name, label);
  }

  toggle() {
    if (this.timer) return this.stop();
    if (this.time === this.steps - 1) this.move(0);
    this.showPlaying(true);
    const advance = () => (this.time < this.steps - 1 ? this.move(this.time + 1) : this.stop());
    this.timer = setInterval(advance, this.steps <= SHORT ? 6 * FRAME_MS : FRAME_MS);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.showPlaying(false);
  }

  reveal(time) {
    this.node.scrollIntoView({ block: "center" });
    this.slider.focus({ preventScroll: true });
    this.move(time);
  }

  action() {
    const action = this.row.actions[this.time];
    return data.discrete ? data.actionNames[action] : action.map(number).join(", ");
  }

  move(time, active = true) {
    const { row, steps } = this;
    this.time = Math.max(0, Math.min(steps - 1, time));
    const option = row.options[this.time];
    const { name, color } = data.options[option];
    this.slider.value = this.time;
    this.slider.setAttribute("aria-valuetext", `step ${this.time} of ${steps}, ${name}, action ${this.action()}`);
    this.playhead.style.left = `${(100 * (this.time + 0.5)) / steps}%`;
    this.playhead.style.width = `max(3px, ${steps <= SHORT ? 100 / steps : 0}%)`;
    this.showFacts(option, name);
    this.values.forEach((cell, i) => (cell.textContent = number(row.states[this.time][i])));
    if (this.image) {
      this.image.src = row.images[row.frames[this.time]];
      this.image.alt = `Frame at step ${this.time}`;
      this.image.style.setProperty("--color", color);
    }
    if (active) highlight(option);
  }

  showFacts(option, name) {
    const fact = (key, value) => el("span", {}, el("b", {}, `${key} `), value);
    const sure = data.discrete ? ` (the option gives it ${percent(this.row.certainty[this.time])})` : "";
    this.readout.replaceChildren(
      fact("step", this.time),
      el("span", {}, badge(option), " ", name),
      fact("does", this.action() + sure),
      fact("new choice", percent(this.row.choices[this.time])),
    );
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
  const help = "Drag over a timeline, or focus it and use the arrow keys; Page Up and Down move faster, " +
    "Home and End to the ends, Shift and an arrow to the next segment.";
  section.append(el("p", { class: "note" }, help));
  views.push(...data.trajectories.map((row, episode) => new View(episode, row)));
  section.append(...views.map((view) => view.node));
  const left = data.numTrajectories - views.length;
  if (left > 0) section.append(el("p", { class: "note" }, `${left} more not shown; all figures and cards count them.`));
}
