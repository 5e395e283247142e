// Draws everything.

const episodes = plural(data.numTrajectories, "trajectory", "trajectories");
const where = data.numTrajectories ? `, on ${episodes} with ${plural(data.numSteps, "step")}` : "";
document.getElementById("subtitle").textContent = plural(data.options.length, "option") + where;
document.getElementById("footer").textContent =
  `Made by pyro_options ${data.version}. This file loads nothing from anywhere.`;
overview();
comparison();
options();
filterBar();
trajectories();
