// Faults that broke clients of other endpoints, one test each (project and issue number). The tests
// read the raw stream, as libraries repair some of it silently.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import test from "node:test";
import { api, ask, events, root, story, user } from "./support.js";

const page = process.env.EDGEDRAFT_PAGE;

const alarm = {
  type: "function",
  function: {
    name: "set_alarm",
    parameters: {
      type: "object",
      properties: { time: { type: "string" }, day: { type: "string" } },
      required: ["time", "day"],
      additionalProperties: false,
    },
  },
};
const calling = {
  messages: user("I need an alarm at 12:40 am on Saturday."),
  tools: [alarm],
  tool_choice: "required",
  max_tokens: 100,
};
const stream = async (fields) =>
  events((await ask("/v1/chat/completions", { messages: story, stream: true, ...fields })).text);
const callDeltas = (chunks) =>
  chunks.flatMap(({ choices }) => choices).flatMap(({ delta }) => delta.tool_calls ?? []);

test("deltas of calls have an integer index (ollama 7881, mistral.rs 1507)", async () => {
  const deltas = callDeltas(await stream(calling));
  assert.ok(deltas.length > 0);
  for (const { index } of deltas) assert.ok(Number.isInteger(index), `${index}`);
});

test("every delta of a call has its id and name (codex 7517)", async () => {
  const deltas = callDeltas(await stream(calling));
  assert.ok(deltas.length > 0);
  for (const delta of deltas) {
    assert.match(delta.id, /^call_.+/);
    assert.equal(delta.type, "function");
    assert.equal(delta.function.name, "set_alarm");
  }
});

test("each call has one index, and each index one call (LibreChat 13987, LocalAI 9722)", async () => {
  const deltas = callDeltas(await stream({ ...calling, n: 3, temperature: 1, seed: 2 }));
  assert.equal(deltas.length, 3, "one call per choice");
  const chunks = await stream(calling);
  const ids = new Map();
  for (const { id, index } of callDeltas(chunks)) {
    assert.equal(ids.get(id) ?? index, index);
    ids.set(id, index);
  }
  assert.ok(ids.size > 0);
  assert.deepEqual([...ids.values()], [...new Set(ids.values())]);
});

test("a stream of calls ends with tool_calls (python-genai 2868)", async () => {
  const chunks = await stream(calling);
  const reasons = chunks.map(({ choices }) => choices[0].finish_reason).filter(Boolean);
  assert.deepEqual(reasons, ["tool_calls"]);
  const whole = (await ask("/v1/chat/completions", calling)).json().choices[0];
  assert.equal(whole.finish_reason, "tool_calls");
  assert.equal(whole.message.content, null);
});

test("every chunk has the key finish_reason, null before the last (LocalAI 1744)", async () => {
  for (const fields of [{ max_tokens: 12 }, calling, { max_tokens: 12, n: 2 }]) {
    const chunks = await stream(fields);
    for (const { choices } of chunks) assert.ok("finish_reason" in choices[0]);
    const reasons = chunks.map(({ choices }) => choices[0].finish_reason).filter(Boolean);
    assert.equal(reasons.length, fields.n ?? 1);
  }
  const texts = events(
    (await ask("/v1/completions", { prompt: "Once", stream: true, max_tokens: 8 })).text,
  );
  assert.ok(texts.length > 0);
  for (const { choices } of texts) assert.ok("finish_reason" in choices[0]);
});

test("a stream resumes while its prompt is still processed (llama.cpp 25158)", async () => {
  const name = randomUUID();
  const abort = new AbortController();
  const asked = fetch(`${page}/v1/chat/completions`, {
    method: "POST",
    headers: { "X-Conversation-Id": name },
    body: JSON.stringify({
      messages: user(`${"Say it again. ".repeat(150)}What is 3 plus 4?`),
      stream: true,
      max_tokens: 4,
    }),
    signal: abort.signal,
  });
  const isKnown = async () =>
    (await ask("/v1/streams/lookup", { conversation_ids: [name] }, {}, page)).json().length > 0;
  for (let tries = 0; !(await isKnown()); ++tries)
    assert.ok(tries < 10_000, "the stream never starts");
  abort.abort();
  await asked.catch(() => {});
  const resumed = await ask(`/v1/stream?conv_id=${name}&from=0`, undefined, {}, page);
  assert.equal(resumed.status, 200);
  assert.ok(resumed.text.trimEnd().endsWith("data: [DONE]"));
  assert.equal(events(resumed.text).at(-1).choices[0].finish_reason, "length");
});

test("generation stops after the client disconnects (continue 764)", async () => {
  const counter = async (name) => {
    const { text } = await ask("/metrics", undefined, {}, page);
    return Number(text.match(new RegExp(`^edgedraft_client:${name} (\\d+)$`, "m"))[1]);
  };
  const before = await counter("generation_tokens_total");
  const abort = new AbortController();
  const answer = await fetch(`${page}/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ messages: story, stream: true, max_tokens: 800 }),
    signal: abort.signal,
  });
  await answer.body.getReader().read();
  abort.abort();
  for (let tries = 0; (await counter("requests_processing")) > 0; ++tries) {
    assert.ok(tries < 50, "generation did not stop");
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.ok((await counter("generation_tokens_total")) - before < 60);
});

test("an answer continues while the laptop is closed (open-webui 452)", async () => {
  const name = randomUUID();
  const right = (await ask("/v1/chat/completions", { messages: story }, {}, page)).json();
  const plug = (plugged) =>
    fetch(`${page}/v1/edgedraft/link`, { method: "PUT", body: JSON.stringify({ plugged }) });
  const abort = new AbortController();
  const answer = await fetch(`${page}/v1/chat/completions`, {
    method: "POST",
    headers: { "X-Conversation-Id": name },
    body: JSON.stringify({ messages: story, stream: true, offline: "wait" }),
    signal: abort.signal,
  });
  await answer.body.getReader().read();
  await plug(false);
  abort.abort();
  await new Promise((resolve) => setTimeout(resolve, 500));
  await plug(true);
  const resumed = await ask(`/v1/stream?conv_id=${name}&from=0`, undefined, {}, page);
  const said = events(resumed.text)
    .map(({ choices }) => choices[0].delta.content ?? "")
    .join("");
  assert.equal(said, right.choices[0].message.content);
});

test("chunks are padded on request only", async () => {
  const pads = async (stream_options) =>
    (await stream({ max_tokens: 12, stream_options })).filter((chunk) => "obfuscation" in chunk);
  assert.equal((await pads({})).length, 0);
  const texts = (await pads({ include_obfuscation: true })).filter(
    ({ choices }) => choices[0].delta.content,
  );
  assert.ok(texts.length > 0);
  for (const { choices, obfuscation } of texts) {
    assert.equal((choices[0].delta.content.length + obfuscation.length) % 32, 0);
  }
});

test("requests from foreign origins are refused (DNS rebinding)", async () => {
  assert.equal((await ask("/health", undefined)).status, 200);
  const other = await fetch(`${root}/v1/models`, { headers: { Origin: "https://evil.example" } });
  assert.equal(other.status, 403);
  assert.equal((await fetch(`${api}/models`)).status, 200);
});
