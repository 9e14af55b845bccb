// What all pictures share: sizes, colors, marks, and the labels of their axes.

const PAPER_WIDTH = 900;
let isPaper = false;

// Return the width of a picture: the width of its box. On paper it is fixed, because a browser makes the page as wide
// as its widest table and then scales it down.
const widthOf = box => isPaper ? PAPER_WIDTH : box.clientWidth;

// The colors of A and B differ also in lightness, for the color-blind and in greyscale; other colors go by rank.
const FIRST = "#e8702a", SECOND = "#004d47", OPEN = "#8a94a0", INK = "#1c2127";
const ramp = d3.scaleSequential(d3.interpolateCividis)
  .domain([-0.06 * ranked.length, 1.3 * Math.max(1, ranked.length)]); // neither the darkest nor the lightest colors

// Return the color of a configuration; and the color of text about A or B, which needs more contrast than a line.
const color = c => ({A: FIRST, B: SECOND})[getMark(c)] ?? (configurations[c].rank ? ramp(c) : OPEN);
const getInk = c => getClass(c) ? `var(--${getClass(c)})` : null;

// Return the path of a mark. A is a square and B a circle, as in the table, so that they are told apart without colors;
// all others are circles.
const makeMark = (c, radius) =>
  d3.symbol(getMark(c) === "A" ? d3.symbolSquare : d3.symbolCircle, Math.PI * radius ** 2)();

// Return the label of a tick: without zeros at its end, or with an exponent.
const formatGeneral = d3.format("~g");
const formatExponent = value =>
  value === 0 || value === 1 ? String(value) : d3.format("~e")(value).replace("e+", "e");

// Return the labels of a linear or logarithmic axis. The latter labels only 1, 2 and 5 beyond a decade, and only powers
// of ten beyond two decades.
const linearTickFormat = scale => d3.max(scale.domain(), Math.abs) < 1e-3 ? formatExponent : formatGeneral;
const logTickFormat = scale => {
  const [low, high] = d3.extent(scale.domain()), format = low < 1e-4 || high >= 1e6 ? formatExponent : formatGeneral;
  const labelled = high / low < 10 ? /^/ : high / low < 100 ? /^[125]/ : /^1/;
  return value => labelled.test(value.toExponential()) ? format(value) : "";
};

// Return the width of the widest label of an axis, which a vertical axis needs at its left.
const measureLabels = (svg, axis) => {
  const trial = svg.append("g").call(axis);
  const widest = d3.max(trial.selectAll(".tick text").nodes(), text => text.getComputedTextLength()) || 0;
  trial.remove();
  return widest;
};

// Drop the labels of an axis that would overlap the label before them; their ticks stay.
const ON_HEIGHT = ["top", "bottom", -3]; // they may overlap by 3 pixels, because text boxes are higher than digits
function dropOverlapping(axis, [from, to, gap] = ["left", "right", 4]) {
  const labels = axis.selectAll(".tick text").nodes().filter(text => text.textContent)
    .map(text => ({text, box: text.getBoundingClientRect()}))
    .sort((label, other) => label.box[from] - other.box[from]);
  let end = -Infinity;
  for (const {text, box} of labels) if (box.width && box[from] < end + gap) text.remove(); else end = box[to];
}

// Move labels of one line each apart, downwards first and then back above the lower edge.
function moveApart(labels, lowest) {
  labels.sort((label, other) => label.y - other.y);
  for (let n = 1; n < labels.length; n++) labels[n].y = Math.max(labels[n].y, labels[n - 1].y + 14);
  labels.forEach((label, n) => { label.y = Math.min(label.y, lowest - 14 * (labels.length - 1 - n)); });
}

// Return whether a metric is a share: better when higher, and never outside 0 to 1 (no metric declares its range). This
// reads many numbers, so it is done once for each metric.
const shares = [];
const isShare = m => shares[m] ??= page.metrics[m].direction === "maximize"
  && numbers.subarray(seedOffsets[m][0], seedOffsets[m][0] + page.averages.length * C * S * lengthsOf(m).length)
    .every(value => !Number.isFinite(value) || value >= 0 && value <= 1);

// Return the ends of a linear axis: at least 5 % of 0 to 1 for a share, which has no axis beyond 0 or 1, and 5 % of the
// largest value for other metrics, so that a difference of 0.0002 between accuracies does not fill the picture.
const LEAST_SPAN = 0.05;
function widenDomain([low, high], m) {
  if (isShare(m) && low === high) return [0, 1];
  const least = LEAST_SPAN * (isShare(m) ? 1 : Math.max(Math.abs(low), Math.abs(high)) || 1);
  const missing = least - (high - low);
  if (missing <= 0) return [low, high];
  const lowest = low >= 0 ? Math.max(0, low - missing / 2) : low - missing / 2;
  return isShare(m) && lowest + least > 1 ? [1 - least, 1] : [lowest, lowest + least];
}

// Configurations without an outcome are crosses in a strip beyond the worse end of its axis.
const STRIP_HEIGHT = withoutOutcome.length ? 20 : 0;
const [STRIP_ABOVE, STRIP_BELOW] =
  page.metrics[0].direction === "minimize" ? [STRIP_HEIGHT, 0] : [0, STRIP_HEIGHT];

// Draw crosses for configurations at these positions; and name the strip that has them.
const drawCrosses = (svg, cs, position) =>
  pointable(svg.append("g").selectAll("text").data(cs).join("text")).text("\u00d7")
    .attr("class", c => `cross${outClass(c)}`).attr("text-anchor", "middle")
    .attr("transform", c => `translate(${position(c)})`);
const labelStrip = (svg, x, y) => svg.append("text").attr("class", "failed")
  .attr("x", x).attr("y", y).attr("text-anchor", "end")
  .text(isNeverReached ? "never" : withoutOutcome.some(hasFailedSeeds) ? "failed" : "no score");
