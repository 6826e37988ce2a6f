// What becomes of a refresh token when the network fails (specification 5.4): it is kept if it has not left, and never sent again if it may have.
// A fault is put under the client, which refreshes, and refreshes again when the fault is gone. CERTIFICATES is a folder of the test that starts
// this program: Node trusts the certificates "good" and "expired", and not "stranger".
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import diagnostics from "node:diagnostics_channel";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer as http1 } from "node:http";
import { constants, createSecureServer, type Http2ServerRequest } from "node:http2";
import { createServer as https } from "node:https";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { after, describe, test } from "node:test";

import { ConnectClient, MemoryStore, ReconnectError, type ClientOptions, type UnreachableError } from "connect-svc-sdk";
import { Agent, fetch as undici, ProxyAgent, type Dispatcher } from "undici";

const certificate = (name: string) => ["cert", "key"].map((part) => readFileSync(`${process.env["CERTIFICATES"]}/${name}-${part}.pem`));

const sockets = new Set<Socket>();
const servers = new Set<Server>();
after(() => {
  for (const server of servers) server.close();
  for (const socket of sockets) socket.destroy();
});

async function listening(server: Server, port = 0): Promise<number> {
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
  });
  servers.add(server);
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

function pipe(socket: Socket, port: number): Socket {
  const other = connect(port, "127.0.0.1");
  for (const [one, end] of [[socket, other], [other, socket]] as const) {
    one.on("error", () => {});
    one.on("close", () => end.destroy());
    one.pipe(end);
  }
  return other;
}

/** A service behind a wire, and the refresh tokens that came to it. */
class Service {
  readonly came: string[] = [];
  /** What becomes of a connection. */
  wire: ((socket: Socket) => void) | undefined;
  /** What becomes of a request that was read whole; by default it gets tokens. */
  answer: ((socket: Socket, respond: (status: number, body: string) => void) => void) | undefined;
  refuses = false; // streams of HTTP/2
  readonly ports = new Map<string, number>(); // by the name of the certificate
  port = 0;
  #listener!: Server;

  static async start(version: "HTTP/1" | "HTTP/2" = "HTTP/1"): Promise<Service> {
    const service = new Service();
    for (const name of ["good", "expired", "stranger"]) {
      const [cert, key] = certificate(name);
      const server = version === "HTTP/1" ? https({ cert, key }) : createSecureServer({ cert, key });
      server.on("request", (request, response) => {
        if (service.refuses) return void (request as Http2ServerRequest).stream.close(constants.NGHTTP2_REFUSED_STREAM);
        let body = "";
        request.on("data", (chunk: Buffer) => (body += chunk.toString()));
        request.on("end", () => {
          service.came.push(new URLSearchParams(body).get("refresh_token") ?? "");
          const respond = (status: number, text: string) => {
            response.statusCode = status;
            response.end(text);
          };
          if (service.answer) service.answer(request.socket, respond);
          else respond(200, tokens());
        });
      });
      service.ports.set(name, await listening(server));
    }
    await service.up();
    return service;
  }

  async up(): Promise<void> {
    this.#listener = createServer((socket) => this.wire ? this.wire(socket) : void this.through("good")(socket));
    this.port = await listening(this.#listener, this.port);
  }

  async down(): Promise<void> {
    const closed = once(this.#listener, "close");
    this.#listener.close();
    this.cut();
    await closed;
  }

  /** Lets connections through to the server with that certificate. */
  readonly through = (name: string) => (socket: Socket): Socket => pipe(socket, this.ports.get(name)!);

  /** Ends all connections. */
  readonly cut = (): void => {
    for (const socket of sockets) if (socket.localPort === this.port) socket.resetAndDestroy();
  };
}

let made = 0;
const tokens = () => JSON.stringify({
  grant_id: "7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4", history_from: "2026-11-20", connection_version: "1", token_type: "Bearer",
  access_token: `svca_${++made}`, refresh_token: `svcr2_${made}`, expires_in: 300, scope: "daily_steps:read",
});

/** The package undici, as a partner passes it who needs a proxy or HTTP/2. */
const over = (dispatcher: Dispatcher) => async ({ url, method, headers, body, signal }: Request): Promise<Response> =>
  (await undici(url, { method, headers: [...headers], body: body as null, duplex: "half", redirect: "manual", signal, dispatcher })) as unknown as Response;

interface Fault {
  readonly want: "kept" | "lost";
  readonly put: (service: Service) => unknown;
  /** What the caller sees of the network. */
  readonly says: RegExp;
  readonly take?: (service: Service) => unknown;
  readonly timeoutMs?: number;
}

async function play(service: Service, fault: Fault, fetch?: ClientOptions["fetch"], host = "127.0.0.1"): Promise<void> {
  const store = new MemoryStore();
  const instance = (timeoutMs?: number) => new ConnectClient({
    baseUrl: `https://${host}:${service.port}`, clientId: "id", clientSecret: "svci_secret", callbackUrl: "https://partner.example/callback",
    scopes: ["daily_steps:read"], store, ...(fetch && { fetch }), ...(timeoutMs && { timeoutMs }),
  });
  const client = instance();
  const begun = client.begin();
  await client.finish("ada", begun, new URLSearchParams({ state: begun.state, code: "svcc_x" }));
  const { refreshToken } = (await store.load("ada"))!;
  await fault.put(service);
  const error: unknown = await instance(fault.timeoutMs).refresh("ada").catch((error: unknown) => error);
  await (fault.take ? fault.take(service) : undefined);
  service.wire = service.answer = undefined;
  const failure = error instanceof ReconnectError ? error.failure ?? error.cause : error;
  const causes: string[] = [];
  for (let cause: unknown = failure; cause instanceof Error; cause = cause.cause) {
    causes.push(`${cause.name} ${cause.message} ${String((cause as { code?: unknown }).code)}`);
    if (cause instanceof AggregateError) causes.push(String(cause.errors));
  }
  assert.match(causes.join("\n"), fault.says);
  assert.doesNotMatch(causes.join("\n"), /svcr2_|svci_/);
  const second = await client.refresh("ada").then(() => "kept", (error: unknown) => error instanceof ReconnectError ? "lost" : String(error));
  assert.equal(second, fault.want);
  assert.equal(error instanceof ReconnectError, fault.want === "lost");
  assert.equal((await store.load("ada"))?.state, fault.want === "kept" ? "active" : "uncertain");
  const sent = service.came.filter((token) => token === refreshToken).length;
  assert.ok(fault.want === "kept" ? sent === 1 : sent <= 1, `the token came ${sent} times`);
}

/** A process that is stopped before it takes a connection: when its queue is full, the kernel drops what asks for one more. */
async function dropping(service: Service): Promise<() => Promise<void>> {
  await service.down();
  const program = `const { connect, createServer } = require("node:net");
    createServer((socket) => socket.pipe(connect(${service.ports.get("good")}, "127.0.0.1")).pipe(socket).on("error", () => {}))
      .listen({ port: ${service.port}, host: "127.0.0.1", backlog: 1 }, () => console.log("listening"));`;
  const child = spawn(process.execPath, ["--eval", program], { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  child.kill("SIGSTOP");
  const queued: Socket[] = [];
  for (let full = false; !full;) {
    const socket = connect(service.port, "127.0.0.1").on("error", () => {});
    queued.push(socket);
    full = await Promise.race([once(socket, "connect").then(() => false), new Promise<boolean>((resolve) => setTimeout(resolve, 300, true))]);
  }
  return async () => {
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
    for (const socket of queued) socket.destroy();
    await service.up();
  };
}

const onHello = (act: (socket: Socket) => void) => (service: Service) => {
  service.cut();
  service.wire = (socket) => void socket.once("data", () => act(socket));
};
const certified = (name: string) => (service: Service) => {
  service.cut();
  service.wire = service.through(name);
};
const answers = (answer: Service["answer"]) => (service: Service) => void (service.answer = answer);

let restore: () => Promise<void>;
const faults: Record<string, Fault> = {
  "the connection is refused": { want: "kept", put: (service) => service.down(), take: (service) => service.up(), says: /ECONNREFUSED/ },
  "the connection is dropped until the request's time is over": {
    want: "kept", timeoutMs: 2_000, says: /TimeoutError/, put: async (service) => (restore = await dropping(service)), take: () => restore(),
  },
  "the certificate does not verify": { want: "kept", put: certified("stranger"), says: /self-signed certificate/ },
  "the certificate has expired": { want: "kept", put: certified("expired"), says: /certificate has expired/ },
  "reset in the handshake": { want: "kept", put: onHello((socket) => socket.resetAndDestroy()), says: /ECONNRESET/ },
  "closed in the handshake": { want: "kept", put: onHello((socket) => socket.end()), says: /ECONNRESET|other side closed/ },
  "the handshake is not answered until the request's time is over": { want: "kept", timeoutMs: 2_000, put: onHello(() => {}), says: /TimeoutError/ },
  "the handshake is not answered until its own time is over": { want: "kept", put: onHello(() => {}), says: /UND_ERR_CONNECT_TIMEOUT/ },
  "an idle connection was closed": { want: "kept", put: (service) => { service.cut(); service.wire = (socket) => socket.end(); }, says: /ECONNRESET|closed/ },
  "written, and reset": { want: "lost", put: answers((socket) => socket.destroy()), says: /UND_ERR_SOCKET|ECONNRESET/ },
  "written, and no answer in time": { want: "lost", timeoutMs: 2_000, put: answers(() => {}), says: /TimeoutError/ },
  "half an answer": {
    want: "lost", says: /terminated|UND_ERR_SOCKET/,
    put: answers((socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"grant_id\":")),
  },
  "500": { want: "lost", put: answers((_socket, respond) => respond(500, "")), says: /500/ },
  "502": { want: "lost", put: answers((_socket, respond) => respond(502, "<html>")), says: /502/ },
  "503": { want: "lost", put: answers((_socket, respond) => respond(503, "<html>")), says: /503/ },
  "a 200 that is not JSON": { want: "lost", put: answers((_socket, respond) => respond(200, "<html>")), says: /not JSON/ },
  "a 200 without tokens": { want: "lost", put: answers((_socket, respond) => respond(200, "{}")), says: /cannot be read/ },
};

for (const [kind, fetch] of [["Node's fetch", undefined], ["the package undici", over(new Agent())]] as const) {
  describe(kind, { concurrency: true }, () => {
    for (const [name, fault] of Object.entries(faults)) {
      test(`${name}: ${fault.want}`, async () => play(await Service.start(), fault, fetch));
    }
  });
}

test("the name does not resolve: kept", async () => {
  let resolves = true;
  const lookup = (_name: string, _options: unknown, done: (error: Error | null, addresses: { address: string; family: number }[]) => void) =>
    resolves ? done(null, [{ address: "127.0.0.1", family: 4 }]) : done(Object.assign(new Error("not found"), { code: "ENOTFOUND", syscall: "getaddrinfo" }), []);
  await play(await Service.start(), {
    want: "kept", says: /ENOTFOUND/, take: () => void (resolves = true), put: (service) => {
      resolves = false;
      service.cut();
    },
  }, over(new Agent({ connect: { lookup: lookup as never } })), "localhost");
});

// An egress proxy, whose CONNECT is not the request.
for (const [name, answer, says] of [
  ["refuses the connection", undefined, /ECONNREFUSED/],
  ["answers CONNECT with 502", "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", /502/],
  ["answers CONNECT with 407", "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", /407/],
  ["closes without an answer", "", /TimeoutError/], // undici dials it again and again
] as const) {
  test(`an egress proxy ${name}: kept`, async () => {
    let broken = false;
    const tunnels = new Set<Socket>();
    const proxy = http1().on("connect", (request, socket: Socket) => {
      if (broken) return void socket.end(answer ?? "");
      tunnels.add(socket);
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      pipe(socket, Number(new URL(`http://${request.url}`).port));
    });
    const port = await listening(proxy);
    await play(await Service.start(), {
      want: "kept", says, ...(answer === "" && { timeoutMs: 2_000 }),
      put: async () => {
        broken = true;
        for (const socket of tunnels) socket.destroy();
        if (answer !== undefined) return;
        const closed = once(proxy, "close");
        proxy.close();
        proxy.closeAllConnections();
        await closed;
      },
      take: async () => {
        broken = false;
        if (answer === undefined) await listening(proxy, port);
      },
    }, over(new ProxyAgent(`http://127.0.0.1:${port}`)));
  });
}

describe("HTTP/2", { concurrency: true }, () => {
  const dials = (request: Request) => over(new Agent({ allowH2: true }))(request); // each time, as what was cut is noticed late
  const rows: Record<string, Fault> = {
    "the stream is refused": {
      want: "kept", put: (service) => void (service.refuses = true), take: (service) => void (service.refuses = false), says: /REFUSED_STREAM/,
    },
    "the certificate has expired": faults["the certificate has expired"]!,
    "the handshake is not answered until the request's time is over": faults["the handshake is not answered until the request's time is over"]!,
    "written, and reset": { ...faults["written, and reset"]!, says: /HTTP\/2|ECONNRESET|UND_ERR_SOCKET/ },
    "written, and no answer in time": faults["written, and no answer in time"]!,
  };
  for (const [name, fault] of Object.entries(rows)) test(`${name}: ${fault.want}`, async () => play(await Service.start("HTTP/2"), fault, dials));
});

// Only what is known counts. What another client, or another version of undici, says of the request is played here.
describe("the channels of undici", () => {
  const refused = Object.assign(new Error(), { syscall: "connect", code: "ECONNREFUSED" });
  class Quiet { // a request of a copy of undici that does not tell when it writes over HTTP/2
    constructor(readonly headers: unknown) {}
  }
  class Old extends Quiet {}
  const say = (channel: string, message: object) => diagnostics.channel(`undici:${channel}`).publish(message);
  const headers = (request: Request) => [...request.headers].flat();
  for (const [name, want, said, error] of [
    ["nothing was said", "lost", () => {}, new Error("lost")],
    ["it was given up before it was written", "kept", (request: Request) => {
      const taken = new Quiet(headers(request));
      say("request:create", { request: taken });
      say("request:error", { request: taken, error: new Error() });
    }, new Error("lost")],
    ["its headers are a text, as in version 5", "kept", (request: Request) => {
      const taken = new Old(headers(request).join("\r\n"));
      say("request:create", { request: taken });
      say("request:error", { request: taken, error: new Error() });
    }, new Error("lost")],
    ["it was not given up: it may yet be written", "lost", (request: Request) =>
      say("request:create", { request: new Quiet(headers(request)) }), new Error("lost")],
    ["another request was given up", "lost", () => {
      const other = new Quiet(["Connect-Attempt", "another"]);
      say("request:create", { request: other });
      say("request:error", { request: other, error: new Error() });
    }, new Error("lost")],
    ["it was written, and could not be dialled when it was repeated", "lost", (request: Request) => {
      const taken = new Quiet(headers(request));
      say("request:create", { request: taken });
      say("client:sendHeaders", { request: taken });
    }, refused],
    ["it may have been written over HTTP/2 by a version that does not tell", "lost", (request: Request) => {
      const taken = new Quiet(headers(request));
      say("client:connected", { connectParams: { host: new URL(request.url).host }, socket: { alpnProtocol: "h2" } });
      say("request:create", { request: taken });
      say("request:error", { request: taken, error: new Error() });
    }, new Error("lost")],
  ] as const) {
    test(`${name}: ${want}`, async () => {
      const store = new MemoryStore();
      let sent = 0;
      const client = new ConnectClient({
        baseUrl: "https://connect.example.com", clientId: "id", clientSecret: "svci_secret", callbackUrl: "https://partner.example/callback",
        scopes: ["daily_steps:read"], store, fetch: async (request) => {
          if (sent++ !== 1) return new Response(tokens());
          said(request);
          throw new TypeError("fetch failed", { cause: error });
        },
      });
      const begun = client.begin();
      await client.finish("ada", begun, new URLSearchParams({ state: begun.state, code: "svcc_x" }));
      await assert.rejects(client.refresh("ada"), (failure: unknown) => failure instanceof ReconnectError
        ? want === "lost" && (failure.failure?.cause as Error).cause === error
        : want === "kept" && (failure as UnreachableError).unsent && ((failure as Error).cause as Error).cause === error);
      assert.equal((await store.load("ada"))?.state, want === "kept" ? "active" : "uncertain");
    });
  }
});
