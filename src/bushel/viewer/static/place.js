// The place in the address: filters, sort, fields and the row. Back undoes a filter and returns to the row.
const NAMES = ["q", "where", "sort", "tag", "by"];
const TYPING = 1500; // milliseconds in which further letters belong to the same change
let changed = -TYPING; // when letters were typed last

export function parametersOf(form) { // of the filter, without fields and row
  const found = new URLSearchParams(), data = new FormData(form);
  for (const name of NAMES) if (data.get(name)) found.set(name, data.get(name));
  return found;
}

const usual = document.getElementById("browse").dataset.usual; // "table" or "grid"
export function isTable(address) { return (new URLSearchParams(address).get("view") ?? usual) === "table"; }

export function fieldsOf(address) { return new URLSearchParams(address).getAll("field"); }

export function rowOf(address) {
  const row = Number(new URLSearchParams(address).get("row"));
  return Number.isInteger(row) && row > 0 ? row : 0;
}

export function fillForm(form, address) {
  const found = new URLSearchParams(address);
  for (const name of NAMES) if (form.elements[name]) form.elements[name].value = found.get(name) ?? "";
}

function addressOf(query, fields, row) {
  const all = new URLSearchParams(query);
  const view = new URLSearchParams(location.search).get("view");
  if (view) all.set("view", view);
  for (const field of fields) all.append("field", field);
  if (row) all.set("row", row);
  return all.size ? `?${all}` : location.pathname;
}

// A new filter is a step that Back undoes; letters typed one after another are one step.
export function pushPlace(query, fields, typed) {
  const now = performance.now(), address = addressOf(query, fields, 0);
  const same = new URL(address, location.href).search === location.search;
  if (same || (typed && now - changed < TYPING)) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  changed = typed ? now : -TYPING;
}

export function keepRow(query, fields, row, top) { history.replaceState({ top }, "", addressOf(query, fields, row)); }
