/** Questions to the server. Every address is relative to the page's own, which holds the token. */

/**
 * The answer to one question, as parsed JSON.
 * @param {string} path below `api/`
 * @param {Record<string, any>} [parameters] left out where undefined, null or empty
 * @throws {AnswerError} with the server's own line where it has one
 * @throws {Error} where the server does not answer
 */
export async function ask(path, parameters = {}) {
  const address = `api/${path}${query(parameters)}`;
  /** @type {Response} */
  let answer;
  try {
    answer = await fetch(address, { cache: "no-store" });
  } catch {
    throw new Error("The server of this page does not answer. Has `wattbell view` been ended?");
  }
  const body = await answer.json().catch(() => null);
  if (!answer.ok) {
    throw new AnswerError(body?.error ?? `The server answered ${answer.status}.`, answer.status);
  }
  return body;
}

/** The server's answer in place of data. */
export class AnswerError extends Error {
  /** @param {string} message one line @param {number} status of HTTP */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
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
   * @param {(a: any) => Promise<any>} question what to ask, of a wish
   * @param {(a: any, b: any) => void} answered draws; called with the answer and the wish
   * @param {(a: Error) => void} failed
   */
  constructor(question, answered, failed) {
    this.question = question;
    this.answered = answered;
    this.failed = failed;
    /** @type {?{wish: any}} */
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
