"use strict";
// The page is complete without this script. It adds: local times; opening, sorting and filtering devices; choosing
// measurements; reading values off the drawings.
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const one = (selector, within = document) => within.querySelector(selector);
document.documentElement.classList.add("js");

// Times
const two = (n) => String(n).padStart(2, "0");
const day = (d) => `${two(d.getMonth() + 1)}-${two(d.getDate())}`;
const hour = (d) => `${two(d.getHours())}:${two(d.getMinutes())}`;
const local = (d, exact) => `${d.getFullYear()}-${day(d)} ${hour(d)}${exact ? ":" + two(d.getSeconds()) : ""}`;

// Reading values: the pointer or the arrow keys select one of the x coordinates `places`; describe(n) is its text.
const readable = (plot, chart, places, describe) => {
  const output = one("output", plot);
  const cursor = one(".cursor", chart);
  const usual = output.textContent;
  let at = -1;
  const show = (n) => {
    at = Math.max(0, Math.min(places.length - 1, n));
    cursor.setAttribute("transform", `translate(${places[at]})`);
    cursor.classList.add("on");
    output.textContent = describe(at);
  };
  const nearest = (x) => places.reduce((best, place, n) => (Math.abs(place - x) < Math.abs(places[best] - x) ? n : best), 0);
  const leave = () => {
    at = -1;
    cursor.classList.remove("on");
    output.textContent = usual;
  };
  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    show(nearest(((event.clientX - box.left) * chart.viewBox.baseVal.width) / box.width));
  });
  chart.addEventListener("pointerleave", leave);
  chart.addEventListener("blur", leave);
  chart.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: places.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(to);
  });
};
const span = (chart) => [Number(chart.dataset.from), Number(chart.dataset.to)];
const figure = (value) => (Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4))));

const prepare = () => {
  for (const time of all("time")) {
    const utc = time.textContent.replace(" ", "T");
    const date = new Date(utc);
    if (isNaN(date)) continue;
    time.dateTime = utc;
    time.textContent = local(date, utc.length > 17);
  }
  for (const zone of all(".zone")) zone.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
  for (const axis of all(".times")) {
    const exact = axis.classList.contains("exact");
    let before;
    for (const tick of all("[data-t]", axis)) {
      const date = new Date(tick.dataset.t * 1000);
      const shown = day(date);
      tick.textContent = hour(date) + (exact ? ":" + two(date.getSeconds()) : "");
      tick.nextElementSibling.textContent = shown === before ? "" : shown;
      before = shown;
    }
  }

  // Devices: open, sort, filter
  const table = one("#devices-table");
  const find = one("#find"); // the console finds and sorts its many devices itself
  if (find) {
    const bodies = [...table.tBodies];
    const heads = [...table.tHead.rows[0].cells];
    const HEALTH = 2; // its order is the page's own; columns before it are text, columns after it numbers
    const key = (body, column) => {
      const cell = body.rows[0].cells[column];
      const text = cell.textContent.trim();
      if (column <= HEALTH) return column === HEALTH ? bodies.indexOf(body) : text.toLowerCase();
      const value = Number(cell.dataset.v ?? text.replaceAll(",", ""));
      return isNaN(value) ? null : value; // a dash: unknown
    };
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
    const sort = (column) => {
      const head = heads[column];
      const number = head.classList.contains("n");
      const first = number ? "descending" : "ascending";
      const again = head.getAttribute("aria-sort") === first;
      const order = again ? (number ? "ascending" : "descending") : first;
      for (const other of heads) other.setAttribute("aria-sort", other === head ? order : "none");
      const sign = order === "ascending" ? 1 : -1;
      const keys = new Map(bodies.map((body) => [body, key(body, column)]));
      const unknownLast = (x, y) => (x === null) - (y === null);
      const sorted = bodies.slice().sort((a, b) => {
        const x = keys.get(a), y = keys.get(b);
        return x === null || y === null ? unknownLast(x, y) : sign * compare(x, y);
      });
      table.append(...sorted);
    };
    heads.forEach((head, column) => head.firstChild.addEventListener("click", () => sort(column)));
    for (const body of bodies) {
      const button = one("button", body);
      button.addEventListener("click", () => button.setAttribute("aria-expanded", body.classList.toggle("open")));
    }
    const texts = bodies.map((body) => body.rows[0].textContent.toLowerCase());
    find.addEventListener("input", () => {
      const words = find.value.toLowerCase().split(/\s+/);
      let found = 0;
      bodies.forEach((body, n) => {
        body.hidden = !words.every((word) => texts[n].includes(word));
        found += !body.hidden;
      });
      const count = `${bodies.length} device${bodies.length === 1 ? "" : "s"}`;
      one("#found").textContent = found === bodies.length ? count : `${found} of ${count}`;
    });
  }

  // Measurements: show only the chosen device
  const choice = one("#choice");
  if (choice) {
    const choose = () => all(".of").forEach((block) => (block.hidden = block.id !== choice.value));
    choice.addEventListener("change", choose);
    choose();
  }

  const steps = one("#steps");
  if (steps) {
    const rows = [...steps.rows];
    const names = [...steps.parentNode.tHead.rows[0].cells].map((cell) => cell.textContent.toLowerCase());
    const describe = (n) => {
      const [time, ...counts] = [...rows[n].cells].map((cell) => cell.textContent);
      const said = counts.map((count, m) => [names[m + 1], count]).filter(([, count], m) => m === 0 || count !== "0");
      return `${time}: ${said.map((pair) => pair.join(" ")).join(", ")}`;
    };
    for (const chart of all("#timeline .chart")) {
      const [left, right] = span(chart);
      readable(chart.parentNode, chart, rows.map((_, n) => left + ((right - left) * (n + 0.5)) / rows.length), describe);
    }
  }

  const data = one("#points");
  for (const [id, { t, unit, p }] of Object.entries(data ? JSON.parse(data.textContent) : {})) {
    const chart = one(`#${id}-t`).parentNode;
    const [left, right] = span(chart);
    const last = Math.max(p[p.length - 1][0], 1);
    const describe = (n) => {
      const [after, mean, least, greatest] = p[n];
      return `${local(new Date((t + after) * 1000))}: ${figure(mean)} ${unit} (${figure(least)} to ${figure(greatest)})`;
    };
    const place = (after) => (p.length > 1 ? left + ((right - left) * after) / last : (left + right) / 2);
    readable(chart.parentNode, chart, p.map(([after]) => place(after)), describe);
  }
};
prepare();
