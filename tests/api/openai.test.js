// OpenAI's own library against the endpoint.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import test from "node:test";
import Ajv from "ajv";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.EDGEDRAFT_API, apiKey: "none", maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const messages = [{ role: "user", content: "What is 47 plus 38?" }];
const story = [{ role: "user", content: "Tell me a story about a dog and a ball." }];

test("answers a question", async () => {
  const answer = await client.chat.completions.create({ model, messages });
  assert.equal(answer.object, "chat.completion");
  assert.match(answer.choices[0].message.content, /85/);
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.equal(
    answer.usage.total_tokens,
    answer.usage.prompt_tokens + answer.usage.completion_tokens,
  );
});

test("a stream equals the whole answer", async () => {
  const whole = await client.chat.completions.create({ model, messages: story });
  const stream = await client.chat.completions.create({
    model,
    messages: story,
    stream: true,
    stream_options: { include_usage: true },
  });
  let content = "";
  let usage = null;
  let reasons = 0;
  for await (const chunk of stream) {
    usage = chunk.usage ?? usage;
    if (chunk.choices.length === 0) continue;
    content += chunk.choices[0].delta.content ?? "";
    if (chunk.choices[0].finish_reason) reasons += 1;
  }
  assert.equal(content, whole.choices[0].message.content);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
  assert.equal(reasons, 1);
});

test("the streaming helper assembles the answer", async () => {
  const events = [];
  const runner = client.chat.completions
    .stream({ model, messages })
    .on("content", (delta) => events.push(delta));
  const final = await runner.finalChatCompletion();
  assert.equal(events.join(""), final.choices[0].message.content);
  assert.equal(final.choices[0].finish_reason, "stop");
});

test("several choices are deterministic per seed", async () => {
  const ask = () =>
    client.chat.completions.create({ model, messages: story, n: 3, temperature: 1, seed: 5 });
  const [first, second] = [await ask(), await ask()];
  const texts = (answer) => answer.choices.map((choice) => choice.message.content);
  assert.deepEqual(texts(first), texts(second));
  assert.equal(new Set(texts(first)).size, 3);
});

test("log probabilities cover the answer, streamed or not", async () => {
  const ask = { model, messages: story, logprobs: true, top_logprobs: 3 };
  const whole = await client.chat.completions.create(ask);
  const tokens = whole.choices[0].logprobs.content;
  const bytes = Buffer.from(tokens.flatMap((token) => token.bytes));
  assert.equal(bytes.toString().trim(), whole.choices[0].message.content.trim());
  assert.ok(tokens.every((token) => token.logprob === token.top_logprobs[0].logprob));
  const final = await client.chat.completions.stream(ask).finalChatCompletion();
  assert.deepEqual(final.choices[0].logprobs.content, tokens);
});

// Marked text stays private in whatever form the history comes back.
test("private text stays when resent, trimmed, quoted or titled", async () => {
  const uplink = async () => {
    const { data } = await (await fetch(`${process.env.EDGEDRAFT_API}/edgedraft/uplink`)).json();
    const bytes = ({ hex }) => Buffer.from(hex ?? "", "hex").toString("latin1");
    return data.map((message) => `${message.text} ${bytes(message)}`).join("\n");
  };
  const say = (...contents) =>
    client.chat.completions.create({
      model,
      max_tokens: 12,
      messages: contents.map((content, i) => ({ role: i % 2 ? "assistant" : "user", content })),
    });
  const first = await say("I am <private>Zebulon Quixote</private>, card 4111 1111 1111 1111.");
  const history = [
    "I am Zebulon Quixote, card 4111 1111 1111 1111.",
    first.choices[0].message.content,
  ];
  await say(...history, "> I am zebulon\n> quixote\nGo on.");
  await say("Quixote, as I said: ZEBULON QUIXOTE, 4111-1111-1111-1111.");
  await say(`Write a title for: ${history.join("\n")}`);
  const left = await uplink();
  assert.match(left, /TEXT_001/);
  assert.match(left, /CARD_001/);
  assert.doesNotMatch(left, /zebulon/i);
  assert.doesNotMatch(left, /4111/);
});

test("an abort ends the stream", async () => {
  const stream = await client.chat.completions.create({ model, messages: story, stream: true });
  let chunks = 0;
  for await (const chunk of stream) {
    assert.ok(chunk.id);
    chunks += 1;
    if (chunks === 3) break;
  }
  assert.ok(stream.controller.signal.aborted);
});

test("refusals raise the matching error class", async () => {
  await assert.rejects(
    client.chat.completions.create({ model, messages, temperature: -1 }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature",
  );
  await assert.rejects(
    client.chat.completions.create({ model, messages: [] }),
    OpenAI.BadRequestError,
  );
  await assert.rejects(client.get("/nothing"), OpenAI.NotFoundError);
});

test("completes texts", async () => {
  const answer = await client.completions.create({
    model,
    prompt: "Once upon a time",
    max_tokens: 8,
  });
  assert.equal(answer.choices[0].finish_reason, "length");
  assert.equal(answer.usage.completion_tokens, 8);
});

test("a stream outlives its connection", async () => {
  const id = randomUUID();
  const { data: stream } = await client.chat.completions
    .create({ model, messages: story, stream: true }, { headers: { "X-Conversation-Id": id } })
    .withResponse();
  for await (const _ of stream) break;
  const url = new URL(`stream?conv_id=${id}&from=0`, `${process.env.EDGEDRAFT_API}/`);
  const events = await (await fetch(url)).text();
  assert.ok(events.trimEnd().endsWith("data: [DONE]"));
});

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

test("the helper streams and runs function calls", async () => {
  const question = [{ role: "user", content: "I need an alarm at 12:40 am on Saturday." }];
  const stream = client.chat.completions.stream({ model, messages: question, tools: [alarm] });
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0].finish_reason, "tool_calls");
  const call = final.choices[0].message.tool_calls[0];
  assert.deepEqual(JSON.parse(call.function.arguments), { time: "00:40", day: "Saturday" });

  const seen = [];
  const runner = client.chat.completions.runTools(
    {
      model,
      messages: question,
      max_tokens: 100,
      tools: [
        {
          type: "function",
          function: { ...alarm.function, parse: JSON.parse, function: (input) => seen.push(input) },
        },
      ],
    },
    { maxChatCompletions: 2 },
  );
  await runner.done().catch(() => {});
  assert.deepEqual(seen[0], { time: "00:40", day: "Saturday" });
});

const answersOfASchema = Number(process.env.EDGEDRAFT_TEST_ANSWERS ?? 200);
test("sampled answers match a schema and equal plain decoding", async () => {
  const schema = {
    type: "object",
    properties: {
      name: { type: "string", minLength: 1, maxLength: 16 },
      size: { enum: ["small", "large", null] },
      weight: { type: "number" },
      toys: { type: "array", items: { $ref: "#/$defs/toy" }, minItems: 1, maxItems: 3 },
      owner: { anyOf: [{ type: "string", maxLength: 10 }, { type: "null" }] },
    },
    required: ["name", "size", "weight", "toys"],
    additionalProperties: false,
    $defs: {
      toy: {
        type: "object",
        properties: { kind: { const: "ball" }, count: { type: "integer" } },
        required: ["kind", "count"],
        additionalProperties: false,
      },
    },
  };
  const validate = new Ajv({ strict: false }).compile(schema);
  const plain = new OpenAI({ baseURL: process.env.EDGEDRAFT_PLAIN, apiKey: "none", maxRetries: 0 });
  let whole = 0;
  const ask = async (seed) => {
    const request = {
      model,
      messages: story,
      n: 8,
      temperature: 1,
      seed,
      max_tokens: 300,
      response_format: { type: "json_schema", json_schema: { name: "dog", strict: true, schema } },
    };
    const [answer, undrafted] = await Promise.all(
      [client, plain].map((of) => of.chat.completions.create(request)),
    );
    const said = ({ choices }) => choices.map(({ message }) => message.content);
    assert.deepEqual(said(answer), said(undrafted), `seed ${seed}`);
    for (const choice of answer.choices) {
      if (choice.finish_reason === "length") continue;
      whole += 1;
      assert.ok(validate(JSON.parse(choice.message.content)), choice.message.content);
    }
  };
  for (let seed = 0; seed < answersOfASchema / 8; ++seed) await ask(seed);
  assert.ok(whole >= 0.99 * answersOfASchema, `${whole} complete answers`);
});
