/** Questions to the server. Every address is relative to the page's own, which holds the token. */

/**
 * The answer to one question, as parsed JSON.
 * @param {string} path below `api/`
 * @param {Object<string, *>} [parameters] left out where undefined, null or empty
 * @throws {Error} with the server's own line where it has one
 */
export async function ask(path, parameters = {}) {
  const address = `api/${path}${query(parameters)}`;
  let answer;
  try {
    answer = await fetch(address, { cache: "no-store" });
  } catch {
    throw new Error("The server of this page does not answer. Has `wattbell view` been ended?");
  }
  const body = await answer.json().catch(() => null);
  if (!answer.ok) {
    const error = new Error(body?.error ?? `The server answered ${answer.status}.`);
    error.status = answer.status;
    throw error;
  }
  return body;
}

/** `?a=1&b=2` from the parameters that have a value. */
export function query(parameters) {
  const kept = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return kept.length ? `?${new URLSearchParams(kept)}` : "";
}

/**
 * Asks one kind of question again and again: one at a time, and after each answer only the latest of those that came up meanwhile.
 * A slow server or a slow browser therefore gets fewer pictures, never a queue of pictures.
 */
export class Feed {
  /**
   * @param {function(*): Promise<*>} question what to ask, of a wish
   * @param {function(*, *): void} answered draws; called with the answer and the wish
   * @param {function(Error): void} failed
   */
  constructor(question, answered, failed) {
    Object.assign(this, { question, answered, failed });
    this.waiting = null;
    this.busy = false;
  }

  want(wish) {
    this.waiting = { wish };
    if (!this.busy) this.#work();
  }

  get idle() {
    return !this.busy && this.waiting === null;
  }

  async #work() {
    this.busy = true;
    while (this.waiting !== null) {
      const { wish } = this.waiting;
      this.waiting = null;
      try {
        this.answered(await this.question(wish), wish);
      } catch (error) {
        this.failed(error);
      }
    }
    this.busy = false;
    Feed.settled();
  }

  /** Called whenever a feed has nothing left to do. */
  static settled() {}
}
