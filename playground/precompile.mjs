// Replaces the Python sources in the archives of a page by bytecode, so that the page starts faster.
// Run with: node precompile.mjs PAGE
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const page = process.argv[2];
const { loadPyodide } = await import(pathToFileURL(join(page, "pyodide", "pyodide.mjs")));
const python = await loadPyodide();
const parts = JSON.parse(readFileSync(join(page, "parts.json"), "utf-8"));
for (const name of parts.first) {
  python.FS.writeFile("/archive", readFileSync(join(page, name)));
  python.runPython(`
import io, marshal, zipfile, importlib.util
out = io.BytesIO()
with zipfile.ZipFile("/archive") as read, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as write:
    for one in read.infolist():
        body = read.read(one)
        if one.filename.endswith(".py"):
            code = compile(body, one.filename, "exec", optimize=0, dont_inherit=True)
            header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
            write.writestr(one.filename + "c", header + marshal.dumps(code))
        else:
            write.writestr(one.filename, body)
with open("/archive", "wb") as file:
    file.write(out.getvalue())
`);
  writeFileSync(join(page, name), python.FS.readFile("/archive"));
}
