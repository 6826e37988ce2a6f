import { concat } from "./bytes.js";
import { BodyParsedError, keyOf, verifyWebhook, WebhookError, type WebhookCall, type WebhookHeaders } from "./webhook.js";

export interface ReceiverOptions {
  /** `whsec_…` */
  readonly secret: string;
  /**
   * Stores an event durably, under its id, and does no more: the service waits for five seconds. If it fails, the answer is 503, and the
   * service sends the event again. One event may come here twice: an id that is there already is no failure.
   */
  readonly take: (call: WebhookCall) => unknown;
  /** Whether an id is known. A call with one that is known is answered with 204, and not taken. */
  readonly seen?: (id: string) => boolean | Promise<boolean>;
  /** Hears why a call was not taken. Default: `console.error` with the message. */
  readonly onError?: (error: Error) => void;
  /** The most that a body may have; default 64 KiB, which is far more than the service sends. */
  readonly maxBytes?: number;
  /** The clock, for tests. */
  readonly now?: () => number;
}

/**
 * The webhook address of a server that speaks in `Request` and `Response`: Hono, Next.js, Workers, Deno, Bun. Genuine calls are answered
 * with 204, others with 4xx, and with 503 if `take` fails.
 */
export function fetchReceiver(options: ReceiverOptions): (request: Request) => Promise<Response> {
  const receiver = new Receiver(options);
  return async (request) => {
    const status = await receiver.receive(request.method, request.headers, () => receiver.read(request));
    return new Response(null, { status, headers: allow(status) });
  };
}

/** What the receiver needs of an `IncomingMessage` of node:http, of Express or of Connect. */
export interface NodeRequest {
  readonly method?: string | undefined;
  readonly headers: Record<string, string | string[] | undefined>;
  readonly readableDidRead?: boolean;
  readonly readableEncoding?: string | null;
  readonly destroyed?: boolean;
  on(event: string, listener: (...values: any[]) => void): unknown;
}

/** What the receiver needs of a `ServerResponse`. */
export interface NodeResponse {
  writeHead(status: number, headers: Record<string, string>): unknown;
  end(): unknown;
}

/**
 * The webhook address of a server of node:http, Express or Connect. It reads the body itself; bytes that `express.raw` or a platform has
 * left in `body` or `rawBody` do as well. The answers are those of {@link fetchReceiver}.
 */
export function nodeReceiver(options: ReceiverOptions): (request: NodeRequest, response: NodeResponse) => Promise<void> {
  const receiver = new Receiver(options);
  return async (request, response) => {
    const status = await receiver.receive(request.method, request.headers, () => receiver.readNode(request));
    response.writeHead(status, status === 413 ? { Connection: "close" } : allow(status)); // of what is too large the rest is not read
    response.end();
  };
}

class TooLarge extends WebhookError {}

class Receiver {
  readonly #maxBytes: number;

  constructor(readonly options: ReceiverOptions) {
    this.#maxBytes = options.maxBytes ?? 64 * 1024;
    if (!(this.#maxBytes > 0)) throw new TypeError("connect: maxBytes must be a number above 0");
    keyOf(options.secret); // not with the first call
  }

  /** The status of the answer to a call. */
  async receive(method: string | undefined, headers: WebhookHeaders, read: () => Promise<Uint8Array>): Promise<number> {
    if (method !== "POST") return 405;
    const { secret, seen, take, now } = this.options;
    let status = 400;
    try {
      const body = await read();
      status = 401;
      const call = await verifyWebhook(secret, headers, body, now?.());
      status = 503;
      if (!(await seen?.(call.id))) await take(call);
      return 204;
    } catch (error) {
      try {
        (this.options.onError ?? ((error) => console.error("connect: webhook not taken:", error.message)))(error as Error);
      } catch {
        // its own trouble
      }
      if (error instanceof BodyParsedError) return 500; // a mistake of ours
      return error instanceof TooLarge ? 413 : status;
    }
  }

  async read(request: Request): Promise<Uint8Array> {
    if (request.bodyUsed || request.body?.locked) throw new BodyParsedError();
    const chunks: Uint8Array[] = [];
    let size = 0;
    const reader = (request.body as ReadableStream<Uint8Array> | null)?.getReader();
    for (let part; reader && !(part = await reader.read()).done; chunks.push(part.value)) {
      try {
        this.#check((size += part.value.length));
      } catch (error) {
        void reader.cancel().catch(() => {});
        throw error;
      }
    }
    return concat(chunks);
  }

  async readNode(request: NodeRequest): Promise<Uint8Array> {
    const { rawBody, body } = request as { rawBody?: unknown; body?: unknown };
    for (const raw of [rawBody, body]) {
      if (!(raw instanceof Uint8Array)) continue;
      this.#check(raw.length);
      return raw;
    }
    if (request.readableDidRead || request.readableEncoding) throw new BodyParsedError();
    if (request.destroyed) throw new WebhookError("the call broke off");
    return new Promise((resolve, reject) => {
      const chunks: Uint8Array[] = [];
      let size = 0;
      request.on("data", (chunk: Uint8Array) => {
        try {
          this.#check((size += chunk.length));
          chunks.push(chunk);
        } catch (error) {
          reject(error as Error);
        }
      });
      request.on("end", () => resolve(concat(chunks)));
      request.on("error", reject);
      request.on("close", () => reject(new WebhookError("the call broke off")));
    });
  }

  #check(bytes: number): void {
    if (bytes > this.#maxBytes) throw new TooLarge(`the body has more than ${this.#maxBytes} bytes`);
  }
}

function allow(status: number): Record<string, string> {
  return status === 405 ? { Allow: "POST" } : {};
}
