// Requests to the server: JSON, streams of lines, files, the access token, and problems as errors.

const TOKEN_KEY = "condvae-token";
const WAITS_AT_MOST = 3;
let token = "";

/** A problem that a person can read: one sentence, the HTTP status (0: no answer), and when to try again. */
export class Problem extends Error {
  /**
   * @param {string} sentence
   * @param {number} [status]
   * @param {number|null} [retryAfter] seconds
   */
  constructor(sentence, status = 0, retryAfter = null) {
    super(sentence);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** Takes `token=...` out of the page's address, and keeps it for this browser tab only. */
export function takeToken() {
  const entries = location.hash.slice(1).split("&");
  const given = entries.find((entry) => entry.startsWith("token="));
  try {
    if (given) sessionStorage.setItem(TOKEN_KEY, decodeURIComponent(given.slice(6)));
    token = sessionStorage.getItem(TOKEN_KEY) ?? "";
  } catch {
    token = given ? given.slice(6) : "";
  }
  if (!given) return;
  const rest = entries.filter((entry) => entry !== given).join("&");
  history.replaceState(null, "", rest ? `#${rest}` : location.pathname + location.search);
}

/**
 * @param {string} path
 * @param {RequestInit} [options]
 * @returns {Promise<Response>} an answer with a status below 400
 */
async function request(path, options = {}) {
  const headers = new Headers(options.headers);
  if (token) headers.set("Authorization", `Bearer ${token}`);
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer. Check that condvae serve is still running.");
  }
  if (response.ok) return response;
  throw await problemOf(response);
}

/** @param {Response} response */
async function problemOf(response) {
  if (response.status === 401) {
    return new Problem("This server needs a token. Open the address that condvae serve has printed, with #token=.", 401);
  }
  const retryAfter = Number.parseFloat(response.headers.get("Retry-After") ?? "");
  const seconds = Number.isFinite(retryAfter) ? retryAfter : null;
  let sentence = `The server answered with the error ${response.status}.`;
  try {
    const problem = await response.json();
    sentence = problem.detail || problem.title || sentence;
  } catch {
    // The answer is not JSON, for example from a proxy: the sentence above stays.
  }
  return new Problem(sentence, response.status, seconds);
}

/**
 * @param {string} path
 * @param {object} body
 * @param {AbortSignal} [signal]
 * @param {string} [accept]
 */
function post(path, body, signal, accept = "application/json") {
  return request(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: accept },
    body: JSON.stringify(body),
    signal,
  });
}

/** The models, their samples and the limits of the server. */
export async function getModels() {
  return (await request("api/v1/models")).json();
}

/**
 * @param {string} model
 * @param {string} sample
 * @returns {Promise<Blob>} the picture's file, as it will be sent
 */
export async function getSample(model, sample) {
  const path = `api/v1/models/${encodeURIComponent(model)}/samples/${encodeURIComponent(sample)}`;
  return (await request(path)).blob();
}

/**
 * @param {"complete"|"sample"|"reconstruct"|"design/next"} verb
 * @param {object} body
 * @param {AbortSignal} [signal]
 */
export async function postForJson(verb, body, signal) {
  return (await post(`api/v1/${verb}`, body, signal)).json();
}

/**
 * @param {object} body a request for completions
 * @param {AbortSignal} [signal]
 * @returns {Promise<Blob>} the ZIP file
 */
export async function postForZip(body, signal) {
  return (await post("api/v1/complete", body, signal, "application/zip")).blob();
}

/**
 * @param {object} body a request for completions
 * @param {AbortSignal} [signal]
 * @returns {AsyncGenerator<object>} the events, as they arrive
 */
export async function* postForEvents(body, signal) {
  const response = await post("api/v1/complete", body, signal, "application/x-ndjson");
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let ended = false;
  while (!ended) {
    const { value, done } = await reader.read();
    text += done ? "\n" : value;
    const lines = text.split("\n");
    text = lines.pop();
    for (const line of lines) {
      if (!line.trim()) continue;
      const event = JSON.parse(line);
      if (event.event === "error") {
        throw new Problem(event.problem?.detail ?? "The server stopped with an error.", event.problem?.status ?? 500);
      }
      yield event;
      ended ||= event.event === "end";
    }
    if (done && !ended) throw new Problem("The connection to the server was lost before the end. Run it again.");
  }
}

/**
 * Calls a request, and calls it again after the given seconds while the server is busy (503).
 * @template T
 * @param {() => Promise<T>} call
 * @param {AbortSignal} signal
 * @param {(sentence: string) => void} say shows the seconds that are left
 * @returns {Promise<T>}
 */
export async function withWaits(call, signal, say) {
  for (let wait = 1; ; wait++) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 503 || wait > WAITS_AT_MOST) throw error;
      for (let left = Math.ceil(error.retryAfter ?? 2); left > 0; left--) {
        say(`The server is busy. Trying again in ${left} s (${wait} of ${WAITS_AT_MOST}). Stop cancels this.`);
        await pause(1000, signal);
      }
    }
  }
}

/**
 * @param {number} milliseconds
 * @param {AbortSignal} signal
 */
function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("Stopped", "AbortError"));
    });
  });
}
