// Requests and readers shared by several tests, without a client library.
export const api = process.env.EDGEDRAFT_API;
export const root = api.replace(/\/v1$/, "");

export const ask = async (path, body, headers = {}, base = root) => {
  const answer = await fetch(base + path, {
    method: body === undefined ? "GET" : "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, text, json: () => JSON.parse(text) };
};

export const events = (text) =>
  text
    .split("\n\n")
    .filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice(6)));

export const user = (content) => [{ role: "user", content }];
export const story = user("Tell me a story about a dog and a ball.");
