// The page holds no date, so that the same results give the same bytes: its file has one.
const [month, day, year, time] = document.lastModified.split(/[/ ]/);
document.getElementById('date').textContent = `${year}-${month}-${day} ${time}`;

const dark = matchMedia('(prefers-color-scheme: dark)');
// Lines name their values of x by their place among those of the page.
page.charts.forEach(chart => chart.series?.forEach(series => { series.x = page.times[series.x]; }));
const charts = page.charts.map((panel, i) => ({ panel, place: document.getElementById('chart' + i), range: undefined }));

function themed(name) {
  const [from, to] = page.swapped;
  return { ...page.themes[name], colour: colour => (name === 'dark' && colour === from ? to : colour) };
}

function isShown(place, key) {
  const button = place.closest('section').querySelector(`[data-key="${key}"]`);
  return !button || button.getAttribute('aria-pressed') === 'true';
}

function draw(chart) {
  const { panel, place, range } = chart;
  const [theme, width] = [themed(dark.matches ? 'dark' : 'light'), Math.max(260, place.clientWidth)];
  const isOfMany = place.closest('.multiples') !== null;
  chart.drawn = drawPanel(panel, { width, theme, range, isOfMany, shown: key => isShown(place, key) });
  place.querySelector('svg')?.remove();
  place.prepend(chart.drawn.svg);
  if (panel.series) watch(chart);
}

// Charts over the same quantity are zoomed together, and hovering shows the same runs at the same place in all.
function alike(chart) {
  return chart.panel.series ? charts.filter(({ panel }) => panel.series && panel.x.label === chart.panel.x.label) : [chart];
}

function nearest({ x, y }, at) {
  let best = -1;
  x.forEach((value, i) => {
    if (y[i] !== null && (best < 0 || Math.abs(value - at) < Math.abs(x[best] - at))) best = i;
  });
  return best;
}

// Shows the point of the series `name` at a value of x; where each run has a chart of its own, all show theirs.
function point({ panel, place, drawn: { svg, x, y, plot } }, name, at) {
  svg.querySelector('.hover')?.remove();
  const series = panel.series.find(one => (panel.series.length === 1 || one.name === name) && isShown(place, one.key));
  const best = series ? nearest(series, at) : -1;
  if (best < 0) return;
  const [right, down] = [x(series.x[best]), y(series.y[best])];
  if (right < plot.left - 1 || right > plot.right + 1) return;
  const theme = themed(dark.matches ? 'dark' : 'light');
  const text = `${series.name ? series.name + ': ' : ''}${FORMS[panel.x.form](series.x[best])}, ${FORMS[panel.y.form](series.y[best])}`;
  const mark = element(svg, 'g', { class: 'hover', 'pointer-events': 'none' });
  element(mark, 'line', { x1: right, x2: right, y1: plot.top, y2: plot.bottom, stroke: theme.rule, 'stroke-dasharray': '3 3' });
  element(mark, 'circle', { cx: right, cy: down, r: 4, fill: theme.colour(series.colour), stroke: theme.ink });
  const width = widthOf(text) + 12;
  const left = Math.max(0, Math.min(right + 8, Number(svg.getAttribute('width')) - width));
  const top = down < plot.top + 34 ? down + 10 : down - 30;
  element(mark, 'rect', { x: left, y: top, width, height: 21, rx: 3, fill: theme.page, stroke: theme.rule });
  element(mark, 'text', { x: left + 6, y: top + 15, fill: theme.ink }, text);
}

function watch(chart) {
  const { panel, place, drawn: { svg, x, y, plot } } = chart;
  let from;
  const at = event => event.clientX - svg.getBoundingClientRect().left;
  const inside = pixel => Math.min(plot.right, Math.max(plot.left, pixel));
  svg.addEventListener('pointermove', event => {
    const [right, down] = [at(event), event.clientY - svg.getBoundingClientRect().top];
    if (from !== undefined) {
      svg.querySelector('.zoom')?.remove();
      const [a, b] = [from, inside(right)].sort((a, b) => a - b);
      element(svg, 'rect', { class: 'zoom', x: a, y: plot.top, width: b - a, height: plot.bottom - plot.top, 'fill-opacity': 0.15, fill: '#888' });
      return;
    }
    const value = x.at(inside(right));
    const all = panel.series.filter(series => isShown(place, series.key)).map(series => [series, nearest(series, value)]);
    const far = ([series, i]) => Math.hypot(x(series.x[i]) - right, y(series.y[i]) - down);
    const [closest] = all.filter(([, i]) => i >= 0).sort((a, b) => far(a) - far(b));
    if (closest) alike(chart).forEach(other => point(other, closest[0].name, closest[0].x[closest[1]]));
  });
  svg.addEventListener('pointerleave', () => alike(chart).forEach(other => other.drawn.svg.querySelector('.hover')?.remove()));
  svg.addEventListener('pointerdown', event => {
    // On a touch screen a finger that moves scrolls the page.
    if (event.pointerType !== 'mouse' || event.button !== 0) return;
    from = inside(at(event));
    svg.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  svg.addEventListener('pointerup', event => {
    const to = inside(at(event));
    if (from !== undefined && Math.abs(to - from) > 5) zoom(chart, [x.at(Math.min(from, to)), x.at(Math.max(from, to))]);
    else svg.querySelector('.zoom')?.remove();
    from = undefined;
  });
  svg.addEventListener('dblclick', () => zoom(chart, undefined));
}

function zoom(chart, range) {
  alike(chart).forEach(other => { other.range = range; draw(other); });
}

document.querySelectorAll('button.key').forEach(button => button.addEventListener('click', () => {
  button.setAttribute('aria-pressed', button.getAttribute('aria-pressed') !== 'true');
  const section = button.closest('section');
  charts.filter(({ place }) => section.contains(place)).forEach(draw);
}));
const drawAll = () => charts.forEach(draw);
dark.addEventListener('change', drawAll);
let width = innerWidth;
addEventListener('resize', () => {
  if (innerWidth !== width) drawAll();
  width = innerWidth;
});
drawAll();
// What is folded has no width until it is opened; paper shows all of it.
const folds = [...document.querySelectorAll('details')];
folds.forEach(fold => fold.addEventListener('toggle', () => charts.filter(({ place }) => fold.contains(place)).forEach(draw)));
addEventListener('beforeprint', () => folds.forEach(fold => { fold.open = true; }));

// Text is copied by selecting it, which pages that were opened from a disk may do too.
document.querySelectorAll('.copied button').forEach(button => button.addEventListener('click', () => {
  getSelection().selectAllChildren(button.closest('.copied').querySelector('pre'));
  document.execCommand('copy');
  button.textContent = 'Copied';
}));

// A chart by itself: its title, its legend and the panel, on white.
function saved({ panel, place, range }) {
  const [theme, width] = [themed('light'), 900];
  const { svg } = drawPanel(panel, { width, theme, range, shown: key => isShown(place, key) });
  const keys = [...place.closest('section').querySelectorAll('.key')].filter(key => key.getAttribute('aria-pressed') !== 'false');
  let [right, down] = [14, 44];
  const places = keys.map(key => {
    const needed = widthOf(key.textContent) + 44;
    if (right + needed > width && right > 14) [right, down] = [14, down + 18];
    right += needed;
    return [key, right - needed, down];
  });
  const height = Number(svg.getAttribute('height')) + down + 10;
  const whole = document.createElementNS(NS, 'svg');
  for (const [key, value] of Object.entries({ xmlns: NS, width, height, viewBox: `0 0 ${width} ${height}`, 'font-family': 'system-ui, sans-serif' })) {
    whole.setAttribute(key, value);
  }
  element(whole, 'rect', { width, height, fill: '#fff' });
  element(whole, 'text', { x: 14, y: 22, 'font-size': 15, fill: theme.ink }, cut(place.getAttribute('aria-label'), width * 0.75));
  for (const [key, x, y] of places) {
    const mark = key.querySelector('i');
    const [stroke, dash] = [mark.dataset.colour, mark.className === 'dashed' ? '6 4' : 'none'];
    if (mark.className === 'part') element(whole, 'rect', { x: x + 6, y: y - 9, width: 12, height: 10, fill: stroke });
    else element(whole, 'line', { x1: x, x2: x + 24, y1: y - 4, y2: y - 4, stroke, 'stroke-width': 2.4, 'stroke-dasharray': dash });
    element(whole, 'text', { x: x + 30, y, 'font-size': 12, fill: theme.ink }, key.textContent);
  }
  svg.setAttribute('y', down + 8);
  whole.append(svg);
  return whole;
}

function save(chart, format) {
  const [svg, name] = [saved(chart), `${chart.place.dataset.name}.${format}`];
  const text = new XMLSerializer().serializeToString(svg);
  if (format === 'svg') return download(name, 'image/svg+xml', text);
  const image = new Image();
  image.onload = () => {
    // Twice the size, for screens and paper that show more than a pixel a point.
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [svg.getAttribute('width') * 2, svg.getAttribute('height') * 2];
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(blob => download(name, 'image/png', blob), 'image/png');
  };
  image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(text);
}

charts.forEach(chart => chart.place.querySelectorAll('button').forEach(button =>
  button.addEventListener('click', () => save(chart, button.dataset.format))));

function download(name, type, text) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
