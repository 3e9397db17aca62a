// Opens a report's page, or that of differences, in Chromium and does what a reader does: chromium.mjs CHROMIUM PAGE [FOLDER].
// Prints as JSON what was drawn, opened, sorted and zoomed, what was said on the console, and what was requested; with a FOLDER
// also pictures. CLSCOPE_TEST_AXE names the script of axe-core, which then says what of the page is hard to reach. It speaks the browser's own protocol over pipes. Refuses to judge.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [program, page, folder] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), 'clscope-chromium-'));
const options = ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', `--user-data-dir=${profile}`, '--remote-debugging-pipe', 'about:blank'];
const browser = spawn(program, options, { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
const ended = new Promise(done => browser.on('exit', done));
const waiting = new Map();
const heard = [];
let next = 0;
let rest = '';
browser.stdio[4].setEncoding('utf8').on('data', text => {
  const parts = (rest + text).split('\0');
  rest = parts.pop();
  for (const part of parts) {
    const message = JSON.parse(part);
    const waiter = waiting.get(message.id);
    waiting.delete(message.id);
    if (!waiter) heard.push(message);
    else if (message.error) waiter.fail(new Error(message.error.message));
    else waiter.done(message.result);
  }
});
ended.then(code => { for (const waiter of waiting.values()) waiter.fail(new Error(`the browser ended with ${code}`)); });
let sessionId;
const ask = (method, params = {}) => new Promise((done, fail) => {
  const id = ++next;
  waiting.set(id, { done, fail });
  browser.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
});
const value = async expression => {
  const { result, exceptionDetails } = await ask('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true });
  if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
  return result.value;
};
const until = async expression => {
  for (let i = 0; i < 6000; i++) {
    if (await value(expression)) return true;
    await new Promise(done => setTimeout(done, 10));
  }
  return false;
};
const address = pathToFileURL(resolve(page)).href;
const open = async ready => {
  await ask('Page.navigate', { url: address });
  return until(`location.href === ${JSON.stringify(address)} && document.readyState === 'complete' && (${ready})`);
};
const sized = (width, height) => ask('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 600 });
const coloured = scheme => ask('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
const picture = async name => {
  if (!folder) return;
  const { data } = await ask('Page.captureScreenshot', { captureBeyondViewport: false });
  writeFileSync(join(folder, `${name}.png`), Buffer.from(data, 'base64'));
};

try {
  const { targetInfos } = await ask('Target.getTargets');
  const { targetId } = targetInfos.find(target => target.type === 'page');
  sessionId = (await ask('Target.attachToTarget', { targetId, flatten: true })).sessionId;
  for (const domain of ['Page', 'Runtime', 'Network', 'Log']) await ask(`${domain}.enable`);
  const out = {};
  await sized(1400, 1000);
  out.drawn = await open("!document.scripts.length || document.documentElement.dataset.drawn !== undefined || document.getElementById('told').textContent.includes('could not')");
  const frame = 'await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))';
  if (await value('document.scripts.length')) {
    out.told = await value("document.getElementById('told').textContent");

    // What of the lanes' picture is another one after a key.
    const lanes = "document.getElementById('lanes')";
    const seen = () => value(`(async () => { ${frame}; return ${lanes}.toDataURL(); })()`);
    const press = async key => {
      await ask('Input.dispatchKeyEvent', { type: 'keyDown', key, text: key });
      await ask('Input.dispatchKeyEvent', { type: 'keyUp', key });
      return seen();
    };
    await value(`${lanes}.focus()`);
    const whole = await seen();
    const near = await press('w');
    const aside = await press('d');
    const back = await press('0');
    out.zoom = { zoomed: near !== whole, moved: aside !== near, back: back === whole };
    out.blank = await value(`(() => { const c = ${lanes}; return !new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer).some(x => x !== 0); })()`);

    // Search: `/` goes to the field whatever has the focus, Enter to what was found; `f` fits that, `n` goes on to the next, and
    // a pointer above a span is told its name.
    await value('document.activeElement.blur()');
    const before = await press('/');
    const typed = await value("document.activeElement.id === 'search'");
    const wanted = await value("JSON.parse(document.getElementById('facts').textContent).classes.find((_, i) => JSON.parse(document.getElementById('facts').textContent).ofDevice[i])");
    await ask('Input.insertText', { text: wanted });
    const enter = async () => {
      for (const type of ['keyDown', 'keyUp']) await ask('Input.dispatchKeyEvent', { type, key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 13, text: type === 'keyDown' ? '\r' : undefined });
      return seen();
    };
    const detail = () => value("document.getElementById('detail').textContent");
    const jumped = await enter();
    const found = await detail();
    const none = await value("(() => { const s = document.getElementById('search'); s.value = 'no such name'; s.dispatchEvent(new Event('input')); return document.getElementById('found').textContent; })()");
    await value(`${lanes}.focus()`);
    const fitted = await press('f');
    await press('n');
    const stepped = await detail();
    await press('0');
    out.search = { typed, jumped: jumped !== before, found: found.startsWith(wanted), none, fitted: fitted !== jumped, stepped: stepped !== found };
    const box = await value(`(() => { const b = ${lanes}.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()`);
    out.hover = '';
    for (let y = box[1] + 26; y < box[1] + box[3] && !out.hover; y += 8) {
      for (let x = box[0] + 200; x < box[0] + box[2] && !out.hover; x += 40) {
        await ask('Input.dispatchMouseEvent', { type: 'mouseMoved', x, y });
        out.hover = await value("(() => { const h = document.getElementById('hover'); return h.hidden ? '' : h.textContent; })()");
      }
    }
    await ask('Input.dispatchMouseEvent', { type: 'mouseMoved', x: 1, y: 1 });
    out.legend = await value("[...document.querySelectorAll('#legend li')].map(li => li.textContent)");

    // A kernel's row, and the order of the rows.
    const row = "document.querySelector('#kernels details.kernel')";
    out.opened = await value(`(() => { const row = ${row}; if (!row) return null; const closed = row.offsetHeight; row.querySelector('summary').click(); return row.open && row.offsetHeight > closed + 20; })()`);
    out.sorted = await value("(() => { const table = document.querySelector('#kernels table.sort'); const of = name => [...table.tHead.rows[0].cells].findIndex(c => c.textContent === name); const at = of('Median'); table.tHead.rows[0].cells[at].click(); return [...table.tBodies[0].rows].map(row => row.cells[at].dataset.v); })()");
  }

  // What axe-core finds, in both colours.
  if (process.env.CLSCOPE_TEST_AXE) {
    await value(`${readFileSync(process.env.CLSCOPE_TEST_AXE, 'utf8')}; true`);
    out.axe = {};
    for (const scheme of ['light', 'dark']) {
      await coloured(scheme);
      out.axe[scheme] = await value("axe.run().then(found => found.violations.map(v => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 200), v.nodes[0].any[0]?.message ?? '']))");
    }
    await coloured('light');
  }

  // How far anything reaches out of the page or of its box.
  out.wide = {};
  out.background = {};
  for (const width of [1400, 400]) {
    await sized(width, 1000);
    out.wide[width] = await value(`(async () => { ${frame}; return {
      page: document.documentElement.scrollWidth - innerWidth,
      tables: [...document.querySelectorAll('.wide')].filter(w => w.offsetParent && w.scrollWidth > w.clientWidth + 1).map(w => w.closest('section')?.id ?? '') }; })()`);
    for (const scheme of ['light', 'dark']) {
      await coloured(scheme);
      out.background[scheme] = await value('getComputedStyle(document.body).backgroundColor');
      await sized(width, folder ? Math.min(8000, await value('document.documentElement.scrollHeight')) : 1000);
      await value(`(async () => { dispatchEvent(new Event('resize')); ${frame}; })()`);
      await picture(`${width}-${scheme}`);
    }
  }
  out.requests = heard.filter(m => m.method === 'Network.requestWillBeSent').map(m => m.params.request.url).filter(url => url !== address);
  out.errors = heard.flatMap(({ method, params }) => {
    if (method === 'Runtime.exceptionThrown') return [params.exceptionDetails.exception?.description ?? params.exceptionDetails.text];
    if (method === 'Runtime.consoleAPICalled') return params.args.map(a => String(a.value));
    return method === 'Log.entryAdded' ? [params.entry.text] : [];
  });

  await ask('Emulation.setScriptExecutionDisabled', { value: true });
  await sized(1400, 1000);
  if (out.told !== undefined) out.unscripted = await open('true') && await value("(() => { const shown = e => e && getComputedStyle(e).display !== 'none' && e.getBoundingClientRect().height > 10; return { overview: !!shown(document.querySelector('.unscripted svg')), flame: !!shown(document.querySelector('.flame')), canvas: !!shown(document.getElementById('timeline')), rows: document.querySelector('#kernels table.sort').tBodies[0].rows.length }; })()");
  console.log(JSON.stringify(out));
  await ask('Browser.close').catch(() => {});
} catch (error) {
  console.error(String(error));
  process.exitCode = 1;
} finally {
  browser.kill();
  await ended;
  rmSync(profile, { recursive: true, force: true, maxRetries: 10 });
}
