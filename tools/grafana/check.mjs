// Checks dashboards, files of JSON, against the types of Grafana's package @grafana/schema. Unknown fields are errors, too.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const home = dirname(fileURLToPath(import.meta.url));
const work = mkdtempSync(join(home, "check-")); // below node_modules' folder, where the compiler looks for packages
const options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--moduleResolution", "nodenext"];
try {
  const programs = process.argv.slice(2).map((file, number) => {
    const program = join(work, `dashboard${number}.ts`);
    const json = JSON.stringify(JSON.parse(readFileSync(file, "utf8")), null, 1);
    writeFileSync(program, `import type { Dashboard } from "@grafana/schema";\nexport const _: Dashboard = ${json};\n`);
    return program;
  });
  const compiler = join(home, "node_modules", "typescript", "bin", "tsc");
  const done = spawnSync(process.execPath, [compiler, ...options, ...programs], { cwd: work, stdio: "inherit" });
  process.exitCode = done.status ?? 1;
} finally {
  rmSync(work, { recursive: true });
}
