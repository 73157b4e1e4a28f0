// Runs Python: the compiler, the language server and the interpreter of fedkg, in a web worker.
// Messages to it: {call, args, id}; from it: {lsp} for the editor, {id, result}, {status}, {error}.
import { loadPyodide } from "./pyodide/pyodide.mjs";

let session;
const waiting = [];

/** The bytes of a file of the playground. */
async function bytesOf(name) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
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
  const python = await loadPyodide();
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
  if (session === undefined) waiting.push(data);
  else answer(data);
});

start().catch((error) => postMessage({ error: String(error) }));
