const day = 24 * 60 * 60 * 1000;

/** How many days one request may ask for. */
const mostDays = 31;

/**
 * The ranges of 31 days at most that make up a range. What is no range of days, or one that ends before it begins, stays as it is: the
 * service refuses it.
 */
export function* parts(from: string, to: string): Generator<{ from: string; to: string }, void, undefined> {
  const last = timeOf(to);
  for (let first = timeOf(from); first + mostDays * day <= last; first += mostDays * day) {
    yield { from: dateOf(first), to: dateOf(first + (mostDays - 1) * day) };
    from = dateOf(first + mostDays * day);
  }
  yield { from, to };
}

/** The rows of all pages. They end with the signal, also in the middle of a page. */
export async function* rows<T>(pages: AsyncIterable<{ readonly data: readonly T[] }>, signal?: AbortSignal): AsyncGenerator<T, void, undefined> {
  for await (const { data } of pages) {
    for (const row of data) {
      signal?.throwIfAborted();
      yield row;
    }
  }
}

/** When a day begins in UTC; NaN, which is before and after nothing, if the text is no day. */
function timeOf(date: string): number {
  const time = /^\d{4}-\d{2}-\d{2}$/.test(date) ? Date.parse(`${date}T00:00:00Z`) : NaN;
  return dateOf(time) === date ? time : NaN;
}

function dateOf(time: number): string {
  return Number.isNaN(time) ? "" : new Date(time).toISOString().slice(0, 10);
}
