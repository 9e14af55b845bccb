// The picture of the differences of A and B against length, and the lengths at which they are more than seed noise.

// Return the differences of c and d at their common lengths, pair by pair, and the lengths by group. A pair is `isLost`
// if both seeds failed. `points` has the median of each length with an interval; together the intervals are a band that
// contains all median differences with a probability of at least 95 %, by Bonferroni's inequality.
function subtractCurves(c, d) {
  const m = state.metric, names = [...GROUPS, "trained_on"];
  const groups = Object.fromEntries(names.map(name => [name, listCommon(c, d, m, name)]));
  const lengths = lengthsOf(m).filter(length => GROUPS.some(group => groups[group].includes(length)));
  const curveOf = (side, seed) => seedCurve(m, state.average, side, configurations[side].seeds.indexOf(seed));
  const valuesOf = curve => lengths.map(length => curve[lengthsOf(m).indexOf(length)])
    .map(value => Number.isNaN(value) ? failedValueOf(m) : value);

  const seeds = configurations[c].seeds.filter(seed => configurations[d].seeds.includes(seed));
  const pairs = seeds.map(seed => {
    const curves = [c, d].map(side => curveOf(side, seed)), [values, others] = curves.map(valuesOf);
    return {
      seed, values: values.map((value, index) => difference(value, others[index])),
      isLost: curves.every(curve => curve.every(Number.isNaN)),
      hasFailed: curves.some(curve => curve.some(Number.isNaN)),
    };
  });
  const points = lengths.map((_, index) => testDifferences(
    pairs.map(({values}) => values[index]).filter(value => !Number.isNaN(value)), 1 - 0.05 / lengths.length,
  ));
  return {groups, lengths, pairs, points, hasBand: points.every(({low}) => low !== undefined)};
}

// Return the picture of differences, as of `subtractCurves`, against length, at most `available` pixels wide: a thin
// line for each pair of seeds, a thick one for the medians, and the band. Infinite differences are gaps, as in the
// curves; an infinite end of the band is at the edge. Null without pairs of seeds, or with less than two lengths.
function drawDifferences({groups, lengths, pairs, points, hasBand}, c, d, available) {
  if (lengths.length < 2 || !arePaired(c, d)) return null;
  const finite = pairs.flatMap(({values}) => values).filter(Number.isFinite);
  const isJudgedFailed = page.judged.policy === "fail" && [c, d].some(hasFailedSeeds);
  if (!finite.length || isJudgedFailed) return null;

  // The vertical axis has 0, and spans at least 0.01 for a share: one token in thousands does not fill the picture.
  const width = Math.max(280, Math.min(available, 640)), height = 220, top = 24, bottom = height - 42;
  const [low, high] = d3.extent([0, ...finite]), missing = (isShare(state.metric) ? 0.01 : 0) - (high - low);
  const range = low < high ? [low, high] : [-1, 1];
  const y = d3.scaleLinear(missing > 0 ? [low - missing / 2, high + missing / 2] : range, [bottom, top]).nice();
  const tickFormat = linearTickFormat(y), axis = d3.axisLeft(y).ticks(5).tickFormat(tickFormat);

  // The picture is not in the page yet, so labels cannot be measured: a digit is about 6.5 pixels wide.
  const left = 36 + 6.5 * d3.max(y.ticks(5), tick => tickFormat(tick).length), right = width - 14;
  const x = makeLengthScale(lengths, left, right);
  const svg = d3.create("svg").attr("width", width).attr("height", height).attr("viewBox", [0, 0, width, height])
    .attr("class", "differences").attr("role", "img")
    .attr("aria-label", `A minus B in ${metricName()} against ${page.axis}`);
  shadeLengths(svg, x, lengths, groups, top, bottom);
  drawLengthAxis(svg, x, lengths, bottom, height);
  svg.append("g").attr("class", "values").attr("transform", `translate(${left})`).call(axis);
  titleHeight(svg, 13, top, bottom, "A - B");
  svg.append("line").attr("x1", left).attr("x2", right).attr("y1", y(0)).attr("y2", y(0))
    .attr("stroke", "#5b6570").attr("stroke-dasharray", "4 3");

  const toEdge = value => value === Infinity ? top : value === -Infinity ? bottom : y(value);
  const area = d3.area((_, n) => x(lengths[n]), ({low}) => toEdge(low), ({high}) => toEdge(high));
  if (hasBand) svg.append("path").attr("class", "band").attr("fill", INK).attr("d", area(points));
  const path = makePath(x, y, lengths, Number.isFinite), medians = points.map(({difference}) => difference);
  svg.append("g").selectAll("path").data(pairs).join("path").attr("class", "seed").attr("data-seed", ({seed}) => seed)
    .attr("data-why", ({hasFailed}) => hasFailed ? "failed" : "never reached the metric")
    .attr("stroke", INK).attr("d", ({values, isLost}) => isLost ? null : path(values));
  svg.append("path").attr("class", "median").attr("stroke", INK).attr("d", path(medians));
  const measured = isSparse(lengths) ? d3.range(lengths.length).filter(n => Number.isFinite(medians[n])) : [];
  svg.append("g").selectAll("circle").data(measured).join("circle").attr("class", "measured")
    .attr("cx", n => x(lengths[n])).attr("cy", n => y(medians[n])).attr("r", 4).attr("fill", INK);
  return svg.node();
}

// Return a description of the lines of the picture, with the number of pairs whose line is empty, because none of their
// differences is finite.
function describePicture(picture) {
  const lines = [...picture.querySelectorAll(".seed")], missing = lines.filter(line => !line.getAttribute("d"));
  const why = [...new Set(missing.map(line => line.dataset.why))].join(" or ");
  const count = `${missing.length} of ${lines.length} pairs ${missing.length === 1 ? "has" : "have"} no line`;
  const note = missing.length ? ` ${count}: a seed ${why}.` : "";
  const median = missing.length ? "the median of all pairs, with failed seeds as the worst" : "their median";
  const band = picture.querySelector(".band") ? "; band: 95 % for all lengths at once" : "";
  return `Thin lines: pairs of equal seeds; thick line: ${median}${band}; dashed: no difference.${note}`;
}

// Return a sentence on the lengths at which the band excludes 0, or why there is none; as orchestrator/report/
// sweep_sentences.py words it. A configuration that these seeds ranked first is ahead, not better.
function describeBand({lengths, points, hasBand}, c, d) {
  const least = Math.ceil(1 + Math.log2(lengths.length / 0.05)), few = Math.min(...points.map(({n}) => n));
  if (!hasBand) return `No band: ${describeTooFew(few, `${lengths.length} lengths at once`, least)}.`;

  const hasNoDirection = page.metrics[state.metric].direction === "none";
  const relation = hasNoDirection ? "lower" : isOneChosen(c, d) ? "ahead" : "better";
  const isFirstBetter = ({low}) => (low > 0) === (page.metrics[state.metric].direction === "maximize");
  const texts = [["A", true], ["B", false]].map(([side, isFirst]) => {
    const listed = lengths.filter((_, n) => {
      const {low, high} = points[n];
      return (low > 0 || high < 0) && isFirstBetter(points[n]) === isFirst;
    });
    const at = listed.length === lengths.length ? "all lengths"
      : `length${listed.length > 1 ? "s" : ""} ${formatRanges(listed)}`;
    return listed.length ? `${side} is ${relation} at ${at}` : "";
  }).filter(Boolean);
  const band = `band: 95 % for all ${lengths.length} lengths at once`;
  return `By length: ${texts.join("; ") || "at no length is the difference more than seed noise"} (${band}).`;
}
