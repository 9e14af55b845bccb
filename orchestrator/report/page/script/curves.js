// The picture: the median of each configuration against length.
let plot = null; // the drawn curves: the picture, its scales and its edges
const REACH = 24; // pixels from a curve that still point at it: half the width of a thumb

// Return whether the scale has a place for a value; and the index of the last such value of a curve.
const isDrawable = value => Number.isFinite(value) && (state.scale !== "log" || value > 0);
const findEnd = values => d3.range(values.length).findLast(index => isDrawable(values[index]));

// Return the distance of the origin from the segment between two points.
function distanceToSegment([x0, y0], [x1, y1]) {
  const [dx, dy] = [x1 - x0, y1 - y0], squared = dx * dx + dy * dy;
  const part = squared ? Math.max(0, Math.min(1, -(x0 * dx + y0 * dy) / squared)) : 0;
  return Math.hypot(x0 + part * dx, y0 + part * dy);
}

// Return the ends of the vertical axis: all medians, and the quartiles and seeds of A and B, have room.
function findValueRange() {
  const values = [], isLog = state.scale === "log";
  for (let c = 0; c < C; c++) {
    const [low, median, high] = shownQuartiles(c);
    values.push(...median);
    if (!getMark(c)) continue;
    values.push(...low, ...high);
    for (const seed of listSeedCurves(c)) values.push(...seed);
  }

  // A linear axis begins at 0 if that is near.
  let [low = isLog ? 0.1 : 0, high = 1] = d3.extent(values.filter(isDrawable));
  if (!isLog && low >= 0 && low < 0.6 * high) low = 0;
  if (!isLog) return widenDomain([low, high], state.metric);
  return low < high ? [low, high] : [low / 2, high * 2];
}

// Return the curves of the seeds of a configuration; none at a chosen step, because only the judged evaluation has
// curves of single seeds.
const listSeedCurves = c => chosenEvaluation() ? []
  : configurations[c].seeds.map((_, s) => seedCurve(state.metric, state.average, c, s));

// Return the function from values at these lengths to their path, with a gap where one of them is not drawn.
const makePath = (x, y, lengths, isDrawn) => {
  const line = d3.line().defined(([, value]) => isDrawn(value)).x(([length]) => x(length)).y(([, value]) => y(value));
  return values => line(lengths.map((length, index) => [length, values[index]]));
};

// Few lengths are sparse: each has a point on every line and a narrow shade, because nothing is measured between them.
const MOST_SPARSE = 8;
const isSparse = lengths => lengths.length > 1 && lengths.length <= MOST_SPARSE;

// Return the largest distance by which a shade, or the axis at either end, extends beyond a length.
const reachOf = lengths => Math.max(0.5, isSparse(lengths) ? 0.012 * (lengths.at(-1) - lengths[0]) : 0);

// Return the scale of lengths from `left` to `right`.
const makeLengthScale = (lengths, left, right) =>
  d3.scaleLinear([lengths[0] - reachOf(lengths), lengths.at(-1) + reachOf(lengths)], [left, right]);

// Shade the trained and the selection lengths and name the groups; trained lengths need not be evaluated. A shade ends
// halfway to the next length, or nearer if lengths are sparse.
function shadeLengths(svg, x, lengths, groups, top, bottom) {
  const groupOf = length => ["selection", "trained", "test"].find(group => groups[group]?.includes(length)) || "";
  const isBetween = length => length > lengths[0] && length < lengths.at(-1) && !lengths.includes(length);
  const grouped = d3.sort([
    ...lengths.map(length => ({length, group: groupOf(length)})),
    ...(groups.trained_on ?? []).filter(isBetween).map(length => ({length, group: "trained"})),
  ], ({length}) => length);
  const reach = isSparse(lengths) ? reachOf(lengths) : Infinity, [lowest, highest] = x.domain();
  const middles = d3.pairs(grouped, (item, next) => (item.length + next.length) / 2);
  const shades = grouped.map(({length, group}, index) => ({
    group,
    from: Math.max(middles[index - 1] ?? lowest, length - reach),
    to: Math.min(middles[index] ?? highest, length + reach),
  }));

  // A group has its name above its shades if the name before it leaves room; a letter is 6.5 pixels wide.
  let end = -Infinity;
  for (const run of joinNeighbors(shades, (shade, next) => shade.group === next.group)) {
    const {group} = run[0], middle = x((run[0].from + run.at(-1).to) / 2), half = 3.25 * group.length;
    for (const joined of joinNeighbors(run, (shade, next) => shade.to === next.from)) {
      const [x0, x1] = [x(joined[0].from), x(joined.at(-1).to)];
      svg.append("rect").attr("class", `range ${group}`)
        .attr("x", x0).attr("width", x1 - x0).attr("y", top).attr("height", bottom - top)
        .attr("fill", {trained: "#e9edf2", selection: "url(#hatch)"}[group] || "none");
    }
    if (middle - half < end + 4) continue;
    svg.append("text").attr("x", middle).attr("y", top - 7).attr("text-anchor", "middle").text(group);
    end = middle + half;
  }
}

// Return items as runs of neighbors that belong together.
function joinNeighbors(items, areJoined) {
  const runs = [];
  for (const item of items) {
    if (runs.length && areJoined(runs.at(-1).at(-1), item)) runs.at(-1).push(item);
    else runs.push([item]);
  }
  return runs;
}

// Draw the axis of lengths, with its title.
function drawLengthAxis(svg, x, lengths, bottom, height) {
  const [left, right] = x.range(), width = right - left;
  const ticks = lengths.length <= width / 30 ? lengths : x.ticks(width / 60).filter(Number.isInteger);
  svg.append("g").attr("transform", `translate(0,${bottom})`)
    .call(d3.axisBottom(x).tickValues(ticks).tickFormat(d3.format("d")).tickSizeOuter(0));
  svg.append("text").attr("class", "title").attr("x", (left + right) / 2).attr("y", height - 6)
    .attr("text-anchor", "middle").text(page.axis);
}

// Write the title of a vertical axis from top to bottom, x pixels from the left edge.
const titleHeight = (svg, x, top, bottom, text) => svg.append("text").attr("class", "title")
  .attr("text-anchor", "middle").attr("transform", `translate(${x},${(top + bottom) / 2}) rotate(-90)`).text(text);

// Draw all curves and their legend, and make the picture react to the pointer and to keys.
function drawCurves() {
  plot = makePlot();
  const groups = groupsOf(state.first ?? 0, state.metric); // the lengths of A are shaded
  drawFrame(groups);
  drawMedians();
  plot.focus = plot.svg.append("g").style("pointer-events", "none");
  catchPointer();
  drawLegend(groups);
  drawFocus();
}

// Return an empty picture with its scales and the edges of its drawing area.
function makePlot() {
  const box = $("curves"), lengths = lengthsOf(state.metric);
  const width = Math.max(280, widthOf(box));
  const height = Math.max(300, Math.min(innerHeight < 1000 ? 305 : 440, width * 0.46));
  const top = REACH, bottom = height - 42;
  const hasRoomForCounts = width >= 700; // of failed seeds, after the names at the ends of the curves
  const right = width - (hasRoomForCounts && (hollow.length || withoutOutcome.length) ? 128 : 58);

  const scale = state.scale === "log" ? d3.scaleLog() : d3.scaleLinear();
  const y = scale.domain(findValueRange()).range([bottom, top]).nice();
  const tickFormat = state.scale === "log" ? logTickFormat : linearTickFormat;
  const axis = d3.axisLeft(y).ticks(6).tickFormat(tickFormat(y));

  // The picture has a role that leaves the arrow keys to it.
  box.replaceChildren();
  const description = [
    `${metricName()} against ${page.axis}, a line for each configuration${describeSides(() => "")}`,
    "arrow keys point at them and at lengths, Enter compares",
  ];
  const svg = d3.select(box).append("svg")
    .attr("width", width).attr("height", height).attr("viewBox", [0, 0, width, height])
    .attr("role", "application").attr("aria-roledescription", "picture").attr("tabindex", 0)
    .attr("aria-label", description.join("; "))
    .on("keydown", pointByKey);

  // Labels of any width stay off the title of the axis.
  const left = Math.max(62, 32 + measureLabels(svg, axis));
  const x = makeLengthScale(lengths, left, right);
  const path = makePath(x, y, lengths, isDrawable);
  return {svg, axis, x, y, path, lengths, left, right, top, bottom, width, height, hasRoomForCounts};
}

// Draw the background of the curves: shaded lengths, a grid and the axes.
function drawFrame(groups) {
  const {svg, axis, x, y, lengths, left, right, top, bottom, height} = plot;
  const hatch = svg.append("defs").append("pattern").attr("id", "hatch").attr("width", 6).attr("height", 6)
    .attr("patternUnits", "userSpaceOnUse").attr("patternTransform", "rotate(45)");
  hatch.append("rect").attr("width", 6).attr("height", 6).attr("fill", "#f7f8fa");
  hatch.append("rect").attr("width", 1).attr("height", 6).attr("fill", "#dfe4e9");
  shadeLengths(svg, x, lengths, groups, top, bottom);

  svg.append("g").attr("class", "grid").attr("transform", `translate(${left})`)
    .call(d3.axisLeft(y).ticks(6).tickSize(left - right).tickFormat("")).select(".domain").remove();
  drawLengthAxis(svg, x, lengths, bottom, height);
  svg.append("g").attr("transform", `translate(${left})`).call(axis);
  titleHeight(svg, 13, top, bottom, `median ${metricName()}`);
}

// Draw the median of each configuration, the first by rank on top.
function drawMedians() {
  const {svg, x, y, path, lengths, left, right, top, bottom} = plot;
  svg.append("clipPath").attr("id", "inside").append("rect").attr("x", left).attr("y", top - 4)
    .attr("width", right - left).attr("height", bottom - top + 8); // a line at the edge keeps its width
  const curves = svg.append("g").attr("clip-path", "url(#inside)");
  pointable(curves.selectAll("path").data(d3.range(C).reverse()).join("path"))
    .attr("class", c => `curve${configurations[c].rank ? "" : " open"}${outClass(c)}`)
    .attr("stroke", color).attr("d", c => path(shownMedian(c)));

  // A point at each of few lengths.
  const points = isSparse(lengths) ? d3.cross(d3.range(C).reverse(), d3.range(lengths.length)) : [];
  curves.selectAll("circle").data(points.filter(([c, n]) => isDrawable(shownMedian(c)[n]))).join("circle")
    .attr("data-c", ([c]) => c).attr("class", ([c]) => `measured${outClass(c)}`).attr("fill", ([c]) => color(c))
    .attr("cx", ([, n]) => x(lengths[n])).attr("cy", ([c, n]) => y(shownMedian(c)[n])).attr("r", 2.6);

  // A hollow point at the end tells that some seeds failed.
  const ends = hollow.map(c => [c, findEnd(shownMedian(c))]).filter(([, end]) => end !== undefined);
  curves.selectAll(".end").data(ends).join("path").attr("data-c", ([c]) => c)
    .attr("class", ([c]) => `end${outClass(c)}`).style("--tint", ([c]) => color(c))
    .attr("transform", ([c, end]) => `translate(${x(lengths[end])},${y(shownMedian(c)[end])})`)
    .attr("d", ([c]) => makeMark(c, 3.2));
  svg.classed("single", lengths.length === 1); // a curve of one length is a dot
}

// Return the configuration whose median is nearest to the pointer, and the index of the nearest length; null for both
// if none is near.
function findNearest(event) {
  const {svg, x, y, lengths} = plot, [pointerX, pointerY] = d3.pointer(event, svg.node());
  let nearest = null, nearestIndex = null, least = REACH;
  for (let c = 0; c < C; c++) {
    if (!isIn(c)) continue;
    const median = shownMedian(c), drawn = d3.range(lengths.length).filter(index => isDrawable(median[index]));
    for (const [n, index] of drawn.entries()) {
      const next = drawn[n + 1] === index + 1 ? index + 1 : index; // a gap is not crossed
      if (x(lengths[index]) > pointerX + REACH || x(lengths[next]) < pointerX - REACH) continue;
      const ends = [index, next].map(end => [x(lengths[end]) - pointerX, y(median[end]) - pointerY]);
      const distance = distanceToSegment(...ends);
      if (distance >= least) continue;
      [nearest, least] = [c, distance];
      nearestIndex = d3.least(drawn, index => Math.abs(x(lengths[index]) - pointerX));
    }
  }
  return [nearest, nearestIndex];
}

// Cover the curves with an area that points at the nearest one, because a thin line is hard to hit.
function catchPointer() {
  const {svg, left, right, top, bottom} = plot;
  svg.append("rect").attr("class", "catch").attr("x", left - REACH).attr("y", top - REACH)
    .attr("width", right - left + 2 * REACH).attr("height", bottom - top + 2 * REACH)
    .attr("fill", "none").style("pointer-events", "all").style("cursor", "crosshair")
    .on("pointermove", event => point(...findNearest(event)))
    .on("pointerleave", () => point(null))
    .on("click", event => {
      const [c, length] = findNearest(event);
      if (c === null) return;
      choose(c);
      if (isTouched) point(c, length); // a lifted finger leaves no pointer there to show the value
    });
}
