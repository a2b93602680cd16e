// The package's own chat transport and reader: `reader.mjs PACKAGE API TOKEN PROMPT` prints the last message.
const [name, api, token, prompt] = process.argv.slice(2);
const { DefaultChatTransport, readUIMessageStream } = await import(name);
const transport = new DefaultChatTransport({ api, headers: { authorization: `Bearer ${token}` } });
const messages = [{ id: "m1", role: "user", parts: [{ type: "text", text: prompt }] }];
const stream = await transport.sendMessages({
  trigger: "submit-message", chatId: "chat", messageId: undefined, messages, abortSignal: undefined,
});
const errors = [];
let last, count = 0;
for await (const message of readUIMessageStream({ stream, onError: (error) => errors.push(String(error)) })) {
  last = message;
  count += 1;
}
console.log(JSON.stringify({ message: last, count, errors }));
