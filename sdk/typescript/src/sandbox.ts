#!/usr/bin/env node
// connect-sandbox fetches the program connect-svc for this machine from the service, compares its checksum, keeps it for the next time, and
// starts a sandbox. It knows no service: the address is that of --from or CONNECT_SANDBOX_FROM, or where npm has this package from.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { access, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { gunzipSync, inflateRawSync } from "node:zlib";

const usage = `usage: connect-sandbox [--from https://connect.example.com] [--platform linux_amd64] [--path] [flags of connect-svc sandbox]

--path prints where the program is, and starts nothing.`;

const systems: Record<string, string> = { linux: "linux", darwin: "darwin", win32: "windows" };
const processors: Record<string, string> = { x64: "amd64", arm64: "arm64" };
const most = 512 << 20; // bytes of a program

async function main(args: string[]): Promise<void> {
  let from = process.env["CONNECT_SANDBOX_FROM"] ?? "";
  let platform = `${systems[process.platform]}_${processors[process.arch]}`;
  let start = true;
  for (; ["--from", "--platform", "--path"].includes(args[0] ?? ""); args.shift()) {
    if (args[0] === "--path") {
      start = false;
      continue;
    }
    const value = args[1];
    if (value === undefined) throw new Error(usage);
    if (args.shift() === "--from") from = value;
    else platform = value;
  }
  const program = await fetched(new URL("/developers/sandbox/", from || (await origin())), platform);
  if (!start) {
    console.log(program);
    return;
  }
  const sandbox = spawn(program, ["sandbox", ...args], { stdio: "inherit" });
  process.on("SIGINT", () => {}); // the terminal sends it to the sandbox, too, and a second one would end that at once
  process.on("SIGTERM", () => sandbox.kill());
  const parent = process.ppid; // npx, which passes no signal on
  const watch = setInterval(() => process.ppid === parent || sandbox.kill(), 500);
  sandbox.on("error", fail);
  sandbox.on("exit", (status) => {
    clearInterval(watch);
    process.exitCode = status ?? 1;
  });
}

/** origin returns where npm has this package from. */
async function origin(): Promise<string> {
  try {
    const lock = JSON.parse(await readFile(join(__dirname, "..", "..", ".package-lock.json"), "utf8"));
    const resolved = String(lock.packages["node_modules/connect-svc-sdk"].resolved);
    if (new URL(resolved).pathname.startsWith("/developers/sdk/")) return resolved;
  } catch {
    // Not installed by npm, or not from a service.
  }
  throw new Error(`the service's address is unknown: set CONNECT_SANDBOX_FROM\n${usage}`);
}

/** fetched returns the path of the program for a platform. */
async function fetched(site: URL, platform: string): Promise<string> {
  if (site.protocol !== "https:") throw new Error("the service's address must begin with https://");
  const listed = (await get(new URL("SHA256SUMS", site))).toString();
  const line = /^([0-9a-f]{64}) {2}(connect-svc(?:_[\w.+~-]+)?_([a-z]+_[a-z0-9]+)(\.tar\.gz|\.zip|\.exe)?)$/;
  const all = listed.split("\n").map((text) => line.exec(text)).filter((found) => found !== null);
  const [, sum = "", name = "", , kind = ""] = all.find((found) => found[3] === platform) ?? [];
  if (!name) throw new Error(`the service has no program for ${platform}, only for ${all.map((found) => found[3]).join(", ")}`);

  const caches = join(cacheFolder(), "connect-svc");
  const file = platform.startsWith("windows") ? "connect-svc.exe" : "connect-svc";
  const kept = join(caches, sum, file);
  if (await access(kept).then(() => true, () => false)) return kept;
  console.error(`fetching ${name} from ${site.host}`);
  const content = await get(new URL(name, site));
  if (createHash("sha256").update(content).digest("hex") !== sum) throw new Error(`${name} has another checksum than SHA256SUMS says`);
  await mkdir(caches, { recursive: true, mode: 0o700 });
  const fresh = await mkdtemp(join(caches, "new-"));
  try {
    const program = kind === ".tar.gz" ? fromTar(content, file) : kind === ".zip" ? fromZip(content, file) : content;
    await writeFile(join(fresh, file), program, { mode: 0o755 });
    await rename(fresh, join(caches, sum)).catch(() => access(kept)); // another process was faster
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
  return kept;
}

/** get returns what is at an address. It asks again if there is no place for it, and for the rest if an answer breaks off. */
async function get(address: URL): Promise<Buffer> {
  let parts: Uint8Array[] = [];
  let [size, reached, tag] = [0, 0, ""];
  let [busy, broken] = [30, 3]; // how often there may still be no place, and a break without more than before
  for (let seconds = 0; ; await new Promise((resolve) => setTimeout(resolve, 1000 * seconds))) {
    const headers: Record<string, string> = { "Accept-Encoding": "identity" }; // so that parts fit together
    if (tag && size > 0) Object.assign(headers, { Range: `bytes=${size}-`, "If-Range": tag });
    seconds = 1;
    let answer;
    try {
      answer = await fetch(address, { redirect: "error", headers });
      if (answer.status === 200) {
        [parts, size, tag] = [[], 0, answer.headers.get("ETag") ?? ""];
        if (!tag.startsWith('"')) tag = ""; // a weak one
      } else if (answer.status !== 206 || !answer.headers.get("Content-Range")?.startsWith(`bytes ${size}-`)) {
        throw new Error(`${address} answers ${answer.status}`);
      }
      const reader = answer.body!.getReader();
      for (let part; !(part = await reader.read()).done; size += part.value.length) parts.push(part.value);
      return Buffer.concat(parts);
    } catch (error) {
      if (answer?.status === 503 && busy-- > 0) seconds = Math.min(Number(answer.headers.get("Retry-After")) || 1, 10);
      else if ((answer && answer.status >= 300) || size === 0) throw error;
      else if (size > reached) [reached, broken] = [size, 3];
      else if (broken-- === 0) throw error;
    }
  }
}

function cacheFolder(): string {
  if (process.platform === "win32") return process.env["LOCALAPPDATA"] ?? join(homedir(), "AppData", "Local");
  if (process.platform === "darwin") return join(homedir(), "Library", "Caches");
  return process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache");
}

/** fromTar returns a file of a compressed archive, which is in one folder (POSIX ustar). */
function fromTar(packed: Buffer, file: string): Buffer {
  const archive = gunzipSync(packed, { maxOutputLength: most });
  for (let at = 0; at + 512 <= archive.length; ) {
    const name = archive.toString("latin1", at, at + 100).replace(/\0.*/s, "");
    const size = parseInt(archive.toString("latin1", at + 124, at + 135), 8) || 0;
    if (name.endsWith(`/${file}`)) return archive.subarray(at + 512, at + 512 + size);
    at += 512 + Math.ceil(size / 512) * 512;
  }
  throw new Error(`the archive has no ${file}`);
}

/** fromZip returns a file of an archive, by the directory at its end. */
function fromZip(archive: Buffer, file: string): Buffer {
  const end = archive.lastIndexOf("PK\x05\x06", undefined, "latin1");
  for (let at = archive.readUInt32LE(end + 16), left = archive.readUInt16LE(end + 10); left > 0; left--) {
    const named = archive.readUInt16LE(at + 28);
    if (archive.toString("latin1", at + 46, at + 46 + named).endsWith(`/${file}`)) {
      const local = archive.readUInt32LE(at + 42);
      const begin = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28);
      const content = archive.subarray(begin, begin + archive.readUInt32LE(at + 20));
      return archive.readUInt16LE(at + 10) === 8 ? inflateRawSync(content, { maxOutputLength: most }) : content;
    }
    at += 46 + named + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32);
  }
  throw new Error(`the archive has no ${file}`);
}

function fail(error: unknown): void {
  console.error(`connect-sandbox: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}

main(process.argv.slice(2)).catch(fail);
