"use strict";
// Runs the extension for VS Code with a stub of the editor: node activate.js EXTENSION_FOLDER
// Prints what the extension asked of the editor, as JSON. Settings have their defaults.

const Module = require("node:module");
const { join } = require("node:path");

const folder = process.argv[2];
const { contributes } = require(join(folder, "package.json"));
const asked = { clients: [], commands: [], calls: [] };

class LanguageClient {
  constructor(id, name, server, client) {
    asked.clients.push({ id, server, client });
  }
  start() {
    asked.calls.push("start");
    return Promise.resolve();
  }
  stop() {
    asked.calls.push("stop");
    return Promise.resolve();
  }
  dispose() {}
}

const stubs = {
  vscode: {
    commands: {
      registerCommand: (name) => {
        asked.commands.push(name);
        return { dispose() {} };
      },
    },
    workspace: {
      getConfiguration: (section) => ({
        get: (key) => contributes.configuration.properties[`${section}.${key}`].default,
      }),
    },
  },
  "vscode-languageclient/node": { LanguageClient },
};
const load = Module._load;
Module._load = (request, ...rest) => stubs[request] ?? load(request, ...rest);

async function main() {
  const extension = require(join(folder, "extension.js"));
  const context = { subscriptions: [] };
  await extension.activate(context);
  asked.disposed = context.subscriptions.filter((one) => one instanceof LanguageClient).length;
  await extension.deactivate();
  process.stdout.write(JSON.stringify(asked));
}

main();
