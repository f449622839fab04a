// Clients of other APIs against the endpoint: OpenAI's Responses, Anthropic's and Ollama's.
import assert from "node:assert/strict";
import test from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { Ollama } from "ollama";
import { ask, root, user } from "./support.js";

const question = "What is 47 plus 38?";
const city = { type: "object", properties: { city: { enum: ["Paris"] } }, required: ["city"] };
const openai = new OpenAI({ baseURL: `${root}/v1`, apiKey: "none", maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: root, apiKey: "none", maxRetries: 0 });
const ollama = new Ollama({ host: root });
const expected = (await ask("/v1/chat/completions", { messages: user(question) })).json().choices[0]
  .message.content;

test("OpenAI's responses equal chat completions, whole and streamed", async () => {
  const whole = await openai.responses.create({ model: "m", input: question });
  assert.equal(whole.output_text, expected);
  const stream = openai.responses.stream({ model: "m", input: question });
  let text = "";
  stream.on("response.output_text.delta", (event) => (text += event.delta));
  const final = await stream.finalResponse();
  assert.equal(text, expected);
  assert.equal(final.output[0].content[0].text, expected);
  const next = await openai.responses.create({
    model: "m",
    input: "And 21 plus 34?",
    previous_response_id: final.id,
  });
  assert.equal(next.status, "completed");
});

test("OpenAI's responses call functions", async () => {
  const answer = await openai.responses.create({
    model: "m",
    input: "Weather?",
    tools: [{ type: "function", name: "weather", parameters: city, strict: false }],
    tool_choice: "required",
  });
  const call = answer.output.find((item) => item.type === "function_call");
  assert.deepEqual(JSON.parse(call.arguments), { city: "Paris" });
});

test("Anthropic's messages equal chat completions, whole and streamed", async () => {
  const request = { model: "m", max_tokens: 64, messages: user(question) };
  const whole = await anthropic.messages.create(request);
  assert.equal(whole.content[0].text, expected);
  assert.equal(await anthropic.messages.stream(request).finalText(), expected);
  const count = await anthropic.messages.countTokens({ model: "m", messages: user(question) });
  assert.equal(count.input_tokens, whole.usage.input_tokens);
});

test("Anthropic's tools are called in a stream", async () => {
  const message = await anthropic.messages
    .stream({
      model: "m",
      max_tokens: 64,
      messages: user("Weather?"),
      tools: [{ name: "weather", input_schema: city }],
      tool_choice: { type: "any" },
    })
    .finalMessage();
  assert.equal(message.stop_reason, "tool_use");
  assert.deepEqual(message.content.at(-1).input, { city: "Paris" });
});

test("Anthropic's client shows errors", async () => {
  await assert.rejects(
    anthropic.messages.create({ model: "m", max_tokens: 0, messages: user("Hi") }),
    (error) => error instanceof Anthropic.BadRequestError && /max_tokens/.test(error.message),
  );
});

test("Ollama's chat and generate equal chat completions, whole and streamed", async () => {
  const whole = await ollama.chat({ model: "m", messages: user(question) });
  assert.equal(whole.message.content, expected);
  let text = "";
  for await (const part of await ollama.chat({
    model: "m",
    messages: user(question),
    stream: true,
  })) {
    text += part.message.content;
  }
  assert.equal(text, expected);
  assert.equal((await ollama.generate({ model: "m", prompt: question })).response, expected);
});

test("Ollama's lists and tools work", async () => {
  const [model] = (await ollama.list()).models;
  assert.ok((await ollama.show({ model: model.name })).capabilities.includes("completion"));
  const { message } = await ollama.chat({
    model: model.name,
    messages: user("Weather?"),
    format: city,
  });
  assert.deepEqual(JSON.parse(message.content), { city: "Paris" });
});
