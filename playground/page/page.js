// The page of the playground: editor, table, verdicts, trace, explanations; its state is in the URL.
import { basicSetup } from "codemirror";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap } from "@codemirror/view";
import { indentWithTab } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";
import { LSPClient, languageServerExtensions } from "@codemirror/lsp-client";
import words from "./words.json";
import examples from "./examples.json";
import workerText from "./worker.json";

const RULES = "rules.fkg";
const TABLE = "table.csv";
const FOLDER = "file:///playground/";
const NEEDS_SERVER =
  "open this page through a server: run `python -m http.server` in its folder, then open http://localhost:8000";
const PAUSE = 400; // milliseconds without a change after which verdicts and the URL follow
const element = (id) => document.getElementById(id);

// State in the URL: JSON of all files, compressed with DEFLATE, as base64url after "#".

async function squeeze(bytes, stream) {
  const piped = new Blob([bytes]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(piped).arrayBuffer());
}

async function encodeState(files) {
  const bytes = new TextEncoder().encode(JSON.stringify(files));
  const packed = await squeeze(bytes, new CompressionStream("deflate-raw"));
  const text = btoa(Array.from(packed, (byte) => String.fromCharCode(byte)).join(""));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function decodeState(fragment) {
  const text = atob(fragment.replaceAll("-", "+").replaceAll("_", "/"));
  const packed = Uint8Array.from(text, (one) => one.charCodeAt(0));
  const bytes = await squeeze(packed, new DecompressionStream("deflate-raw"));
  const files = JSON.parse(new TextDecoder().decode(bytes));
  if (typeof files !== "object" || typeof files[RULES] !== "string") {
    throw new Error("the link contains no rules");
  }
  return files;
}

// The worker, and the transport of the language server. A browser gives a page from disk neither a
// worker nor a fetched file, but scripts: they contain the files for a worker made of text.

const fromDisk = location.protocol === "file:";
const workerURL = fromDisk
  ? `data:text/javascript,${encodeURIComponent(workerText)}`
  : new URL("worker.js", document.baseURI);
const worker = new Worker(workerURL, { type: "module" });

/** Load a script that calls `receiveFile` with the name and the content of a file. */
function loadFile(name) {
  const script = make("script", { src: `disk/${name}.js` });
  script.addEventListener("load", () => script.remove());
  script.addEventListener("error", () => showStatus(NEEDS_SERVER));
  document.head.append(script);
}

window.receiveFile = async (name, text) => {
  try {
    const packed = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    const bytes = await squeeze(packed, new DecompressionStream("gzip"));
    worker.postMessage({ name, bytes }, [bytes.buffer]);
  } catch (error) {
    showStatus(`disk/${name}.js is damaged (${error}). Copy the page again.`);
  }
};

const listeners = new Set();
const answers = new Map();
let calls = 0;
let setReady;
const ready = new Promise((resolve) => (setReady = resolve));

function ask(call, ...args) {
  const id = ++calls;
  worker.postMessage({ call, args, id });
  return new Promise((resolve) => answers.set(id, resolve));
}

const transport = {
  send: (message) => worker.postMessage({ call: "receive", args: [message] }),
  subscribe: (handler) => listeners.add(handler),
  unsubscribe: (handler) => listeners.delete(handler),
};

worker.addEventListener("message", ({ data }) => {
  if (data.lsp !== undefined) listeners.forEach((listener) => listener(data.lsp));
  else if (data.id !== undefined) {
    answers.get(data.id)(data.result);
    answers.delete(data.id);
  } else if (data.wanted !== undefined) loadFile(data.wanted);
  else if (data.error !== undefined) showStatus(`Python did not start: ${data.error}`);
  else {
    showStatus(data.status);
    if (data.facts !== undefined) {
      setReady();
      showMissing(JSON.parse(data.facts));
    }
  }
});
worker.addEventListener("error", () => {
  if (document.body.dataset.status === undefined) showStatus(NEEDS_SERVER);
});

function showStatus(text) {
  element("status").textContent = text;
  document.body.dataset.status = text;
}

function showMissing({ arrays, missing }) {
  const notes = [
    arrays
      ? `Arrays: NumPy ${arrays}.`
      : "Arrays: no build of NumPy; a slow substitute evaluates small tables.",
    "Findings about several rules together (conflicts, redundant rules) need the command line.",
    ...missing,
  ];
  element("missing").replaceChildren(...notes.map((note) => make("li", {}, note)));
}

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// The editor: one view; each file keeps its state.

const language = StreamLanguage.define({
  name: "fkg",
  token(stream) {
    if (stream.match(/^#.*/)) return "comment";
    if (stream.match(/^"(\\.|[^"\\])*"?/)) return "string";
    if (stream.match(/^`[^`]*`?/) || stream.match(/^[?$]\w+/)) return "variableName";
    if (stream.match(/^\d+(\.\d+)?([eE][+-]?\d+)?/)) return "number";
    const word = stream.match(/^[^\W\d][\w-]*/u);
    if (word) return words.includes(word[0]) ? "keyword" : null;
    stream.next();
    return null;
  },
});

// Colours of both schemes: those of CodeMirror are for a light page.
const colours = HighlightStyle.define([
  { tag: tags.comment, color: "light-dark(#5c5c5c, #a9b6c8)" },
  { tag: tags.string, color: "light-dark(#a11111, #ffab91)" },
  { tag: tags.variableName, color: "light-dark(#00408f, #9ecbff)" },
  { tag: tags.number, color: "light-dark(#0b5f3c, #9be9a8)" },
  { tag: tags.keyword, color: "light-dark(#770088, #d8a5ff)" },
]);
const theme = EditorView.theme({
  ".cm-gutters": { background: "Canvas", color: "light-dark(#5c5c5c, #a9b6c8)" },
  ".cm-cursor": { borderLeftColor: "CanvasText" },
  ".cm-activeLine, .cm-activeLineGutter": { background: "#8882" },
});

const client = new LSPClient({
  timeout: 60000,
  extensions: languageServerExtensions(),
  notificationHandlers: {
    "textDocument/publishDiagnostics": (_, { uri, diagnostics }) => {
      problems.set(uri, diagnostics);
      showProblems();
      return false;
    },
    "window/logMessage": (_, { message }) => {
      problems.clear();
      showProblems(message);
      return true;
    },
    "window/showMessage": (_, { message }) => {
      showProblems(message);
      return true;
    },
  },
});

const problems = new Map(); // the diagnostics of each file, by its URI
let files = {};
let shown = RULES;
let view;
let timer;

const changed = EditorView.updateListener.of((update) => {
  if (!update.docChanged) return;
  files[shown] = update.state.doc.toString();
  clearTimeout(timer);
  timer = setTimeout(refresh, PAUSE);
});

function openFile(name) {
  shown = name;
  const isRules = name.endsWith(".fkg");
  const extensions = [basicSetup, keymap.of([indentWithTab]), changed, EditorView.lineWrapping];
  extensions.push(EditorView.contentAttributes.of({ "aria-label": name }));
  extensions.push(syntaxHighlighting(colours), theme);
  if (isRules) extensions.push(language, client.plugin(FOLDER + name, "fkg"));
  view?.destroy();
  view = new EditorView({
    state: EditorState.create({ doc: files[name], extensions }),
    parent: element("editor"),
  });
  const tabs = Object.keys(files).map((file) => {
    const tab = make("button", { type: "button", role: "tab" }, file);
    tab.setAttribute("aria-selected", String(file === name));
    tab.addEventListener("click", () => openFile(file));
    return tab;
  });
  element("tabs").replaceChildren(...tabs);
}

/** A button with a place of a file, which shows it in the editor. */
function placeButton(uri, { start: { line, character } }) {
  const name = decodeURIComponent(uri.slice(uri.lastIndexOf("/") + 1));
  const button = make("button", { type: "button" }, `${name}:${line + 1}:${character + 1}`);
  button.addEventListener("click", () => {
    if (files[name] === undefined) return;
    if (shown !== name) openFile(name);
    const { doc } = view.state;
    const from = doc.line(Math.min(line + 1, doc.lines));
    const at = Math.min(from.from + character, from.to);
    view.dispatch({ selection: { anchor: at }, scrollIntoView: true });
    view.focus();
  });
  return button;
}

function problemItem(uri, { range, code, message, severity, relatedInformation: related }) {
  const kind = ["", "error", "warning", "info"][severity];
  const link = code ? ["[", make("a", { href: `../../reference/codes/${code}/` }, code), "]"] : [];
  const item = make("li", { class: kind, "data-code": code ?? "" });
  item.append(placeButton(uri, range), `: ${kind}`, ...link, `: ${message}`);
  const notes = (related ?? []).map(({ location, message: note }) =>
    make("li", {}, placeButton(location.uri, location.range), `: ${note}`),
  );
  if (notes.length) item.append(make("ul", {}, ...notes));
  return item;
}

function showProblems(message = "") {
  const items = [...problems].flatMap(([uri, ones]) => ones.map((one) => problemItem(uri, one)));
  if (message) items.push(make("li", { class: "note" }, message));
  element("problems").replaceChildren(...items);
}

// Results.

async function refresh() {
  history.replaceState(null, "", `#${await encodeState(files)}`);
  const failure = await ask("write_files", JSON.stringify(files));
  showVerdicts(JSON.parse(failure ?? (await ask("evaluate"))));
}

function showVerdicts(found) {
  element("verdicts").replaceChildren();
  element("trace").replaceChildren();
  const problems = found.error !== undefined;
  const note = problems ? found.error : [`${found.rows} rows`, ...found.notes].join("; ");
  element("verdict-note").textContent =
    problems && /^rules\.fkg:\d+/.test(note) ? "The rules have problems; see the list." : note;
  if (problems) return;
  const head = ["rule", "satisfied", "violated", "unknown", "worst margin", "row"];
  const rows = found.rules.map(({ rule, satisfied, violated, unknown, worst, notes }) => {
    const size = worst?.robustness == null ? worst?.infinite : Number(worst.robustness.toPrecision(6));
    const margin = worst === null ? "" : `${size} ${worst.unit}`;
    const cells = [rule, satisfied, violated, unknown, margin, worst?.row ?? ""];
    const row = make("tr", { title: notes.join("\n") }, ...cells.map((one) => make("td", {}, String(one))));
    if (violated) row.children[2].className = "violated";
    return row;
  });
  const titles = make("tr", {}, ...head.map((one) => make("th", { scope: "col" }, one)));
  element("verdicts").append(make("thead", {}, titles), make("tbody", {}, ...rows));
  element("rules").replaceChildren(...found.rules.map(({ rule }) => make("option", { value: rule })));
  element("trace").append(
    ...found.rules.map(({ rule }) => drawTrace(rule, found.traces[rule], found.rows, found.times)),
  );
}

/** The signals of a rule over the rows of the table, with the rows that violate it shaded. */
function drawTrace(rule, { violated, signals }, rows, times) {
  const [width, height, left, top] = [640, 70, 110, 16];
  const space = "http://www.w3.org/2000/svg";
  const add = (parent, tag, attributes, text = "") => {
    const made = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    parent.append(made);
    return made;
  };
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${top + signals.length * height + 18}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${rule}: ${violated.length} of ${rows} rows violate it`);
  add(svg, "text", { x: 0, y: 11, "font-weight": 600 }, rule);
  const step = (width - left) / Math.max(rows, 1);
  const bottom = top + signals.length * height;
  for (const row of violated) {
    const place = { x: left + row * step, y: top, width: step, height: bottom - top };
    add(add(svg, "rect", { class: "violated", ...place }), "title", {}, `row ${row + 1}`);
  }
  signals.forEach(({ name, unit, values }, number) => {
    const known = values.filter((value) => value !== null);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const base = top + (number + 1) * height - 8;
    const y = (value) => base - ((value - low) / (high - low || 1)) * (height - 20);
    const points = values.map((value, row) => [left + (row + 0.5) * step, value]);
    let pen = "M";
    const path = points.map(([x, value]) => {
      if (value === null) {
        pen = "M";
        return "";
      }
      const part = `${pen}${x.toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
      return part;
    });
    add(svg, "line", { class: "axis", x1: left, x2: width, y1: base, y2: base });
    add(svg, "text", { x: 0, y: base - height / 2 + 6 }, unit ? `${name} (${unit})` : name);
    if (known.length) {
      add(svg, "text", { x: left - 4, y: base, "text-anchor": "end" }, String(low));
      if (high > low) add(svg, "text", { x: left - 4, y: y(high) + 8, "text-anchor": "end" }, String(high));
    }
    add(svg, "path", { class: "signal", d: path.join("") });
    if (known.length === 1) {
      const [x, value] = points.find((point) => point[1] !== null);
      add(svg, "circle", { cx: x, cy: y(value), r: 2.5, fill: "currentColor" });
    }
  });
  const [first, last] = times ? [times[0], times[rows - 1]] : ["row 1", `row ${rows}`];
  add(svg, "text", { x: left, y: bottom + 13 }, first ?? "");
  add(svg, "text", { x: width, y: bottom + 13, "text-anchor": "end" }, last ?? "");
  return svg;
}

element("explain").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { text, error } = JSON.parse(await ask("explain", element("what").value.trim()));
  element("explanation").textContent = text ?? error;
});

element("share").addEventListener("click", async () => {
  await navigator.clipboard.writeText(location.href);
  element("share").textContent = "Copied";
});

element("examples").append(...Object.keys(examples).map((name) => make("option", {}, name)));
element("examples").addEventListener("change", ({ target }) => show(examples[target.value]));

async function show(state) {
  files = { [TABLE]: "", ...state };
  files = Object.fromEntries([RULES, TABLE, ...Object.keys(files)].map((name) => [name, files[name]]));
  openFile(RULES);
  await refresh();
}

async function start() {
  let state = examples[Object.keys(examples)[0]];
  if (location.hash.length > 1) {
    try {
      state = await decodeState(location.hash.slice(1));
    } catch (error) {
      showStatus(`the link is damaged: ${error.message}`);
    }
  }
  ready.then(() => client.connect(transport)); // the client gives up on a server that starts slowly
  await show(state);
}

addEventListener("hashchange", () => location.reload());
start();
