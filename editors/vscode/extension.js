"use strict";

const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

/** Start the language server for rule files. */
function activate(context) {
  const settings = workspace.getConfiguration("fedkg");
  const [command, ...args] = settings.get("command");
  client = new LanguageClient(
    "fedkg",
    "fedkg",
    { command, args },
    {
      documentSelector: [{ language: "fkg" }],
      initializationOptions: { graphs: settings.get("graphs") },
    },
  );
  context.subscriptions.push(client);
  return client.start();
}

/** Stop the language server. */
function deactivate() {
  return client && client.stop();
}

module.exports = { activate, deactivate };
