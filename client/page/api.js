// The endpoint, as this page uses it.

let key = sessionStorage.getItem("key");
let askForKey = async () => null;
let isDeclined = false; // The user gave none, and is asked again with the next question alone.

// What the endpoint says is wrong, other than a connection that breaks off, or what a proxy says.
export class EndpointError extends Error {}

export function onKeyWanted(ask) {
  askForKey = ask;
}

// A key that no header can carry opens nothing, and is forgotten.
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
  throw new Error(`the endpoint answered ${answer.status}`);
}

export const listConversations = async () =>
  (await parsed(await request("/v1/edgedraft/conversations"))).data;

export async function readConversation(id) {
  const answer = await request(`/v1/edgedraft/conversation?id=${id}`);
  return answer.status === 404 ? null : parsed(answer);
}

// False for one that was deleted, in another tab perhaps: it is not put back.
export async function keepConversation(id, conversation) {
  const answer = await request(`/v1/edgedraft/conversation?id=${id}`, {
    method: "PUT",
    body: JSON.stringify(conversation),
  });
  if (answer.status === 410) return false;
  await parsed(answer);
  return true;
}

// One that is not there was never kept, or is deleted already.
export async function removeConversation(id) {
  const answer = await request(`/v1/edgedraft/conversation?id=${id}`, { method: "DELETE" });
  if (answer.status !== 404) await parsed(answer);
}

// Where no mode was chosen the endpoint's own holds.
const asked = (messages, mode) => (mode ? { messages, private: mode } : { messages });

// What would be sent of these messages.
export const preview = async (messages, mode) =>
  parsed(
    await request("/v1/edgedraft/preview", {
      method: "POST",
      body: JSON.stringify(asked(messages, mode)),
    }),
  );

export const uplink = async (since) =>
  (await parsed(await request(`/v1/edgedraft/uplink?since=${since}`))).data;

// Whether the endpoint has its network; with an argument, whether it is to have it.
export const plugged = async (wanted) =>
  (
    await parsed(
      await request(
        "/v1/edgedraft/link",
        wanted === undefined ? {} : { method: "PUT", body: JSON.stringify({ plugged: wanted }) },
      ),
    )
  ).plugged;

// The JSON events of a stream, which others may have begun.
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

// An answer, written on and kept under `name` whatever becomes of this page.
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

// The same from its beginning, while it is kept.
export async function* resume(name, signal) {
  const answer = await request(`/v1/stream?conv_id=${name}&from=0`, { signal });
  if (answer.status === 404) throw new EndpointError("the answer was broken off");
  yield* events(answer);
}

export const forget = (name) => request(`/v1/stream?conv_id=${name}`, { method: "DELETE" });
