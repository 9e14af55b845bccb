// The controls, and drawing everything: at first, after a choice, at another width and on paper.

// Show the chosen values in the controls, and hide controls without alternatives.
function drawControls() {
  const fill = (id, names, chosen) => {
    $(id).replaceChildren(...names.map((name, index) => make("option", name, {value: index})));
    $(id).value = chosen;
    $(id).parentElement.hidden = names.length < 2;
  };
  fill("metric", page.metrics.map(({name}) => name), state.metric);
  fill("average", page.averages, state.average);
  $("scale").value = state.scale;
  $("outcome").value = state.outcome;

  // The judged evaluation is at the right end of the slider.
  const slider = $("evaluation"), chosen = chosenEvaluation();
  const judgedStep = page.judged_steps.length === 1 ? `${formatStep(page.judged_steps[0])}, ` : "";
  const judged = page.running ? "the latest" : `${judgedStep}used for the ranking`;
  const evaluation = chosen ? formatStep(state.step) : judged;
  slider.parentElement.hidden = !page.steps.length;
  slider.max = page.steps.length;
  slider.value = chosen ? chosen - 1 : page.steps.length;
  slider.setAttribute("aria-valuetext", evaluation);
  $("step").textContent = evaluation;
}

// Mark boxes that continue beyond their right edge, which say so; the main table names its columns instead.
function markWide() {
  document.querySelectorAll(".scroll, .wide").forEach(box =>
    box.toggleAttribute("data-wide", box.scrollWidth > box.clientWidth + 1 && !box.contains($("table"))));
}

// Draw everything that depends on the choices.
function update() {
  pointed = pointedLength = null;
  document.body.classList.remove("pointed");
  drawControls();
  drawCurves();
  drawTable();
  drawComparison();
  drawPoints();
  drawParallel();
  drawEffects();
  drawReadout();
  markWide();
  saveState();
}

// What the controls change.
const on = (id, event, change) => $(id).addEventListener(event, () => { change($(id)); update(); });
on("metric", "change", box => {
  state.metric = +box.value;
  if (!state.isScaleChosen) state.scale = page.metrics[state.metric].log ? "log" : "linear";
});
on("average", "change", box => { state.average = +box.value; });
on("scale", "change", box => { [state.scale, state.isScaleChosen] = [box.value, true]; });
on("outcome", "change", box => { state.outcome = box.value; });
on("evaluation", "input", box => { state.step = page.steps[box.value] ?? null; });
on("every", "click", () => { state.showsAll = !state.showsAll; });
on("clear", "click", () => { state.filters = {}; });
document.querySelectorAll("form").forEach(form => form.addEventListener("submit", event => event.preventDefault()));

// A link within the page does not change the address, because the address keeps the choices.
document.querySelectorAll('a[href^="#"]').forEach(link => link.addEventListener("click", event => {
  event.preventDefault();
  document.querySelector(link.getAttribute("href")).scrollIntoView();
}));

// Compare the first by rank with the next, after the sentence on the first, until fresh seeds have answered.
function addLead() {
  if (ranked.length < 2 || page.confirmed || !page.has_leader) return;
  const [first, next] = ranked;
  const lead = GROUPS.map(group => compareSeeds(first, next, group)).find(comparison => comparison !== null);
  if (!lead) return;

  // Say which seeds are compared, and whether they favour the first.
  const scope = page.confirmations && !page.has_fresh_seeds ? ", in the search" : "";
  const advice = scope ? "" : " (biased; run confirm)";
  const seeds = isBiased(lead, first, next)
    ? `, on the seeds that ranked ${configurations[first].label} first${advice}` : "";
  const paragraph = make("p", undefined, {id: "lead"});
  const sentence = continueSentence(describeComparison(lead, first, next));
  paragraph.append(make("b", `Against the next${scope}${seeds}:`), ...keepTogether(` ${sentence}`));
  if (lead.paired && Number.isNaN(lead.low) && page.more_seeds)
    paragraph.append(" More seeds: ", make("code", page.more_seeds));
  document.querySelectorAll(".rest p")[page.confirmations]?.after(paragraph);
}
addLead();

// Draw the page at first.
const scrolled = loadState();
const hasOutcome = configurations.some(({selection, test}) => selection !== null || test !== null);
if (!hasOutcome || axes.every(axis => axis.outcome)) $("hyperparameters").hidden = true;
if (configurations.every(({test}) => test === null)) $("outcome").closest("form").hidden = true;
update();
if (scrolled) scrollTo(0, scrolled);

// Redraw the page at another width; the height changes when a phone hides its address bar.
let width = innerWidth, redraw;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  clearTimeout(redraw);
  redraw = setTimeout(update, 100);
});

// Paper shows all rows, all folded sections, and the judged evaluation, which table and verdicts are about.
let beforePaper = {};
addEventListener("beforeprint", () => {
  const folded = document.querySelectorAll("details:not([open])");
  beforePaper = {showsAll: state.showsAll, step: state.step, folded};
  [isPaper, state.showsAll, state.step] = [true, true, null];
  folded.forEach(details => { details.open = true; });
  update();
});
addEventListener("afterprint", () => {
  [isPaper, state.showsAll, state.step] = [false, beforePaper.showsAll, beforePaper.step];
  beforePaper.folded.forEach(details => { details.open = false; });
  update();
});

// A running sweep rewrites this file: reload it, unless somebody is dragging.
let isDragging = false;
addEventListener("pointerdown", () => { isDragging = true; });
addEventListener("pointerup", () => { isDragging = false; });
if (page.running) setInterval(() => {
  if (isDragging) return;
  saveState(scrollY || 1);
  location.reload();
}, 10000);
