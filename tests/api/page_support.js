// Shared by the tests of the page: headless Chromium with one tab at a time.
import { after, before, beforeEach } from "node:test";
import puppeteer from "puppeteer-core";

export const url = process.env.EDGEDRAFT_PAGE;
export const server = Number(process.env.EDGEDRAFT_PAGE_SERVER);
const chromium = process.env.EDGEDRAFT_CHROMIUM;
export const skip = chromium ? false : "no chromium";

export const sizes = { desktop: { width: 1280, height: 800 }, phone: { width: 375, height: 700 } };
export const story = "Tell me a story about a dog and a ball.";
let browser;
export let page; // the last one shown
export let faults;

before(async () => {
  if (skip) return;
  browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox"] });
});
after(() => browser?.close());

// Counts a document's unanswered requests. The browser's own count does not drop if a reload cuts a
// request short.
function countRequests() {
  const { fetch } = window;
  window.requests = { open: 0, quietSince: performance.now() };
  window.fetch = async (path, options) => {
    window.requests.open += 1;
    try {
      return await fetch(path, options);
    } finally {
      window.requests.open -= 1;
      window.requests.quietSince = performance.now();
    }
  };
}

export async function show(size = sizes.desktop, path = "/", prepare = () => {}, base = url) {
  page = await browser.newPage();
  await page.evaluateOnNewDocument(countRequests);
  await page.evaluateOnNewDocument(prepare);
  await page.setViewport(size);
  page.on("console", (message) => {
    if (["error", "warn"].includes(message.type())) faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("request", (request) => {
    const to = request.url();
    if (!to.startsWith(base) && !to.startsWith("data:")) faults.push(`requested ${to}`);
  });
  await page.goto(base + path);
  await page.waitForSelector("#send");
}

export async function say(text) {
  await page.type("#text", text);
  await page.click("#send");
}

export const lastAnswer = () =>
  page.$$eval("article.assistant > .body", (bodies) => bodies.at(-1)?.innerText ?? "");
export const answered = () =>
  page.waitForFunction(() => document.getElementById("stop").hidden, { timeout: 60_000 });
export const kept = () =>
  page.waitForFunction(
    () => window.requests.open === 0 && performance.now() - window.requests.quietSince > 300,
    { timeout: 30_000 },
  );
export const shows = (text) =>
  page.waitForFunction((t) => document.body.innerText.includes(t), { timeout: 30_000 }, text);
// Waits until the conversation has that many messages; its title is listed earlier.
export const hasMessages = (count) =>
  page.waitForFunction(
    (n) => document.querySelectorAll("article").length === n,
    { timeout: 30_000 },
    count,
  );
export const hasText = () =>
  page.waitForFunction(
    () =>
      (document.querySelector("article.assistant:last-child > .body")?.innerText ?? "").length > 20,
    { timeout: 30_000 },
  );

export async function ask(messages) {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ messages }),
  });
  return (await answer.json()).choices[0].message.content;
}

export const event = (delta, reason = null) => {
  const choices = [{ index: 0, delta, finish_reason: reason }];
  return `data: ${JSON.stringify({ choices, x_edgedraft: { tokens: 1, state: "online", provenance: "verified" } })}\n\n`;
};

// Answers the tab's questions with streams that `bodyOf` makes of their messages. Returns the
// messages of each question in order.
export async function answerWith(bodyOf) {
  const asked = [];
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    if (request.url().includes("/v1/stream?")) return request.respond({ status: 204 });
    if (!request.url().endsWith("/v1/chat/completions")) return request.continue();
    asked.push(JSON.parse(request.postData()).messages);
    request.respond({ contentType: "text/event-stream", body: bodyOf(asked.at(-1)) });
  });
  return asked;
}

export const conversations = async () =>
  (await (await fetch(`${url}/v1/edgedraft/conversations`)).json()).data;

beforeEach(async () => {
  faults = [];
  if (skip) return;
  for (const { id } of await conversations()) {
    await fetch(`${url}/v1/edgedraft/conversation?id=${id}`, { method: "DELETE" });
  }
});
