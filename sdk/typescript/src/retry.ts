import { ServiceError, UnreachableError } from "./errors.js";
import type { Pace } from "./pace.js";

/** An answer that was read whole. */
export interface Answer<T> {
  /** The origin of the service. */
  readonly service: string;
  readonly status: number;
  readonly headers: Headers;
  /** Of a success. */
  readonly data: T | undefined;
  /** Of a refusal. */
  readonly error: unknown;
}

export interface RetryOptions {
  readonly maxTries: number;
  readonly maxWaitMs: number;
  readonly now: () => number;
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  readonly jitter: (most: number) => number;
}

/** Specification 7.4 for reads; 7.3 for the OAuth endpoints. A refresh has a rule of its own. */
export type Kind = "read" | "oauth";

const firstBackoff = 500;
const mostBackoff = 30_000;

/** Sends requests until they succeed, are refused for good or were tried often enough. All reads of a process share its pace. */
export class Retry {
  constructor(readonly options: RetryOptions, readonly pace: Pace) {}

  async persist<T>(kind: Kind, send: () => Promise<Answer<T>>, signal?: AbortSignal): Promise<Answer<T>> {
    let waited = 0;
    for (let failures = 0; ; ) {
      let answer: Answer<T> | undefined;
      let failure: unknown;
      if (kind === "read") await this.pace.enter(signal);
      try {
        signal?.throwIfAborted();
        answer = await send();
        if (kind === "read") this.pace.learn(answer, retryAfter(answer.headers));
      } catch (error) {
        failure = error;
      } finally {
        if (kind === "read") this.pace.leave();
      }
      signal?.throwIfAborted();
      if (kind === "read" && answer?.status === 429) {
        waited += retryAfter(answer.headers);
        if (waited > this.options.maxWaitMs) return answer;
        continue;
      }
      const again = answer ? answer.status >= 500 : kind === "read" && failure instanceof UnreachableError;
      if (!again || ++failures === this.options.maxTries) {
        if (answer) return answer;
        throw failure;
      }
      const pause = answer && notAttempted(answer.headers) ? Math.min(retryAfter(answer.headers), this.options.maxWaitMs) : 0;
      await this.options.sleep(Math.max(this.backoff(failures), pause), signal);
    }
  }

  /** The wait after so many failures: twice as long each time, the upper half of it by chance. */
  backoff(failures: number): number {
    const most = Math.min(firstBackoff * 2 ** (failures - 1), mostBackoff);
    return most / 2 + this.options.jitter(most / 2);
  }
}

/** Whether an error says that the request had no effect, so that its credential may be sent again. */
export function notAttempted(headers: Headers): boolean {
  return headers.get("Connect-Outcome") === "not-attempted";
}

/** What an answer asks for, in whole seconds, at least one (specification section 8), at most a day; here in milliseconds. */
export function retryAfter(headers: Headers): number {
  const seconds = Number(headers.get("Retry-After") ?? "");
  return 1000 * (Number.isInteger(seconds) && seconds >= 1 ? Math.min(seconds, 86_400) : 1);
}

/** Reads an error answer: that of the OAuth endpoints has a string where that of the reads has an object. */
export function refusal(operation: string, answer: Answer<unknown>): ServiceError {
  const error = (answer.error as { error?: unknown } | undefined | null)?.error;
  const given = typeof error === "object" && error !== null ? (error as { code?: unknown }).code : error;
  const code = typeof given === "string" && /^[a-z_]{1,40}$/.test(given) ? given : undefined;
  return new ServiceError(operation, answer.status, code,
    answer.headers.get("X-Request-ID") ?? undefined, answer.headers.get("X-Connect-Reason") ?? undefined,
    code && `${answer.service}/developers/error-codes.html#${code}`);
}

/** Whether a request failed before it left: the connection was never made. Bun says only ECONNREFUSED, and Deno puts it into words. */
export function neverLeft(failure: unknown): boolean {
  for (let cause = failure; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof AggregateError) return cause.errors.length > 0 && cause.errors.every(neverLeft);
    const { syscall, code } = cause as { syscall?: unknown; code?: unknown };
    if (syscall === "connect" || syscall === "getaddrinfo" || code === "ECONNREFUSED" || code === "UND_ERR_CONNECT_TIMEOUT") return true;
    if ("Deno" in globalThis && cause.message.includes(": client error (Connect)")) return true;
  }
  return false;
}
