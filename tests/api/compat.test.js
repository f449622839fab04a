// compatcanary's probes of endpoints that claim to be compatible.
import assert from "node:assert/strict";
import test from "node:test";
import { scanEndpoint } from "compatcanary";

test("the chat profile of compatcanary passes", async () => {
  const models = await (await fetch(`${process.env.EDGEDRAFT_API}/models`)).json();
  const report = await scanEndpoint({
    baseUrl: process.env.EDGEDRAFT_API,
    model: models.data[0].id,
    profile: "chat",
  });
  assert.ok(report.results.length >= 5);
  for (const result of report.results) {
    assert.equal(result.status, "pass", `${result.id}: ${result.summary}`);
  }
});
