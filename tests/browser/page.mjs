// Runs the script of a report's page in Node, on elements that only keep what is done to them: page.mjs PAGE. Prints as JSON what
// the script read, what it drew, and what it says of each span of a small page when that is clicked. Refuses to judge.
import { readFileSync } from 'node:fs';

const page = readFileSync(process.argv[2], 'utf8');
const texts = {};
for (const [, id, text] of page.matchAll(/<script type="application\/[a-z-]+" id="(\w+)">([^<]*)<\/script>/g)) texts[id] = text;
const script = page.match(/<script>([\s\S]*?)<\/script>/)[1];
const WIDTH = 1000;

const drawn = { texts: [], boxes: 0 };
const context = new Proxy({}, {
  get: (own, name) => ({
    measureText: text => ({ width: 7 * text.length }),
    fillText: (text, x, y) => drawn.texts.push([text, x, y]),
    fillRect: () => { drawn.boxes += 1; },
  })[name] ?? own[name] ?? (() => {}),
});
class Element {
  constructor(id) {
    Object.assign(this, { id, textContent: texts[id] ?? '', style: {}, dataset: {}, hidden: false, heard: {} });
    this.classes = new Set();
    this.classList = { add: c => this.classes.add(c), remove: c => this.classes.delete(c), contains: c => this.classes.has(c), toggle: c => this.classes.add(c) };
  }
  addEventListener(name, hear) { this.heard[name] = hear; }
  getContext() { return context; }
  getBoundingClientRect() { return { left: 0, top: 0, width: this.clientWidth, height: this.clientHeight }; }
  setPointerCapture() {}
  focus() {}
  append() {}
  get clientWidth() { return WIDTH; }
  get clientHeight() { return parseFloat(this.style.height) || 48; }
}
const elements = new Map();
const element = id => {
  if (!elements.has(id)) elements.set(id, new Element(id));
  return elements.get(id);
};
const root = new Element('root');
Object.assign(globalThis, {
  document: { documentElement: root, getElementById: id => (id in texts || page.includes(`id="${id}"`) ? element(id) : null), querySelectorAll: () => [], createElement: () => new Element('made') },
  getComputedStyle: () => ({ getPropertyValue: () => '#000' }),
  matchMedia: () => ({ matches: false }),
  devicePixelRatio: 1,
  addEventListener: () => {},
  // The first picture is what is looked at; those after clicks are not drawn.
  requestAnimationFrame: () => {},
});
(0, eval)(script);
for (let i = 0; i < 1000 && root.dataset.drawn === undefined && !element('told').textContent.startsWith('The timeline could'); i++) await new Promise(done => setTimeout(done, 10));

// A click on every few pixels of every lane finds what is there.
const facts = JSON.parse(texts.facts);
const canvas = element('lanes');
const said = new Set();
const first = { ...drawn, texts: [...drawn.texts] };
for (let y = 24; y < canvas.clientHeight && root.dataset.drawn !== undefined; y += 6) {
  for (let x = 191; x < WIDTH; x += 1) {
    const event = { pointerId: 1, clientX: x, clientY: y };
    canvas.heard.pointerdown(event);
    canvas.heard.pointerup(event);
    said.add(element('detail').textContent);
  }
}
console.log(JSON.stringify({ drawn: root.dataset.drawn !== undefined, told: element('told').textContent, facts, texts: first.texts.map(t => t[0]), boxes: first.boxes, said: [...said] }));
