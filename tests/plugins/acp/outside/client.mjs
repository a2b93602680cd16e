// The TypeScript SDK as the client of agh: it checks every message by its own schema.
//
// client.mjs SDK_DIRECTORY CWD BUFFER stdio COMMAND…
// client.mjs SDK_DIRECTORY CWD BUFFER ws|http URL TOKEN
//
// Prints what it saw as JSON. BUFFER is a file of which the editor has an unsaved version.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [directory, cwd, buffer, transport, ...target] = process.argv.slice(2);
const require = createRequire(`${directory}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const acp = await load("@agentclientprotocol/sdk");

async function open() {
  if (transport === "stdio") {
    const program = spawn(target[0], target.slice(1), { stdio: ["pipe", "pipe", "inherit"], cwd });
    const stream = acp.ndJsonStream(Writable.toWeb(program.stdin), Readable.toWeb(program.stdout));
    return { stream, close: () => program.stdin.end() };
  }
  const headers = { Authorization: `Bearer ${target[1]}` };
  if (transport === "ws") {
    const { createWebSocketStream } = await load("@agentclientprotocol/sdk/experimental/ws-client");
    const { default: WebSocket } = await load("ws");
    return { stream: createWebSocketStream(target[0], { headers, WebSocket }), close: () => {} };
  }
  const { createHttpStream } = await load("@agentclientprotocol/sdk/experimental/http-client");
  return { stream: createHttpStream(target[0], { headers }), close: () => {} };
}

const seen = { updates: [], permissions: 0, reads: 0 };
const app = acp
  .client({ name: "editor" })
  .onNotification("session/update", ({ params }) => void seen.updates.push(params.update))
  .onRequest("fs/read_text_file", () => {
    seen.reads += 1;
    return { content: "not saved" };
  })
  .onRequest("session/request_permission", ({ params }) => {
    seen.permissions += 1;
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  });

const text = () =>
  seen.updates
    .filter((update) => update.sessionUpdate === "agent_message_chunk")
    .map((update) => update.content.text)
    .join("");
const block = (words) => [{ type: "text", text: words }];
const connect = async (work) => {
  const { stream, close } = await open();
  try {
    await app.connectWith(stream, async (agent) => {
      const answer = await agent.request("initialize", {
        protocolVersion: acp.PROTOCOL_VERSION,
        clientCapabilities: { fs: { readTextFile: true, writeTextFile: false }, terminal: false },
      });
      await work(agent, answer);
    });
  } finally {
    close();
  }
};

const result = {};
await connect(async (agent, answer) => {
  result.version = answer.protocolVersion;
  const { sessionId } = await agent.request("session/new", { cwd, mcpServers: [] });
  result.sessionId = sessionId;
  const prompt = (words) => agent.request("session/prompt", { sessionId, prompt: block(words) });
  result.stopReason = (await prompt("hello from the SDK")).stopReason;
  result.hello = text();
  await prompt("/ask Write the file");
  result.permissions = seen.permissions;
  seen.updates.length = 0;
  await prompt(`/read ${buffer}`);
  result.read = text();
  const { sessions } = await agent.request("session/list", { cwd });
  result.listed = sessions.map((session) => session.sessionId);
  await agent.request("session/set_mode", { sessionId, modeId: "code" });
  seen.updates.length = 0;
  const slow = prompt("/stream 1000 0.05");
  while (!text().includes("chunk 2 ")) await new Promise((resolve) => setTimeout(resolve, 10));
  await agent.notify("session/cancel", { sessionId });
  result.cancelled = (await slow).stopReason;
});
await connect(async (agent) => {
  const { sessionId } = result;
  seen.updates.length = 0;
  await agent.request("session/load", { sessionId, cwd, mcpServers: [] });
  result.loaded = seen.updates
    .filter((update) => update.sessionUpdate === "user_message_chunk")
    .map((update) => update.content.text);
  seen.updates.length = 0;
  await agent.request("session/resume", { sessionId, cwd, mcpServers: [] });
  await agent.request("session/prompt", { sessionId, prompt: block("what did i say?") });
  result.recalled = text();
  await agent.request("session/close", { sessionId });
});
console.log(JSON.stringify(result));
process.exit(0);
