// Draws a panel of a figure as SVG, on the page and for saving.

const NS = 'http://www.w3.org/2000/svg';
const FONT = '12px system-ui, sans-serif';
const paper = document.createElement('canvas').getContext('2d');

function widthOf(text) {
  paper.font = FONT;
  return paper.measureText(text).width;
}

const widest = texts => Math.max(0, ...texts.map(widthOf));

function element(parent, name, attributes = {}, text) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

// Numbers with three digits that count and a unit, as the tables have them.
function short(value) {
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size < 1e-6 || size >= 1e15) return value.toExponential(1);
  if (size >= 999.5e6) return short(value / 1e9) + ' G';
  if (size >= 999.5e3) return short(value / 1e6) + ' M';
  if (size >= 999.5) return Math.round(value).toLocaleString('en');
  return String(Number(value.toFixed(Math.min(8, Math.max(0, 2 - Math.floor(Math.log10(size)))))));
}

function scaled(value, units) {
  const [, scale, unit] = units.find(([below]) => Math.abs(value) < below);
  return `${short(value / scale)} ${unit}`;
}

const SECONDS = [
  [Number.MIN_VALUE, 1, 's'], [0.9995e-6, 1e-9, 'ns'], [0.9995e-3, 1e-6, 'µs'], [0.9995, 1e-3, 'ms'], [600, 1, 's'],
  [7200, 60, 'min'], [172800, 3600, 'h'], [Infinity, 86400, 'days'],
];
const BYTES = [
  [999.5, 1, 'B'], [999.5e3, 1e3, 'kB'], [999.5e6, 1e6, 'MB'], [999.5e9, 1e9, 'GB'], [999.5e12, 1e12, 'TB'], [Infinity, 1e15, 'PB'],
];
const FORMS = {
  plain: short,
  time: value => scaled(value, SECONDS),
  bytes: value => scaled(value, BYTES),
  percent: value => `${short(value * 100)} %`,
};

// Round values of an axis, at most about `most` of them.
function ticks({ log }, [low, high], most) {
  if (log && high / low >= 10) {
    const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
    const stride = Math.ceil((last - first || 1) / most);
    const multiples = (last - first) * 3 <= most ? [1, 2, 5] : [1];
    const all = [];
    for (let power = multiples.length > 1 ? first - 1 : first; power <= last; power += stride) all.push(...multiples.map(m => Number(`${m}e${power}`)));
    return all.filter(value => value >= low * 0.999 && value <= high * 1.001);
  }
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(value => value >= rough * 0.999);
  const all = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) all.push(Number((i * step).toPrecision(12)));
  return all;
}

// Places of values between two ends.
function scale({ log }, [low, high], from, to) {
  const share = log ? v => Math.log(v / low) / Math.log(high / low) : v => (v - low) / (high - low);
  const place = value => from + share(value) * (to - from);
  place.at = pixel => {
    const share = (pixel - from) / (to - from);
    return log ? low * (high / low) ** share : low + share * (high - low);
  };
  return place;
}

// A text cut to a width.
function cut(text, width) {
  if (widthOf(text) <= width) return text;
  let beginning = text;
  while (beginning && widthOf(beginning + '…') > width) beginning = beginning.slice(0, -1);
  return beginning + '…';
}

const ROW = 32;
const LINES = 250;
// Where many panels stand side by side; the text above them says what their lines are.
const LINES_OF_MANY = 150;

// Draws `panel` into a new SVG of this width; `shown(key)` tells whether a series is drawn, `range` is what was zoomed to. Returns
// the SVG and, for lines, what hovering needs.
function drawPanel(panel, { width, theme, shown = () => true, range, isOfMany = false }) {
  const lines = panel.series;
  const rows = panel.bars?.rows ?? panel.estimates?.map(row => row.name) ?? [];
  const height = !lines ? rows.length * ROW : isOfMany ? LINES_OF_MANY : LINES;
  const yTicks = lines ? ticks(panel.y, panel.y.range, isOfMany ? 4 : 6) : [];
  const names = rows.map(name => cut(name, Math.min(260, width / 3)));
  const left = 14 + (lines && !isOfMany ? 20 : 0) + widest([...yTicks.map(FORMS[panel.y.form]), ...names]);
  // The last label of the horizontal axis needs room beside the plot too.
  const right = Math.max(30, 16 + widest([
    ...panel.guides.map(([, name]) => name), ...(panel.bars?.totals ?? panel.estimates?.map(row => row.text) ?? []),
  ]));
  const plot = { left, right: Math.max(left + 40, width - right), top: 12, bottom: 12 + height };
  const xRange = range ?? panel.x.range;
  const x = scale(panel.x, xRange, plot.left, plot.right);
  const y = scale(panel.y, panel.y.range, plot.bottom, plot.top);

  const svg = document.createElementNS(NS, 'svg');
  const whole = plot.bottom + 46;
  for (const [key, value] of Object.entries({ xmlns: NS, width, height: whole, viewBox: `0 0 ${width} ${whole}` })) svg.setAttribute(key, value);
  svg.setAttribute('font-family', 'system-ui, sans-serif');
  svg.setAttribute('font-size', '12');
  const say = (at, down, text, anchor, fill = theme.ink) => element(svg, 'text', { x: at, y: down, 'text-anchor': anchor, fill }, text);
  const rule = (x1, y1, x2, y2, stroke, more = {}) => element(svg, 'line', { x1, y1, x2, y2, stroke, ...more });

  // With less than three, a step may be longer than the axis.
  const xTicks = ticks(panel.x, xRange, Math.max(3, Math.min(10, Math.floor((plot.right - plot.left) / 70))));
  for (const value of xTicks) {
    rule(x(value), plot.top, x(value), plot.bottom + 4, theme.grid);
    say(x(value), plot.bottom + 18, FORMS[panel.x.form](value), 'middle').setAttribute('class', 'xtick');
  }
  say((plot.left + plot.right) / 2, plot.bottom + 38, cut(panel.x.label, plot.right - plot.left + 60), 'middle');

  if (lines) {
    for (const value of yTicks) {
      rule(plot.left - 4, y(value), plot.right, y(value), theme.grid);
      say(plot.left - 8, y(value) + 4, FORMS[panel.y.form](value), 'end');
    }
    const middle = (plot.top + plot.bottom) / 2;
    if (!isOfMany) say(14, middle, cut(panel.y.label, height), 'middle').setAttribute('transform', `rotate(-90 14 ${middle})`);
    for (const [value, name] of panel.guides.filter(([value]) => y(value) >= plot.top - 1 && y(value) <= plot.bottom + 1)) {
      rule(plot.left, y(value), plot.right, y(value), theme.pale, { 'stroke-dasharray': '2 3' });
      say(plot.right + 6, y(value) + 4, name, 'start', theme.pale);
    }
    // Lines end at the frame where a zoom leaves a part of them out.
    const id = `clip${drawPanel.count = (drawPanel.count ?? 0) + 1}`;
    const clip = element(svg, 'clipPath', { id });
    element(clip, 'rect', { x: plot.left - 4, y: plot.top - 4, width: plot.right - plot.left + 8, height: height + 8 });
    const inside = element(svg, 'g', { 'clip-path': `url(#${id})` });
    for (const series of lines.filter(series => shown(series.key))) drawSeries(inside, series, x, y, theme);
    const marks = (panel.marks ?? []).filter(([value]) => value >= xRange[0] && value <= xRange[1]);
    for (const [value] of marks) rule(x(value), plot.top, x(value), plot.bottom, theme.ink, { 'stroke-dasharray': '5 3' });
    // The end of what stands in each row of names: where two falls are close, the later one's name goes a row down.
    const taken = [];
    for (const [value, name] of marks.sort(([a], [b]) => a - b)) {
      const [at, room] = [x(value), widthOf(name) + 8];
      const isLeft = at + room > plot.right && at - room > plot.left;
      const from = isLeft ? at - room : at + 2;
      let row = taken.findIndex(end => end <= from);
      if (row < 0) row = taken.length;
      taken[row] = from + room;
      const top = plot.top + row * 18;
      element(svg, 'rect', { x: from, y: top, width: room - 2, height: 18, fill: theme.page, 'fill-opacity': 0.85 });
      say(isLeft ? at - 6 : at + 6, top + 13, name, isLeft ? 'end' : 'start').setAttribute('class', 'mark');
    }
    rule(plot.left, plot.top, plot.left, plot.bottom, theme.rule);
  }
  names.forEach((name, i) => {
    const text = say(plot.left - 8, plot.top + i * ROW + ROW / 2 + 4, name, 'end');
    if (name !== rows[i]) element(text, 'title', {}, rows[i]);
  });
  if (panel.bars) {
    rows.forEach((_, i) => {
      let end = 0;
      for (const part of panel.bars.parts) {
        const from = x(end);
        end += part.values[i];
        const [top, fill] = [plot.top + i * ROW + 6, theme.colour(part.colour)];
        const bar = element(svg, 'rect', { class: 'bar', x: from, y: top, width: x(end) - from, height: ROW - 12, fill });
        element(bar, 'title', {}, `${part.name}: ${FORMS[panel.x.form](part.values[i])}`);
      }
      say(x(end) + 6, plot.top + i * ROW + ROW / 2 + 4, panel.bars.totals[i], 'start');
    });
    rule(plot.left, plot.top, plot.left, plot.bottom, theme.rule);
  }
  if (panel.estimates) {
    panel.estimates.forEach((row, i) => drawEstimate(svg, row, plot.top + i * ROW, x, theme, say));
    rule(plot.left, plot.top, plot.left, plot.bottom, theme.rule);
  }
  rule(plot.left, plot.bottom, plot.right, plot.bottom, theme.rule);
  return { svg, x, y, plot };
}

function drawSeries(inside, { name, x: xs, y: ys, colour, steps, dashed }, x, y, theme) {
  const parent = element(inside, 'g', { class: 'series', 'data-name': name });
  const stroke = theme.colour(colour);
  let path = '';
  let isNew = true;
  ys.forEach((value, i) => {
    // A point without a value is a gap.
    if (value === null) { isNew = true; return; }
    const [at, down] = [x(xs[i]).toFixed(1), y(value).toFixed(1)];
    path += isNew ? `M${at} ${down}` : steps ? `H${at}V${down}` : `L${at} ${down}`;
    if (isNew && (ys[i + 1] ?? null) === null) element(parent, 'circle', { cx: at, cy: down, r: 3.5, fill: stroke });
    isNew = false;
  });
  const dash = dashed ? { 'stroke-dasharray': '6 4' } : {};
  element(parent, 'path', { d: path, fill: 'none', stroke, 'stroke-width': 1.8, 'stroke-linejoin': 'round', ...dash });
}

// A bar, a whisker over what is not known of it, and a dot for what was measured.
function drawEstimate(svg, { name, value, range, measured, text, colour }, top, x, theme, say) {
  const middle = top + ROW / 2;
  const bar = element(svg, 'rect', { class: 'bar', x: x(0), y: top + 6, width: Math.max(1, x(value) - x(0)), height: ROW - 12, fill: theme.colour(colour) });
  element(bar, 'title', {}, `${name}: ${text}`);
  let end = x(value);
  if (range) {
    const [low, high] = range.map(x);
    const stroke = { stroke: theme.ink, 'stroke-width': 1.5 };
    element(svg, 'line', { x1: low, x2: high, y1: middle, y2: middle, ...stroke });
    for (const at of [low, high]) element(svg, 'line', { x1: at, x2: at, y1: middle - 5, y2: middle + 5, ...stroke });
    end = Math.max(end, high);
  }
  if (measured !== null) {
    const dot = element(svg, 'circle', { cx: x(measured), cy: middle, r: 5.5, fill: theme.page, stroke: theme.ink, 'stroke-width': 2 });
    element(dot, 'title', {}, 'measured');
    end = Math.max(end, x(measured) + 5);
  }
  say(end + 8, middle + 4, text, 'start');
}
