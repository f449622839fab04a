// The cases about text of llama.cpp's server tests (tools/server/tests/unit: chat_completion,
// completion, tool_call, security, stream, tokenize), for our endpoint and our model.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import test from "node:test";
import { api, ask, events, root, story, user } from "./support.js";

const keyed = process.env.EDGEDRAFT_KEYED;
const key = process.env.EDGEDRAFT_KEY;

const chat = (fields) => ask("/v1/chat/completions", { messages: story, ...fields });
const content = (answer) => answer.json().choices[0].message.content;

test("chat: system messages, parts, length and usage", async () => {
  const messages = (asked) => [
    { role: "system", content: "Book" },
    { role: "user", content: asked },
  ];
  const whole = await chat({ max_tokens: 8, messages: messages("What is the best book") });
  const parts = ["What is ", "the best book"].map((text) => ({ type: "text", text }));
  const same = await chat({ max_tokens: 8, messages: messages(parts) });
  const answer = whole.json();
  assert.match(answer.id, /^chatcmpl-/);
  assert.ok(answer.system_fingerprint);
  assert.equal(answer.choices[0].message.role, "assistant");
  assert.equal(answer.choices[0].finish_reason, "length");
  assert.equal(answer.usage.completion_tokens, 8);
  assert.ok(answer.usage.prompt_tokens > 8);
  assert.equal(content(same), content(whole));
  const without = await ask("/chat/completions", { max_tokens: 8, messages: messages(parts) });
  assert.equal(content(without), content(whole));
});

test("chat: streams have the expected shape", async () => {
  const stream = await chat({
    max_tokens: 10,
    stream: true,
    stream_options: { include_usage: true },
    timings_per_token: true,
  });
  const all = events(stream.text);
  assert.ok(stream.text.endsWith("data: [DONE]\n\n"));
  assert.equal(all[0].choices[0].delta.role, "assistant");
  assert.ok(!all[0].choices[0].delta.content);
  assert.equal(new Set(all.map((chunk) => chunk.id)).size, 1);
  const last = all.pop();
  assert.deepEqual(last.choices, []);
  assert.equal(last.usage.completion_tokens, 10);
  assert.ok(last.timings.prompt_per_second >= 0 && last.timings.predicted_per_second > 0);
  assert.equal(last.timings.predicted_n, 10);
  const end = all.pop();
  assert.equal(end.choices[0].finish_reason, "length");
  assert.ok(!("content" in end.choices[0].delta));
  for (const chunk of all.slice(1)) {
    assert.ok(!("role" in chunk.choices[0].delta));
    assert.equal(chunk.choices[0].finish_reason, null);
    assert.ok("finish_reason" in chunk.choices[0]);
  }
});

test("chat: answers continue a partial assistant message", async () => {
  const whole = content(await chat({ max_tokens: 24 }));
  const said = whole.slice(0, whole.indexOf(" ", 30));
  for (const begun of [said, [{ type: "text", text: said }]]) {
    const rest = await chat({
      max_tokens: 12,
      messages: [...story, { role: "assistant", content: begun }],
    });
    assert.ok(whole.startsWith((said + content(rest)).slice(0, whole.length)), content(rest));
    const { prompt } = (
      await ask("/apply-template", { messages: [...story, { role: "assistant", content: begun }] })
    ).json();
    assert.ok(prompt.endsWith(said));
  }
});

test("chat: applies the template", async () => {
  const messages = [{ role: "system", content: "You are a test." }, ...user("Hi there")];
  const { prompt } = (await ask("/apply-template", { messages })).json();
  assert.ok(prompt.indexOf("You are a test.") < prompt.indexOf("Hi there"));
});

test("chat: supports response formats", async () => {
  const format = (response_format) => chat({ max_tokens: 40, response_format });
  const is42 = { const: "42" };
  assert.equal(content(await format({ type: "json_object", schema: is42 })), '"42"');
  const schema = { items: [{ type: "integer", enum: [-3000] }] };
  assert.equal(content(await format({ type: "json_object", schema })), "[-3000]");
  const foo = { schema: { const: "foooooo" } };
  assert.equal(content(await format({ type: "json_schema", json_schema: foo })), '"foooooo"');
  assert.match(content(await format({ type: "json_object" })), /^\{/);
  assert.equal(content(await chat({ max_tokens: 6, json_schema: is42 })), '"42"');
  assert.equal(content(await chat({ max_tokens: 6, grammar: 'root ::= "a"{5,5}' })), "aaaaa");
  for (const wrong of [
    { type: "sound" },
    { type: "json_object", schema: 123 },
    { type: "json_object", schema: { type: 123 } },
    { type: "json_object", schema: { type: "hiccup" } },
  ]) {
    const refusal = await format(wrong);
    assert.equal(refusal.status, 400, JSON.stringify(wrong));
    assert.equal(refusal.json().error.type, "invalid_request_error");
  }
});

test("chat: refuses invalid messages", async () => {
  for (const messages of [
    null,
    "string",
    [123],
    [{}],
    [{ role: 123 }],
    [{ role: "system", content: 123 }],
    [{ role: "system", content: "test" }, {}],
    [...user("test"), ...["test", "test"].map((content) => ({ role: "assistant", content }))],
    user([{ type: "image_url", image_url: { url: "file:///etc/passwd" } }]),
  ]) {
    const refusal = await ask("/v1/chat/completions", { messages });
    assert.equal(refusal.status, 400, JSON.stringify(messages));
    assert.ok(refusal.json().error.message);
  }
});

test("chat: refuses prompts beyond the context, streamed or not", async () => {
  for (const stream of [false, true]) {
    const refusal = await chat({ messages: user("What is the best book? ".repeat(1000)), stream });
    assert.equal(refusal.status, 400);
    assert.equal(refusal.json().error.code, "context_length_exceeded");
  }
});

test("chat: supports choices, log probabilities and biases", async () => {
  const { choices } = (await chat({ max_tokens: 8, n: 2 })).json();
  assert.equal(choices.length, 2);
  assert.ok(choices.every((choice) => choice.finish_reason === "length"));

  const told = (await chat({ max_tokens: 5, logprobs: true, top_logprobs: 10 })).json().choices[0];
  const tokens = told.logprobs.content;
  assert.equal(
    tokens
      .map(({ token }) => token)
      .join("")
      .trimStart(),
    told.message.content,
  );
  assert.ok(
    tokens.every(({ logprob, top_logprobs }) => logprob <= 0 && top_logprobs.length === 10),
  );

  const words = ["the", "a", "dog", "ball", "and", "to", "was", "it"];
  const { tokens: banned } = (await ask("/tokenize", { content: ` ${words.join(" ")} ` })).json();
  const logit_bias = Object.fromEntries(banned.map((token) => [token, -100]));
  const text = content(await chat({ max_tokens: 64, logit_bias }));
  assert.ok(
    words.every((word) => !text.includes(` ${word} `)),
    text,
  );
});

const complete = (fields) =>
  ask("/v1/completions", { prompt: "I believe the meaning of life is", max_tokens: 8, ...fields });
const text = (answer) => answer.json().choices[0].text;

test("completion: is the same whole and streamed", async () => {
  const whole = await complete({});
  assert.equal(whole.json().usage.completion_tokens, 8);
  assert.equal(whole.json().timings.predicted_n, 8);
  const stream = events((await complete({ stream: true })).text);
  assert.equal(stream.map((chunk) => chunk.choices[0].text).join(""), text(whole));
  const stop = text(whole).trim().split(" ")[1];
  const cut = events((await complete({ stream: true, stop: [stop] })).text);
  const said = cut.map((chunk) => chunk.choices[0].text).join("");
  assert.ok(text(whole).startsWith(said) && !said.includes(stop));
});

test("completion: is deterministic per seed", async () => {
  const drawn = async (seed) => text(await complete({ seed, temperature: 1, max_tokens: 16 }));
  const texts = await Promise.all([0, 1, 2, 3].map(drawn));
  assert.equal(new Set(texts).size, 4);
  assert.equal(await drawn(2), texts[2]);
});

test("completion: accepts prompts as tokens and several prompts", async () => {
  const prompt = "I believe the meaning of life is";
  const { tokens } = (await ask("/tokenize", { content: prompt, add_special: true })).json();
  const one = await complete({ prompt: tokens });
  for (const several of [
    [tokens, tokens],
    [tokens, prompt],
    [prompt, prompt],
  ]) {
    const { choices, usage } = (await complete({ prompt: several })).json();
    assert.deepEqual(
      choices.map((choice) => choice.index),
      [0, 1],
    );
    for (const choice of choices) assert.equal(choice.text, text(one));
    assert.equal(usage.completion_tokens, 16);
    assert.equal(usage.prompt_tokens, 2 * one.json().usage.prompt_tokens);
  }
  const mixed = events((await complete({ prompt: [prompt, "A dog"], stream: true, n: 2 })).text);
  const said = ["", "", "", ""];
  for (const { choices } of mixed) said[choices[0].index] += choices[0].text;
  assert.equal(said[0], text(one));
  assert.equal(said[2], text(await complete({ prompt: "A dog" })));
});

test("completion: concurrent requests match sequential ones", async () => {
  const prompts = ["A very long book.", "What is it?", "The sky is blue", "A joke", "Once", "Dogs"];
  const alone = [];
  for (const prompt of prompts) alone.push(text(await complete({ prompt })));
  const together = await Promise.all(prompts.map((prompt) => complete({ prompt })));
  assert.deepEqual(together.map(text), alone);
});

test("completion: a cancelled request stops processing", async () => {
  const abort = new AbortController();
  const asked = fetch(`${api}/completions`, {
    method: "POST",
    body: JSON.stringify({ prompt: "I believe", max_tokens: 800, ignore_eos: true }),
    signal: abort.signal,
  });
  setTimeout(() => abort.abort(), 100);
  await asked.catch(() => {});
  for (let tries = 0; ; ++tries) {
    const { text } = await ask("/metrics");
    if (/requests_processing 0\n/.test(text)) break;
    assert.ok(tries < 50, "generation did not stop");
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
});

const tool = (name, properties) => ({
  type: "function",
  function: {
    name,
    description: "",
    parameters: { type: "object", properties, required: Object.keys(properties) },
  },
});
const success = tool("test", { success: { type: "boolean", const: true } });
const python = tool("python", { code: { type: "string", description: "The code to run." } });

test("tools: calls a required tool with arguments of its schema", async () => {
  for (const [one, argument] of [
    [success, "success"],
    [python, "code"],
  ]) {
    const fields = {
      messages: [
        { role: "system", content: "You are a coding assistant." },
        ...user("Write an example"),
      ],
      tool_choice: "required",
      tools: [one],
      parallel_tool_calls: false,
      max_tokens: 512,
    };
    const { choices } = (await chat(fields)).json();
    const { tool_calls: calls, content } = choices[0].message;
    assert.equal(calls.length, 1);
    assert.ok(!content);
    assert.equal(calls[0].function.name, one.function.name);
    assert.ok(argument in JSON.parse(calls[0].function.arguments));
    const deltas = events((await chat({ ...fields, stream: true })).text)
      .flatMap((chunk) => chunk.choices)
      .flatMap((choice) => choice.delta.tool_calls ?? []);
    assert.deepEqual(
      deltas.map(({ index, function: called }) => [index, called]),
      [[0, calls[0].function]],
    );
  }
});

test("tools: calls none if none is given, needed or allowed", async () => {
  for (const [tools, tool_choice] of [
    [[], null],
    [null, null],
    [[success], null],
    [[python], "none"],
  ]) {
    const { choices } = (await chat({ tools, tool_choice, max_tokens: 60 })).json();
    assert.equal(choices[0].message.tool_calls, undefined);
    assert.ok(choices[0].message.content);
  }
});

test("tools: accepts a call and its result", async () => {
  const called = { name: "calculate", arguments: '{"expression":"sin(30 * pi / 180)"}' };
  const answer = await chat({
    max_tokens: 24,
    tools: [tool("calculate", { expression: { type: "string" } })],
    messages: [
      ...user("What is the sine of 30 degrees?"),
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "call_6789", type: "function", function: called }],
      },
      { role: "tool", name: "calculate", content: "0.5", tool_call_id: "call_6789" },
    ],
  });
  assert.equal(answer.status, 200, answer.text);
});

test("security: all but health and the page require the key", async () => {
  const get = async (path, headers) => (await ask(path, undefined, headers, keyed)).status;
  for (const open of ["/health", "/"]) assert.equal(await get(open), 200);
  const post = (headers) =>
    ask("/v1/completions", { prompt: "I believe", route: "device", max_tokens: 4 }, headers, keyed);
  for (const headers of [{}, { Authorization: "Bearer invalid-key" }, { Authorization: key }]) {
    const refusal = await post(headers);
    assert.equal(refusal.status, 401);
    assert.equal(refusal.json().error.type, "authentication_error");
  }
  for (const path of ["/models", "/v1/models", "/metrics", "/props", "/v1/stream", "/v1/nothing"]) {
    assert.equal(await get(path), 401, path);
  }
  for (const headers of [{ Authorization: `Bearer ${key}` }, { "X-Api-Key": key }]) {
    assert.notEqual((await post(headers)).status, 401);
    assert.equal(await get("/v1/models", headers), 200);
  }
});

test("security: allows listed origins only", async () => {
  const preflight = async (origin) =>
    fetch(`${keyed}/v1/completions`, {
      method: "OPTIONS",
      headers: {
        Origin: origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "Authorization",
      },
    });
  const allowed = await preflight("https://app.example.org");
  assert.ok(allowed.ok);
  assert.equal(allowed.headers.get("Access-Control-Allow-Origin"), "https://app.example.org");
  assert.match(allowed.headers.get("Access-Control-Allow-Methods"), /POST/);
  assert.equal(allowed.headers.get("Access-Control-Allow-Headers"), "Authorization");
  const other = await preflight("https://other.example.org");
  assert.equal(other.status, 403);
  assert.equal(other.headers.get("Access-Control-Allow-Origin"), null);
});

test("stream: can be reread and stopped by name", async () => {
  const name = `${randomUUID()}::some-org/some-model:Q8_0`;
  const query = `conv_id=${encodeURIComponent(name)}`;
  const first = await ask(
    "/v1/chat/completions",
    { messages: story, stream: true, max_tokens: 16 },
    { "X-Conversation-Id": name },
  );
  assert.ok(events(first.text).length > 2);
  const again = await ask(`/v1/stream?${query}&from=0`);
  assert.equal(again.text, first.text);
  assert.equal((await ask(`/v1/stream?${query}&from=10`)).text, first.text.slice(10));
  const remove = () => fetch(`${api}/stream?${query}`, { method: "DELETE" });
  assert.equal((await remove()).status, 204);
  assert.equal((await ask(`/v1/stream?${query}&from=0`)).status, 404);
  assert.equal((await remove()).status, 404);
});

test("tokenize: round-trips text, adds BOS and returns pieces", async () => {
  const content = "What is the capital of France ?";
  const { tokens } = (await ask("/tokenize", { content })).json();
  assert.ok(tokens.length > 5);
  assert.equal((await ask("/detokenize", { tokens })).json().content, content);
  const special = (await ask("/tokenize", { content, add_special: true })).json().tokens;
  assert.deepEqual(special.slice(-tokens.length), tokens);
  const strange = "This is a test string with unicode 媽 and emoji 🤗";
  const { tokens: pieces } = (
    await ask("/tokenize", { content: strange, with_pieces: true })
  ).json();
  for (const { id, piece } of pieces) assert.ok(Number.isInteger(id) && piece.length > 0);
});
