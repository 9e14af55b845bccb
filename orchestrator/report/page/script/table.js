// The table of configurations.
const columns = Object.keys(page.table);

// Return the number in a cell such as "#8" or "0.4 [0.398, 0.401]", by which it is sorted; NaN for other text.
const asNumber = text => parseFloat(text.replace(/^#/, "").replace(/^(-?)inf\b/, "$1Infinity"));

// Return the configurations that the filters keep, in the order of the table; in a column of numbers text comes last.
function sortedConfigurations() {
  const cells = page.table[state.sort] || page.table.rank, isText = cells.every(text => Number.isNaN(asNumber(text)));
  const key = isText ? c => cells[c] : c => asNumber(cells[c]), sign = state.isDescending ? -1 : 1;
  const isLast = c => Number.isNaN(key(c));
  return d3.range(C).filter(isIn).sort((c, d) => isLast(c) - isLast(d) || sign * d3.ascending(key(c), key(d)) || c - d);
}

// Return the names of the columns in their order.
function listColumns() {
  const hidden = new Set(["config_id", "form"]);
  if (!configurations.some(configuration => configuration.failed)) hidden.add("failed");
  const isScoreSelection = page.judged.reduce === "mean" && page.judged.statistic === "median";
  if (isScoreSelection) hidden.add("score");
  const visible = columns.filter(name => !hidden.has(name));
  if (innerWidth >= 700) return visible;

  // On a phone results come first, and the values of hyperparameters last.
  const first = ["rank", "label", "selection", "test"];
  const hyperparameters = new Set(page.hyperparameters.map(({name}) => name));
  const position = name => first.indexOf(name) + 1 || (hyperparameters.has(name) ? 6 : 5);
  return visible.sort((name, other) => position(name) - position(other));
}

// Make a group of elements one Tab stop, so that Tab skips the others. The stop is the element with the focus, or with
// the focus before the table was redrawn; at first it is the first element.
const lastFocused = {}; // by the group of elements
function makeOneStop(group, elements, nameOf) {
  const setStop = stop => elements.forEach(element => { element.tabIndex = element === stop ? 0 : -1; });
  setStop(elements.find(element => nameOf(element) === lastFocused[group]) ?? elements[0]);
  for (const element of elements)
    element.addEventListener("focus", () => { lastFocused[group] = nameOf(element); setStop(element); });
}

// Draw the table, and offer the rows that it does not show.
function drawTable() {
  const table = $("table"), names = listColumns(), order = sortedConfigurations(), limit = C > 15 ? 10 : 15;
  const sides = Object.fromEntries(names.map(name => [name, areNumbers(page.table[name]) ? "right" : ""]));

  const thead = make("thead"), head = makeHead(names, sides);
  thead.append(head);
  makeOneStop("heads", [...head.querySelectorAll("button")], button => button.textContent);

  // A and B are always among the rows.
  const tbody = make("tbody"), shown = state.showsAll ? order : order.filter((c, index) => index < limit || getMark(c));
  tbody.append(...shown.map(c => makeRow(c, names, sides)));
  makeOneStop("rows", [...tbody.rows], row => row.dataset.c);
  table.replaceChildren(make("caption", describeTable()), thead, tbody);

  nameColumnsBeyond(head);
  $("every").hidden = order.length <= limit;
  $("every").textContent = state.showsAll ? `Show the first ${limit}` : `Show all ${order.length} configurations`;
  $("clear").hidden = !Object.keys(state.filters).length;
}

// Return the head; a click on a column sorts by it, left and right move between columns.
function makeHead(names, sides) {
  const head = make("tr");
  head.append(make("th"));
  for (const name of names) {
    const cell = make("th", undefined, {class: sides[name]}), button = make("button", name, {type: "button"});
    if (state.sort === name) cell.setAttribute("aria-sort", state.isDescending ? "descending" : "ascending");
    cell.addEventListener("click", () => { // also of the button, which keys reach
      const isFocused = document.activeElement === button;
      state.isDescending = state.sort === name && !state.isDescending;
      state.sort = name;
      update();
      if (isFocused) $("table").querySelector("th[aria-sort] button").focus();
    });
    button.addEventListener("keydown", event => {
      const side = {ArrowLeft: "previousSibling", ArrowRight: "nextSibling"}[event.key];
      if (!side) return;
      event.preventDefault(); // the table does not scroll
      cell[side]?.querySelector("button")?.focus();
    });
    cell.append(button);
    head.append(cell);
  }
  return head;
}

// Return the row of a configuration; a screen reader hears whether it is selected, and that it is A or B.
function makeRow(c, names, sides) {
  const row = make("tr", undefined, {"data-c": c, "aria-selected": getMark(c) !== ""}), cell = make("td");
  const mark = make("span", getMark(c), {"aria-hidden": "true", class: `mark ${getClass(c) || "none"}`});
  if (!getMark(c)) mark.style.background = color(c);
  cell.append(mark);
  row.append(cell, ...names.map(name => makeCell(c, name, sides[name])));
  row.addEventListener("pointerenter", () => point(c));
  row.addEventListener("pointerleave", () => point(null));
  row.addEventListener("focus", () => point(c));
  row.addEventListener("click", () => choose(c));
  row.addEventListener("keydown", pointByKey);
  return row;
}

// Return a cell; quartiles in brackets are small, and a phone hides them. Where failed seeds make a median infinite, a
// phone has their number in its place, above the median of the others.
function makeCell(c, name, side) {
  const [value, quartiles] = page.table[name][c].split(" ["), attributes = {class: `number ${side}`};
  if (name === "label") return make("th", value, {...attributes, scope: "row", "aria-label": labelWithMark(c)});
  const cell = make("td", value, attributes);
  if (quartiles) cell.append(make("small", ` [${quartiles}`));
  const others = value.match(/\((others .+)\)$/);
  if (others) {
    const {failed, run} = configurations[c], bare = make("span", others[1], {class: "bare"});
    bare.prepend(make("span", `failed ${failed}/${run}`));
    cell.replaceChildren(make("span", value, {class: "brackets"}), bare);
  }
  return cell;
}

// Return the caption: the metric of the table, which the controls of the curves do not change, and the filters. The
// average of the curves is named even if it is the raw one, because it is not the judged one.
function describeTable() {
  const metric = page.metrics[state.metric].name, average = page.averages[state.average];
  const drawnName = average === page.judged.average ? metricName() : `${metric} (${average})`;
  const others = metricName() === judgedName ? "" : `, not ${drawnName} of the curves`;
  const step = chosenEvaluation() ? `; the curves are those of ${formatStep(state.step)}` : "";
  const kept = describeFilters();
  return `${judgedName}, the metric of the objective${others}${step}${kept && `; ${kept}`}`;
}

// Name the columns beyond the right edge of the box, because a reader may not know that they are there.
function nameColumnsBeyond(head) {
  const edge = $("table").parentElement.clientWidth + 1;
  const beyond = [...head.cells].filter(cell => cell.offsetLeft + cell.offsetWidth > edge);
  $("beyond").hidden = !beyond.length;
  $("beyond").textContent = `Scroll the table sideways to see ${beyond.map(cell => cell.textContent).join(", ")}.`;
}
