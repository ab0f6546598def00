// Figures as texts, and charts: everything that turns a number into something to look at.

const SCALE = ["", "k", "M", "G", "T", "P"];

/** 1234567 -> "1.23 M"; whole numbers below 1000 stay whole. */
export function short(n) {
  if (!Number.isFinite(n)) return "–";
  let step = 0;
  while (Math.abs(n) >= 999.5 && step < SCALE.length - 1) { n /= 1000; step++; }
  const text = step === 0 && Number.isInteger(n) ? String(n) : n < 10 ? n.toFixed(n < 1 && n > 0 && step === 0 ? 1 : step ? 2 : 1) : n < 100 ? n.toFixed(step ? 1 : 0) : n.toFixed(0);
  return step ? `${text} ${SCALE[step]}` : text;
}

/** Bytes by powers of 1024: "1.5 GiB". */
export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let step = 0;
  while (n >= 1000 && step < units.length - 1) { n /= 1024; step++; }
  return `${step === 0 ? Math.round(n) : n < 10 ? n.toFixed(2) : n < 100 ? n.toFixed(1) : n.toFixed(0)} ${units[step]}`;
}

/** A rate, "–" for none: an idle target shall look idle. */
export const perSecond = n => (n > 0 ? `${short(n)}/s` : "–");
export const bytesPerSecond = n => (n > 0 ? `${bytes(n)}/s` : "–");

/** Microseconds: "250 µs", "1.2 ms", "3.4 s". */
export function micros(n) {
  if (!(n > 0)) return "–";
  if (n < 1000) return `${Math.round(n)} µs`;
  if (n < 1e6) return `${(n / 1000).toFixed(n < 1e4 ? 1 : 0)} ms`;
  return `${(n / 1e6).toFixed(n < 1e7 ? 1 : 0)} s`;
}

/** Milliseconds for people. */
export function span(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 10) return `${(ms / 1000).toFixed(1)} s`;
  if (s < 60) return `${s} s`;
  const two = (n, one, rest, other) => (rest ? `${n} ${one} ${rest} ${other}` : `${n} ${one}`);
  if (s < 3600) return two(Math.floor(s / 60), "min", s % 60, "s");
  if (s < 86400) return two(Math.floor(s / 3600), "h", Math.floor(s / 60) % 60, "min");
  return two(Math.floor(s / 86400), "d", Math.floor(s / 3600) % 24, "h");
}

/** An element with text or children. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 600, HEIGHT = 96;
/** A gap longer than this breaks the line: nothing was reported then. Seconds. */
const GAP = 8;

function path(times, values, from, to, top) {
  let text = "", area = "", start = null, last = null;
  const close = () => { if (start !== null) area += `L${last} ${HEIGHT}L${start} ${HEIGHT}Z`; };
  times.forEach((time, n) => {
    const x = ((time - from) / (to - from) * WIDTH).toFixed(1);
    const y = (HEIGHT - Math.min(values[n] / top, 1) * HEIGHT).toFixed(1);
    if (n === 0 || time - times[n - 1] > GAP) { close(); text += `M${x} ${y}`; area += `M${x} ${y}`; start = x; }
    else { text += `L${x} ${y}`; area += `L${x} ${y}`; }
    last = x;
  });
  close();
  return [text, area];
}

/** 1, 2 or 5 times a power of ten, not below n. */
function round(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1e-9)));
  return [1, 2, 5, 10].map(k => k * power).find(k => k >= n);
}

/**
 * A chart of one or two series over time. `lines`: [{name, values}], `text`: how a value is written. The drawing is for the
 * eye; its label says the newest, the mean and the highest value.
 */
export function chart(figure, title, history, lines, text, unit = 1) {
  const times = history.time;
  const to = times.length ? times[times.length - 1] : Date.now() / 1000;
  const from = Math.min(times.length ? times[0] : to - 60, to - 60);
  const highest = Math.max(0, ...lines.flatMap(line => line.values.length ? [line.values.reduce((a, b) => Math.max(a, b), 0)] : []));
  const top = unit * round((highest || unit) / unit);
  if (!figure.firstChild) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    for (const y of [0, HEIGHT / 2, HEIGHT]) {
      const line = document.createElementNS(SVG, "line");
      for (const [key, value] of Object.entries({ x1: 0, x2: WIDTH, y1: y, y2: y })) line.setAttribute(key, value);
      svg.append(line);
    }
    const area = document.createElementNS(SVG, "path");
    area.setAttribute("class", "area");
    svg.append(area);
    lines.forEach((_, n) => {
      const line = document.createElementNS(SVG, "path");
      line.setAttribute("class", n ? "two" : "one");
      svg.append(line);
    });
    const keys = lines.map((_, n) => make("span", { class: n ? "key two" : "key" }));
    figure.append(make("figcaption", {}, make("b", {}, title), make("span", {}, ...keys)), svg,
      make("div", { class: "axis", "aria-hidden": "true" }, make("span"), make("span"), make("span")));
  }
  const svg = figure.querySelector("svg");
  const drawn = lines.map(line => path(times, line.values, from, to, top));
  svg.querySelector(".area").setAttribute("d", drawn[0][1]);
  drawn.forEach(([d], n) => svg.querySelector(n ? ".two" : ".one").setAttribute("d", d));
  const newest = line => line.values.length ? text(line.values[line.values.length - 1]) : "–";
  figure.querySelectorAll(".key").forEach((key, n) => { key.textContent = `${lines[n].name} ${newest(lines[n])}`; });
  const mean = line => line.values.length ? text(line.values.reduce((a, b) => a + b, 0) / line.values.length) : "–";
  const words = lines.map(line => `${line.name}: now ${newest(line)}, mean ${mean(line)}`).join("; ");
  svg.setAttribute("aria-label", `${title} over ${span((to - from) * 1000)}. ${words}. Highest ${text(highest)}.`);
  const [left, middle, right] = figure.querySelectorAll(".axis span");
  left.textContent = `${span((to - from) * 1000)} ago`;
  middle.textContent = `top ${text(top)}`;
  right.textContent = "now";
}
