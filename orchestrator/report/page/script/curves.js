// The picture: the median of each configuration against length.
let plot = null; // what drawFocus needs of the drawn curves
const REACH = 24; // pixels from a curve that still point at it: half the width of a thumb
const isDrawable = value => Number.isFinite(value) && (state.scale !== "log" || value > 0);

const findEnd = values => d3.range(values.length).findLast(index => isDrawable(values[index])); // the last drawn point

// The distance of the origin from the segment between two points.
function distanceToSegment([x0, y0], [x1, y1]) {
  const [dx, dy] = [x1 - x0, y1 - y0], squared = dx * dx + dy * dy;
  const part = squared ? Math.max(0, Math.min(1, -(x0 * dx + y0 * dy) / squared)) : 0;
  return Math.hypot(x0 + part * dx, y0 + part * dy);
}

// The ends of the vertical axis: all medians, and the quartiles and seeds of A and B.
function valueRange() {
  const values = [], isLog = state.scale === "log";
  for (let c = 0; c < C; c++) {
    const [low, median, high] = quartileCurves(state.metric, state.average, state.evaluation, c);
    values.push(...median);
    if (!markOf(c)) continue;
    values.push(...low, ...high);
    if (state.evaluation === 0) configurations[c].seeds.forEach((_, s) => values.push(...seedCurve(state.metric, state.average, c, s)));
  }
  let [low = isLog ? 0.1 : 0, high = 1] = d3.extent(values.filter(isDrawable));
  if (!isLog && low >= 0 && low < 0.6 * high) low = 0;
  if (!isLog) return widenDomain([low, high], state.metric);
  return low < high ? [low, high] : [low / 2, high * 2];
}

// Move labels of one line each apart, downwards first and then back above the lower edge.
function moveApart(labels, lowest) {
  labels.sort((label, other) => label.y - other.y);
  for (let n = 1; n < labels.length; n++) labels[n].y = Math.max(labels[n].y, labels[n - 1].y + 14);
  labels.forEach((label, n) => { label.y = Math.min(label.y, lowest - 14 * (labels.length - 1 - n)); });
}

// The path of values at these lengths, with a gap where one of them is not drawn.
const makePath = (x, y, lengths, isDrawn) => {
  const line = d3.line().defined(([, value]) => isDrawn(value)).x(([length]) => x(length)).y(([, value]) => y(value));
  return values => line(lengths.map((length, index) => [length, values[index]]));
};

// Shade the trained and the selection lengths; a shade ends halfway to the next evaluated length.
function shadeLengths(svg, x, lengths, groups, top, bottom) {
  const edges = [lengths[0] - 0.5, ...d3.pairs(lengths, (length, next) => (length + next) / 2), lengths.at(-1) + 0.5];
  const groupAt = lengths.map(length => ["selection", "trained", "test"].find(group => groups[group]?.includes(length)) || "");
  let start = 0;
  for (let index = 0; index < lengths.length; index++) {
    if (index + 1 < lengths.length && groupAt[index + 1] === groupAt[start]) continue;
    const x0 = x(edges[start]), x1 = x(edges[index + 1]), group = groupAt[start];
    svg.append("rect").attr("class", `range ${group}`).attr("x", x0).attr("width", x1 - x0).attr("y", top).attr("height", bottom - top)
      .attr("fill", {trained: "#e9edf2", selection: "url(#hatch)"}[group] || "none");
    if (x1 - x0 > 7 * group.length)
      svg.append("text").attr("x", (x0 + x1) / 2).attr("y", top - 7).attr("text-anchor", "middle").text(group);
    start = index + 1;
  }
}

// The axis of lengths, with its title.
function drawLengthAxis(svg, x, lengths, bottom, height) {
  const [left, right] = x.range(), width = right - left;
  const ticks = lengths.length <= width / 30 ? lengths : x.ticks(width / 60).filter(Number.isInteger);
  svg.append("g").attr("transform", `translate(0,${bottom})`)
    .call(d3.axisBottom(x).tickValues(ticks).tickFormat(d3.format("d")).tickSizeOuter(0));
  svg.append("text").attr("class", "title").attr("x", (left + right) / 2).attr("y", height - 6)
    .attr("text-anchor", "middle").text(page.axis);
}

function drawCurves() {
  const box = $("curves"), width = Math.max(280, widthOf(box)), height = Math.max(300, Math.min(innerHeight < 1000 ? 305 : 440, width * 0.46));
  const right = hollow.length + failed.length && width >= 700 ? 128 : 58, top = REACH, bottom = 42, lengths = lengthsOf(state.metric), isLog = state.scale === "log";
  const y = (isLog ? d3.scaleLog() : d3.scaleLinear()).domain(valueRange()).range([height - bottom, top]).nice();
  const axis = d3.axisLeft(y).ticks(6).tickFormat((isLog ? logTickFormat : linearTickFormat)(y));

  box.replaceChildren();
  const svg = d3.select(box).append("svg").attr("width", width).attr("height", height).attr("viewBox", [0, 0, width, height])
    .attr("role", "application").attr("aria-roledescription", "picture").attr("tabindex", 0) // its arrow keys are its own
    .attr("aria-label", `${metricName()} against ${page.axis}, a line for each configuration${describeSides(() => "")}; arrow keys point at them and at lengths, Enter compares`)
    .on("keydown", pointByKey);
  const left = Math.max(62, 32 + measureLabels(svg, axis)); // labels of any width stay off the title of the axis
  const x = d3.scaleLinear([lengths[0] - 0.5, lengths.at(-1) + 0.5], [left, width - right]);
  const path = makePath(x, y, lengths, isDrawable);
  const hatch = svg.append("defs").append("pattern").attr("id", "hatch").attr("width", 6).attr("height", 6)
    .attr("patternUnits", "userSpaceOnUse").attr("patternTransform", "rotate(45)");
  hatch.append("rect").attr("width", 6).attr("height", 6).attr("fill", "#f7f8fa");
  hatch.append("rect").attr("width", 1.2).attr("height", 6).attr("fill", "#cbd2da");

  // The trained and the selection lengths of A, and the axes.
  const groups = groupsOf(state.first ?? 0, state.metric), plotWidth = width - left - right;
  shadeLengths(svg, x, lengths, groups, top, height - bottom);
  svg.append("g").attr("class", "grid").attr("transform", `translate(${left})`)
    .call(d3.axisLeft(y).ticks(6).tickSize(-plotWidth).tickFormat("")).select(".domain").remove();
  drawLengthAxis(svg, x, lengths, height - bottom, height);
  svg.append("g").attr("transform", `translate(${left})`)
    .call(axis);
  svg.append("text").attr("class", "title").attr("text-anchor", "middle")
    .attr("transform", `translate(13,${(top + height - bottom) / 2}) rotate(-90)`).text(`median ${metricName()}`);

  // The medians, the first by rank on top.
  svg.append("clipPath").attr("id", "inside").append("rect").attr("x", left).attr("y", top - 4)
    .attr("width", plotWidth).attr("height", height - top - bottom + 8); // a line at the edge keeps its width
  const curves = svg.append("g").attr("clip-path", "url(#inside)");
  pointable(curves.selectAll("path").data(d3.range(C).reverse()).join("path"))
    .attr("class", c => `curve${configurations[c].rank ? "" : " open"}${outClass(c)}`)
    .attr("stroke", color).attr("d", c => path(quartileCurves(state.metric, state.average, state.evaluation, c)[1]));
  const ends = hollow.map(c => [c, findEnd(quartileCurves(state.metric, state.average, state.evaluation, c)[1])]).filter(([, end]) => end !== undefined);
  curves.selectAll(".end").data(ends).join("path").attr("data-c", ([c]) => c)
    .attr("class", ([c]) => `end${outClass(c)}`).style("--tint", ([c]) => color(c))
    .attr("transform", ([c, end]) => `translate(${x(lengths[end])},${y(quartileCurves(state.metric, state.average, state.evaluation, c)[1][end])})`)
    .attr("d", ([c]) => makeMark(c, 3.2));
  svg.classed("single", lengths.length === 1); // a curve of one length is a dot
  const focus = svg.append("g").style("pointer-events", "none");
  plot = {focus, x, y, lengths, path, right, width, top, bottom, height};

  // The median nearest to the pointer is pointed at, because a thin line is hard to hit.
  const nearestCurve = event => {
    const [pointerX, pointerY] = d3.pointer(event, svg.node());
    let nearest = null, nearestIndex = null, least = REACH;
    for (let c = 0; c < C; c++) {
      if (!isIn(c)) continue;
      const median = quartileCurves(state.metric, state.average, state.evaluation, c)[1];
      const drawn = d3.range(lengths.length).filter(index => isDrawable(median[index]));
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
  };
  svg.append("rect").attr("class", "catch").attr("x", left - REACH).attr("y", top - REACH)
    .attr("width", plotWidth + 2 * REACH).attr("height", height - top - bottom + 2 * REACH)
    .attr("fill", "none").style("pointer-events", "all").style("cursor", "crosshair")
    .on("pointermove", event => point(...nearestCurve(event))).on("pointerleave", () => point(null))
    .on("click", event => {
      const [c, length] = nearestCurve(event);
      if (c === null) return;
      choose(c);
      if (isTouched) point(c, length); // no pointer stays there to show the value
    });
  drawLegend(groups);
  drawFocus();
}

// The squares of A and the circles of B along their lines stand at different lengths, so that none hides another.
const DASHES = "9 6", MARKER_RADIUS = 4.2, MARKER_DISTANCE = 80; // in pixels
function markedIndices(c, x, lengths) {
  if (!markOf(c) || lengths.length < 2) return [];
  const step = Math.max(2, Math.round(MARKER_DISTANCE * (lengths.length - 1) / (x(lengths.at(-1)) - x(lengths[0]))));
  return d3.range(markOf(c) === "A" ? 0 : step >> 1, lengths.length, step);
}

// A piece of the line of A or B, for the legend.
function makeSample(c) {
  const sideClass = {A: "first", B: "second"}[markOf(c)], svg = d3.create("svg").attr("width", 40).attr("height", 12).attr("aria-hidden", "true");
  svg.append("path").attr("class", `median ${sideClass}`).attr("stroke", color(c)).attr("d", "M1,6H39")
    .attr("stroke-dasharray", sideClass === "second" ? DASHES : null);
  svg.append("path").attr("class", "marker").style("--tint", color(c)).attr("transform", "translate(20,6)").attr("d", makeMark(c, MARKER_RADIUS));
  return svg.node();
}

// A, B and the configuration that is pointed at: quartiles, seeds, thick median and label.
function drawFocus() {
  const {focus, x, y, lengths, path, right, width, top, bottom, height} = plot, indices = d3.range(lengths.length);
  focus.selectAll("*").remove();
  const inside = focus.append("g").attr("clip-path", "url(#inside)"), labels = [];
  const [halos, spreads, medians, markers] = d3.range(4).map(() => inside.append("g")); // no band or seed hides a median
  for (const c of new Set([state.first, state.second, pointed].filter(c => c !== null))) { // the wide line of A shows on both sides of B
    const [low, median, high] = quartileCurves(state.metric, state.average, state.evaluation, c);
    const tint = markOf(c) ? color(c) : "#1c2127", line = path(median), sideClass = {A: " first", B: " second"}[markOf(c)] ?? "";
    const area = d3.area().defined(index => isDrawable(low[index]) && isDrawable(high[index]))
      .x(index => x(lengths[index])).y0(index => y(low[index])).y1(index => y(high[index]));
    spreads.append("path").attr("class", "band").attr("fill", tint).attr("d", area(indices));
    if (state.evaluation === 0) // seeds are stored for the judged evaluation alone
      configurations[c].seeds.forEach((_, s) => spreads.append("path").attr("class", "seed").attr("data-of", c)
        .attr("stroke", tint).attr("d", path(seedCurve(state.metric, state.average, c, s))));
    if (markOf(c)) halos.append("path").attr("class", `halo${sideClass}`).attr("d", line);
    medians.append("path").attr("class", `median${sideClass}`).attr("data-of", c).attr("stroke", tint)
      .attr("stroke-dasharray", c === state.second && lengths.length > 1 ? DASHES : null).attr("d", line); // a dot has no dashes
    const last = findEnd(median), markAt = (index, className, radius) => markers.append("path").attr("class", className).attr("data-of", c)
      .style("--tint", tint).attr("transform", `translate(${x(lengths[index])},${y(median[index])})`).attr("d", makeMark(c, radius));
    for (const index of markedIndices(c, x, lengths)) if (isDrawable(median[index])) markAt(index, "marker", MARKER_RADIUS);
    if (isHollow(c) && last !== undefined) markAt(last, "end focus", 4.5);
    const worstEdge = page.metrics[state.metric].direction === "maximize" ? height - bottom : top; // of infinite medians
    // Without a median, the label stands at the ends of the seeds that did not fail, if they are drawn.
    const seedEnds = state.evaluation ? [] : configurations[c].seeds.map((_, s) => seedCurve(state.metric, state.average, c, s))
      .map(values => values[findEnd(values)]).filter(value => value !== undefined);
    const end = last !== undefined ? y(median[last]) : seedEnds.length ? y(d3.median(seedEnds)) : worstEdge;
    if (last !== undefined || median.some(value => Math.abs(value) === Infinity))
      labels.push({c, isInfinite: last === undefined, y: Math.max(top + 4, Math.min(height - bottom, end))});
  }

  const sign = document.querySelector("#legend .sign"); // explained while it is drawn; its room stays, so that no line moves
  if (sign) sign.style.visibility = labels.some(({isInfinite}) => isInfinite) ? "" : "hidden";
  moveApart(labels, height - bottom);
  for (const label of labels)
    focus.append("text").attr("class", "name").attr("x", width - right + 6).attr("y", label.y + 4)
      .style("fill", inkOf(label.c)).text(labelWithMark(label.c) + (label.isInfinite ? " \u00d7" : "") + (configurations[label.c].failed && width >= 700 ? `, ${configurations[label.c].failed} failed` : ""));

  // The value under the pointer, on the side that has more room.
  if (pointed === null || pointedLength === null) return;
  const value = quartileCurves(state.metric, state.average, state.evaluation, pointed)[1][pointedLength], at = x(lengths[pointedLength]);
  if (!isDrawable(value)) return; // a key may point at a length without a point
  const isLeft = at < width / 2;
  focus.append("circle").attr("cx", at).attr("cy", y(value)).attr("r", 4);
  focus.append("text").attr("class", "value").attr("text-anchor", isLeft ? "start" : "end")
    .attr("x", at + (isLeft ? 8 : -8)).attr("y", Math.max(top + 12, y(value) - 8))
    .text(`${labelWithMark(pointed)} at ${lengths[pointedLength]}: ${formatNumber(value)}`);
}

// The lines of the configurations in range that a logarithmic scale does not draw, or not at all lengths.
function describeNotPositive() {
  const lengths = lengthsOf(state.metric);
  const cut = d3.range(C).filter(isIn).map(c => {
    const median = quartileCurves(state.metric, state.average, state.evaluation, c)[1];
    const present = lengths.filter((_, index) => Number.isFinite(median[index]));
    const missing = lengths.filter((_, index) => Number.isFinite(median[index]) && !isDrawable(median[index]));
    if (!missing.length) return "";
    const isEnd = missing.length === present.filter(length => length >= missing[0]).length;
    const where = isEnd ? `from ${page.axis} ${missing[0]}` : `at ${page.axis} ${formatRanges(missing)}`;
    return configurations[c].label + (missing.length === present.length ? "" : ` ${where}`);
  }).filter(Boolean);
  return cut.length ? `not above 0, so not on this scale: ${listFirst(cut, "; ")}` : "";
}

function drawLegend(groups) {
  const shades = {trained: "#e9edf2", selection: "repeating-linear-gradient(45deg,#cbd2da 0 1px,#f7f8fa 1px 5px)", test: "#fff"};
  const entry = (background, text, attributes = {}) => {
    const box = make("span"), swatch = make("i", undefined, attributes);
    swatch.style.background = background;
    box.append(swatch, text);
    return box;
  };
  const entries = ["trained", "selection", "test"].filter(group => groups[group]?.length)
    .map(group => entry(shades[group], `${group} ${formatRanges(groups[group])}`));
  const colors = [0, 0.5, 1].map(part => ramp(part * ranked.length)).join(",");
  if (ranked.length)
    entries.push(entry(`linear-gradient(90deg,${colors})`, "first to last by the selection lengths", {class: "ramp"}));
  for (const c of [state.first, state.second].filter(c => c !== null)) {
    const sample = make("span", undefined, {class: "sample"});
    sample.append(makeSample(c), labelWithMark(c));
    entries.push(sample);
  }
  if (state.first !== null && !state.evaluation) entries.push(make("span", "band: quartiles; thin: seeds"));
  const outside = [state.first, state.second].filter(c => c !== null && !isIn(c)).map(labelWithMark);
  if (outside.length) entries.push(make("span", `${outside.join(" and ")} outside the range, drawn for the comparison`));
  const notPositive = describeNotPositive();
  if (notPositive) entries.push(make("span", notPositive));
  const infinite = d3.range(C).filter(c => isLost(c, "selection") || isLost(c, "test")).map(c => configurations[c].label);
  if (infinite.length) {
    const lost = make("span");
    lost.append(`${WHY_LOST}: ${listFirst(infinite)}`, make("span", " \u00d7", {class: "sign"})); // at the end its empty room indents nothing
    entries.push(lost);
  }
  const counts = hollow.map(c => `${configurations[c].label} ${configurations[c].failed} of ${configurations[c].seeds.length}`);
  if (counts.length) entries.push(make("span", `hollow: some seeds failed, ${listFirst(counts)}`));
  $("legend").replaceChildren(...entries);
}

function drawReadout() {
  const c = pointed ?? state.first, box = $("readout");
  const click = matchMedia("(pointer: coarse)").matches ? "Tap" : "Click";
  if (c === null && state.second !== null) return box.replaceChildren(`${click} a line or row to compare it as A with ${labelWithMark(state.second)}.`);
  if (c === null) return box.replaceChildren(`Point at a curve, a row or a point; ${click.toLowerCase()} two to compare them.`);
  let value = "";
  if (pointedLength !== null) {
    const curves = quartileCurves(state.metric, state.average, state.evaluation, c);
    const [low, median, high] = curves.map(values => formatNumber(values[pointedLength]));
    value = ` at ${page.axis} ${lengthsOf(state.metric)[pointedLength]}: ${median} [${low}, ${high}];`;
  }
  const missing = state.evaluation ? " Seeds are stored for the judged evaluation alone." : "";
  let hint = ` ${click} another line or row to compare it with this one.`;
  if (state.first === c && state.second !== null)
    hint = ` Compared below with ${labelWithMark(state.second)}. ${click} another line or row to compare it as B${click === "Tap" ? "; the button below swaps A and B" : ", or click A or B to free its place"}.`;
  const text = pointed === null ? `${describeSeeds(c)}.${missing}${hint}` : `${describe(c)}.${missing}`;
  box.replaceChildren(make("b", labelWithMark(c)), `${value} ${text}`);
}
