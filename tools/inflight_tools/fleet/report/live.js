// The console: when the tables have changed, the page is read again, and what the viewer had chosen is chosen again.
const EVERY_MS = 2000;
const bodyOf = (device) => all("#devices-table tbody").find((body) => one("bdi", body).textContent === device);

const remember = () => {
  const fields = all("main input, main select").map((field) => [field.id, field.selectedOptions?.[0].text ?? field.value]);
  const open = all("#devices-table tbody.open th bdi").map((name) => name.textContent);
  const unfolded = all("details").map((part) => part.open);
  const sorted = all("#devices-table th[aria-sort]").map((head) => head.ariaSort);
  const focus = document.activeElement.id;
  return () => {
    for (const [id, value] of fields) {
      const field = document.getElementById(id);
      if (field?.options) field.selectedIndex = Math.max(0, [...field.options].findIndex((option) => option.text === value));
      else if (field) field.value = value;
      field?.dispatchEvent(new Event(field.options ? "change" : "input"));
    }
    for (const device of open) one("th button", bodyOf(device) ?? document.createElement("p"))?.click();
    all("details").forEach((part, n) => (part.open = unfolded[n] ?? false));
    const column = sorted.findIndex((order) => order !== "none");
    const head = all("#devices-table th[aria-sort]")[column];
    for (let n = 0; head && n < 2 && head.ariaSort !== sorted[column]; n++) one("button", head).click();
    if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
  };
};

const renew = async () => {
  const fresh = await (await fetch("fresh", { cache: "no-store" })).text();
  if (fresh === document.body.dataset.fresh) return;
  const answer = await fetch(location.href, { cache: "no-store" });
  const next = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!answer.ok || !one("main", next)) return;
  const again = remember();
  for (const part of ["header", "main"]) one(part).replaceWith(document.adoptNode(one(part, next)));
  document.title = next.title;
  document.body.dataset.fresh = next.body.dataset.fresh;
  prepare();
  again();
};

const watch = async () => {
  try {
    await renew();
    document.body.classList.remove("stale");
  } catch {
    document.body.classList.add("stale"); // the console does not answer
  }
  setTimeout(watch, EVERY_MS);
};
setTimeout(watch, EVERY_MS);
