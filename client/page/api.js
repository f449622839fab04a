// The local API, as this page uses it.

let key = sessionStorage.getItem("key");
let askForKey = async () => null;
let isDeclined = false; // The user gave no key; only the next question asks again.

// An error reported by the endpoint, as opposed to a lost connection or a proxy's error.
export class EndpointError extends Error {}

export function onKeyWanted(ask) {
  askForKey = ask;
}

// A key that is not a valid header value is dropped.
function withKey(given) {
  const headers = new Headers(given);
  try {
    if (key) headers.set("Authorization", `Bearer ${key}`);
  } catch {
    key = null;
  }
  return headers;
}

async function request(path, options = {}) {
  for (;;) {
    const headers = withKey(options.headers);
    const tried = key;
    const answer = await fetch(path, { ...options, headers });
    if (answer.status !== 401) {
      if (tried) sessionStorage.setItem("key", tried);
      return answer;
    }
    key = isDeclined ? null : await askForKey();
    isDeclined = !key;
    if (!key) return answer;
  }
}

async function parsed(answer) {
  const body = await answer.json().catch(() => null);
  if (answer.ok) return body;
  if (body?.error?.message) throw new EndpointError(body.error.message);
  throw new Error(`the endpoint returned status ${answer.status}`);
}

export const listConversations = async () =>
  (await parsed(await request("/v1/edgedraft/conversations"))).data;

export async function readConversation(id) {
  const answer = await request(`/v1/edgedraft/conversation?id=${id}`);
  return answer.status === 404 ? null : parsed(answer);
}

// Returns false if it was deleted, such as in another tab; it is not stored again.
export async function keepConversation(id, conversation) {
  const answer = await request(`/v1/edgedraft/conversation?id=${id}`, {
    method: "PUT",
    body: JSON.stringify(conversation),
  });
  if (answer.status === 410) return false;
  await parsed(answer);
  return true;
}

// A missing one was never kept, or is already deleted.
export async function removeConversation(id) {
  const answer = await request(`/v1/edgedraft/conversation?id=${id}`, { method: "DELETE" });
  if (answer.status !== 404) await parsed(answer);
}

// Without a chosen mode, the endpoint's default holds.
const asked = (messages, mode) => (mode ? { messages, private: mode } : { messages });

// Returns the messages as they would be sent.
export const preview = async (messages, mode) =>
  parsed(
    await request("/v1/edgedraft/preview", {
      method: "POST",
      body: JSON.stringify(asked(messages, mode)),
    }),
  );

export const uplink = async (since) =>
  (await parsed(await request(`/v1/edgedraft/uplink?since=${since}`))).data;

// Returns whether the endpoint is connected to its network; an argument connects or disconnects it.
export const plugged = async (wanted) =>
  (
    await parsed(
      await request(
        "/v1/edgedraft/link",
        wanted === undefined ? {} : { method: "PUT", body: JSON.stringify({ plugged: wanted }) },
      ),
    )
  ).plugged;

// Yields the JSON events of a stream, which another page may have begun.
async function* events(answer) {
  if (!answer.ok) await parsed(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const lines = text.split("\n");
    text = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
      const event = JSON.parse(line.slice(6));
      if (event.error) throw new EndpointError(event.error.message);
      yield event;
    }
  }
}

// Asks for an answer, which the endpoint completes and keeps under `name` even if this page closes.
export async function* ask(name, messages, mode, signal) {
  isDeclined = false;
  yield* events(
    await request("/v1/chat/completions", {
      method: "POST",
      signal,
      headers: { "X-Conversation-Id": name },
      body: JSON.stringify({ ...asked(messages, mode), stream: true, offline: "revise" }),
    }),
  );
}

// Reads that answer from its start, while it is kept.
export async function* resume(name, signal) {
  const answer = await request(`/v1/stream?conv_id=${name}&from=0`, { signal });
  if (answer.status === 404) throw new EndpointError("the answer was interrupted");
  yield* events(answer);
}

export const forget = (name) => request(`/v1/stream?conv_id=${name}`, { method: "DELETE" });
