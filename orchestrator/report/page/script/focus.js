// Draw the highlighted curves: A, B and the hovered configuration, and the value at the pointer.
const DASHES = "9 6", MARKER_RADIUS = 4.2, MARKER_DISTANCE = 80; // in pixels
const OUTER_RADIUS = 5.6; // of B's markers at sparse lengths: a rim shows around A's markers, which lie on top

// Return the indices of the lengths with a marker on the line of A or B: different ones, so that no marker hides
// another. At sparse lengths each highlighted line has markers at all lengths.
function listMarkedIndices(c, x, lengths) {
  if (isSparse(lengths)) return d3.range(lengths.length);
  if (!getMark(c) || lengths.length < 2) return [];
  const pixels = x(lengths.at(-1)) - x(lengths[0]);
  const step = Math.max(2, Math.round(MARKER_DISTANCE * (lengths.length - 1) / pixels));
  return d3.range(getMark(c) === "A" ? 0 : step >> 1, lengths.length, step);
}

// Return a piece of the line of A or B, for the legend.
function makeSample(c) {
  const svg = d3.create("svg").attr("width", 40).attr("height", 12).attr("aria-hidden", "true");
  svg.append("path").attr("class", `median ${getClass(c)}`).attr("stroke", color(c)).attr("d", "M1,6H39")
    .attr("stroke-dasharray", getClass(c) === "second" ? DASHES : null);
  svg.append("path").attr("class", "marker").style("--tint", color(c)).attr("transform", "translate(20,6)")
    .attr("d", makeMark(c, MARKER_RADIUS));
  return svg.node();
}

// Draw A, B and the hovered configuration, in this order: the wide line of A shows on both sides of B. Their labels
// follow, because they move apart.
function drawFocus() {
  const {focus, bottom} = plot;
  focus.selectAll("*").remove();

  // Layers: no band or seed of one hides the median of another.
  const inside = focus.append("g").attr("clip-path", "url(#inside)");
  const [halos, spreads, medians] = d3.range(3).map(() => inside.append("g")), markers = focus.append("g");
  const drawn = [...new Set([...chosenPair(), ...(pointed === null ? [] : [pointed])])];
  for (const c of drawn) {
    drawSpread(c, spreads);
    drawStrong(c, halos, medians);
  }
  for (const c of drawn.toReversed()) drawMarkers(c, markers);

  const labels = drawn.map(placeLabel).filter(label => label !== null);
  moveApart(labels, bottom);
  drawLabels(labels);
  drawPointedValue();
}

// Return the color of a highlighted configuration: black if it is only hovered.
const getTint = c => getMark(c) ? color(c) : INK;

// Draw the quartiles as a band, and the seeds.
function drawSpread(c, layer) {
  const {x, y, path, lengths} = plot, [low, , high] = shownQuartiles(c);
  const area = d3.area().defined(index => isDrawable(low[index]) && isDrawable(high[index]))
    .x(index => x(lengths[index])).y0(index => y(low[index])).y1(index => y(high[index]));
  layer.append("path").attr("class", "band").attr("fill", getTint(c)).attr("d", area(d3.range(lengths.length)));
  for (const seed of listSeedCurves(c))
    layer.append("path").attr("class", "seed").attr("data-of", c).attr("stroke", getTint(c)).attr("d", path(seed));
}

// Draw the median as a strong line; A and B also get a white halo.
function drawStrong(c, halos, medians) {
  const {path, lengths} = plot, line = path(shownMedian(c)), sideClass = getClass(c) ? ` ${getClass(c)}` : "";
  const isDashed = c === state.second && lengths.length > 1; // a dot has no dashes
  if (getMark(c)) halos.append("path").attr("class", `halo${sideClass}`).attr("d", line);
  medians.append("path").attr("class", `median${sideClass}`).attr("data-of", c).attr("stroke", getTint(c))
    .attr("stroke-dasharray", isDashed ? DASHES : null).attr("d", line);
}

// Draw the squares of A and the circles of B, and a hollow end if some seeds failed.
function drawMarkers(c, layer) {
  const {x, y, lengths} = plot, median = shownMedian(c), last = findEnd(median);
  const markRadius = isSparse(lengths) && getMark(c) === "B" ? OUTER_RADIUS : MARKER_RADIUS;
  const drawAt = (index, className, radius) => layer.append("path").attr("class", className).attr("data-of", c)
    .style("--tint", getTint(c)).attr("transform", `translate(${x(lengths[index])},${y(median[index])})`)
    .attr("d", makeMark(c, radius));
  for (const index of listMarkedIndices(c, x, lengths))
    if (isDrawable(median[index])) drawAt(index, "marker", markRadius);
  if (isHollow(c) && last !== undefined) drawAt(last, "end focus", 4.5);
}

// Return the place of the label of a configuration: the end of its median; without one, the ends of the seeds that did
// not fail, or else the worse edge. Null if nothing of it is drawn.
function placeLabel(c) {
  const {y, top, bottom} = plot, median = shownMedian(c), last = findEnd(median);
  const isInfinite = last === undefined;
  if (isInfinite && !median.some(value => Math.abs(value) === Infinity)) return null;
  const seedEnds = listSeedCurves(c).map(values => values[findEnd(values)]).filter(value => value !== undefined);
  const worstEdge = page.metrics[state.metric].direction === "maximize" ? bottom : top;
  const end = !isInfinite ? y(median[last]) : seedEnds.length ? y(d3.median(seedEnds)) : worstEdge;
  return {c, isInfinite, y: Math.max(top + 4, Math.min(bottom, end))};
}

// Write the labels. An infinite median has a sign, which the legend explains only while one is drawn; there it is
// hidden, not removed, so that the lines below keep their place.
function drawLabels(labels) {
  const {focus, right, hasRoomForCounts} = plot, sign = document.querySelector("#legend .sign");
  if (sign) sign.style.visibility = labels.some(({isInfinite}) => isInfinite) ? "" : "hidden";
  for (const {c, isInfinite, y} of labels) {
    const count = hasFailedSeeds(c) && hasRoomForCounts ? `, ${configurations[c].failed} failed` : "";
    focus.append("text").attr("class", "name").attr("x", right + 6).attr("y", y + 4)
      .style("fill", getInk(c)).text(labelWithMark(c) + (isInfinite ? " \u00d7" : "") + count);
  }
}

// Write the value under the pointer, on the side that has more room; a key may point at a length without a value.
function drawPointedValue() {
  if (pointed === null || pointedLength === null) return;
  const {focus, x, y, lengths, top, width} = plot;
  const value = shownMedian(pointed)[pointedLength], at = x(lengths[pointedLength]);
  if (!isDrawable(value)) return;
  const isLeft = at < width / 2;
  focus.append("circle").attr("cx", at).attr("cy", y(value)).attr("r", 4);
  focus.append("text").attr("class", "value").attr("text-anchor", isLeft ? "start" : "end")
    .attr("x", at + (isLeft ? 8 : -8)).attr("y", Math.max(top + 12, y(value) - 8))
    .text(`${labelWithMark(pointed)} at ${lengths[pointedLength]}: ${formatNumber(value)}`);
}
