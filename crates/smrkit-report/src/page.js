// The page holds no date, so that the same results give the same bytes: its file has one.
const [month, day, year, time] = document.lastModified.split(/[/ ]/);
document.getElementById('date').textContent = `${year}-${month}-${day} ${time}`;

const dark = matchMedia('(prefers-color-scheme: dark)');
// Where nothing hovers, the bar of buttons would always lie over the chart.
const options = { responsive: true, displaylogo: false, displayModeBar: matchMedia('(hover: none)').matches ? false : 'hover' };
const places = page.charts.map((_, i) => document.getElementById('chart' + i));

// The digits of numbers as text, as packed.rs has them.
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

function whole(text, digits) {
  const number = i => [...text.slice(i * digits, (i + 1) * digits)].reduce((sum, digit) => sum * 64 + DIGITS.indexOf(digit), 0);
  return Array.from({ length: text.length / digits }, (_, i) => number(i));
}

// The numbers of a line: in units of a power of ten, as text or where [n] repeats the one before, or at even steps up to the end.
function unpacked({ unit, values, text, digits, from, step, count, end }) {
  if (text) values = whole(text, digits);
  if (!values) return Array.from({ length: count }, (_, i) => (i === count - 1 ? end : Number((from + step * i).toPrecision(9))));
  const all = values.flatMap((value, i) => (Array.isArray(value) ? Array(value[0]).fill(values[i - 1]) : [value]));
  return all.map(value => value && (unit < 0 ? value / 10 ** -unit : value * 10 ** unit));
}

const times = page.times.map(unpacked);
page.charts.forEach(chart => chart.data.filter(trace => trace.type === 'scatter').forEach(trace => {
  [trace.x, trace.y] = [times[trace.x], unpacked(trace.y)];
}));

function draw() {
  const [from, to] = page.swapped;
  const charts = dark.matches ? JSON.parse(JSON.stringify(page.charts).replaceAll(from, to)) : page.charts;
  const template = dark.matches ? page.themes.dark : page.themes.light;
  charts.forEach((chart, i) => {
    chart.data.forEach(trace => { trace.visible = isShown(places[i], trace.meta); });
    const xaxis = thinned(chart.layout.xaxis, places[i].clientWidth);
    Plotly.react(places[i], chart.data, { ...chart.layout, xaxis, template }, options);
  });
}

// A logarithmic axis with as many of its ticks as have room: some powers of ten where not all.
function thinned(axis, width) {
  const most = Math.max(2, Math.floor((width - 80) / 60));
  if (axis.type !== 'log' || axis.tickvals.length <= most) return axis;
  const tens = axis.tickvals.map((value, i) => [value, axis.ticktext[i]]).filter(([value]) => Number.isInteger(Math.log10(value)));
  const kept = tens.filter((_, i) => i % Math.ceil(tens.length / most) === 0);
  return { ...axis, tickvals: kept.map(([value]) => value), ticktext: kept.map(([, text]) => text) };
}

function isShown(place, key) {
  const button = place.closest('section').querySelector(`[data-key="${key}"]`);
  return !button || button.getAttribute('aria-pressed') === 'true';
}

document.querySelectorAll('button.key').forEach(button => button.addEventListener('click', () => {
  button.setAttribute('aria-pressed', button.getAttribute('aria-pressed') !== 'true');
  draw();
}));
dark.addEventListener('change', draw);
draw();

// Charts over the same quantity: zooming one zooms the others, and hovering shows the same runs at the same place in all.
function quantity(chart) {
  return chart.data[0]?.type === 'scatter' ? chart.layout.xaxis.title.text : null;
}

function alike(leader) {
  const over = quantity(page.charts[leader]);
  return over ? places.filter((_, i) => i !== leader && quantity(page.charts[i]) === over) : [];
}

function nearest(trace, x) {
  let best = -1;
  trace.x.forEach((value, i) => {
    if (trace.y[i] != null && (best < 0 || Math.abs(value - x) < Math.abs(trace.x[best] - x))) best = i;
  });
  return best;
}

function hover(place, name, x) {
  // Where each run has a chart of its own, all of them show theirs.
  const isAlone = place.data.length === 1;
  const curveNumber = place.data.findIndex(trace => (isAlone || trace.name === name) && trace.visible !== false);
  const pointNumber = curveNumber < 0 ? -1 : nearest(place.data[curveNumber], x);
  if (pointNumber >= 0) Plotly.Fx.hover(place, [{ curveNumber, pointNumber }]);
}

// True while charts are zoomed as another was, which is no reason to zoom that.
let isFollowing = false;

places.forEach((place, i) => {
  place.on('plotly_relayout', change => {
    const ranges = Object.entries(change).filter(([key]) => key.startsWith('xaxis.'));
    if (isFollowing || !ranges.length) return;
    isFollowing = true;
    const zoomed = alike(i).map(other => Plotly.relayout(other, Object.fromEntries(ranges)));
    Promise.all(zoomed).finally(() => { isFollowing = false; });
  });
  place.on('plotly_hover', ({ points: [point] }) => alike(i).forEach(other => hover(other, point.data.name, point.x)));
  place.on('plotly_unhover', () => alike(i).forEach(other => Plotly.Fx.unhover(other)));
});

// A cell's size: its number, times what its unit stands for.
const UNITS = {
  ns: 1e-9, 'µs': 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, days: 86400, years: 31557600,
  B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4,
};

function size(text) {
  const [, number, unit] = text.match(/^\s*([-\d.,]+(?:e[-+]?\d+)?)\s*([^\s/]*)/) ?? [];
  return number === undefined ? null : Number(number.replaceAll(',', '')) * (UNITS[unit] ?? 1);
}

function compare(a, b) {
  const [x, y] = [size(a), size(b)];
  if (x !== null && y !== null) return x - y;
  // What has no number comes last.
  return (x === null) - (y === null) || a.localeCompare(b);
}

function sort(header) {
  const descending = header.getAttribute('aria-sort') === 'ascending';
  const [column, body] = [header.cellIndex, header.closest('table').tBodies[0]];
  const text = row => row.cells[column].textContent;
  const rows = [...body.rows].sort((a, b) => (descending ? -1 : 1) * compare(text(a), text(b)));
  header.parentElement.querySelectorAll('th').forEach(other => other.removeAttribute('aria-sort'));
  header.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
  body.append(...rows);
}

document.querySelectorAll('th button').forEach(button => button.addEventListener('click', () => sort(button.parentElement)));

function download(name, type, text) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

function csv(region) {
  const quoted = cell => '"' + cell.textContent.replaceAll('"', '""') + '"';
  const rows = [...region.querySelectorAll('tr')].map(row => [...row.cells].map(quoted).join(','));
  return [region.getAttribute('aria-label'), ...rows].join('\n') + '\n';
}

document.getElementById('tables').addEventListener('click', () =>
  download('tables.csv', 'text/csv', [...document.querySelectorAll('.wide')].map(csv).join('\n')));
document.getElementById('figures')?.addEventListener('click', () => {
  const series = ({ name, base, x, y, text }) => ({ name, base, x, y, text });
  const figures = page.charts.map((chart, i) => ({ figure: places[i].getAttribute('aria-label'), series: chart.data.map(series) }));
  download('figures.json', 'application/json', JSON.stringify(figures, null, 1));
});
