const dark = matchMedia('(prefers-color-scheme: dark)');
// Where nothing hovers, the bar of buttons would always lie over the chart.
const options = { responsive: true, displaylogo: false, displayModeBar: matchMedia('(hover: none)').matches ? false : 'hover' };

function draw() {
  const [from, to] = page.swapped;
  const charts = dark.matches ? JSON.parse(JSON.stringify(page.charts).replaceAll(from, to)) : page.charts;
  const template = dark.matches ? page.themes.dark : page.themes.light;
  charts.forEach((chart, i) => {
    const place = document.getElementById('chart' + i);
    chart.data.forEach(trace => { trace.visible = isShown(place, trace.meta); });
    Plotly.react(place, chart.data, { ...chart.layout, template }, options);
  });
}

function isShown(place, key) {
  const button = place.parentElement.querySelector(`[data-key="${key}"]`);
  return !button || button.getAttribute('aria-pressed') === 'true';
}

document.querySelectorAll('button.key').forEach(button => button.addEventListener('click', () => {
  button.setAttribute('aria-pressed', button.getAttribute('aria-pressed') !== 'true');
  draw();
}));
dark.addEventListener('change', draw);
draw();
