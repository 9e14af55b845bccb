// The outcome against each hyperparameter: points, parallel coordinates and effects.
const ON_HEIGHT = ["top", "bottom", -3]; // of a vertical axis: boxes have room above and below the digits

// Drop the labels of an axis that would overlap the label before them; their ticks stay.
function dropOverlapping(axis, [from, to, gap] = ["left", "right", 4]) {
  const labels = axis.selectAll(".tick text").nodes().filter(text => text.textContent)
    .map(text => ({text, box: text.getBoundingClientRect()})).sort((label, other) => label.box[from] - other.box[from]);
  let end = -Infinity;
  for (const {text, box} of labels) if (box.width && box[from] < end + gap) text.remove(); else end = box[to];
}

// The effects on the chosen outcome; on all outcomes if it has none, so that there is an order.
const listEffects = () => {
  const ofOutcome = page.effects.filter(effect => effect.group === state.outcome);
  return ofOutcome.length ? ofOutcome : page.effects;
};

// Hyperparameters with the strongest rank correlation first; those without an interval last.
const strength = name => d3.max(listEffects().filter(effect => effect.name === name),
  ({correlation: [value, low]}) => low === null ? 0 : Math.abs(value)) ?? 0;
const byStrength = (one, other) => strength(other.name) - strength(one.name);

function outcomeScale(bottom, top) {
  const values = configurations.map(configuration => configuration[state.outcome]).filter(value => value !== null);
  const log = page.logarithmic_outcomes.includes(state.outcome), [low, high] = values.length ? d3.extent(values) : [1, 2];
  const domain = log ? [low, high] : widenDomain([low, high], 0);
  const scale = (log ? d3.scaleLog() : d3.scaleLinear()).domain(domain).range([bottom, top]);
  return Object.assign(log ? scale : scale.nice(), {log});
}

// Points at one of few values, or of a category, are spread sideways if several share it.
const isSpread = (axis, c) => (!axis.number || axis.ticks !== null) && axis.values.filter(value => value === axis.values[c]).length > 1;

function drawPoints() {
  const box = $("points"), lengths = describeLengths(state.outcome), isOneLength = /^ \d+$/.test(lengths);
  const measure = isOneLength ? `value at the ${state.outcome} length` : `mean over the ${state.outcome} lengths`;
  $("outcome-note").replaceChildren(...keepTogether(`${judgedName}, median over seeds of the ${measure}${lengths}, for each configuration${page.hyperparameters.length > 1 ? "; the strongest effect first" : ""}${axes.some(axis => !axis.outcome && d3.range(C).some(c => isSpread(axis, c))) ? "; points of equal values are spread sideways" : ""}.${state.first !== null && state.second !== null ? " A is the square, B the large circle." : ""}${failed.length ? ` \u00d7: ${WHY_LOST}.` : ""}${hollow.length ? " Hollow: some seeds failed." : ""}`));

  // As many panels in a row as have room, and as equal rows as possible.
  const panels = axes.filter(axis => !axis.outcome).toSorted(byStrength);
  const room = Math.max(1, Math.floor(widthOf(box) / 254));
  const perRow = Math.ceil(panels.length / Math.ceil(panels.length / room));
  box.style.gridTemplateColumns = `repeat(${perRow}, minmax(0, 1fr))`;
  box.replaceChildren();

  const bottom = 36, top = 8, height = 180;
  const width = Math.max(220, Math.min((widthOf(box) - 24 * (perRow - 1)) / perRow, panels.length > 1 ? 340 : 480));
  for (const [index, axis] of panels.entries()) {
    const y = outcomeScale(height - bottom - STRIP_BELOW, top + STRIP_ABOVE);
    const svg = d3.select(box).append("svg").attr("width", "100%").attr("viewBox", [0, 0, width, height])
      .attr("role", "img").attr("aria-label", `${state.outcome} outcome against ${axis.name}${describeSides(c => `: ${formatOutcome(c, state.outcome)} at ${axis.values[c] === null ? "-" : shorten(axis.values[c])}`)}`);
    if (!index) svg.attr("data-outcome", state.outcome);

    // The axes.
    const outcomes = d3.axisLeft(y).ticks(4).tickFormat((y.log ? logTickFormat : linearTickFormat)(y));
    const left = Math.max(58, 30 + measureLabels(svg, outcomes)), x = axis.scale.copy().range([left + 15, width - 15]);
    const ticks = axis.number ? d3.axisBottom(x).ticks(4).tickValues(axis.ticks) : d3.axisBottom(x);
    svg.append("g").attr("transform", `translate(0,${height - bottom})`)
      .call(ticks.tickFormat(tickFormat(axis, x)).tickSizeOuter(0)).call(dropOverlapping);
    svg.append("g").attr("transform", `translate(${left})`)
      .call(outcomes).call(dropOverlapping, ON_HEIGHT);
    svg.append("text").attr("class", "title").attr("x", (left + width) / 2).attr("y", height - 3)
      .attr("text-anchor", "middle").text(axis.name);
    svg.append("text").attr("class", "title").attr("text-anchor", "middle")
      .attr("transform", `translate(11,${(top + height - bottom) / 2}) rotate(-90)`).text(`${state.outcome}${lengths}`);

    // A point for each configuration, A on top of B, which is larger, so that both are seen if they have equal values.
    const jitter = c => isSpread(axis, c) ? ((c * 7) % 11 - 5) * 1.6 : 0;
    const finished = d3.range(C).filter(c => axis.values[c] !== null && configurations[c][state.outcome] !== null);
    const describePoint = (c, value) => `${configurations[c].label}: ${axis.name} ${shorten(axis.values[c])}, ${value}`;
    pointable(svg.append("g").selectAll("path").data(d3.sort(finished.reverse(), c => ["", "B", "A"].indexOf(markOf(c)))).join("path"))
      .attr("class", c => `dot${isHollow(c) ? " hollow" : ""}${outClass(c)}`).style("--tint", color).attr("d", c => makeMark(c, ({A: 5, B: 7.5})[markOf(c)] ?? 4.2)).attr("fill", color)
      .attr("transform", c => `translate(${x(axis.values[c]) + jitter(c)},${y(configurations[c][state.outcome])})`)
      .append("title").text(c => describePoint(c, formatNumber(configurations[c][state.outcome]) + (isHollow(c) ? `, ${configurations[c].failed} failed` : "")));

    // A cross for each failed configuration.
    const strip = STRIP_ABOVE ? top + 6 : height - bottom - 6;
    if (failed.length) labelStrip(svg, left - 6, strip + 4);
    drawCrosses(svg, failed.filter(c => isLost(c, state.outcome) && axis.values[c] !== null), c => [x(axis.values[c]) + jitter(c), strip + 5])
      .append("title").text(c => describePoint(c, describeLost(c)));
  }
}

// The value of the configuration that is pointed at, beside its points.
const formatOutcome = (c, outcome) =>
  isLost(c, outcome) ? describeLost(c) : formatNumber(configurations[c][outcome]);
function drawBeside() {
  document.querySelectorAll("#points .beside").forEach(text => text.remove());
  nameRays();
  if (pointed === null) return;
  for (const mark of document.querySelectorAll(`#points [data-c="${pointed}"]`)) {
    const {e: x, f} = mark.transform.baseVal[0].matrix, y = mark.matches("text") ? f - 5 : f; // a cross stands on its position
    const svg = mark.ownerSVGElement, isLeft = x < svg.viewBox.baseVal.width / 2;
    d3.select(svg).append("text").attr("class", "value beside").attr("text-anchor", isLeft ? "start" : "end")
      .attr("x", x + (isLeft ? 9 : -9)).attr("y", y + 4).text(`${configurations[pointed].label}: ${formatOutcome(pointed, state.outcome)}`);
  }
}

// At the right end of their lines: the names of A and B, and the value of the configuration that is pointed at.
let endOfRay = () => null;
function nameRays() {
  const svg = d3.select("#parallel svg"), {name, outcome} = axes.at(-1);
  if (svg.empty() || !outcome) return;
  const named = new Set([state.first, state.second].filter(c => c !== null));
  if (pointed !== null) named.add(pointed);
  const labels = [...named].filter(endOfRay).map(c => ({c, x: endOfRay(c)[0], y: endOfRay(c)[1]}));
  moveApart(labels, svg.attr("height") - 6);
  svg.selectAll(".ray-name").data(labels).join("text").attr("class", ({c}) => `value ray-name${c === pointed ? " beside" : ""}`)
    .attr("x", ({x}) => x + 9).attr("y", ({y}) => y + 4).style("fill", ({c}) => inkOf(c))
    .text(({c}) => labelWithMark(c) + (c === pointed ? `: ${formatOutcome(c, name)}` : ""));
}

// Parallel coordinates: all hyperparameters and outcomes side by side. A range dragged along an axis is a filter.
function drawParallel() {
  const box = $("parallel");
  box.replaceChildren();
  $("together").hidden = page.hyperparameters.length < 2; // the points show a single one
  endOfRay = () => null;
  if ($("together").hidden) return;
  const kept = describeFilters();
  $("kept").hidden = !kept;
  $("kept").textContent = `Kept: ${kept}.`;
  const width = Math.max(widthOf(box.parentElement), axes.length * 84), height = 290;
  const top = 30 + STRIP_ABOVE, bottom = 14 + STRIP_BELOW, right = 104, pad = 10; // right of the last axis is room for a value
  const svg = d3.select(box).append("svg").attr("width", width).attr("height", height).attr("viewBox", [0, 0, width, height])
    .attr("role", "group").attr("aria-label", `a line for each configuration across its hyperparameters and outcomes${describeSides(() => "")}`);
  const lowest = height - bottom - pad, highest = top + pad; // values end here, so that no line runs along an edge
  const scales = axes.map(axis => axis.scale.copy().range([lowest, highest]));
  const drawAxis = index =>
    d3.axisLeft(scales[index]).ticks(5).tickValues(axes[index].ticks).tickSizeOuter(0).tickFormat(tickFormat(axes[index], scales[index]));

  const left = Math.max(46, 14 + measureLabels(svg, drawAxis(0)));
  const x = d3.scalePoint(axes.map(({name}) => name), [left, width - right]);

  // A line for each configuration; a failed one ends in the strip of failed ones.
  const strip = STRIP_ABOVE ? top - 12 : height - bottom + 14;
  const position = (axis, index, c) => {
    if (axis.outcome && isLost(c, axis.name)) return [x(axis.name), strip];
    return axis.values[c] === null ? null : [x(axis.name), scales[index](axis.values[c])];
  };
  endOfRay = c => position(axes.at(-1), axes.length - 1, c);
  const line = c => d3.line().defined(end => end !== null)(axes.map((axis, index) => position(axis, index, c)));
  pointable(svg.append("g").selectAll("path").data(d3.sort(d3.range(C).reverse(), markOf)).join("path")).attr("stroke", color).attr("d", line)
    .attr("class", c => `ray${configurations[c].without_value.length ? " failed" : ""}${markOf(c) ? " chosen" : ""}${markOf(c) === "B" ? " second" : ""}${outClass(c)}`);

  const limit = value => Math.max(0, Math.min(1, value));
  const part = pixel => limit((lowest - pixel) / (lowest - highest)), pixelOf = part => lowest - part * (lowest - highest);
  const setFilter = (name, range) => {
    if (range) state.filters[name] = range; else delete state.filters[name];
    update();
  };
  axes.forEach((axis, index) => {
    if (axis.outcome && failed.length) {
      drawCrosses(svg, failed.filter(c => isLost(c, axis.name)), () => [x(axis.name), strip + 5]);
      labelStrip(svg, x(axis.name) - 9, strip + 4);
    }
    const drawn = hollow.filter(c => axis.outcome && axis.values[c] !== null);
    pointable(svg.append("g").selectAll("path").data(drawn).join("path")).attr("class", c => `end${markOf(c) ? " chosen" : ""}${outClass(c)}`)
      .style("--tint", color).attr("d", c => makeMark(c, 3.6)).attr("transform", c => `translate(${x(axis.name)},${scales[index](axis.values[c])})`);
    const group = svg.append("g").attr("class", "axis").attr("transform", `translate(${x(axis.name)})`);
    group.call(drawAxis(index)).call(dropOverlapping, ON_HEIGHT);
    group.select(".domain").attr("d", `M0,${height - bottom}V${top}`);

    // The filter by dragging.
    const filter = state.filters[axis.name];
    let begun = null; // where the range was when the pointer was pressed
    const brush = d3.brushY().extent([[-12, top], [12, height - bottom]])
      .on("start", ({sourceEvent, selection}) => { if (sourceEvent) begun = String(selection); })
      .on("end", ({sourceEvent, selection}) => { // a click in the range moves nothing, and clears it as one beside it does
        if (sourceEvent) setFilter(axis.name, selection && String(selection) !== begun ? [part(selection[1]), part(selection[0])] : null);
      });
    const area = group.append("g").attr("class", "brush").attr("data-axis", axis.name).call(brush);
    if (filter) area.call(brush.move, [pixelOf(filter[1]), pixelOf(filter[0])]);

    // The name of the axis, a slider for the keyboard: arrows, Home and End move the upper end, with Shift the lower.
    const [x0, anchor] = !index ? [10 - left, "start"] : index === axes.length - 1 ? [44, "end"] : [0, "middle"];
    group.append("text").attr("class", "axis-name").attr("y", 14).attr("x", x0).attr("text-anchor", anchor)
      .text(axis.outcome ? `${axis.name}${describeLengths(axis.name)}` : axis.name)
      .attr("tabindex", 0).attr("role", "slider").attr("aria-label", `keep a range of ${axis.name}`)
      .attr("aria-valuemin", 0).attr("aria-valuemax", 100).attr("aria-valuenow", Math.round(100 * (filter?.[1] ?? 1)))
      .attr("aria-valuetext", filter ? describeFilter(axis, filter) : "all").attr("data-slider", axis.name)
      .on("click", () => setFilter(axis.name, null)).on("keydown", event => {
        const step = {ArrowUp: 0.05, ArrowRight: 0.05, ArrowDown: -0.05, ArrowLeft: -0.05, Home: -1, End: 1}[event.key];
        if (event.key !== "Escape" && !step) return;
        event.preventDefault();
        let [low, high] = filter ?? [0, 1];
        if (event.shiftKey) low = Math.max(0, Math.min(high, low + (step || 0)));
        else high = Math.max(low, Math.min(1, high + (step || 0)));
        setFilter(axis.name, step && (low > 0 || high < 1) ? [low, high] : null);
        focusAgain(`[data-slider="${CSS.escape(axis.name)}"]`);
      });
  });
  nameRays();
}

// The effects of hyperparameters on the chosen outcome, with their intervals, the strongest first.
function drawEffects() {
  const effects = listEffects().toSorted(byStrength), box = $("effects");
  const linesOf = ({correlation, differences, slopes}) => [correlation, ...[...differences, ...slopes].map(({ends}) => ends)];
  const intervals = effects.flatMap(linesOf).filter(([, low]) => low !== null);
  if (!intervals.length && effects.every(effect => effect.p === null)) { // nothing to draw: say why
    const reasons = [...new Set(effects.map(effect => effect.reason).filter(Boolean))].join("; ");
    const why = page.no_effects || (effects.length ? `No effect has an interval or a test: ${reasons}.` : "");
    return box.replaceChildren(...(why ? [make("h3", "Effects"), make("p", why)] : []));
  }

  // A row for each difference and slope; equal quantities are drawn on the same scale.
  const limitOf = key => d3.max(effects.flatMap(effect => effect[key].flatMap(({ends}) => ends)).filter(Number.isFinite), Math.abs) || 1;
  const slopeLimit = limitOf("slopes"), differenceLimit = limitOf("differences");
  const isPhone = innerWidth <= 500 && !isPaper;
  const makeEffect = (line, limit, mayFill) => {
    const cell = make("div", undefined, {class: "effect"});
    if (!line || line.ends[0] === null) return cell;
    const [value, low, high] = line.ends, text = make("span", `${line.value ? `${line.value}: ` : ""}${formatSigned(value)}`);
    if (low !== null) text.append(make("span", ` [${formatSigned(low)}, ${formatSigned(high)}]`, {class: "ends"}));
    cell.append(text, drawInterval(...line.ends, limit, {mayFill, width: isPhone ? 100 : 130}));
    return cell;
  };
  const isAtSame = effects.every(effect => effect.at === effects[0].at), namesLengths = !isPhone || !isAtSame; // on a phone in the heading
  const body = [], hasImportance = effects.some(effect => effect.importance !== null);
  const hasSlopes = effects.some(effect => effect.slopes.some(({ends}) => ends[0] !== null));
  for (const effect of effects) {
    const correlation = effect.correlation[0] === null ? [] : [{ends: effect.correlation, limit: 1}];
    const marginal = [...correlation, ...effect.differences.map(line => ({...line, limit: differenceLimit}))];
    const instead = effect.p === null ? effect.reason : `${effect.test}: p = ${effect.p.toPrecision(3)}`;
    for (let n = 0; n < Math.max(1, marginal.length, effect.slopes.length); n++) {
      const onFirst = text => n ? "" : text;
      body.push([
        onFirst(effect.name + (effect.matched ? "" : " *")), ...(namesLengths ? [onFirst(effect.at)] : []),
        marginal[n] ? makeEffect(marginal[n], marginal[n].limit, effect.matched) : onFirst(instead),
        ...(hasSlopes ? [makeEffect(effect.slopes[n], slopeLimit, effect.matched)] : []), onFirst(effect.n),
        ...(hasImportance ? [onFirst(effect.importance === null ? "" : effect.importance.toFixed(2))] : []),
      ]);
    }
  }

  const slopeHead = hasSlopes ? [page.hyperparameters.length > 1 ? "others held fixed (standardized slope)" : "standardized slope"] : [];
  const head = ["hyperparameter", ...(namesLengths ? ["at lengths"] : []), "rank correlation or difference", ...slopeHead, effects[0].unit];
  if (hasImportance) head.push("importance");
  const direction = page.metrics[0].direction === "maximize" ? "better" : "worse";
  const note = [
    `Right of the dashed line: the outcome rises with the hyperparameter, which is ${direction}.`,
    "A filled square marks an interval without 0; an interval that contains 0 is inconclusive.",
  ];
  if (intervals.length > 1) note.push(page.chance);
  if (!effects.every(effect => effect.matched)) note.push("* Other hyperparameters vary together with this one and may cause the difference.");
  box.replaceChildren(make("h3", `Effects${namesLengths ? "" : ` at the ${effects[0].at.replace(" ", /\d\D/.test(effects[0].at) ? " lengths " : " length ")}`}, with 95 % intervals`), make("p", note.join(" "), {class: "note"}), makeTable(head, body));
}
