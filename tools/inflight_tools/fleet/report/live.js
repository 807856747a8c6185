// The console: when the tables have changed, the page is read again, and what the viewer had chosen is chosen again.
const EVERY_MS = 2000;

// An element and the one in its place on the next page have the same name: an id, or their tag and its attributes.
const name = (part) => part.id || part.cloneNode().outerHTML + (part.matches("summary") ? part.textContent : "");

const remember = () => {
  const text = (field) => field.selectedOptions?.[0].text ?? field.value;
  const fields = all("main input, main select").map((field) => [name(field), text(field), field.checked]);
  const unfolded = all("details").map((part) => part.open);
  const scrolled = all(".scroll").map((part) => [part.scrollLeft, part.scrollTop]);
  const focus = name(document.activeElement);
  return () => {
    const parts = new Map(all("a, button, input, select, summary, [tabindex]").map((part) => [name(part), part]));
    for (const [of, value, checked] of fields) {
      const field = parts.get(of);
      if (field?.options) field.selectedIndex = Math.max(0, [...field.options].findIndex((option) => option.text === value));
      else if (field) Object.assign(field, { value, checked });
      field?.dispatchEvent(new Event(field.options ? "change" : "input"));
    }
    all("details").forEach((part, n) => (part.open = unfolded[n] ?? false));
    all(".scroll").forEach((part, n) => part.scrollTo(...(scrolled[n] ?? [0, 0])));
    parts.get(focus)?.focus({ preventScroll: true });
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
