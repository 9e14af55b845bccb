// The effects of hyperparameters on the chosen outcome, with their intervals.

// Draw the section, or why there is nothing to draw.
function drawEffects() {
  const effects = listEffects().toSorted(byStrength), box = $("effects");
  const linesOf = ({correlation, differences, slopes}) =>
    [correlation, ...[...differences, ...slopes].map(({ends}) => ends)];
  const intervals = effects.flatMap(linesOf).filter(([, low]) => low !== null);
  if (!intervals.length && effects.every(effect => effect.p === null)) {
    const reasons = [...new Set(effects.map(effect => effect.reason).filter(Boolean))].join("; ");
    const why = page.no_effects || (effects.length ? `No effect has an interval or a test: ${reasons}.` : "");
    return box.replaceChildren(...(why ? [make("h3", "Effects"), make("p", why)] : []));
  }

  // A phone has no room for the lengths: if all effects have the same, the heading names them.
  const isPhone = innerWidth <= 500 && !isPaper, {at} = effects[0];
  const namesLengths = !isPhone || effects.some(effect => effect.at !== at);
  const atLengths = at.replace(" ", /\d\D/.test(at) ? " lengths " : " length ");
  const place = namesLengths ? "" : ` at the ${atLengths}`;

  const note = describeEffects(effects, intervals.length).join(" ");
  box.replaceChildren(
    make("h3", `Effects${place}, with 95 % intervals`),
    make("p", note, {class: "note"}),
    makeEffectTable(effects, namesLengths, isPhone),
  );
}

// Return how to read the table, as sentences.
function describeEffects(effects, intervalCount) {
  const higher = page.metrics[0].direction === "maximize" ? "better" : "worse";
  const notes = [
    `Right of the dashed line: a higher value goes with a higher (${higher}) ${judgedName}.`,
    "A filled square marks an interval without 0; an interval that contains 0 is inconclusive.",
  ];
  if (intervalCount > 1) notes.push(page.chance);
  if (!effects.every(effect => effect.matched))
    notes.push("* Other hyperparameters vary together with this one and may cause the difference.");
  return notes;
}

// Return the table: a row for each difference and slope, and a single one for an effect without any.
function makeEffectTable(effects, namesLengths, isPhone) {
  const hasImportance = effects.some(effect => effect.importance !== null);
  const hasSlopes = effects.some(effect => effect.slopes.some(({ends}) => ends[0] !== null));
  const slopeHead = page.hyperparameters.length > 1 ? "others held fixed (standardized slope)" : "standardized slope";
  const head = [
    "hyperparameter",
    ...(namesLengths ? ["at lengths"] : []),
    "rank correlation or difference",
    ...(hasSlopes ? [slopeHead] : []),
    effects[0].unit,
    ...(hasImportance ? ["importance"] : []),
  ];

  // Equal quantities are drawn on the same scale.
  const limitOf = key => {
    const ends = effects.flatMap(effect => effect[key].flatMap(({ends}) => ends));
    return d3.max(ends.filter(Number.isFinite), Math.abs) || 1;
  };
  const slopeLimit = limitOf("slopes"), differenceLimit = limitOf("differences"), width = isPhone ? 100 : 130;
  const body = effects.flatMap(effect => {
    const trend = {ends: effect.correlation, limit: 1, mayFill: !effect.contradicted};
    if (effect.contradicted) trend.value = "not monotonic";
    const correlation = effect.correlation[0] === null ? [] : [trend];
    const [, low, high] = effect.middle;  // shown only if it is an effect, because most keys have a trend or nothing
    const middle = low > 0 || (low !== null && high < 0)
      ? [{ends: effect.middle, limit: 1, value: "with the distance from the middle value (99 %)"}] : [];
    const differences = effect.differences.map(line => ({...line, limit: differenceLimit}));

    // A correlation whose direction a difference contradicts comes last, and is not filled.
    const marginal = effect.contradicted
      ? [...differences, ...middle, ...correlation] : [...correlation, ...middle, ...differences];
    const instead = effect.p === null ? effect.reason : `${effect.test}: p = ${effect.p.toPrecision(3)}`;
    return d3.range(Math.max(1, marginal.length, effect.slopes.length)).map(n => {
      const onFirst = text => n ? "" : text;
      const importance = effect.importance === null ? "" : effect.importance.toFixed(2);
      return [
        onFirst(effect.name + (effect.matched ? "" : " *")),
        ...(namesLengths ? [onFirst(effect.at)] : []),
        marginal[n] ? makeEffect(marginal[n], marginal[n].limit, effect.matched, width) : onFirst(instead),
        ...(hasSlopes ? [makeEffect(effect.slopes[n], slopeLimit, effect.matched, width)] : []),
        onFirst(effect.n),
        ...(hasImportance ? [onFirst(importance)] : []),
      ];
    });
  });
  return makeTable(head, body);
}

// Return a cell with a correlation, difference or slope, its interval and their picture; empty without a value.
function makeEffect(line, limit, mayFill, width) {
  const cell = make("div", undefined, {class: "effect"});
  if (!line || line.ends[0] === null) return cell;
  const [value, low, high] = line.ends;
  const text = make("span", `${line.value ? `${line.value}: ` : ""}${formatSigned(value)}`);
  if (low !== null) text.append(make("span", ` [${formatSigned(low)}, ${formatSigned(high)}]`, {class: "ends"}));
  cell.append(text, drawInterval(value, low, high, limit, {mayFill: mayFill && line.mayFill !== false, width}));
  return cell;
}
