// HTML elements. All text is set as text, so that names given by users cannot become HTML.

// Return the element with this id.
const $ = id => document.getElementById(id);

// What a reader does to choose: a finger taps.
const CLICK = matchMedia("(pointer: coarse)").matches ? "Tap" : "Click";

// Return the parts of a sentence; its intervals, ranges, percentages and options are elements, which are not broken
// into lines.
const UNBROKEN = // as in render.py
  /(\[[^[\]]{0,40}\]|(?<![\w.&/-])\d[\d.]*(?:-\d[\d.]*(?![\w/-])| %)|(?<![\w-])--[a-z][a-z-]*)/;
const keepTogether = text => text.split(UNBROKEN).map((part, index) => {
  const node = document.createElement("span");
  node.className = "keep";
  node.textContent = part;
  return index % 2 ? node : part; // `split` puts matches at odd places
});

// Return a new element with this text and these attributes.
const make = (tag, text, attributes = {}) => {
  const element = document.createElement(tag);
  if (text !== undefined && ["P", "H2", "H3"].includes(element.tagName)) element.append(...keepTogether(text));
  else if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

// Give the focus to the first of these selectors that has an element. A choice redraws everything, which loses the
// focus: the new element at the same place gets it, for users of the keyboard.
const focusAgain = (...selectors) => {
  const elements = selectors.map(selector => document.querySelector(selector));
  elements.find(element => element !== null)?.focus({preventScroll: true});
};

// Return whether texts, apart from missing values, are numbers. Such a column is aligned at the right.
const NUMBER = new RegExp( // as in report/tables/columns.py
  "^(([-+]?(\\d[\\d,]*(\\.\\d*)?|inf)(e[-+]?\\d+)?|not reached)=?( .*)?"
  + "|failed|no score|pruned at step \\d+|\\.\\.\\.)$",
);
const areNumbers = texts => {
  const present = texts.filter(text => text !== "-" && text !== "");
  return present.length > 0 && present.every(text => NUMBER.test(text));
};

// Return a table of these column names and rows of cells, in a box that scrolls sideways. Cells are texts or elements.
function makeTable(head, body) {
  const table = make("table"), thead = make("thead"), tbody = make("tbody");
  const sides = head.map((_, column) => areNumbers(body.map(cells => cells[column])) ? "right" : "");
  const makeCell = (content, column) => {
    const cell = make("td", undefined, {class: `number ${sides[column]}`});
    cell.append(...(typeof content === "string" ? keepTogether(content) : [content]));
    return cell;
  };
  const makeRow = cells => {
    const row = make("tr");
    row.append(...cells);
    return row;
  };
  thead.append(makeRow(head.map((text, column) => make("th", text, {class: sides[column]}))));
  tbody.append(...body.map(cells => makeRow(cells.map(makeCell))));
  table.append(thead, tbody);

  const box = make("div", undefined, {class: "scroll"});
  box.append(table);
  return box;
}
