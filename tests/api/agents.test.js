// Agents use the endpoint with their own tools: each calls one, runs it, and continues with its
// result.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import http from "node:http";
import path from "node:path";
import test from "node:test";
import { ask, user } from "./support.js";

const agents = process.env.EDGEDRAFT_AGENTS; // their folder; empty without them
const skip = agents ? false : "agents not installed";
const base = process.env.EDGEDRAFT_AGENT_API;

// The demo model calls no tool by itself. After the endpoint has answered the agent's request, the
// request is sent again with a forced call. The tool's schema and a second one must hold too.
const forced = (body, name, values) => {
  const tools = body.tools.map((tool) => {
    if (tool.function.name !== name) return tool;
    const { parameters } = tool.function;
    const properties = {};
    for (const key of Object.keys(parameters.properties)) {
      if (!parameters.required.includes(key)) properties[key] = false;
    }
    for (const [key, value] of Object.entries(values)) properties[key] = { const: value };
    const script = { type: "object", properties, required: Object.keys(values) };
    return { ...tool, function: { ...tool.function, parameters: { allOf: [parameters, script] } } };
  });
  return { ...body, tools, tool_choice: { type: "function", function: { name } } };
};

// A proxy between an agent and the endpoint. It requests short answers to keep the test fast.
const between = async (name, values) => {
  const seen = [];
  const server = http.createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const body = { ...JSON.parse(text), max_tokens: 150 };
    let answer = await ask("/chat/completions", body, {}, base);
    const results = body.messages.filter((message) => message.role === "tool");
    seen.push({
      status: answer.status,
      text: answer.text,
      tools: body.tools?.length ?? 0,
      results,
    });
    if (answer.status === 200 && body.tools?.length && results.length === 0) {
      answer = await ask("/chat/completions", forced(body, name, values), {}, base);
      seen.push({ status: answer.status, text: answer.text, results });
    }
    response.writeHead(answer.status, { "Content-Type": answer.headers.get("content-type") });
    response.end(answer.text);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, seen, url: `http://127.0.0.1:${server.address().port}/v1` };
};

const run = (program, args, cwd) =>
  new Promise((resolve, reject) => {
    const child = spawn(path.join(agents, "node_modules/.bin", program), args, {
      cwd,
      env: { ...process.env, HOME: cwd, PWD: cwd, XDG_STATE_HOME: cwd },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 120_000,
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (data) => (output += data));
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, output }));
  });

const question = "What is 47 plus 38? Write it to answer.txt.";
const command = "echo 85 > answer.txt";

const use = async (program, tool, values, argumentsOf) => {
  const { server, seen, url } = await between(tool, values);
  try {
    mkdirSync("agent-work", { recursive: true });
    const cwd = mkdtempSync(path.resolve("agent-work", `${program}-`));
    const { code, output } = await run(program, argumentsOf(url, cwd), cwd);
    for (const { status, text } of seen) assert.equal(status, 200, text);
    assert.equal(code, 0, output);
    assert.equal(readFileSync(path.join(cwd, "answer.txt"), "utf8"), "85\n", output);
    assert.ok(
      seen.some(({ tools }) => tools > 5),
      "the agent offers its tools",
    );
    assert.ok(seen.at(-1).results.length > 0, "the agent sends the result back");
  } finally {
    server.closeAllConnections();
    server.close();
  }
};

test("opencode calls a tool and continues with its result", { skip }, () =>
  use("opencode", "bash", { command }, (url, cwd) => {
    const model = { name: "demo", tool_call: true, limit: { context: 16384, output: 150 } };
    const provider = {
      npm: "@ai-sdk/openai-compatible",
      options: { baseURL: url, apiKey: "none" },
      models: { demo: model },
    };
    writeFileSync(
      path.join(cwd, "opencode.json"),
      JSON.stringify({ autoupdate: false, share: "disabled", provider: { edgedraft: provider } }),
    );
    return ["run", "--auto", "--model", "edgedraft/demo", "--title", "sum", question];
  }),
);

// Its own system prompt has 27,000 tokens of the demo's vocabulary.
test("qwen-code calls a tool and continues with its result", { skip }, () =>
  use("qwen", "run_shell_command", { command, is_background: false }, (url) => [
    ...["--auth-type", "openai", "--openai-base-url", url, "--openai-api-key", "none"],
    ...["--bare", "--system-prompt", "You are an agent with tools."],
    ...["--model", "demo", "--yolo", "--prompt", question],
  ]),
);

test("tools accept any schema keyword, and strict tools list unsupported ones", async () => {
  const schemas = [
    { type: "integer", minimum: 1, maximum: 9 },
    { type: "number", exclusiveMinimum: 0, multipleOf: 0.5 },
    { type: "string", pattern: "^(?!x)[a-z]{2}$" },
    { type: "array", items: { type: "integer" }, uniqueItems: true, maxItems: 2 },
    {
      type: "object",
      propertyNames: { type: "string" },
      additionalProperties: { type: "boolean" },
    },
    { type: "object", patternProperties: { "^x": { type: "boolean" } }, minProperties: 1 },
    { type: "boolean", not: { const: true } },
    { allOf: [{ type: "integer" }, { minimum: 3 }] },
    { type: "boolean", if: { const: true }, then: { const: true } },
    { type: "array", contains: { const: 1 }, maxItems: 2 },
    { type: "object", properties: { a: {}, b: {} }, dependentRequired: { a: ["b"] } },
    { type: "string", maxLength: 2000 },
    { properties: { a: { type: "boolean" } }, anyOf: [{ required: ["a"] }] },
    { type: "string", format: "email" },
  ];
  const asked = (schema, strict) => ({
    messages: user("Hi"),
    max_tokens: 30,
    tool_choice: "required",
    tools: [
      {
        type: "function",
        function: {
          name: "f",
          strict,
          parameters: { type: "object", properties: { x: schema }, required: ["x"] },
        },
      },
    ],
  });
  for (const schema of schemas) {
    const answer = await ask("/chat/completions", asked(schema, false), {}, base);
    assert.equal(answer.status, 200, answer.text);
  }
  const words = await ask("/chat/completions", asked(schemas[1], false), {}, base);
  assert.equal(words.headers.get("x-edgedraft-unenforced"), "exclusiveMinimum, multipleOf");
  const strict = await ask("/chat/completions", asked(schemas[1], true), {}, base);
  assert.equal(strict.status, 400);
  assert.match(strict.json().error.message, /exclusiveMinimum, multipleOf/);
});
