// The state in the address: written into its fragment, and read from it.

import { LARGEST_SEED, TABS, readSeed } from "./state.js";

/**
 * @typedef {object} LinkedLayer
 * @property {number} width
 * @property {number} height
 * @property {number[]} runs  lengths of runs of equal pixels, starting with unpainted ones
 *
 * @typedef {object} LinkedState  everything that a link can say; what is missing keeps its default
 * @property {string} [tab]
 * @property {string} [model]
 * @property {string} [sample]
 * @property {string} [square]  an own picture: a PNG file in base64
 * @property {LinkedLayer} [hole]
 * @property {LinkedLayer} [drawing]
 * @property {import("./layer.js").Rule} [rule]
 * @property {number} [n]
 * @property {string} [seed]
 * @property {number} [temperature]
 * @property {Record<string, number>} [temperatures]
 * @property {string} [pixels]
 * @property {import("./state.js").Share} [variations]
 * @property {string} [task]
 * @property {number[][]} [scans]
 * @property {number} [downTo]
 * @property {boolean} [run]  whether to run at once
 */

const LARGEST_SIDE = 1024;
const HALVES = ["left", "right", "top", "bottom"];

/** @param {string} base64 */
const toUrl = (base64) => base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** @param {string} text base64url */
function fromUrl(text) {
  if (!/^[\w-]*$/.test(text)) throw new RangeError("not base64url");
  const base64 = text.replaceAll("-", "+").replaceAll("_", "/");
  return base64 + "=".repeat((4 - (base64.length % 4)) % 4);
}

/**
 * Numbers of seven bits per byte, the lowest first; the highest bit says that more bytes follow.
 * @param {LinkedLayer} layer
 */
export function encodeLayer({ width, height, runs }) {
  const bytes = [];
  for (let run of runs) {
    for (; run > 127; run = Math.floor(run / 128)) bytes.push((run % 128) | 128);
    bytes.push(run);
  }
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return `${width}x${height}.${toUrl(btoa(text))}`;
}

/**
 * @param {string} text
 * @returns {LinkedLayer}
 */
export function decodeLayer(text) {
  const [, width, height, data] = /^(\d{1,4})x(\d{1,4})\.([\w-]*)$/.exec(text)?.map((part, i) => (i % 3 ? +part : part)) ?? [];
  if (!(width >= 1 && height >= 1 && width <= LARGEST_SIDE && height <= LARGEST_SIDE)) throw new RangeError("no size");
  const runs = [];
  let [run, place, pixels] = [0, 1, 0];
  for (const character of atob(fromUrl(String(data)))) {
    const byte = character.charCodeAt(0);
    run += (byte & 127) * place;
    place *= 128;
    if (byte & 128) continue;
    runs.push(run);
    pixels += run;
    [run, place] = [0, 1];
  }
  if (place !== 1 || pixels !== width * height) throw new RangeError("the runs do not fill the picture");
  return { width, height, runs };
}

/**
 * @param {LinkedState} linked
 * @returns {string} the fragment without its #
 */
export function encodeState(linked) {
  const entries = [];
  const add = (key, value) => entries.push(`${key}=${value}`);
  add("tab", linked.tab);
  add("model", encodeURIComponent(linked.model));
  if (linked.sample) add("sample", encodeURIComponent(linked.sample));
  if (linked.square) add("square", toUrl(linked.square));
  if (linked.rule) add("rule", Object.entries(linked.rule)[0].join("."));
  else if (linked.hole) add("hole", encodeLayer(linked.hole));
  if (linked.drawing) add("drawing", encodeLayer(linked.drawing));
  add("n", linked.n);
  add("seed", linked.seed);
  if (linked.temperature !== 1) add("temperature", linked.temperature);
  const own = Object.entries(linked.temperatures ?? {}).map((pair) => pair.join(":"));
  if (own.length) add("temperatures", own.join(","));
  if (linked.pixels !== "mean") add("pixels", linked.pixels);
  if (linked.variations) add("like", `${linked.variations.like}.${linked.variations.share}`);
  if (linked.task) add("task", encodeURIComponent(linked.task));
  if (linked.scans?.length) add("scans", linked.scans.map((box) => box.join(".")).join("_"));
  if (linked.downTo) add("down", linked.downTo);
  if (linked.run) add("run", 1);
  return entries.join("&");
}

/** @param {string} text */
function positive(text) {
  if (!/^\d{1,6}$/.test(text)) throw new RangeError(`${text} is no number`);
  return Number(text);
}

/** @param {string} text */
function temperature(text) {
  const value = Number(text);
  if (!/^[\d.]{1,6}$/.test(text) || !(value >= 0 && value <= 1.3)) throw new RangeError(`${text} is no temperature`);
  return value;
}

/**
 * @template {string} T
 * @param {T} text
 * @param {readonly string[]} choices
 */
function oneOf(text, choices) {
  if (!choices.includes(text)) throw new RangeError(`${text} is not one of ${choices}`);
  return text;
}

/** @type {Record<string, (text: string) => Partial<LinkedState>>} */
const READERS = {
  tab: (text) => ({ tab: oneOf(text, TABS) }),
  model: (text) => ({ model: decodeURIComponent(text) }),
  sample: (text) => ({ sample: decodeURIComponent(text) }),
  square: (text) => {
    const base64 = fromUrl(text);
    if (!atob(base64).startsWith("\x89PNG")) throw new RangeError("the square is no PNG");
    return { square: base64 };
  },
  rule: (text) => {
    const [kind, name] = text.split(".");
    if (kind === "random") return { rule: { random: true } };
    if (kind === "half") return { rule: { half: oneOf(name, HALVES) } };
    return { rule: { [oneOf(kind, ["part"])]: name } };
  },
  hole: (text) => ({ hole: decodeLayer(text) }),
  drawing: (text) => ({ drawing: decodeLayer(text) }),
  n: (text) => ({ n: positive(text) }),
  seed: (text) => {
    const seed = readSeed(text);
    if (seed === null) throw new RangeError(`the seed is not from 0 to ${LARGEST_SEED}`);
    return { seed };
  },
  temperature: (text) => ({ temperature: temperature(text) }),
  temperatures: (text) => {
    const pairs = text.split(",").map((pair) => pair.split(":"));
    return { temperatures: Object.fromEntries(pairs.map(([key, value]) => [positive(key), temperature(value)])) };
  },
  pixels: (text) => ({ pixels: oneOf(text, ["mean", "sample"]) }),
  like: (text) => {
    const [like, share] = text.split(".").map(positive);
    if (!(like >= 1 && share >= 1)) throw new RangeError("like needs a number and a resolution");
    return { variations: { like, share } };
  },
  task: (text) => ({ task: decodeURIComponent(text) }),
  scans: (text) => {
    const scans = text.split("_").map((box) => box.split(".").map(positive));
    if (scans.some((box) => box.length !== 4)) throw new RangeError("a scan needs four numbers");
    return { scans };
  },
  down: (text) => ({ downTo: positive(text) }),
  run: () => ({ run: true }),
};

/**
 * @param {string} fragment without its #
 * @returns {LinkedState|null} null if the fragment says nothing; throws if it is damaged
 */
export function decodeState(fragment) {
  if (!fragment) return null;
  const linked = {};
  for (const entry of fragment.split("&")) {
    const at = entry.indexOf("=");
    const reader = Object.hasOwn(READERS, entry.slice(0, at)) ? READERS[entry.slice(0, at)] : null;
    if (!reader) throw new RangeError(`${entry.slice(0, 20)} is unknown`);
    Object.assign(linked, reader(entry.slice(at + 1)));
  }
  if (!linked.model) throw new RangeError("no model");
  return linked;
}
