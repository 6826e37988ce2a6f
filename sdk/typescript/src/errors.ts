/** The user must connect again; nothing else helps. */
export class ReconnectError extends Error {
  override readonly name = "ReconnectError";
  /** `ended`: revoked, disconnected by the user or lapsed. `uncertain`: a refresh may have used up its token. */
  constructor(
    readonly state: "ended" | "uncertain",
    /** The answer that says so; undefined if there was none, or it came to an earlier call. */
    override readonly cause?: ServiceError,
    /** Why there was no answer, such as a connection that broke; undefined if there was one, or it was an earlier call that had none. */
    readonly failure?: UnreachableError,
  ) {
    super(
      "connect: the user must connect again: " +
        (state === "uncertain" ? "it is not known whether a refresh used up its token" : "the connection was revoked, disconnected or lapsed"),
    );
  }
}

/**
 * The connection was not disconnected, because it is also that of other keys: two users connected the same account, and disconnecting the one
 * would end the other. `disconnectShared` does so, and `forget` leaves it to the others.
 */
export class SharedError extends Error {
  override readonly name = "SharedError";
  constructor(
    /** The others. */
    readonly keys: readonly string[],
  ) {
    super(`connect: not disconnected: ${keys.length} more of the keys have the same account`);
  }
}

/** The store has no connection of that key. */
export class NotConnectedError extends Error {
  override readonly name = "NotConnectedError";
  constructor() {
    super("connect: not connected");
  }
}

/** The user did not agree. Nothing was connected. */
export class DeniedError extends Error {
  override readonly name = "DeniedError";
  constructor() {
    super("connect: the user did not agree");
  }
}

/** The browser came back with an answer to another question than the one that it was sent with, or too late. */
export class StateError extends Error {
  override readonly name = "StateError";
  constructor() {
    super("connect: the callback does not belong to this authorization");
  }
}

/** No answer, or one that broke off or cannot be read. Its `cause` says why. */
export class UnreachableError extends Error {
  override readonly name = "UnreachableError";
  constructor(
    cause: unknown,
    /** Whether it is known that the request did not leave: there was no connection that it could have been written to. */
    readonly unsent = false,
  ) {
    // What JSON.parse says quotes the text, which may be that of a token.
    super("connect: the service cannot be reached", { cause: cause instanceof SyntaxError ? new Error("the answer is not JSON") : cause });
  }
}

/** An answer of the service that is an error: what is to be logged of it, and no more (specification section 7). */
export class ServiceError extends Error {
  override readonly name = "ServiceError";
  constructor(
    /** Of the OpenAPI document, such as `readDailyActivity`. */
    readonly operation: string,
    readonly status: number,
    /** Such as `invalid_date_range`; undefined when the answer is not the service's own. */
    readonly code: string | undefined,
    /** `X-Request-ID`, with which the operator finds the request. */
    readonly requestId: string | undefined,
    /** What is wrong, in fixed words that name the parameter. Only a sandbox tells it. */
    readonly reason?: string,
    /** The address of the page about the code; undefined without a code. */
    readonly documentation?: string,
  ) {
    super(`connect: ${operation}: the answer was ${status}${code ? ` ${code}` : ""}${requestId ? ` (request ${requestId})` : ""}${reason ? `: ${reason}` : ""}`);
  }
}
