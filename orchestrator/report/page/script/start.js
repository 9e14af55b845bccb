// The controls, and drawing everything: at first, after a choice, at another width and on paper.
function drawControls() {
  const fill = (id, names, chosen) => {
    $(id).replaceChildren(...names.map((name, index) => make("option", name, {value: index})));
    $(id).value = chosen;
  };
  fill("metric", page.metrics.map(({name}) => name), state.metric);
  fill("average", page.averages, state.average);
  for (const [id, count] of [["metric", page.metrics.length], ["average", page.averages.length], ["evaluation", page.steps.length]])
    $(id).parentElement.hidden = count < 2; // nothing to choose
  $("scale").value = state.scale;
  $("outcome").value = state.outcome;
  const slider = $("evaluation"), formatStep = step => `step ${d3.format(",")(step)}`;
  const judged = page.judged_steps.length === 1 ? `${formatStep(page.judged_steps[0])}, used for the ranking` : "used for the ranking";
  const evaluation = state.evaluation ? formatStep(page.steps[state.evaluation - 1]) : page.running ? "the latest" : judged;
  slider.max = page.steps.length; // the judged evaluation is at the right end
  slider.value = state.evaluation ? state.evaluation - 1 : page.steps.length;
  slider.setAttribute("aria-valuetext", evaluation);
  $("step").textContent = evaluation;
}

// Boxes that continue beyond their right edge say so; the main table names its columns instead.
function markWide() {
  document.querySelectorAll(".scroll, .wide").forEach(box =>
    box.toggleAttribute("data-wide", box.scrollWidth > box.clientWidth + 1 && !box.contains($("table"))));
}

function update() {
  pointed = pointedLength = null;
  document.body.classList.remove("pointed");
  for (const draw of [drawControls, drawCurves, drawTable, drawComparison, drawPoints, drawParallel, drawEffects, drawReadout]) draw();
  markWide();
  saveState();
}

const on = (id, event, change) => $(id).addEventListener(event, () => { change($(id)); update(); });
on("metric", "change", box => {
  state.metric = +box.value;
  if (!state.isScaleChosen) state.scale = page.metrics[state.metric].log ? "log" : "linear";
});
on("average", "change", box => { state.average = +box.value; });
on("scale", "change", box => { [state.scale, state.isScaleChosen] = [box.value, true]; });
on("outcome", "change", box => { state.outcome = box.value; });
on("evaluation", "input", box => { state.evaluation = +box.value === page.steps.length ? 0 : +box.value + 1; });
on("every", "click", () => { state.showsAll = !state.showsAll; });
on("clear", "click", () => { state.filters = {}; });
document.querySelectorAll("form").forEach(form => form.addEventListener("submit", event => event.preventDefault()));
document.querySelectorAll('a[href^="#"]').forEach(link => link.addEventListener("click", event => {
  event.preventDefault(); // the address keeps what is chosen
  document.querySelector(link.getAttribute("href")).scrollIntoView();
}));

// The sentence on the first by rank is followed by its comparison with the next, until fresh seeds have answered.
if (ranked.length > 1 && !page.confirmed) {
  const lead = GROUPS.map(group => compareSeeds(ranked[0], ranked[1], group)).find(comparison => comparison !== null);
  const paragraph = make("p", undefined, {id: "lead"});
  if (lead && page.has_leader) {
    const isFavoured = isBiased(lead, ranked[0], ranked[1]);
    const scope = page.confirmations && !page.has_fresh_seeds ? ", in the search" : "";
    const caveat = scope + (isFavoured ? `, on the seeds that chose ${configurations[ranked[0]].label}${scope ? "" : " (biased; run confirm)"}` : "");
    const sentence = describeComparison(lead, ranked[0], ranked[1]);
    paragraph.append(make("b", `Against the next${caveat}:`), ...keepTogether(` ${continueSentence(sentence)}`));
    if (lead.paired && Number.isNaN(lead.low) && page.more_seeds)
      paragraph.append(" More seeds: ", make("code", page.more_seeds));
    document.querySelectorAll(".rest p")[page.confirmations]?.after(paragraph);
  }
}

const scrolled = loadState();
const hasOutcome = configurations.some(({selection, test}) => selection !== null || test !== null);
if (!hasOutcome || axes.every(axis => axis.outcome)) $("hyperparameters").hidden = true;
if (configurations.every(({test}) => test === null)) $("outcome").closest("form").hidden = true;
update();
if (scrolled) scrollTo(0, scrolled);

let width = innerWidth, redraw;
addEventListener("resize", () => {
  if (innerWidth === width) return; // a phone hides its address bar
  width = innerWidth;
  clearTimeout(redraw);
  redraw = setTimeout(update, 100);
});
let beforePaper = {};
addEventListener("beforeprint", () => {
  beforePaper = {showsAll: state.showsAll, evaluation: state.evaluation, folded: document.querySelectorAll("details:not([open])")};
  [isPaper, state.showsAll, state.evaluation] = [true, true, 0]; // the table and the verdicts are of the judged evaluation
  beforePaper.folded.forEach(details => { details.open = true; });
  update();
});
addEventListener("afterprint", () => {
  [isPaper, state.showsAll, state.evaluation] = [false, beforePaper.showsAll, beforePaper.evaluation];
  beforePaper.folded.forEach(details => { details.open = false; });
  update();
});

// A running sweep writes this file anew: load it again, unless somebody is dragging.
let isDragging = false;
addEventListener("pointerdown", () => { isDragging = true; });
addEventListener("pointerup", () => { isDragging = false; });
if (page.running) setInterval(() => { if (!isDragging) { saveState(scrollY || 1); location.reload(); } }, 10000);
