// The one state of the page, and who is told when a part of it changes.

/**
 * @typedef {object} Model  a model as GET /api/v1/models describes it
 * @property {string} name
 * @property {string} summary
 * @property {string} limits
 * @property {string} subject
 * @property {"completes"|"translates"} kind
 * @property {number} image_size
 * @property {number[]} resolutions
 * @property {boolean} finds_faces
 * @property {string[]} parts
 * @property {boolean} judges
 * @property {string[]} tasks
 * @property {{name: string, title: string}[]} samples
 *
 * @typedef {object} Picture  what is completed
 * @property {"sample"|"own"|"sheet"} kind
 * @property {string} name  the sample's name, or the file's
 * @property {HTMLCanvasElement|null} canvas  null for the drawing sheet
 * @property {number} width
 * @property {number} height
 * @property {string|null} base64  the file that is sent; null for the drawing sheet
 * @property {null|1|"all"} face  the faces that the server finds in a whole photo
 *
 * @typedef {object} Share  "more like this": completion `like`, with its latents up to resolution `share`
 * @property {number} share
 * @property {number} like
 */

export const TABS = ["complete", "scan", "sample", "rebuild"];
export const LARGEST_SEED = 2n ** 64n - 1n;

export const state = {
  /** @type {Model[]} */ models: [],
  limits: { n: 24, images: 8, pixels: 16e6, body_bytes: 16777216 },
  tab: "complete",
  /** @type {Model|null} */ model: null,
  /** @type {Picture|null} */ picture: null,
  /** @type {import("./layer.js").Layer|null} */ layer: null,
  keepHole: true,
  n: 8,
  seed: "0",
  /** the temperature of all resolutions that have none of their own */ temperature: 1,
  /** @type {Record<string, number>} temperatures of single resolutions */ temperatures: {},
  pixels: "mean",
  keepSize: false,
  live: false,
  /** @type {Share|null} */ variations: null,
  /** true if the completions on the page belong to this state */ ran: false,
  /** @type {string|null} */ task: null,
  /** @type {number[][]} */ scans: [],
  /** @type {number|null} */ downTo: null,
};

/** @typedef {keyof typeof state | "hole"} Part */
/** @type {((parts: Set<Part>) => void)[]} */
const listeners = [];

/** @param {(parts: Set<Part>) => void} listener */
export function onChange(listener) {
  listeners.push(listener);
}

/**
 * Sets parts of the state, and tells the listeners which of them have changed.
 * @param {Partial<typeof state>} values
 */
export function change(values) {
  const parts = new Set(Object.keys(values).filter((part) => state[part] !== values[part]));
  Object.assign(state, values);
  if (parts.size) listeners.forEach((listener) => listener(parts));
}

/** Tells the listeners that pixels of the hole (or of the drawing) have changed. */
export function holeChanged() {
  state.ran = false;
  listeners.forEach((listener) => listener(new Set(["hole"])));
}

/** The temperature as the API wants it: one number, or one for each resolution if they differ. */
export function temperatureForRequest() {
  const own = Object.entries(state.temperatures).filter(([, value]) => value !== state.temperature);
  if (!own.length) return state.temperature;
  const all = state.model.resolutions.map((resolution) => [
    resolution,
    state.temperatures[resolution] ?? state.temperature,
  ]);
  return Object.fromEntries(all);
}

/**
 * @param {string} text
 * @returns {string|null} the seed without leading zeros; null if the text is not a seed
 */
export function readSeed(text) {
  if (!/^\d{1,20}$/.test(text.trim())) return null;
  const seed = BigInt(text.trim());
  return seed <= LARGEST_SEED ? seed.toString() : null;
}

/** True if the model draws whole pictures from a drawing or a photo, so that nothing is hidden. */
export function translates() {
  return state.model?.kind === "translates";
}
