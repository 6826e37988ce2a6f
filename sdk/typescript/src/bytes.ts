// What node:crypto and Buffer do on Node alone, for every runtime.

export function utf8(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

export function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

export function base64url(bytes: Uint8Array): string {
  return base64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The bytes of a text in base64, whichever alphabet it uses; none if it is something else. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (byte) => byte.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

export function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Compares in a time that depends on the lengths alone. */
export function same(a: Uint8Array, b: Uint8Array): boolean {
  let difference = a.length ^ b.length;
  for (let i = 0; i < a.length; i++) difference |= a[i]! ^ (b[i] ?? 0);
  return difference === 0;
}

/** 32 random bytes as text. */
export function randomText(): string {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

/**
 * A form as the body of a request that is sent once. Deno's fetch sends a text again when a connection that it used before closes, although the
 * service may have had it. It cannot do so with a stream, unless it made that of a text, such as a Response's.
 */
export function sentOnce(form: string): string | ReadableStream<Uint8Array> {
  if (!("Deno" in globalThis)) return form;
  return new ReadableStream({
    start: (controller) => {
      controller.enqueue(utf8(form));
      controller.close();
    },
  });
}

/** The response, whose body breaks off after so many bytes. */
export function limited(response: Response, most: number): Response {
  if (!response.body) return response;
  let size = 0;
  const counter = new TransformStream<Uint8Array, Uint8Array>({
    transform: (chunk, controller) => {
      if ((size += chunk.length) > most) controller.error(new Error(`the answer has more than ${most} bytes`));
      else controller.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(counter), response);
}
