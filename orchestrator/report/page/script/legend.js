// The legend below the curves, and the sentence on the configuration that is chosen or pointed at.

// Return which configurations in range a logarithmic scale does not draw, or not at all lengths, as text.
function describeNotPositive() {
  const lengths = lengthsOf(state.metric);
  const cut = d3.range(C).filter(isIn).map(c => {
    const median = shownMedian(c);
    const present = lengths.filter((_, index) => Number.isFinite(median[index]));
    const missing = lengths.filter((_, index) => Number.isFinite(median[index]) && !isDrawable(median[index]));
    if (!missing.length) return "";
    if (missing.length === present.length) return configurations[c].label;
    const isEnd = missing.length === present.filter(length => length >= missing[0]).length;
    const where = isEnd ? `from ${page.axis} ${missing[0]}` : `at ${page.axis} ${formatRanges(missing)}`;
    return `${configurations[c].label} ${where}`;
  }).filter(Boolean);
  return cut.length ? `not above 0, so not on this scale: ${listFirst(cut, "; ")}` : "";
}

// Draw the legend: the meaning of shades and colors, then the values that some drawn configurations lack.
function drawLegend(groups) {
  const swatches = [...listShades(groups), ...listSamples()];
  const texts = [];
  if (state.first !== null && !chosenEvaluation()) texts.push("band: quartiles; thin: seeds");
  const outside = chosenPair().filter(c => !isIn(c)).map(labelWithMark);
  if (outside.length) texts.push(`${outside.join(" and ")} outside the range, drawn for the comparison`);
  texts.push(describeNotPositive());
  const entries = [...swatches, ...texts.filter(Boolean).map(text => make("span", text))];

  // The sign comes last, so that the text is not indented while the sign is hidden.
  const infinite = withoutOutcome.map(c => configurations[c].label);
  if (infinite.length) {
    const entry = make("span");
    entry.append(`${WHY_LOST}: ${listFirst(infinite)}`, make("span", " \u00d7", {class: "sign"}));
    entries.push(entry);
  }
  const counts = hollow.map(c => {
    const {label, failed, seeds} = configurations[c];
    return `${label} (${failed} of ${seeds.length})`;
  });
  if (counts.length) entries.push(make("span", `hollow: some seeds failed, ${listFirst(counts)}`));
  $("legend").replaceChildren(...entries);
}

// Return the entries on the shades of lengths, and on the colors of ranks.
function listShades(groups) {
  const shades = {
    trained: "#e9edf2",
    selection: "repeating-linear-gradient(45deg,#dfe4e9 0 1px,#f7f8fa 1px 5px)",
    test: "#fff",
  };
  const makeEntry = (background, text, attributes = {}) => {
    const entry = make("span"), swatch = make("i", undefined, attributes);
    swatch.style.background = background;
    entry.append(swatch, text);
    return entry;
  };

  // Selection lengths that are trained are hatched, so the shade of trained lengths needs others.
  const {trained_on: trained = [], trained_text: text, selection = []} = groups;
  const areAllHatched = trained.length > 0 && trained.every(length => selection.includes(length));
  const trainedToo = trained.length < selection.length ? ` (trained ${text})` : " (trained)";
  const texts = {
    trained: trained.length && !areAllHatched ? `trained ${text}` : "",
    selection: selection.length ? `selection ${formatRanges(selection)}${areAllHatched ? trainedToo : ""}` : "",
    test: groups.test?.length ? `test ${formatRanges(groups.test)}` : "",
  };
  const entries = Object.keys(shades).filter(group => texts[group])
    .map(group => makeEntry(shades[group], texts[group]));
  const colors = `linear-gradient(90deg,${[0, 0.5, 1].map(part => ramp(part * ranked.length)).join(",")})`;
  if (ranked.some(c => !getMark(c)))
    entries.push(makeEntry(colors, "first to last by the selection lengths", {class: "ramp"}));
  return entries;
}

// Return the entries on the lines of A and B.
const listSamples = () => chosenPair().map(c => {
  const entry = make("span", undefined, {class: "sample"});
  entry.append(makeSample(c), labelWithMark(c));
  return entry;
});

// Write the sentence on the hovered configuration, or else on A, with the effect of a click.
function drawReadout() {
  const c = pointed ?? state.first, box = $("readout");
  if (c === null && state.second !== null)
    return box.replaceChildren(`${CLICK} a line or row to compare it as A with ${labelWithMark(state.second)}.`);
  if (c === null)
    return box.replaceChildren(
      CLICK === "Tap" ? "Tap two curves, rows or points to compare them."
        : "Point at a curve, a row or a point; click two to compare them.",
    );

  let value = "";
  if (pointedLength !== null) {
    const [low, median, high] = shownQuartiles(c).map(values => formatNumber(values[pointedLength]));
    value = ` at ${page.axis} ${lengthsOf(state.metric)[pointedLength]}: ${median} [${low}, ${high}];`;
  }
  const missing = chosenEvaluation() ? " Single seeds are shown only at the judged evaluation." : "";
  const change = deselected?.c === c ? ` It is no longer ${deselected.mark}.` : "";
  const text = pointed === null ? `${describeSeeds(c)}.` : `${describe(c)}.`;
  const hint = pointed === null ? describeChoice() : "";
  box.replaceChildren(make("b", labelWithMark(c)), `${value} ${text}${change}${missing}${hint}`);
}

// Return how to choose another A or B; a finger cannot deselect one, so it swaps both.
function describeChoice() {
  if (C === 1) return "";
  if (state.second === null) return ` ${CLICK} another line or row to compare it with this one.`;
  const others = C > 2 ? [`${CLICK.toLowerCase()} another line or row to compare it as B`] : [];
  const change = CLICK === "Tap" ? "the button below swaps A and B" : "click A or B again to deselect it";
  const compared = `Compared below with ${labelWithMark(state.second)}.`;
  return ` ${compared} ${beginSentence([...others, change].join(CLICK === "Tap" ? "; " : ", or "))}.`;
}
