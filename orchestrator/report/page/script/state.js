// What the page shows and what is chosen on it. These files become one script in the order of render.py.
// orchestrator/report/page/data.py makes the JSON in #data and describes it. A configuration is named by its index c
// in page.configurations, which are in the order of their ranks.
const INFINITE = {inf: Infinity, "-inf": -Infinity}; // JSON has no number for them
const page = JSON.parse(document.getElementById("data").textContent,
  (key, value) => key === "ends" ? value.map(end => INFINITE[end] ?? end) : value);
const configurations = page.configurations, C = configurations.length, S = page.seeds;
const GROUPS = ["test", "selection", "trained"];
const FIRST = "#e8702a", SECOND = "#004d47", OPEN = "#8a94a0"; // differ also in lightness: for the color-blind, and in greyscale

const $ = id => document.getElementById(id);
const UNBROKEN = /(\[[^[\]]{0,40}\]|(?<![\w.&/-])\d[\d.]*(?:-\d[\d.]*(?![\w/-])| %))/; // as in render.py
const keepTogether = text => text.split(UNBROKEN).map((part, index) => { // numbers of a sentence are not broken into lines
  const node = document.createElement("span");
  node.className = "keep";
  node.textContent = part;
  return index % 2 ? node : part;
});
const make = (tag, text, attributes = {}) => {
  const element = document.createElement(tag);
  if (text !== undefined && "P H2 H3".includes(element.tagName)) element.append(...keepTogether(text));
  else if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

if (!page.metrics.some(metric => metric.lengths.length)) { // nothing has been evaluated yet
  for (const id of ["picture", "hyperparameters", "comparison", "table", "every"]) $(id).hidden = true;
  if (page.running) setTimeout(() => location.reload(), 10000);
  return;
}

// The curves of all seeds and the quartiles over seeds lie in one array; here is where those of each metric m and
// average a begin. Quartiles are of each evaluation e: 0 is the judged one, 1 and more are those at page.steps.
const bytes = Uint8Array.from(atob(page.numbers), letter => letter.charCodeAt(0));
const numbers = new Float32Array(bytes.buffer);
const evaluations = 1 + page.steps.length;
const seedOffsets = [], quartileOffsets = [];
let offset = 0;
for (const [offsets, curveCount] of [[seedOffsets, C * S], [quartileOffsets, evaluations * C * 3]])
  for (const metric of page.metrics) {
    const size = curveCount * metric.lengths.length;
    offsets.push(page.averages.map((_, a) => offset + a * size));
    offset += page.averages.length * size;
  }
const lengthsOf = m => page.metrics[m].lengths;
const readCurve = (start, index, lengthCount) => numbers.subarray(start + index * lengthCount, start + (index + 1) * lengthCount);
const seedCurve = (m, a, c, s) => readCurve(seedOffsets[m][a], c * S + s, lengthsOf(m).length);
const quartileCurves = (m, a, e, c) =>
  [0, 1, 2].map(quartile => readCurve(quartileOffsets[m][a], (e * C + c) * 3 + quartile, lengthsOf(m).length));

// What is chosen. It is kept in the address as well, so that a page that reloads itself shows the same.
const ranked = d3.range(C).filter(c => configurations[c].rank);
const state = {
  metric: 0, average: 0, evaluation: 0, scale: page.metrics[0].log ? "log" : "linear", isScaleChosen: false,
  first: ranked[0] ?? null, second: ranked[1] ?? null,
  outcome: "selection", sort: "rank", isDescending: false, showsAll: false, filters: {},
};
const initialState = JSON.stringify(state);
let pointed = null, pointedLength = null; // the configuration and the index of the length under the pointer
const loadState = () => {
  try {
    const saved = JSON.parse(decodeURIComponent(location.hash.slice(1)) || "{}");
    for (const key of Object.keys(state)) if (key in saved) state[key] = saved[key];
    state.metric = Math.min(state.metric, page.metrics.length - 1);
    state.average = Math.min(state.average, page.averages.length - 1);
    state.evaluation = Math.min(state.evaluation, page.steps.length);
    for (const key of ["first", "second"]) { // saved by label: an index changes with the ranks
      const c = configurations.findIndex(({label}) => label === saved[key]);
      if (key in saved) state[key] = c < 0 ? null : c;
    }
    return saved.y || 0;
  } catch { return 0; } // the address was made by something else
};
const saveState = scrolled => {
  const labelOf = c => configurations[c]?.label ?? null;
  const saved = {...state, first: labelOf(state.first), second: labelOf(state.second)};
  const isInitial = !scrolled && JSON.stringify(state) === initialState;
  const text = isInitial ? "" : encodeURIComponent(JSON.stringify(scrolled ? {...saved, y: scrolled} : saved));
  try { history.replaceState(null, "", `#${text}`); } catch { /* a sandboxed frame has no address */ }
};

// Pictures are drawn for the width of their box; for paper, which a browser fits to the widest table, for one that suits most.
const PAPER_WIDTH = 900;
let isPaper = false;
const widthOf = box => isPaper ? PAPER_WIDTH : box.clientWidth;

// Numbers and words.
const formatRanges = lengths => { // "1-5, 8"
  const ranges = [];
  for (const length of lengths) {
    const last = ranges.at(-1);
    if (last && length === last[1] + 1) last[1] = length; else ranges.push([length, length]);
  }
  return ranges.map(([low, high]) => low === high ? low : `${low}-${high}`).join(", ");
};
const shorten = value => {
  if (typeof value === "number") return compactNumber(value);
  return value.length > 14 ? `${value.slice(0, 13)}...` : value;
};
const formatMetric = (metric, average) => average === "raw" ? metric : `${metric} (${average})`;
const judgedName = formatMetric(page.judged.metric, page.judged.average);
const metricName = () => formatMetric(page.metrics[state.metric].name, page.averages[state.average]);
const groupsOf = (c, m) => page.groups[configurations[c].groups[page.metrics[m].name]] || {};
const describeLengths = group => { // of the judged metric, such as " 8-19"; empty if configurations have different ones
  const texts = new Set(d3.range(C).map(c => formatRanges(groupsOf(c, 0)[group] || [])));
  return texts.size === 1 ? ` ${[...texts][0]}` : "";
};
const describeSeeds = c => {
  const {failed, run, seeds} = configurations[c];
  const isWhole = !failed && run === seeds.length;
  return `rank ${page.table.rank[c]}, ${isWhole ? `${run} seeds` : `${run - failed} of ${seeds.length} seeds finished, ${failed} failed`}`;
};
const describe = c => [describeSeeds(c), ...Object.entries(configurations[c].values).map(pair => pair.join(" "))].join(", ");
const markOf = c => c === state.first ? "A" : c === state.second ? "B" : "";
const describeSides = text => [state.first, state.second].filter(c => c !== null).map(c => `; ${labelWithMark(c)}${text(c)}`).join(""); // for screen readers
const labelWithMark = c => (markOf(c) ? `${markOf(c)} ` : "") + configurations[c].label;

// Colors by rank, and scales.
const ramp = d3.scaleSequential(d3.interpolateCividis).domain([-0.06 * ranked.length, 1.3 * Math.max(1, ranked.length)]);
const color = c => ({A: FIRST, B: SECOND})[markOf(c)] ?? (configurations[c].rank ? ramp(c) : OPEN);
const inkOf = c => ({A: "var(--first)", B: "var(--second)"})[markOf(c)] ?? null; // of text, which needs more contrast than a line
// A is a square and B a circle, as in the table, so that they are told apart without colors; all others are circles.
const makeMark = (c, radius) => d3.symbol(markOf(c) === "A" ? d3.symbolSquare : d3.symbolCircle, Math.PI * radius ** 2)();
const formatGeneral = d3.format("~g");
const formatExponent = value => value === 0 || value === 1 ? String(value) : d3.format("~e")(value).replace("e+", "e");
const linearTickFormat = scale => d3.max(scale.domain(), Math.abs) < 1e-3 ? formatExponent : formatGeneral;
const logTickFormat = scale => { // beyond a decade only 1, 2 and 5 are labelled, beyond two only powers of ten
  const [low, high] = d3.extent(scale.domain()), format = low < 1e-4 || high >= 1e6 ? formatExponent : formatGeneral;
  const labelled = high / low < 10 ? /^/ : high / low < 100 ? /^[125]/ : /^1/;
  return value => labelled.test(value.toExponential()) ? format(value) : "";
};
// A share (no metric declares its range: one that is better when higher, and never leaves 0 to 1) has no axis beyond 0 or
// 1. A linear axis of outcomes spans at least 5 % of 0 to 1, of other metrics 5 % of the largest value, so that a
// difference of 0.0002 between accuracies does not fill the picture.
const LEAST_SPAN = 0.05, shares = [];
const isShare = m => shares[m] ??= page.metrics[m].direction === "maximize"
  && numbers.subarray(seedOffsets[m][0], seedOffsets[m][0] + page.averages.length * C * S * lengthsOf(m).length)
    .every(value => !Number.isFinite(value) || value >= 0 && value <= 1);
function widenDomain([low, high], m) {
  if (isShare(m) && low === high) return [0, 1];
  const least = LEAST_SPAN * (isShare(m) ? 1 : Math.max(Math.abs(low), Math.abs(high)) || 1), missing = least - (high - low);
  if (missing <= 0) return [low, high];
  const lowest = low >= 0 ? Math.max(0, low - missing / 2) : low - missing / 2;
  return isShare(m) && lowest + least > 1 ? [1 - least, 1] : [lowest, lowest + least];
}
const measureLabels = (svg, axis) => { // the width of the widest, which a vertical axis needs at its left
  const trial = svg.append("g").call(axis);
  const widest = d3.max(trial.selectAll(".tick text").nodes(), text => text.getComputedTextLength()) || 0;
  trial.remove();
  return widest;
};

// Configurations without an outcome, because seeds failed or never reached the metric, are crosses in a strip beyond the
// worse end of its axis.
const isNeverReached = page.judged.infinite !== "inf";
const WHY_LOST = isNeverReached ? page.judged.infinite : page.judged.why_lost;
const hasFailedSeeds = c => configurations[c].failed > 0;
const describeLost = c => isNeverReached ? page.judged.infinite : hasFailedSeeds(c) ? "failed" : "no score";
const isLost = (c, outcome) => configurations[c].without_value.includes(outcome);
const failed = d3.range(C).filter(c => configurations[c].without_value.length);
// Those with an outcome although some of their seeds failed have hollow points.
const isHollow = c => configurations[c].failed > 0 && !configurations[c].without_value.length;
const hollow = d3.range(C).filter(isHollow);
const listFirst = (texts, separator = ", ") => `${texts.slice(0, 6).join(separator)}${texts.length > 6 ? " ..." : ""}`;
const STRIP_HEIGHT = failed.length ? 20 : 0;
const [STRIP_ABOVE, STRIP_BELOW] = page.metrics[0].direction === "minimize" ? [STRIP_HEIGHT, 0] : [0, STRIP_HEIGHT];
const drawCrosses = (svg, cs, position) => pointable(svg.append("g").selectAll("text").data(cs).join("text")).text("\u00d7")
  .attr("class", c => `cross${outClass(c)}`).attr("text-anchor", "middle")
  .attr("transform", c => `translate(${position(c)})`);
const labelStrip = (svg, x, y) =>
  svg.append("text").attr("class", "failed").attr("x", x).attr("y", y).attr("text-anchor", "end").text(isNeverReached ? "never" : failed.some(hasFailedSeeds) ? "failed" : "no score");

// An axis for each hyperparameter and outcome. A filter is [low, high] in parts of the height of its axis.
const axes = [
  ...page.hyperparameters.map(hyperparameter => ({...hyperparameter})),
  ...["selection", "test"].map(name => {
    const values = configurations.map(configuration => configuration[name]);
    return {name, values, outcome: true, number: true, log: page.logarithmic_outcomes.includes(name)};
  }),
].filter(axis => axis.values.some(value => value !== null));
for (const axis of axes) {
  const distinct = [...new Set(axis.values.filter(value => value !== null))], [low, high] = d3.extent(distinct);
  axis.ticks = axis.number && !axis.outcome && distinct.length <= 5 ? distinct : null; // each of a few values has its own tick
  if (!axis.number) axis.scale = d3.scalePoint(distinct, [0, 1]).padding(0.3);
  else {
    axis.log = axis.log && low > 0;
    const domain = axis.outcome && !axis.log ? widenDomain([low, high], 0) : low < high ? [low, high] : [low - 1, low + 1];
    axis.scale = (axis.log ? d3.scaleLog() : d3.scaleLinear()).domain(domain);
  }
}
const isIn = c => Object.entries(state.filters).every(([name, [low, high]]) => {
  const axis = axes.find(candidate => candidate.name === name);
  if (!axis) return true;
  const part = axis.values[c] === null ? NaN : axis.scale(axis.values[c]);
  return part >= low - 1e-9 && part <= high + 1e-9; // a value at the end of the range is inside
});
const outClass = c => isIn(c) || markOf(c) ? "" : " out"; // A and B stay, as they are compared
const describeFilter = (axis, [low, high]) => { // "0.05 to 0.27", or the categories in the range
  if (axis.number) return [low, high].map(part => shorten(axis.scale.invert(part))).join(" to ");
  return axis.scale.domain().filter(value => axis.scale(value) >= low && axis.scale(value) <= high).map(shorten).join(", ") || "none";
};
const describeFilters = () => { // empty without any
  const ranges = axes.filter(({name}) => state.filters[name]).map(axis => `${axis.name} ${describeFilter(axis, state.filters[axis.name])}`);
  return ranges.length ? `${d3.range(C).filter(isIn).length} of ${C} configurations, ${ranges.join(", ")}` : "";
};
const tickFormat = (axis, scale) => {
  if (axis.number && axis.ticks && d3.min(axis.ticks.filter(value => value > 0)) < 1e-4) return value => formatExponent(+value.toPrecision(3));
  return !axis.number || axis.ticks ? shorten : axis.log ? logTickFormat(scale) : linearTickFormat(scale);
};

// Choosing A and B, and pointing: the same configuration is highlighted in every figure and in the table.
let isTouched = false; // a finger often taps twice or beside a line, so a tap on A or B keeps both
addEventListener("pointerdown", event => { isTouched = event.pointerType === "touch"; }, true);
addEventListener("keydown", () => { isTouched = false; }, true);
function choose(c) {
  if (isTouched && markOf(c)) return;
  if (state.first === c) state.first = null;
  else if (state.second === c) state.second = null;
  else if (state.first === null) state.first = c;
  else state.second = c;
  update();
}
function point(c, length = null) {
  if (c === pointed && length === pointedLength) return;
  const isOther = c !== pointed;
  [pointed, pointedLength] = [c, length];
  if (isOther) {
    document.querySelectorAll(".hot").forEach(element => element.classList.remove("hot"));
    document.body.classList.toggle("pointed", c !== null);
    if (c !== null) document.querySelectorAll(`[data-c="${c}"]`).forEach(element => element.classList.add("hot"));
  }
  drawFocus();
  drawBeside();
  drawReadout();
}
const pointable = selection => selection.attr("data-c", c => c)
  .on("pointerenter", (_, c) => point(c)).on("pointerleave", () => point(null)).on("click", (_, c) => choose(c));
// Everything is drawn anew after a choice: focus what takes the place of the element that had the focus, so that keys go on there.
const focusAgain = (...selectors) =>
  selectors.map(selector => document.querySelector(selector)).find(element => element !== null)?.focus({preventScroll: true});
function pointByKey(event) {
  const isRow = event.currentTarget.closest("table") !== null, order = sortedConfigurations();
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key], lengthStep = isRow ? 0 : {ArrowRight: 1, ArrowLeft: -1}[event.key];
  const limit = (index, count) => Math.max(0, Math.min(count - 1, index));
  if (step) {
    const next = order[limit(order.indexOf(pointed) + step, order.length)] ?? null;
    point(next, pointedLength);
    if (isRow) document.querySelector(`#table tr[data-c="${next}"]`)?.focus();
  } else if (lengthStep) { // the first step is to the first or the last length
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
