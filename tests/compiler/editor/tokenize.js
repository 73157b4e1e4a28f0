// Prints the scopes of a text, given on standard input, as JSON: [[text, scope], ...].
"use strict";
const { readFileSync } = require("fs");
const { join } = require("path");
const [folder] = process.argv.slice(2);
const modules = join(folder, "node_modules");
const textmate = require(join(modules, "vscode-textmate"));
const oniguruma = require(join(modules, "vscode-oniguruma"));

async function main() {
  await oniguruma.loadWASM(readFileSync(join(modules, "vscode-oniguruma/release/onig.wasm")).buffer);
  const grammar = readFileSync(join(folder, "syntaxes/fkg.tmLanguage.json"), "utf8");
  const registry = new textmate.Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (sources) => new oniguruma.OnigScanner(sources),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async () => textmate.parseRawGrammar(grammar, "fkg.json"),
  });
  const rules = await registry.loadGrammar("source.fkg");
  let state = textmate.INITIAL;
  const found = [];
  for (const line of readFileSync(0, "utf8").split("\n")) {
    const result = rules.tokenizeLine(line, state);
    state = result.ruleStack;
    for (const token of result.tokens)
      if (token.scopes.length > 1)
        found.push([line.slice(token.startIndex, token.endIndex), token.scopes[1]]);
  }
  console.log(JSON.stringify(found));
}

main();
