// What the reader has chosen and points at, in every picture and in the table.
const state = {
  metric: 0, average: 0, step: null, // null: the judged evaluation
  scale: page.metrics[0].log ? "log" : "linear", isScaleChosen: false,
  first: ranked[0] ?? null, second: ranked[1] ?? null, // A and B
  outcome: "selection", sort: "rank", isDescending: false, showsAll: false, filters: {},
};
const initialState = JSON.stringify(state);
let pointed = null, pointedLength = null; // the configuration and the index of the length under the pointer
let deselected = null; // the configuration that the last choice deselected, and its mark, until another is pointed at

// Return the index of the chosen evaluation; 0 is the judged one.
const chosenEvaluation = () => page.steps.indexOf(state.step) + 1;

// Return the chosen configurations among A and B.
const chosenPair = () => [state.first, state.second].filter(c => c !== null);

// Return the mark of a configuration, "A", "B" or ""; and its CSS class, undefined without a mark.
const getMark = c => c === state.first ? "A" : c === state.second ? "B" : "";
const getClass = c => ({A: "first", B: "second"})[getMark(c)];

// Return quartiles and median of a configuration as the curves show them now.
const shownQuartiles = c => quartileCurves(state.metric, state.average, chosenEvaluation(), c);
const shownMedian = c => shownQuartiles(c)[1];

// Restore the choices from the address, and return how far the page was scrolled. A running sweep may have added
// configurations, metrics and steps since, so everything is saved by its name or value, not by its place.
const loadState = () => {
  try {
    const saved = JSON.parse(decodeURIComponent(location.hash.slice(1)) || "{}");
    for (const key of Object.keys(state)) if (key in saved) state[key] = saved[key];

    const find = (items, isSaved, missing) => {
      const index = items.findIndex(isSaved);
      return index < 0 ? missing : index;
    };
    for (const key of ["first", "second"])
      if (key in saved) state[key] = find(configurations, ({label}) => label === saved[key], null);
    state.metric = find(page.metrics, ({name}) => name === saved.metric, 0);
    state.average = find(page.averages, name => name === saved.average, 0);

    // A long sweep leaves out steps: the nearest takes the place of a missing one.
    if (state.step !== null) state.step = d3.least(page.steps, step => Math.abs(step - saved.step));
    state.filters = selectFitting(state.filters);
    return saved.y || 0;
  } catch { return 0; } // the address was made by something else
};

// Save the choices in the address, so that a page that reloads itself shows the same; `scrolled` is in pixels.
const saveState = scrolled => {
  const labelOf = c => configurations[c]?.label ?? null;
  const saved = {
    ...state,
    metric: page.metrics[state.metric].name,
    average: page.averages[state.average],
    first: labelOf(state.first),
    second: labelOf(state.second),
  };
  const isInitial = !scrolled && JSON.stringify(state) === initialState;
  const text = isInitial ? "" : encodeURIComponent(JSON.stringify(scrolled ? {...saved, y: scrolled} : saved));
  try { history.replaceState(null, "", `#${text}`); } catch { /* a sandboxed frame has no address */ }
};

// Whether a finger has touched the page last: it often taps twice or beside a line, so a tap on A or B keeps both.
let isTouched = false;
addEventListener("pointerdown", event => { isTouched = event.pointerType === "touch"; }, true);
addEventListener("keydown", () => { isTouched = false; }, true);

// Choose a configuration as A, or as B if A is taken; or deselect it.
function choose(c) {
  if (isTouched && getMark(c)) return;
  deselected = getMark(c) ? {c, mark: getMark(c)} : null;
  if (state.first === c) state.first = null;
  else if (state.second === c) state.second = null;
  else if (state.first === null) state.first = c;
  else state.second = c;
  update();
}

// Point at a configuration, and at a length of its curve: every picture and the table highlight it.
function point(c, length = null) {
  if (c === pointed && length === pointedLength) return;
  const isOther = c !== pointed;
  [pointed, pointedLength] = [c, length];
  if (deselected?.c !== c) deselected = null;
  if (isOther) {
    document.querySelectorAll(".hot").forEach(element => element.classList.remove("hot"));
    document.body.classList.toggle("pointed", c !== null);
    if (c !== null)
      document.querySelectorAll(`[data-c="${c}"]`).forEach(element => element.classList.add("hot"));
  }
  drawFocus();
  drawBeside();
  drawReadout();
}

// Make the elements of a selection, each with a configuration as its datum, react to the pointer.
const pointable = selection => selection.attr("data-c", c => c)
  .on("pointerenter", (_, c) => point(c))
  .on("pointerleave", () => point(null))
  .on("click", (_, c) => choose(c));

// Give keys the effects of the pointer: up and down point at a configuration, left and right at a length of the curves,
// Enter and the space bar choose.
function pointByKey(event) {
  const isRow = event.currentTarget.closest("table") !== null, order = sortedConfigurations();
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  const lengthStep = isRow ? 0 : {ArrowRight: 1, ArrowLeft: -1}[event.key];
  const limit = (index, count) => Math.max(0, Math.min(count - 1, index));
  if (step) {
    const next = order[limit(order.indexOf(pointed) + step, order.length)] ?? null;
    point(next, pointedLength);
    if (isRow) document.querySelector(`#table tr[data-c="${next}"]`)?.focus();
  } else if (lengthStep) {
    // The first step is to the first or the last length.
    const count = lengthsOf(state.metric).length, index = pointedLength ?? (lengthStep > 0 ? -1 : count);
    point(pointed ?? state.first ?? order[0] ?? null, limit(index + lengthStep, count));
  } else if ((event.key === "Enter" || event.key === " ") && pointed !== null) {
    const chosen = pointed, length = pointedLength;
    choose(chosen);
    focusAgain(isRow ? `#table tr[data-c="${chosen}"]` : "#curves svg", "#table tbody tr:last-child");
    point(chosen, length);
  } else return;
  event.preventDefault();
}
