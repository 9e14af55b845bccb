// The outcome against each hyperparameter, a panel for each.

// Return the effects on the chosen outcome; on all outcomes if it has none, so that there is an order.
const listEffects = () => {
  const ofOutcome = page.effects.filter(effect => effect.group === state.outcome);
  return ofOutcome.length ? ofOutcome : page.effects;
};

// Return the size of the rank correlation of a hyperparameter, 0 without an interval; and sort by it, strongest first.
const strengthOf = name => d3.max(
  listEffects().filter(effect => effect.name === name),
  ({correlation: [value, low]}) => low === null ? 0 : Math.abs(value),
) ?? 0;
const byStrength = (one, other) => strengthOf(other.name) - strengthOf(one.name);

// Return the scale of the chosen outcome.
function makeOutcomeScale(bottom, top) {
  const values = configurations.map(configuration => configuration[state.outcome]).filter(value => value !== null);
  const log = page.logarithmic_outcomes.includes(state.outcome);
  const [low, high] = values.length ? d3.extent(values) : [1, 2];
  const domain = log ? [low, high] : widenDomain([low, high], 0);
  const scale = (log ? d3.scaleLog() : d3.scaleLinear()).domain(domain).range([bottom, top]);
  return Object.assign(log ? scale : scale.nice(), {log});
}

// Return whether the point of a configuration is spread sideways, because others have the same category or the same of
// few values.
const isSpread = (axis, c) => (!axis.number || axis.ticks !== null)
  && axis.values.filter(value => value === axis.values[c]).length > 1;

// Draw the panels, as many in a row as have room and as equal rows as possible.
function drawPoints() {
  const box = $("points"), panels = axes.filter(axis => !axis.outcome).toSorted(byStrength);
  $("outcome-note").replaceChildren(...keepTogether(describeOutcome(panels)));
  const room = Math.max(1, Math.floor(widthOf(box) / 254));
  const perRow = Math.ceil(panels.length / Math.ceil(panels.length / room));
  box.style.gridTemplateColumns = `repeat(${perRow}, minmax(0, 1fr))`;
  box.replaceChildren();
  const widest = panels.length > 1 ? 340 : 480;
  const width = Math.max(220, Math.min((widthOf(box) - 24 * (perRow - 1)) / perRow, widest));
  for (const [index, axis] of panels.entries()) {
    const panel = makePanel(box, axis, width);
    if (!index) panel.svg.attr("data-outcome", state.outcome);
    drawPanelAxes(panel, axis);
    drawPanelMarks(panel, axis);
  }
}

// Return the note that explains the panels.
function describeOutcome(panels) {
  const lengths = describeLengths(state.outcome), isOneLength = /^ \d+$/.test(lengths);
  const measure = isOneLength ? `value at the ${state.outcome} length` : `mean over the ${state.outcome} lengths`;
  const hasSpread = panels.some(axis => d3.range(C).some(c => isSpread(axis, c)));
  const sentence = [
    `${judgedName}, median over seeds of the ${measure}${lengths}, for each configuration`,
    ...(page.hyperparameters.length > 1 ? ["the strongest effect first"] : []),
    ...(hasSpread ? ["points of equal values are spread sideways"] : []),
  ];
  return [
    `${sentence.join("; ")}.`,
    ...(chosenPair().length === 2 ? ["A is the square, B the large circle."] : []),
    ...(withoutOutcome.length ? [`\u00d7: ${WHY_LOST}.`] : []),
    ...(hollow.length ? ["Hollow: some seeds failed."] : []),
  ].join(" ");
}

// Return an empty panel with its scales and the edges of its drawing area.
function makePanel(box, axis, width) {
  const height = 180, top = 8, bottom = height - 36;
  const describeSide = c =>
    `: ${formatOutcome(c, state.outcome)} at ${axis.values[c] === null ? "-" : shorten(axis.values[c])}`;
  const svg = d3.select(box).append("svg").attr("width", "100%").attr("viewBox", [0, 0, width, height])
    .attr("role", "img")
    .attr("aria-label", `${state.outcome} outcome against ${axis.name}${describeSides(describeSide)}`);

  // The left margin fits the widest label, so that panels do not cut it.
  const y = makeOutcomeScale(bottom - STRIP_BELOW, top + STRIP_ABOVE);
  const outcomes = d3.axisLeft(y).ticks(4).tickFormat((y.log ? logTickFormat : linearTickFormat)(y));
  const left = Math.max(58, 30 + measureLabels(svg, outcomes)), x = axis.scale.copy().range([left + 15, width - 15]);
  return {svg, x, y, outcomes, left, top, bottom, width, height};
}

// Draw the axes of a panel with their titles.
function drawPanelAxes({svg, x, outcomes, left, top, bottom, width, height}, axis) {
  const ticks = axis.number ? d3.axisBottom(x).ticks(4).tickValues(axis.ticks) : d3.axisBottom(x);
  svg.append("g").attr("transform", `translate(0,${bottom})`)
    .call(ticks.tickFormat(tickFormat(axis, x)).tickSizeOuter(0)).call(dropOverlapping);
  svg.append("g").attr("transform", `translate(${left})`).call(outcomes).call(dropOverlapping, ON_HEIGHT);
  svg.append("text").attr("class", "title").attr("x", (left + width) / 2).attr("y", height - 3)
    .attr("text-anchor", "middle").text(axis.name);
  titleHeight(svg, 11, top, bottom, `${state.outcome}${describeLengths(state.outcome)}`);
}

// Draw a point for each configuration, and a cross for each without an outcome.
function drawPanelMarks({svg, x, y, left, top, bottom}, axis) {
  const jitter = c => isSpread(axis, c) ? ((c * 7) % 11 - 5) * 1.6 : 0, place = c => x(axis.values[c]) + jitter(c);
  const describePoint = (c, value) => `${configurations[c].label}: ${axis.name} ${shorten(axis.values[c])}, ${value}`;
  const describeFailed = c => isHollow(c) ? `, ${configurations[c].failed} failed` : "";
  const describeValue = c => formatOutcome(c, state.outcome) + describeFailed(c);

  // A lies on top of B, which is larger, so that both are seen if they have equal values.
  const finished = d3.range(C).filter(c => axis.values[c] !== null && configurations[c][state.outcome] !== null);
  const drawn = d3.sort(finished.reverse(), c => ["", "B", "A"].indexOf(getMark(c)));
  pointable(svg.append("g").selectAll("path").data(drawn).join("path"))
    .attr("class", c => `dot${isHollow(c) ? " hollow" : ""}${outClass(c)}`).style("--tint", color)
    .attr("d", c => makeMark(c, ({A: 5, B: 7.5})[getMark(c)] ?? 4.2)).attr("fill", color)
    .attr("transform", c => `translate(${place(c)},${y(configurations[c][state.outcome])})`)
    .append("title").text(c => describePoint(c, describeValue(c)));

  const strip = STRIP_ABOVE ? top + 6 : bottom - 6;
  if (withoutOutcome.length) labelStrip(svg, left - 6, strip + 4);
  const crosses = withoutOutcome.filter(c => isLost(c, state.outcome) && axis.values[c] !== null);
  drawCrosses(svg, crosses, c => [place(c), strip + 5]).append("title").text(c => describePoint(c, describeLost(c)));
}

// Write the outcome of the configuration that is pointed at beside its points, on the side that has more room.
function drawBeside() {
  document.querySelectorAll("#points .beside").forEach(text => text.remove());
  nameRays();
  if (pointed === null) return;
  for (const mark of document.querySelectorAll(`#points [data-c="${pointed}"]`)) {
    const {e: x, f} = mark.transform.baseVal[0].matrix, y = mark.matches("text") ? f - 5 : f; // a cross is a letter
    const svg = mark.ownerSVGElement, isLeft = x < svg.viewBox.baseVal.width / 2;
    d3.select(svg).append("text").attr("class", "value beside").attr("text-anchor", isLeft ? "start" : "end")
      .attr("x", x + (isLeft ? 9 : -9)).attr("y", y + 4)
      .text(`${configurations[pointed].label}: ${formatOutcome(pointed, state.outcome)}`);
  }
}
