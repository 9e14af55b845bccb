// Parallel coordinates: all hyperparameters and outcomes side by side, a line for each configuration. A range dragged
// along an axis is a filter.

// Return the place of a configuration on the last axis; null before anything is drawn.
let findRayEnd = () => null;

// Write at the right end of their lines the names of A and B, and the value of the configuration that is pointed at.
function nameRays() {
  const svg = d3.select("#parallel svg"), {name, outcome} = axes.at(-1);
  if (svg.empty() || !outcome) return;
  const named = new Set(chosenPair());
  if (pointed !== null) named.add(pointed);
  const labels = [...named].filter(findRayEnd).map(c => ({c, x: findRayEnd(c)[0], y: findRayEnd(c)[1]}));
  moveApart(labels, svg.attr("height") - 6);
  svg.selectAll(".ray-name").data(labels).join("text")
    .attr("class", ({c}) => `value ray-name${c === pointed ? " beside" : ""}`)
    .attr("x", ({x}) => x + 9).attr("y", ({y}) => y + 4).style("fill", ({c}) => getInk(c))
    .text(({c}) => labelWithMark(c) + (c === pointed ? `: ${formatOutcome(c, name)}` : ""));
}

// Draw all axes with their lines and filters; the points show a single hyperparameter well enough.
function drawParallel() {
  $("parallel").replaceChildren();
  findRayEnd = () => null;
  $("together").hidden = page.hyperparameters.length < 2;
  if ($("together").hidden) return;
  const kept = describeFilters();
  $("kept").hidden = !kept;
  $("kept").textContent = `Kept: ${kept}.`;

  const picture = makeParallel();
  drawRays(picture);
  axes.forEach((axis, index) => {
    if (axis.outcome) drawRayEnds(picture, axis, index);
    drawFilterAxis(picture, axis, index);
  });
  nameRays();
}

// Return the empty picture with its scales and edges. Values end `pad` pixels before the ends of an axis, so that no
// line runs along an edge.
function makeParallel() {
  const box = $("parallel"), width = Math.max(widthOf(box.parentElement), axes.length * 84), height = 290, pad = 10;
  const top = 30 + STRIP_ABOVE, bottom = height - 14 - STRIP_BELOW, [lowest, highest] = [bottom - pad, top + pad];
  const description = "a line for each configuration across its hyperparameters and outcomes";
  const svg = d3.select(box).append("svg")
    .attr("width", width).attr("height", height).attr("viewBox", [0, 0, width, height])
    .attr("role", "group").attr("aria-label", description + describeSides(() => ""));

  const scales = axes.map(axis => axis.scale.copy().range([lowest, highest]));
  const makeAxis = index => d3.axisLeft(scales[index]).ticks(5).tickValues(axes[index].ticks).tickSizeOuter(0)
    .tickFormat(tickFormat(axes[index], scales[index]));
  const left = Math.max(46, 14 + measureLabels(svg, makeAxis(0)));
  const right = width - 104; // beyond the last axis is room for a value
  const x = d3.scalePoint(axes.map(({name}) => name), [left, right]);
  const strip = STRIP_ABOVE ? top - 12 : bottom + 14;
  return {svg, x, scales, makeAxis, left, top, bottom, lowest, highest, strip};
}

// Draw the lines, A and B on top; a configuration without an outcome ends in the strip beyond its axis.
function drawRays({svg, x, scales, strip}) {
  const findPlace = (axis, index, c) => {
    if (axis.outcome && isLost(c, axis.name)) return [x(axis.name), strip];
    return axis.values[c] === null ? null : [x(axis.name), scales[index](axis.values[c])];
  };
  findRayEnd = c => findPlace(axes.at(-1), axes.length - 1, c);
  const line = c => d3.line().defined(place => place !== null)(axes.map((axis, index) => findPlace(axis, index, c)));
  const classesOf = c => [
    "ray",
    ...(configurations[c].without_value.length ? ["failed"] : []),
    ...(getMark(c) ? ["chosen"] : []),
    ...(getMark(c) === "B" ? ["second"] : []),
  ].join(" ");
  pointable(svg.append("g").selectAll("path").data(d3.sort(d3.range(C).reverse(), getMark)).join("path"))
    .attr("stroke", color).attr("d", line).attr("class", c => classesOf(c) + outClass(c));
}

// Draw the crosses of an outcome in its strip, and hollow ends of configurations with failed seeds.
function drawRayEnds({svg, x, scales, strip}, axis, index) {
  if (withoutOutcome.length) {
    drawCrosses(svg, withoutOutcome.filter(c => isLost(c, axis.name)), () => [x(axis.name), strip + 5]);
    labelStrip(svg, x(axis.name) - 9, strip + 4);
  }
  const drawn = hollow.filter(c => axis.values[c] !== null);
  pointable(svg.append("g").selectAll("path").data(drawn).join("path"))
    .attr("class", c => `end${getMark(c) ? " chosen" : ""}${outClass(c)}`)
    .style("--tint", color).attr("d", c => makeMark(c, 3.6))
    .attr("transform", c => `translate(${x(axis.name)},${scales[index](axis.values[c])})`);
}

// Keep only configurations in a filter of an axis, or all of them.
function setFilter(axis, filter) {
  if (filter) state.filters[axis.name] = filter; else delete state.filters[axis.name];
  update();
}

// Draw an axis with the area in which a range is dragged.
function drawFilterAxis({svg, x, makeAxis, left, top, bottom, lowest, highest}, axis, index) {
  const group = svg.append("g").attr("class", "axis").attr("transform", `translate(${x(axis.name)})`);
  group.call(makeAxis(index)).call(dropOverlapping, ON_HEIGHT);
  group.select(".domain").attr("d", `M0,${bottom}V${top}`);

  // A click in the range moves nothing, and clears it as one beside it does.
  const partOf = pixel => Math.max(0, Math.min(1, (lowest - pixel) / (lowest - highest)));
  let pressedSelection = null; // where the range was when the pointer was pressed
  const brush = d3.brushY().extent([[-12, top], [12, bottom]])
    .on("start", ({sourceEvent, selection}) => { if (sourceEvent) pressedSelection = String(selection); })
    .on("end", ({sourceEvent, selection}) => {
      if (!sourceEvent) return;
      const isDragged = selection && String(selection) !== pressedSelection;
      setFilter(axis, isDragged ? makeFilter(axis, [partOf(selection[1]), partOf(selection[0])]) : null);
    });
  const area = group.append("g").attr("class", "brush").attr("data-axis", axis.name).call(brush);
  const filter = state.filters[axis.name], range = filter ? findRange(axis, filter) : [0, 1];
  if (filter) area.call(brush.move, range.toReversed().map(part => lowest - part * (lowest - highest)));

  // The name of the axis is a slider for the keyboard; the names of the outer axes stay inside the picture. Lengths are
  // named where two neighbours have room for them: a letter is about 6.5 pixels wide.
  const title = axis.outcome ? `${axis.name}${describeLengths(axis.name)}` : axis.name;
  const hasRoom = 1.5 * 6.5 * title.length - 44 < x.step();
  const [start, anchor] = !index ? [10 - left, "start"] : index === axes.length - 1 ? [44, "end"] : [0, "middle"];
  group.append("text").attr("class", "axis-name").attr("y", 14).attr("x", start).attr("text-anchor", anchor)
    .text(hasRoom ? title : axis.name)
    .attr("tabindex", 0).attr("role", "slider").attr("aria-label", `keep a range of ${axis.name}`)
    .attr("aria-valuemin", 0).attr("aria-valuemax", 100).attr("aria-valuenow", Math.round(100 * range[1]))
    .attr("aria-valuetext", filter ? describeFilter(axis, filter) : "all").attr("data-slider", axis.name)
    .on("click", () => setFilter(axis, null))
    .on("keydown", event => moveFilter(event, axis, range));
}

// Move an end of a range by a key: arrows, Home and End move the upper end, with Shift the lower one, by a twentieth of
// the axis or by one category; Escape clears the range.
function moveFilter(event, axis, [low, high]) {
  const steps = {ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity};
  const size = axis.number ? 0.05 : axis.scale.step(), step = size * steps[event.key];
  if (event.key !== "Escape" && !step) return;
  event.preventDefault();
  const least = axis.number ? 0 : size / 2; // one category stays
  if (event.shiftKey) low = Math.max(0, Math.min(high - least, low + step));
  else high = Math.max(low + least, Math.min(1, high + step));
  setFilter(axis, step && (low > 0 || high < 1) ? makeFilter(axis, [low, high]) : null);
  focusAgain(`[data-slider="${CSS.escape(axis.name)}"]`);
}
