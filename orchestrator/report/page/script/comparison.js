// The section on A and B: verdict, table, and the picture of their differences.

// Return a small picture of an interval around 0, from -limit to limit, below the differences of seeds as dots. Its
// square is filled if it excludes 0 and may be read as an effect. `namesEnds` writes the ends of the scale below it.
function drawInterval(value, low, high, limit, {dots = [], mayFill = true, width = 130, namesEnds = false} = {}) {
  const height = 22, middle = dots.length ? 15 : height / 2, x = d3.scaleLinear([-limit, limit], [14, width - 14]);
  const isInfinite = end => Math.abs(end) === Infinity, edge = end => end > 0 ? width - 1 : 1;
  const hasInterval = low !== null && !Number.isNaN(low), hasValue = value !== null && !Number.isNaN(value);
  const range = hasInterval ? `, from ${formatSigned(low)} to ${formatSigned(high)}` : "";
  const svg = d3.create("svg").attr("width", width).attr("height", namesEnds ? height + 12 : height).attr("role", "img")
    .attr("aria-label", formatSigned(value) + range);
  if (namesEnds)
    svg.attr("class", "strip").selectAll("text")
      .data([[-limit, 1, "start"], [0, x(0), "middle"], [limit, width - 1, "end"]]).join("text")
      .attr("x", ([, place]) => place).attr("y", height + 10).attr("text-anchor", ([,, anchor]) => anchor)
      .text(([end]) => end ? formatSigned(end) : "0");
  svg.append("line").attr("x1", x(0)).attr("x2", x(0)).attr("y1", 1).attr("y2", height - 1)
    .attr("stroke", "#9aa4af").attr("stroke-dasharray", "2 2");

  // Infinite numbers are arrows at the edge.
  const drawArrow = (end, y, size) => {
    const slope = Math.sign(end) * 1.6 * size;
    return svg.append("path").attr("class", `beyond ${end > 0 ? "above" : "below"}`)
      .attr("d", `M${edge(end) - slope},${y - size}L${edge(end)},${y}l${-slope},${size}Z`);
  };
  svg.selectAll("circle").data(dots.filter(Number.isFinite)).join("circle")
    .attr("cx", dot => x(dot)).attr("cy", 5).attr("r", 2.4).attr("fill", OPEN).attr("opacity", .7);
  for (const dot of dots.filter(isInfinite)) drawArrow(dot, 5, 2.4).attr("fill", OPEN).attr("opacity", .7);
  if (hasInterval) {
    const [from, to] = [low, high].map(end => isInfinite(end) ? edge(end) : x(end));
    svg.append("line").attr("class", "interval").attr("x1", from).attr("x2", to).attr("y1", middle).attr("y2", middle)
      .attr("stroke", INK).attr("stroke-width", 2);
    for (const end of [low, high].filter(isInfinite)) drawArrow(end, middle, 3).attr("fill", INK);
  }

  const fill = mayFill && (low > 0 || high < 0) ? INK : "#fff";
  if (isInfinite(value)) drawArrow(value, middle, 4.5).attr("fill", fill).attr("stroke", INK);
  else if (hasValue)
    svg.append("rect").attr("x", x(value) - 3.5).attr("y", middle - 3.5).attr("width", 7).attr("height", 7)
      .attr("fill", fill).attr("stroke", INK).attr("stroke-width", 1.5);
  return svg.node();
}

// Draw the section, or how to choose A and B.
function drawComparison() {
  const box = $("comparison"), {first, second} = state;
  box.hidden = C === 1;
  box.classList.toggle("screen", first === null || second === null); // paper needs no hint
  if (first === null || second === null)
    return box.replaceChildren(make("h2", "Two configurations, seed by seed"), makeHint());

  // Verdict and table have a comparison for each group of lengths.
  const comparisons = GROUPS.map(group => compareSeeds(first, second, group)).filter(comparison => comparison !== null);
  const [label, otherLabel] = [first, second].map(c => configurations[c].label);
  box.replaceChildren(make("h2", `${label} against ${otherLabel}, seed by seed`));
  if (comparisons.length)
    box.append(...listVerdicts(comparisons[0], first, second).map(text => make("p", text, {class: "verdict"})));
  box.append(
    make("p", `A is ${label} (${describe(first)}). B is ${otherLabel} (${describe(second)}).`),
    makeSwap(),
    makeComparisonTable(comparisons),
  );

  // The picture, then the notes on its numbers.
  const directions = {minimize: "below 0 A is better", maximize: "above 0 A is better"};
  const sign = directions[page.metrics[state.metric].direction];
  const curves = subtractCurves(first, second), picture = drawDifferences(curves, first, second, widthOf(box));
  if (picture)
    box.append(
      make("h3", `A - B at each length${sign ? ` (${sign})` : ""}`),
      make("p", describeBand(curves, first, second), {class: "beyond-noise"}),
      picture,
      make("p", describePicture(picture), {class: "note"}),
    );
  box.append(make("p", listComparisonNotes(comparisons, sign).join(" "), {class: "note"}));
}

// Return the note on how to choose the two configurations; keys are named only where a page has a keyboard (page.css).
function makeHint() {
  const note = make("p", `${CLICK} a curve, a row or a point`, {class: "note"});
  const keys = make("span", ", or press Enter at a curve or a row,", {class: "keys"});
  note.append(keys, " to choose the two configurations that are compared.");
  return note;
}

// Return the button that swaps A and B; with it, a finger chooses another A as well.
function makeSwap() {
  const swap = make("button", "Swap A and B", {type: "button", class: "screen"});
  swap.addEventListener("click", () => {
    [state.first, state.second] = [state.second, state.first];
    update();
    focusAgain("#comparison button");
  });
  return swap;
}

// Return the sentences of confirmations on this pair; they are on the judged metric alone.
const listAnswers = (first, second) => metricName() !== judgedName ? [] : page.confirmed_pairs
  .filter(pair => [first, second].every(c => pair.labels.includes(configurations[c].label)))
  .map(({sentence}) => sentence);

// Return the verdict of the first comparison, with its bias, and the answers of fresh seeds, a sentence each.
function listVerdicts(comparison, first, second) {
  const answers = listAnswers(first, second), biased = isBiased(comparison, first, second);
  const sentence = describeComparison(comparison, first, second);
  let verdict = sentence;
  if (biased || (page.confirmed && isOneChosen(first, second))) {
    const seeds = `the seeds that ranked ${configurations[ranked[0]].label} first${biased ? " (biased)" : ""}`;
    verdict = `On ${seeds}: ${continueSentence(sentence)}`;
  } else if (answers.length) verdict = `In the search: ${continueSentence(sentence)}`;
  return [verdict, ...answers];
}

// Return in how many pairs of seeds A is better, of a metric with a better direction.
const countBetter = ({differences}) => {
  const sign = page.metrics[state.metric].direction === "maximize" ? 1 : -1;
  return countTrue(differences.map(value => sign * value > 0));
};

// Return the table: a row for each group of lengths. Each picture has its own scale, with its ends, because differences
// may grow tenfold with length.
function makeComparisonTable(comparisons) {
  const isPaired = comparisons.some(({paired}) => paired), isPhone = innerWidth <= 500 && !isPaper;
  const hasBetter = isPaired && !isPhone && page.metrics[state.metric].direction !== "none";
  const width = isPhone ? 130 : innerWidth < 700 || isPaper ? 160 : 280;
  const limitOf = ({low, high, difference, differences}) =>
    d3.max([low, high, difference, ...differences].filter(Number.isFinite), Math.abs) || 0;
  const rows = comparisons.map(comparison => {
    const {group, lengths, medians, difference, low, high, shown, paired, n, bothFailed, p} = comparison;
    const limit = limitOf(comparison);
    return {
      "at lengths": `${group} ${formatRanges(lengths)}`,
      "median A": formatNumber(medians[0]),
      "median B": formatNumber(medians[1]),
      [isPaired ? "median of A - B" : "A - B"]: formatSigned(difference),
      "95 % interval": Number.isNaN(low) ? "-" : `${formatSigned(low)} to ${formatSigned(high)}`,
      "each seed": drawInterval(difference, low, high, limit || 1, {dots: shown, width, namesEnds: limit > 0}),
      "pairs of seeds": !paired ? "not paired" : bothFailed ? `${n}, ${bothFailed} failed in both` : String(n),
      ...(hasBetter ? {"A better": paired ? String(countBetter(comparison)) : "-"} : {}),
      p: Number.isNaN(p) ? "-" : p.toPrecision(3),
    };
  });

  // A phone shows five columns without scrolling; the others, but "A better", are on a line of their own below the row.
  const below = isPhone ? ["pairs of seeds", "each seed", "p"] : [];
  const names = Object.keys(rows[0] ?? {}).filter(name => !below.includes(name));
  const table = makeTable(names, rows.map(row => names.map(name => row[name])));
  table.querySelectorAll("tbody tr").forEach((row, index) => {
    const {group, difference, low, high, level, p, n} = comparisons[index];
    Object.assign(row.dataset, {group, difference, low, high, level, p, n});
    if (!isPhone) return;
    const line = make("tr"), cell = make("td", undefined, {class: "below", colspan: names.length});
    const [pairs, picture, text] = below.map(name => rows[index][name]);
    cell.append(`pairs of seeds: ${pairs} `, picture, ` p: ${text}`);
    line.append(cell);
    row.after(line);
  });
  return table;
}

// Return sentences that explain the numbers of the table, and name the corrections that they lack.
function listComparisonNotes(comparisons, sign) {
  const {first, second} = state;
  const notes = [`Differences of ${metricName()} at the judged evaluation${sign ? `; ${sign}` : ""}.`];
  const hasTies = comparisons.some(({differences}) => differences.includes(0));
  if (comparisons.some(({paired}) => paired))
    notes.push(
      "Seeds are subtracted pair by pair, so the median of A - B need not be the difference of the medians;",
      "the interval lies between two of the sorted differences (at least 95 % for any distribution),",
      `p is that of the exact sign test${hasTies ? ", in which ties count for both sides" : ""}.`,
    );

  // Seeds that chose one of the two favour it.
  if (page.has_fresh_seeds) notes.push("These seeds are fresh: no search ranked by them.");
  else if (isOneChosen(first, second))
    notes.push(
      `${configurations[ranked[0]].label} was ranked first on these same seeds, so they favour it.`,
      listAnswers(first, second).length ? "The sentences at the top have the answer of fresh seeds."
        : "For a fair test: lengthwise confirm.",
    );
  else if (C > 2) notes.push("Neither interval nor p is corrected for how the pair was picked.");

  const failedValue = failedValueOf(state.metric);
  if ([first, second].some(hasFailedSeeds) && !Number.isNaN(failedValue))
    notes.push(
      `A failed seed counts as the worst value (${formatNumber(failedValue)}); seeds that failed in both tie.`,
    );
  const reasons = new Set(comparisons.map(({reason}) => reason).filter(Boolean));
  return [...notes, ...[...reasons].map(reason => `${beginSentence(reason)}.`)];
}
