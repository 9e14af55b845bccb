// The data of the page, from the JSON in #data, which orchestrator/report/page/data.py makes and describes.
// A configuration is named by its index c in page.configurations, which are in the order of their ranks.
const INFINITE = {inf: Infinity, "-inf": -Infinity}; // JSON has no number for them
const page = JSON.parse(
  $("data").textContent,
  (key, value) => key === "ends" ? value.map(end => INFINITE[end] ?? end) : value,
);
const configurations = page.configurations, C = configurations.length, S = page.seeds;
const GROUPS = ["test", "selection", "trained"]; // of lengths, the most interesting first
const ranked = d3.range(C).filter(c => configurations[c].rank);

// Before the first evaluation, and if all seeds failed, there is nothing to draw.
if (!page.has_values) {
  for (const id of ["picture", "ranking", "hyperparameters", "comparison"]) $(id).hidden = true;
  if (page.running) setTimeout(() => location.reload(), 10000);
  return;
}

// The curves of all seeds and the quartiles over seeds lie in one array; these are the offsets for each metric m and
// average a. Quartiles exist for each evaluation e: 0 is the judged evaluation, 1 and more are at page.steps.
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

// Return the evaluated lengths of a metric.
const lengthsOf = m => page.metrics[m].lengths;

// Return one of the curves that follow each other from `start` on.
const readCurve = (start, index, lengthCount) =>
  numbers.subarray(start + index * lengthCount, start + (index + 1) * lengthCount);

// Return the curve of a seed, the s-th of its configuration, at the judged evaluation.
const seedCurve = (m, a, c, s) => readCurve(seedOffsets[m][a], c * S + s, lengthsOf(m).length);

// Return the curves of the first quartile, the median and the third quartile over the seeds of a configuration.
const quartileCurves = (m, a, e, c) =>
  [0, 1, 2].map(quartile => readCurve(quartileOffsets[m][a], (e * C + c) * 3 + quartile, lengthsOf(m).length));

// Return the lengths of a configuration by group, such as {trained: [1, 2, 3], selection: [4], test: [5, 6]}.
const groupsOf = (c, m) => page.groups[configurations[c].groups[page.metrics[m].name]] || {};

// Configurations lack an outcome because seeds failed, because they never reached a threshold, or because the metric is
// NaN. All pictures show them as crosses, apart from those with an outcome.
const isNeverReached = page.judged.infinite !== "inf";
const WHY_LOST = isNeverReached ? page.judged.infinite : page.judged.why_lost;
const isLost = (c, outcome) => configurations[c].without_value.includes(outcome);
const withoutOutcome = d3.range(C).filter(c => configurations[c].without_value.length);
const hasFailedSeeds = c => configurations[c].failed > 0;

// Those with an outcome although some of their seeds failed have hollow points.
const isHollow = c => hasFailedSeeds(c) && !configurations[c].without_value.length;
const hollow = d3.range(C).filter(isHollow);
