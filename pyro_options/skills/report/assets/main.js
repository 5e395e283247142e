// Draws everything.

const used = data.numTrajectories ? `, on ${data.numTrajectories} trajectories with ${plural(data.numSteps, "step")}` : "";
document.getElementById("subtitle").textContent = plural(data.options.length, "option") + used;
document.getElementById("footer").textContent = `Made by pyro_options ${data.version}. This file loads nothing from anywhere.`;
overview();
options();
filterBar();
trajectories();
