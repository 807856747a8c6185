// The console: when the tables have changed, the page is read again, and what the viewer had chosen is chosen again.
const EVERY_MS = 2000;

const remember = () => {
  const fields = all("main input, main select").map((field) => [field.id, field.selectedOptions?.[0].text ?? field.value]);
  const unfolded = all("details").map((part) => part.open);
  const focus = document.activeElement.id;
  return () => {
    for (const [id, value] of fields) {
      const field = document.getElementById(id);
      if (field?.options) field.selectedIndex = Math.max(0, [...field.options].findIndex((option) => option.text === value));
      else if (field) field.value = value;
      field?.dispatchEvent(new Event(field.options ? "change" : "input"));
    }
    all("details").forEach((part, n) => (part.open = unfolded[n] ?? false));
    if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
  };
};

const renew = async () => {
  const fresh = await (await fetch(`fresh${location.search}`, { cache: "no-store" })).text();
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
