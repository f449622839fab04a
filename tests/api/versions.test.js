// Checks that the docs name the versions used by these tests.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

test("the docs list the tested versions", () => {
  const docs = readFileSync(`${process.env.EDGEDRAFT_DOCS}/assistant.md`, "utf8");
  for (const name of [
    "openai",
    "ai",
    "@ai-sdk/openai-compatible",
    "compatcanary",
    "@anthropic-ai/sdk",
    "ollama",
  ]) {
    const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
    assert.ok(docs.includes(`| \`${name}\` | ${version} |`), `${name} ${version}`);
  }
  const agents = JSON.parse(readFileSync(process.env.EDGEDRAFT_AGENTS_LIST, "utf8")).dependencies;
  for (const [name, version] of Object.entries(agents)) {
    assert.ok(docs.includes(`| \`${name}\` | ${version} |`), `${name} ${version}`);
  }
});
