'use strict';
(() => {
  const root = document.documentElement;
  const $ = id => document.getElementById(id);
  const read = id => JSON.parse($(id).textContent);

  // Light or dark, as the reader likes it.
  $('theme').addEventListener('click', () => {
    const dark = root.classList.contains('dark') || (!root.classList.contains('light') && matchMedia('(prefers-color-scheme: dark)').matches);
    root.classList.toggle('dark', !dark);
    root.classList.toggle('light', dark);
    draw();
  });

  // Tables: a click on a head sorts by the exact figures behind the cells.
  for (const table of document.querySelectorAll('table.sort')) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.classList.add('sortable');
      head.addEventListener('click', () => {
        const down = head.getAttribute('aria-sort') !== 'descending';
        heads.forEach(other => other.removeAttribute('aria-sort'));
        head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        const key = row => {
          const value = row.cells[column].dataset.v;
          return value === undefined ? row.cells[column].textContent : value === '' ? -Infinity : Number(value);
        };
        const rows = [...table.tBodies[0].rows].map(row => [key(row), row]);
        rows.sort(([a], [b]) => (typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b))) * (down ? -1 : 1));
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }
  const filter = $('filter');
  if (filter) {
    filter.hidden = false;
    filter.addEventListener('input', () => {
      const wanted = filter.value.toLowerCase();
      for (const row of document.querySelectorAll('#kernels tbody tr, #kernels details.kernel')) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
  }

  const bytesOf = id => {
    const text = $(id).textContent;
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    return Uint8Array.from(atob(text), c => c.charCodeAt(0));
  };
  const unpack = async id => new Uint8Array(await new Response(new Blob([bytesOf(id)]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer());
  const save = $('json');
  if ($('report') && typeof DecompressionStream !== 'undefined') {
    save.hidden = false;
    save.addEventListener('click', async () => {
      const link = document.createElement('a');
      link.href = URL.createObjectURL(new Blob([await unpack('report')], { type: 'application/json' }));
      link.download = 'report.json';
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }

  let draw = () => {};
  if (typeof DecompressionStream === 'undefined') {
    $('told').textContent = 'This browser cannot unpack compressed data (DecompressionStream), so that there is no timeline that zooms: the picture and all tables are here.';
    return;
  }

  const time = ns => {
    const a = Math.abs(ns);
    const [scale, unit] = a >= 1e9 ? [1e9, 's'] : a >= 1e6 ? [1e6, 'ms'] : a >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
    return `${(ns / scale).toPrecision(4).replace(/\.?0+$/, '')} ${unit}`;
  };
  // Three digits, no powers of ten.
  const three = x => x.toFixed(Math.abs(x) >= 99.95 ? 0 : Math.abs(x) >= 9.995 ? 1 : 2);
  const scaled = (x, unit) => {
    const a = Math.abs(x);
    const [scale, prefix] = a >= 1e6 ? [1e6, 'M'] : a >= 1e3 ? [1e3, 'k'] : a >= 1 || a === 0 ? [1, ''] : a >= 1e-3 ? [1e-3, 'm'] : a >= 1e-6 ? [1e-6, 'µ'] : [1e-9, 'n'];
    return `${three(x / scale)} ${prefix}${unit}`;
  };
  const colour = (index, device) => device ? `hsl(${(index * 137.5 + 20) % 360} 62% 58%)` : `hsl(${(index * 137.5 + 200) % 360} 22% 62%)`;

  (async () => {
    const facts = read('facts');
    const raw = await unpack('spans');
    const total = facts.lanes.reduce((sum, lane) => sum + lane.spans, 0);
    const column = index => {
      const at = byte => raw.subarray((index * 4 + byte) * total, (index * 4 + byte + 1) * total);
      const [a, b, c, d] = [at(0), at(1), at(2), at(3)];
      const out = new Uint32Array(total);
      for (let i = 0; i < total; i++) out[i] = a[i] | b[i] << 8 | c[i] << 16 | d[i] << 24;
      return out;
    };
    const [gap, gapHigh, length, lengthHigh, kind, since, sinceHigh, from, joined, bits] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(column);
    // Of spans that were joined, their mean watts.
    const mean = new Float32Array(bits.buffer);
    const begin = new Float64Array(total);
    const end = new Float64Array(total);
    const lanes = [];
    let next = 0;
    for (const lane of facts.lanes) {
      let at = 0;
      let longest = 0;
      const first = next;
      for (; next < first + lane.spans; next++) {
        at += gap[next] + gapHigh[next] * 4294967296;
        begin[next] = at;
        const ns = length[next] + lengthHigh[next] * 4294967296;
        end[next] = at + ns;
        if (ns > longest) longest = ns;
      }
      lanes.push({ ...lane, first, last: next, longest });
    }
    const whole = Math.max(facts.length, 1);
    // The same name has the same colour, whichever device it ran on.
    const firsts = new Map();
    const colours = facts.classes.map((name, index) => {
      const key = `${facts.ofDevice[index]} ${name}`;
      if (!firsts.has(key)) firsts.set(key, index);
      return colour(firsts.get(key), facts.ofDevice[index]);
    });
    const rows = [];
    // Power stands above what runs, in the same time; clocks, temperatures and counters below.
    const isPower = series => series.unit === 'W';
    const watts = facts.watts.map(w => w ?? 0);
    const attributed = watts.some(w => w > 0);
    for (const series of facts.power.filter(isPower)) rows.push({ series });
    if (attributed) rows.push({ attributed: true });
    let group = '';
    for (const lane of lanes) {
      if (lane.group !== group) rows.push({ title: group = lane.group });
      rows.push({ lane });
    }
    const drawnWatts = i => (joined[i] > 1 ? mean[i] : watts[kind[i]]);
    const delay = i => since[i] + sinceHigh[i] * 4294967296;
    for (const series of facts.power.filter(series => !isPower(series))) rows.push({ series });
    const shownOf = series => {
      const top = Math.max(...series.points.map(p => p[1]));
      return series.unit === 'W' ? scaled(top, 'W') : `${three(top)} ${series.unit}`;
    };
    // What is written above a curve.
    const LABEL = 14;
    const HEIGHT = { lane: 20, title: 18, series: 48, attributed: 60 };
    const height = row => row.lane ? HEIGHT.lane : row.title !== undefined ? HEIGHT.title : row.series ? HEIGHT.series : HEIGHT.attributed;
    let view = [0, whole];
    let chosen = -1;
    const canvas = $('lanes');
    const overview = $('overview');
    const label = () => Math.min(190, canvas.clientWidth * .3);
    canvas.style.height = `${rows.reduce((sum, row) => sum + height(row), 22)}px`;
    const pen = surface => {
      const scale = devicePixelRatio || 1;
      const [w, h] = [surface.clientWidth, surface.clientHeight];
      if (surface.width !== Math.round(w * scale)) surface.width = Math.round(w * scale);
      if (surface.height !== Math.round(h * scale)) surface.height = Math.round(h * scale);
      const context = surface.getContext('2d');
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, w, h);
      return [context, w, h];
    };
    // First span of a lane that may reach `at`.
    const seek = (lane, at) => {
      let [low, high] = [lane.first, lane.last];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (begin[middle] < at - lane.longest) low = middle + 1;
        else high = middle;
      }
      return low;
    };
    // Busy share and dominant class of each pixel. Where pixels are coarse the spans are sampled evenly, so that a picture takes
    // the same time whatever it shows.
    const LIMIT = 400000;
    const laneY = new Map();
    // What stands for several spans is hatched.
    const stripes = document.createElement('canvas');
    stripes.width = stripes.height = 6;
    const stripe = stripes.getContext('2d');
    stripe.strokeStyle = 'rgba(0, 0, 0, .45)';
    stripe.beginPath();
    for (const from of [-6, 0, 6]) { stripe.moveTo(from, 6); stripe.lineTo(from + 6, 0); }
    stripe.stroke();
    draw = () => {
      const style = getComputedStyle(root);
      const [fg, soft, line, accent, warm] = ['--fg', '--soft', '--line', '--accent', '--warm'].map(name => style.getPropertyValue(name));
      const [c, w] = pen(canvas);
      const left = label();
      const span = view[1] - view[0];
      const x = at => left + (at - view[0]) / span * (w - left);
      c.font = '12px system-ui, sans-serif';
      c.textBaseline = 'middle';
      const fit = (text, room) => {
        if (c.measureText(text).width <= room) return text;
        // Names that begin alike end differently: both ends are kept.
        const n = Math.max(0, Math.floor(text.length * room / c.measureText(text).width) - 1);
        return n > 2 ? `${text.slice(0, Math.ceil(n / 2))}…${text.slice(text.length - Math.floor(n / 2))}` : '';
      };
      const step = 10 ** Math.floor(Math.log10(span / 4)) || 1;
      const tick = [1, 2, 5, 10].map(n => n * step).find(n => span / n <= Math.max(2, w / 130)) || step * 10;
      for (let at = Math.ceil(view[0] / tick) * tick; at <= view[1]; at += tick) {
        c.fillStyle = line;
        c.fillRect(x(at), 0, 1, canvas.clientHeight);
        c.fillStyle = soft;
        c.fillText(time(at), x(at) + 3, 10);
      }
      let y = 22;
      for (const row of rows) {
        const h = height(row);
        c.fillStyle = row.title !== undefined ? soft : fg;
        // A curve's name stands above it, in full: cut ones would read alike.
        const name = row.title ?? row.lane?.name ?? '';
        c.fillText(fit(name, left - (row.title !== undefined ? 8 : 16)), row.title !== undefined ? 2 : 10, y + Math.min(h, 20) / 2);
        let peak = '';
        c.save();
        c.beginPath();
        c.rect(left, y, w - left, h);
        c.clip();
        if (row.lane) {
          const lane = row.lane;
          laneY.set(lane, y);
          const [low, high] = [seek(lane, view[0]), seek(lane, view[1] + lane.longest)];
          const stride = Math.max(1, Math.ceil((high - low) / LIMIT));
          let drawn = left - 1;
          for (let i = low; i < high; i += stride) {
            if (end[i] < view[0] || begin[i] > view[1]) continue;
            const a = x(begin[i]);
            const b = x(end[i]);
            if (b <= drawn) continue;
            const from = Math.max(a, drawn);
            const width = Math.max(b - from, .7);
            c.fillStyle = colours[kind[i]];
            c.fillRect(from, y + 2, width, h - 4);
            if (joined[i] > 1 && width > 3) {
              c.fillStyle = c.createPattern(stripes, 'repeat') ?? c.fillStyle;
              c.fillRect(from, y + 2, width, h - 4);
            }
            drawn = from + Math.min(width, .7);
            if (b - a > 40) {
              c.fillStyle = '#14171a';
              c.fillText(fit(facts.classes[kind[i]], b - Math.max(a, left) - 6), Math.max(a, left) + 3, y + h / 2);
            }
          }
          if (chosen >= lane.first && chosen < lane.last) {
            c.strokeStyle = fg;
            c.lineWidth = 2;
            c.strokeRect(x(begin[chosen]), y + 1, Math.max(2, x(end[chosen]) - x(begin[chosen])), h - 2);
            if (lane.device && facts.bound) {
              c.fillStyle = fg;
              c.globalAlpha = .35;
              for (const at of [begin[chosen], end[chosen]]) c.fillRect(x(at - facts.bound), y + h - 5, Math.max(1, x(at + facts.bound) - x(at - facts.bound)), 4);
              c.globalAlpha = 1;
            }
          }
        } else if (row.series) {
          const points = row.series.points;
          const top = Math.max(...points.map(p => p[1]), 1e-9);
          c.strokeStyle = warm;
          c.lineWidth = 1.5;
          c.beginPath();
          let last;
          for (const [at, value] of points) {
            if (value === null) { // From here on it is not known.
              if (last !== undefined) c.lineTo(x(at), last);
              last = undefined;
              continue;
            }
            const py = y + h - 3 - value / top * (h - 8 - LABEL);
            if (last === undefined) c.moveTo(x(at), py);
            else { c.lineTo(x(at), last); c.lineTo(x(at), py); }
            last = py;
          }
          c.stroke();
          c.fillStyle = soft;
        } else if (row.attributed) {
          const pixels = Math.max(1, Math.floor(w - left));
          const sums = Array.from({ length: facts.classes.length }, () => null);
          for (const lane of lanes.filter(l => l.device)) {
            const [low, high] = [seek(lane, view[0]), seek(lane, view[1] + lane.longest)];
            const stride = Math.max(1, Math.ceil((high - low) / LIMIT));
            for (let i = low; i < high; i += stride) {
              const power = drawnWatts(i);
              if (!power) continue;
              const sum = sums[kind[i]] ??= new Float64Array(pixels);
              let [a, b] = [(begin[i] - view[0]) / span * pixels, (end[i] - view[0]) / span * pixels];
              a = Math.max(a, 0);
              b = Math.min(b, pixels);
              for (let p = Math.floor(a); p < b && p < pixels; p++) sum[p] += Math.max(0, Math.min(b, p + 1) - Math.max(a, p)) * stride * power;
            }
          }
          const stack = new Float64Array(pixels);
          const all = new Float64Array(pixels);
          for (const sum of sums) if (sum) sum.forEach((v, p) => { all[p] += v; });
          const top = Math.max(1e-9, ...all);
          sums.forEach((sum, index) => {
            if (!sum) return;
            c.fillStyle = colours[index];
            for (let p = 0; p < pixels; p++) {
              if (!sum[p]) continue;
              const hh = sum[p] / top * (h - 8 - LABEL);
              c.fillRect(left + p, y + h - 3 - stack[p] - hh, 1, hh);
              stack[p] += hh;
            }
          });
          c.fillStyle = soft;
          peak = scaled(top, 'W');
        }
        c.restore();
        if (row.series || row.attributed) {
          const title = row.series?.name ?? (facts.partial ? 'attributed to timed commands' : 'attributed to commands');
          c.fillStyle = soft;
          const without = !row.series && facts.sums ? `, without ${facts.sums} known only as sums` : '';
          c.fillText(fit(`${title}: up to ${row.series ? shownOf(row.series) : peak}${without}`, w - 14), 10, y + 9);
        }
        y += h;
      }
      // From the enqueue to the command that is chosen.
      const lane = lanes.find(l => chosen >= l.first && chosen < l.last);
      if (lane?.device && delay(chosen)) {
        const caller = lanes.find(l => !l.device && l.thread === from[chosen] && l.process === lane.process);
        if (caller) {
          c.strokeStyle = accent;
          c.lineWidth = 1.5;
          c.beginPath();
          c.moveTo(x(begin[chosen] - delay(chosen)), laneY.get(caller) + 18);
          c.lineTo(x(begin[chosen]), laneY.get(lane) + 3);
          c.stroke();
        }
      }
      const [o, ow, oh] = pen(overview);
      const busy = facts.busy;
      busy.forEach((share, bin) => {
        o.fillStyle = style.getPropertyValue('--bar');
        const bar = share * (oh - 4);
        o.fillRect(left + bin / busy.length * (ow - left), oh - bar, (ow - left) / busy.length + .5, bar);
      });
      o.fillStyle = soft;
      o.font = '12px system-ui, sans-serif';
      o.fillText(fit(facts.partial ? 'timed commands' : 'devices busy', left - 10), 2, 14);
      if (span < whole) {
        o.fillStyle = accent;
        o.globalAlpha = .25;
        o.fillRect(left + view[0] / whole * (ow - left), 0, Math.max(2, span / whole * (ow - left)), oh);
        o.globalAlpha = 1;
      }
    };
    let waiting = false;
    const redraw = () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; draw(); });
    };
    const set = (a, b) => {
      const span = Math.min(Math.max(b - a, 10), whole);
      a = Math.min(Math.max(a, 0), whole - span);
      view = [a, a + span];
      redraw();
    };
    const at = event => {
      const box = canvas.getBoundingClientRect();
      return view[0] + (event.clientX - box.left - label()) / (box.width - label()) * (view[1] - view[0]);
    };
    const zoom = (middle, factor) => set(middle - (middle - view[0]) * factor, middle + (view[1] - middle) * factor);
    canvas.addEventListener('wheel', event => {
      if (!event.ctrlKey && !event.metaKey && !canvas.classList.contains('held')) return;
      event.preventDefault();
      zoom(at(event), event.deltaY > 0 ? 1.25 : .8);
    }, { passive: false });
    const touches = new Map();
    let moved = 0;
    canvas.addEventListener('pointerdown', event => { touches.set(event.pointerId, event); canvas.setPointerCapture(event.pointerId); canvas.classList.add('held'); canvas.focus(); moved = 0; });
    canvas.addEventListener('pointermove', event => {
      const last = touches.get(event.pointerId);
      if (!last) return;
      const perPixel = (view[1] - view[0]) / (canvas.clientWidth - label());
      if (touches.size === 1) set(view[0] - (event.clientX - last.clientX) * perPixel, view[1] - (event.clientX - last.clientX) * perPixel);
      else {
        const other = [...touches].find(([id]) => id !== event.pointerId)[1];
        const [before, after] = [Math.abs(last.clientX - other.clientX), Math.abs(event.clientX - other.clientX)];
        if (before > 8 && after > 8) zoom((at(event) + at(other)) / 2, before / after);
      }
      moved += Math.abs(event.clientX - last.clientX);
      touches.set(event.pointerId, event);
    });
    const describe = index => {
      const lane = lanes.find(l => index >= l.first && index < l.last);
      const parts = [facts.classes[kind[index]], `${lane.group}, ${lane.name}`, `begin ${time(begin[index])}`, `length ${time(end[index] - begin[index])}`];
      if (lane.repeated) parts.push(`${joined[index]} repetitions by clscope, no part of the application's time and joules`);
      else if (joined[index] > 1) parts.push(`${joined[index]} spans, drawn as one`);
      else if (lane.device) {
        parts.push(`${time(delay(index))} after its call began`);
        const power = watts[kind[index]];
        const half = facts.wattsHalf[kind[index]];
        const seconds = (end[index] - begin[index]) * 1e-9;
        if (power) parts.push(half === null ? `${scaled(seconds * power, 'J')} at ${scaled(power, 'W')}` : `${scaled(seconds * power, 'J')} ± ${scaled(seconds * half, 'J')} at ${scaled(power, 'W')} ± ${scaled(half, 'W')} (95 %)`);
        if (facts.bound) parts.push(`clock bound ±${time(facts.bound)}`);
      }
      return parts.join(' · ');
    };
    const told = index => {
      chosen = index;
      $('detail').textContent = index < 0 ? 'Click a span for its times.' : describe(index);
      redraw();
    };
    // The span below a pointer.
    const below = event => {
      const box = canvas.getBoundingClientRect();
      const slack = (view[1] - view[0]) / box.width * 3;
      let y = 22;
      for (const row of rows) {
        const h = height(row);
        if (row.lane && event.clientY - box.top >= y && event.clientY - box.top < y + h) {
          const t = at(event);
          let best = -1;
          for (let i = seek(row.lane, t - slack); i < row.lane.last && begin[i] <= t + slack; i++) if (end[i] >= t - slack && (best < 0 || end[i] - begin[i] < end[best] - begin[best])) best = i;
          return best;
        }
        y += h;
      }
      return -1;
    };
    canvas.addEventListener('pointerup', event => {
      touches.delete(event.pointerId);
      if (moved <= 4) told(below(event));
    });
    const hover = $('hover');
    canvas.addEventListener('pointermove', event => {
      const index = touches.size ? -1 : below(event);
      hover.hidden = index < 0;
      if (index < 0) return;
      hover.textContent = describe(index);
      const box = canvas.getBoundingClientRect();
      const left = event.clientX - box.left;
      hover.style.left = `${Math.max(0, Math.min(left + 12, box.width - hover.offsetWidth - 4))}px`;
      hover.style.top = `${event.clientY - box.top + 16}px`;
    });
    canvas.addEventListener('pointerleave', () => { hover.hidden = true; });
    // A span, with some room round it.
    const fit = index => {
      const room = Math.max((end[index] - begin[index]) * .1, 5);
      set(begin[index] - room, end[index] + room);
    };
    // Chooses a span and brings it into sight, where it is not.
    const show = index => {
      const span = view[1] - view[0];
      const length = end[index] - begin[index];
      if (length > span || length < span / 400) {
        const middle = (begin[index] + end[index]) / 2;
        const wide = Math.max(length * 12, 20);
        set(middle - wide / 2, middle + wide / 2);
      } else if (begin[index] < view[0] || end[index] > view[1]) set(begin[index] - span / 2, begin[index] + span / 2);
      told(index);
    };
    const search = $('search');
    let hits = [];
    const seekHits = () => {
      const wanted = search.value.toLowerCase();
      const kinds = facts.classes.map(name => wanted !== '' && name.toLowerCase().includes(wanted));
      hits = [];
      for (let i = 0; i < total; i++) if (kinds[kind[i]]) hits.push(i);
      hits.sort((a, b) => begin[a] - begin[b]);
      $('found').textContent = wanted === '' ? '' : hits.length ? `${hits.length} found, Enter goes to the next` : 'nothing has such a name';
    };
    search.addEventListener('input', seekHits);
    search.addEventListener('keydown', event => {
      if (event.key === 'Escape') canvas.focus();
      if (event.key !== 'Enter' || !hits.length) return;
      event.preventDefault();
      const here = hits.indexOf(chosen);
      const next = here < 0 ? 0 : (here + (event.shiftKey ? hits.length - 1 : 1)) % hits.length;
      show(hits[next]);
      $('found').textContent = `${next + 1} of ${hits.length}`;
    });
    // The next or the last span of the chosen row; of none the first that is in sight.
    const step = by => {
      const lane = lanes.find(l => chosen >= l.first && chosen < l.last) ?? lanes.find(l => l.spans);
      if (!lane) return;
      const first = Math.min(seek(lane, view[0] + lane.longest), lane.last - 1);
      const next = chosen < lane.first || chosen >= lane.last ? first : chosen + by;
      if (next >= lane.first && next < lane.last) show(next);
    };
    addEventListener('keydown', event => {
      if (/^(input|textarea|select)$/i.test(event.target?.tagName ?? '') || event.ctrlKey || event.metaKey || event.altKey) return;
      const keys = { '/': () => search.focus(), f: () => (chosen < 0 ? set(0, whole) : fit(chosen)), n: () => step(1), p: () => step(-1) };
      if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
    });
    // Colours by what took the most time.
    const took = facts.classes.map(() => 0);
    for (let i = 0; i < total; i++) took[kind[i]] += end[i] - begin[i];
    const legend = $('legend');
    const keyed = facts.classes.map((_, index) => index).filter(index => took[index] > 0).sort((a, b) => facts.ofDevice[b] - facts.ofDevice[a] || took[b] - took[a]);
    for (const index of keyed.slice(0, 12)) {
      const item = document.createElement('li');
      const box = document.createElement('span');
      box.style.background = colours[index];
      item.append(box, facts.classes[index]);
      legend.append(item);
    }
    canvas.addEventListener('pointercancel', event => touches.delete(event.pointerId));
    canvas.addEventListener('blur', () => canvas.classList.remove('held'));
    canvas.addEventListener('keydown', event => {
      const span = view[1] - view[0];
      const middle = (view[0] + view[1]) / 2;
      const keys = { w: () => zoom(middle, .6), s: () => zoom(middle, 1 / .6), a: () => set(view[0] - span / 4, view[1] - span / 4), d: () => set(view[0] + span / 4, view[1] + span / 4), '+': () => zoom(middle, .6), '-': () => zoom(middle, 1 / .6), ArrowLeft: () => set(view[0] - span / 4, view[1] - span / 4), ArrowRight: () => set(view[0] + span / 4, view[1] + span / 4), 0: () => set(0, whole) };
      if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
    });
    let dragged;
    const over = event => {
      const box = overview.getBoundingClientRect();
      return (event.clientX - box.left - label()) / (box.width - label()) * whole;
    };
    overview.addEventListener('pointerdown', event => { dragged = over(event); overview.setPointerCapture(event.pointerId); });
    overview.addEventListener('pointermove', event => { if (dragged !== undefined) set(Math.min(dragged, over(event)), Math.max(dragged, over(event))); });
    overview.addEventListener('pointerup', () => { dragged = undefined; });
    $('all').addEventListener('click', () => set(0, whole));
    $('in').addEventListener('click', () => zoom((view[0] + view[1]) / 2, .5));
    $('out').addEventListener('click', () => zoom((view[0] + view[1]) / 2, 2));
    addEventListener('resize', redraw);
    root.classList.add('scripted');
    draw();
    told(-1);
    root.dataset.drawn = String(performance.now());
  })().catch(error => { $('told').textContent = `The timeline could not be drawn: ${error}`; });
})();
