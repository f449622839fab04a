// Vercel's AI SDK with its provider for compatible endpoints.
import assert from "node:assert/strict";
import test from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const provider = createOpenAICompatible({
  name: "edgedraft",
  baseURL: process.env.EDGEDRAFT_API,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const model = provider("edgedraft");
const prompt = "Tell me a story about a dog and a ball.";

test("text is the same whole and streamed", async () => {
  const whole = await generateText({ model, prompt, temperature: 0 });
  assert.equal(whole.finishReason, "stop");
  assert.ok(whole.usage.outputTokens > 0);
  const streamed = streamText({ model, prompt, temperature: 0 });
  let text = "";
  for await (const part of streamed.textStream) text += part;
  assert.equal(text, whole.text);
  assert.equal((await streamed.usage).outputTokens, whole.usage.outputTokens);
  assert.equal(await streamed.finishReason, "stop");
});

test("a second turn reuses the cached prompt", async () => {
  const first = await generateText({ model, prompt: "What is 47 plus 38?", temperature: 0 });
  const second = await generateText({
    model,
    temperature: 0,
    messages: [
      { role: "user", content: "What is 47 plus 38?" },
      { role: "assistant", content: first.text },
      { role: "user", content: "What is 3 plus 4?" },
    ],
  });
  assert.ok(second.usage.cachedInputTokens >= first.usage.inputTokens);
});

test("an aborted stream ends", async () => {
  const abort = new AbortController();
  const streamed = streamText({ model, prompt, abortSignal: abort.signal });
  let parts = 0;
  for await (const part of streamed.fullStream) {
    if (part.type === "text-delta" && (parts += 1) === 3) abort.abort();
    if (part.type === "abort") return;
  }
  assert.fail("the stream continued");
});

test("objects follow a schema", async () => {
  const { object } = await generateObject({
    model,
    prompt: "Describe Tom.",
    temperature: 0,
    schema: z.object({ name: z.string().max(20), color: z.enum(["red", "blue"]) }),
  });
  assert.ok(["red", "blue"].includes(object.color));
});

test("a function runs, and its result is sent back", async () => {
  const calls = [];
  const { steps } = await generateText({
    model,
    prompt: "I need an alarm at 12:40 am on Saturday.",
    temperature: 0,
    maxOutputTokens: 100,
    stopWhen: stepCountIs(2),
    tools: {
      set_alarm: tool({
        description: "Sets an alarm.",
        inputSchema: z.object({ time: z.string(), day: z.string() }),
        execute: async (input) => {
          calls.push(input);
          return "alarm is set";
        },
      }),
    },
  });
  assert.deepEqual(calls[0], { time: "00:40", day: "Saturday" });
  assert.equal(steps[0].finishReason, "tool-calls");
  assert.equal(steps.length, 2);
});
