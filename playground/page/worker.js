// Runs Python: the compiler, the language server and the interpreter of fedkg, in a web worker.
// Messages to it: {call, args, id}, {name, bytes} of a file; from it: {lsp} for the editor,
// {id, result}, {status}, {error}, {wanted}: the name of a file that the page must send.

const FROM_DISK = import.meta.url.startsWith("data:"); // where the browser refuses to fetch files
const DISK = "file:///";
const wanted = new Map();
let session;
const waiting = [];

/** The bytes of a file of the playground. */
async function bytesOf(name) {
  if (FROM_DISK) {
    postMessage({ wanted: name });
    return new Promise((resolve) => wanted.set(name, resolve));
  }
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

/** A JavaScript module of the playground. */
async function importModule(name) {
  if (!FROM_DISK) return import(new URL(name, import.meta.url));
  const script = new Blob([await bytesOf(name)], { type: "text/javascript" });
  return import(URL.createObjectURL(script));
}

/** What Pyodide needs to find its files. */
async function pyodideOptions() {
  if (!FROM_DISK) return {};
  const headers = { "content-type": "application/wasm" }; // Pyodide only asks for it of WebAssembly
  globalThis.fetch = async (url) =>
    new Response(await bytesOf(String(url).slice(DISK.length)), { headers });
  const { default: createPyodideModule } = await importModule("pyodide/pyodide.asm.mjs");
  return { indexURL: `${DISK}pyodide/`, createPyodideModule };
}

function answer({ call, args, id }) {
  let result;
  try {
    result = session[call](...args);
  } catch (error) {
    const lines = String(error).trim().split("\n");
    result = JSON.stringify({ error: `this failed in the playground: ${lines.at(-1)}` });
  }
  if (id !== undefined) postMessage({ id, result });
}

async function start() {
  const parts = JSON.parse(new TextDecoder().decode(await bytesOf("parts.json")));
  postMessage({ status: "loading Python" });
  const { loadPyodide } = await importModule("pyodide/pyodide.mjs");
  const python = await loadPyodide(await pyodideOptions());
  postMessage({ status: "loading the compiler" });
  const unpack = async (archives) => {
    for (const name of archives) {
      python.unpackArchive(await bytesOf(name), "zip", { extractDir: parts.folders[name] });
    }
  };
  await unpack(parts.first);
  python.globals.set("paths", python.toPy(parts.paths));
  python.runPython("import sys; sys.path[:0] = paths");
  const module = python.pyimport("playground_session");
  session = module.Session((text) => postMessage({ lsp: text }));
  for (const message of waiting.splice(0)) answer(message);
  postMessage({ status: "ready", facts: session.facts() });
  // The solver is large, and only explanations need it.
  await unpack(parts.later);
  postMessage({ status: "ready", facts: session.facts() });
}

addEventListener("message", ({ data }) => {
  if (data.bytes !== undefined) wanted.get(data.name)(data.bytes);
  else if (session === undefined) waiting.push(data);
  else answer(data);
});

start().catch((error) => postMessage({ error: String(error) }));
