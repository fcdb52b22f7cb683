// The form becomes the words of a command, which the program answers in a worker; its messages are shown as they come.
const $ = id => document.getElementById(id);
const form = $('question');
// By its name alone: `form.elements` has fieldsets by their ids, too.
const field = name => form.querySelector(`[name="${CSS.escape(name)}"]`);
const files = new Map();
let [catalogue, mode, asking, json, csv, answer] = [{ drives: [], uses: [], layers: [] }, 'advise', null, '', '', ''];
// The name that the edited drive file has in a question. A file of this name may have been dropped, too, and stays as it is.
const EDITED = 'edited.toml';
// How often the editor was emptied: a file that was asked for before that is another drive's.
let emptied = 0;

// The program, unpacked and compiled once.
const program = (async () => {
  const packed = Uint8Array.from(atob($('program').textContent.trim()), letter => letter.charCodeAt(0));
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return WebAssembly.compile(await new Response(plain).arrayBuffer());
})();

const workerAddress = URL.createObjectURL(new Blob([$('worker').textContent], { type: 'text/javascript' }));

// Runs the program, and hands each message to `hear`; what it returns ends it at once. Of two files with a name it reads the first.
function run(words, hear, edited = []) {
  const worker = new Worker(workerAddress);
  worker.onmessage = ({ data }) => hear(JSON.parse(data));
  worker.onerror = event => hear({ error: `The simulator stopped: ${event.message}` });
  program.then(module => worker.postMessage({ module, words, files: [...edited, ...files.values()] }), error => hear({
    error: `This browser can't run the simulator (${error.message}): take one of 2023 or later, or the command smrkit.`,
  }));
  return () => worker.terminate();
}

// Runs the program for a single message of a kind.
const answered = (kind, words) => new Promise((done, failed) => {
  const end = run(words, message => {
    if (message[kind] !== undefined) done(message[kind]);
    if (message.error) failed(new Error(message.error));
    if (message === 'ended') end();
  });
});

// What the form says.

const drives = () => [...form.querySelectorAll('[name="drive"]')];

function addDrive(value = '') {
  const line = document.createElement('div');
  line.className = 'drive';
  line.innerHTML = `<label>Drive<input name="drive" list="models" placeholder="such as WD40EFAX" spellcheck="false"></label>
    <button type="button">Remove</button><p class="pale" aria-live="polite"></p>`;
  const [input, about] = [line.querySelector('input'), line.querySelector('p')];
  input.value = value;
  const forgetEdits = () => { if (input === drives()[0]) emptyEditor(); };
  line.querySelector('button').addEventListener('click', () => {
    forgetEdits();
    line.remove();
    countDrives();
    arrange();
    drives()[0].focus();
  });
  input.addEventListener('change', () => {
    forgetEdits();
    describe(input, about);
  });
  $('drives').append(line);
  countDrives();
  describe(input, about);
  return input;
}

// The editor has the first drive's file.
function emptyEditor() {
  emptied += 1;
  field('toml').value = '';
  $('edit').open = false;
}

// The last drive stays.
function countDrives() {
  const lines = [...$('drives').children];
  lines.forEach((line, nth) => {
    line.querySelector('button').hidden = lines.length < 2;
    line.querySelector('input').setAttribute('aria-label', lines.length < 2 ? 'Drive' : `Drive ${nth + 1}`);
  });
}

async function describe(input, about) {
  const model = input.value.trim();
  about.textContent = '';
  if (!model) about.textContent = 'A model as it is printed on the disk; without one an 8 TB disk is taken, the st8000dm004.';
  else if (model.endsWith('.toml')) about.textContent = files.has(model) ? 'The drive file that was dropped here.' : 'Drop the drive file onto this page.';
  else {
    const said = await answered('identified', ['identify', model]).catch(() => '');
    // Another model may have been named meanwhile.
    if (input.value.trim() === model) about.textContent = said;
  }
}

const use = () => catalogue.uses.find(one => one.name === $('use').value);
const source = () => (mode === 'run' ? $('requests').value : $('use').value);

// Shows the fields that belong to what is chosen, and leaves the others out of the question.
function arrange() {
  const toggle = (element, isShown) => {
    element.hidden = !isShown;
    if (element.matches('fieldset, input, button')) element.disabled = !isShown;
    element.querySelectorAll('input').forEach(input => { if (!element.matches('fieldset')) input.disabled = !isShown; });
  };
  field('toml').disabled = !$('edit').open;
  form.querySelectorAll('[data-mode]').forEach(part => toggle(part, part.dataset.mode === mode));
  // A run is of one drive.
  [...$('drives').children].slice(1).forEach(line => toggle(line, mode === 'advise'));
  toggle($('recording'), source() === 'trace');
  toggle($('workload'), source() === 'workload');
  toggle($('disks'), field('array').value !== '');
  const isPaced = use() ? use().is_paced : source() === 'trace' && field('arrival').value === 'trace';
  form.querySelectorAll('.of-amount').forEach(label => toggle(label, mode === 'advise' && !isPaced));
  $('assumed').textContent = use()?.assumed.replaceAll('`', '') ?? '';
  if (use()?.is_of_array && !field('array').value) $('assumed').textContent += ' Choose the array above.';
}

// The fields of the use that is chosen.
function showKeys() {
  const fields = (use()?.keys ?? []).map(({ key, default: value, what }) => {
    const label = document.createElement('label');
    const input = Object.assign(document.createElement('input'), { name: `for.${key}`, placeholder: value, spellcheck: false });
    label.append(key === what ? key : `${key}: ${what}`, input);
    return label;
  });
  $('keys').replaceChildren(...fields);
  arrange();
}

// The values of the form that are filled in.
const values = () => [...new FormData(form)].filter(([, value]) => typeof value === 'string' && value.trim() !== '')
  .map(([name, value]) => [name, name === 'toml' ? value : value.trim()]);

// The words of a text as a shell reads them.
const wordsOf = text => [...text.matchAll(/(?:[^\s'"]+|'[^']*'|"[^"]*")+/g)].map(([word]) => word.replaceAll(/'([^']*)'|"([^"]*)"/g, '$1$2'));

// The question as a command.
function command() {
  const all = values();
  const of = name => all.filter(([own]) => own === name).map(([, value]) => value);
  const words = [mode];
  const named = of('toml').length ? [EDITED] : of('drive');
  if (named.length) words.push('--drive', named.join(','));
  if (of('array').length) words.push('--array', `${of('array')[0]}:disks=${of('disks')[0] ?? 4}`);
  if (use() && mode === 'advise') {
    const keys = all.filter(([name]) => name.startsWith('for.')).map(([name, value]) => `${name.slice(4)}=${value}`);
    words.push('--for', use().name + (keys.length ? ':' + keys.join(',') : ''));
  }
  if (source() === 'trace') recordings().forEach(name => words.push('--trace', name));
  ['workload', 'arrival', 'layer', 'depth', 'prefill', 'within', 'every', 'keep'].forEach(name =>
    of(name).forEach(value => words.push('--' + name, value)));
  of('set').flatMap(wordsOf).forEach(value => words.push('--set', value));
  return [...words, ...of('more').flatMap(wordsOf)];
}

// Of the files of several CPUs one stands for all.
function recordings() {
  const names = [...files.keys()].filter(name => !name.endsWith('.toml'));
  const stem = name => name.replace(/\.blktrace\.\d+$/, '.blktrace');
  return names.filter((name, nth) => names.findIndex(other => stem(other) === stem(name)) === nth);
}

// The address holds the question; of a recording only that there was one.
function writeAddress() {
  history.replaceState(null, '', '#' + new URLSearchParams([...(mode === 'run' ? [['tab', mode]] : []), ...values()]));
}

function readAddress() {
  const all = [...new URLSearchParams(location.hash.slice(1))];
  if (!all.length) return false;
  const of = name => all.filter(([own]) => own === name).map(([, value]) => value);
  choose(of('tab')[0] === 'run' ? 'run' : 'advise');
  emptyEditor();
  $('drives').replaceChildren();
  (of('drive').length ? of('drive') : ['']).forEach(addDrive);
  form.querySelectorAll('input:not([type="file"], [name="drive"])').forEach(input => { input.value = input.defaultValue; });
  if (of('for')[0]) $('use').value = of('for')[0];
  showKeys();
  all.forEach(([name, value]) => {
    const own = field(name);
    if (own && name !== 'drive' && name !== 'for') own.value = value;
  });
  $('more').open = of('more').length > 0;
  $('edit').open = of('toml').length > 0;
  arrange();
  return true;
}

// Asking.

function ask() {
  asking?.();
  const words = command();
  writeAddress();
  [json, csv, answer] = ['', '', ''];
  $('error').hidden = $('tried').hidden = $('results').hidden = true;
  $('notes').replaceChildren();
  $('tried').textContent = '';
  if (source() === 'trace' && recordings().length === 0) {
    return fail('There is no recording yet: choose a file, or drop it onto this page.');
  }
  $('cancel').hidden = $('share').hidden = false;
  $('share').removeAttribute('value');
  $('doing').textContent = 'Simulating …';
  $('ask').scrollIntoView();
  asking = run(words, hear, values().filter(([name]) => name === 'toml').map(([, text]) => new File([text], EDITED)));
}

function hear(message) {
  if (message === 'ended') return end($('error').hidden ? 'Done.' : '');
  const { progress, note, tried, page, json: results, csv: rows, error } = message;
  if (progress) {
    $('doing').textContent = `Simulating: ${progress.what}`;
    $('share').value = progress.share;
  }
  if (note) $('notes').append(Object.assign(document.createElement('li'), { textContent: note }));
  if (tried) {
    $('tried').textContent += `${tried}\n`;
    $('tried').hidden = false;
  }
  if (results) json = results;
  if (rows) csv = rows;
  if (page) {
    answer = page.html;
    showAnswer(page.html);
    if (page.is_whole) {
      $('tried').hidden = true;
      $('results').hidden = false;
      $('csv').hidden = csv === '';
    }
  }
  if (error) fail(error);
}

function fail(why) {
  $('error').textContent = why;
  $('error').hidden = false;
  end('');
}

function end(said) {
  asking?.();
  asking = null;
  $('cancel').hidden = $('share').hidden = true;
  $('doing').textContent = said;
}

// The answer is a page of its own, as high as it needs.
function showAnswer(html) {
  const frame = $('answer');
  frame.hidden = false;
  frame.srcdoc = html;
}

$('answer').addEventListener('load', () => {
  const { body } = $('answer').contentDocument;
  const fit = () => {
    const margin = parseFloat(getComputedStyle(body).marginBottom) || 0;
    $('answer').style.height = `${Math.ceil(body.getBoundingClientRect().bottom + $('answer').contentWindow.scrollY + margin)}px`;
  };
  new ResizeObserver(fit).observe(body);
  fit();
});

function save(name, type, text) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

// Recordings and drive files.

function take(list) {
  const all = [...list];
  if (!all.length) return;
  const descriptions = all.filter(file => file.name.endsWith('.toml'));
  if (descriptions.length < all.length) [...files.keys()].filter(name => !name.endsWith('.toml')).forEach(name => files.delete(name));
  all.forEach(file => files.set(file.name, file));
  for (const { name } of descriptions) {
    const free = drives().find(input => mode === 'run' || ['', name].includes(input.value)) ?? addDrive();
    free.value = name;
    free.dispatchEvent(new Event('change'));
  }
  if (descriptions.length < all.length) {
    $(mode === 'run' ? 'requests' : 'use').value = 'trace';
    const bytes = [...files.values()].reduce((sum, file) => sum + file.size, 0);
    $('dropped').textContent = `${recordings().join(', ')} (${(bytes / 1e6).toFixed(1)} MB). It stays on this machine.`;
    showKeys();
  }
}

$('file').addEventListener('change', () => take($('file').files));
addEventListener('dragover', event => {
  event.preventDefault();
  document.body.classList.add('dragged');
});
addEventListener('dragleave', event => { if (!event.relatedTarget) document.body.classList.remove('dragged'); });
addEventListener('drop', event => {
  event.preventDefault();
  document.body.classList.remove('dragged');
  take(event.dataTransfer.files);
});

// Tabs: arrow keys change them.

function choose(tab) {
  mode = tab;
  for (const name of ['advise', 'run']) {
    $('tab-' + name).setAttribute('aria-selected', name === tab);
    $('tab-' + name).tabIndex = name === tab ? 0 : -1;
  }
  $('panel').setAttribute('aria-labelledby', 'tab-' + tab);
  $('ask').textContent = tab === 'run' ? 'Run' : 'Ask';
  arrange();
}

for (const [tab, other] of [['advise', 'run'], ['run', 'advise']]) {
  $('tab-' + tab).addEventListener('click', () => choose(tab));
  $('tab-' + tab).addEventListener('keydown', event => {
    if (!['ArrowLeft', 'ArrowRight'].includes(event.key)) return;
    choose(other);
    $('tab-' + other).focus();
  });
}

form.addEventListener('submit', event => {
  event.preventDefault();
  ask();
});
form.addEventListener('change', arrange);
$('use').addEventListener('change', showKeys);
// The file of the drive that is named is loaded when its editor is opened, unless there is one already.
$('edit').addEventListener('toggle', async () => {
  const [drive, before] = [drives()[0].value.trim(), emptied];
  const isWanted = () => emptied === before && !field('toml').value;
  if ($('edit').open && isWanted()) {
    const known = files.has(drive) ? files.get(drive).text() : answered('drive_file', ['drive-file', ...(drive ? [drive] : [])]);
    await known.then(text => { if (isWanted()) field('toml').value = text; }, error => { if (isWanted()) fail(error.message); });
  }
  arrange();
});
$('add').addEventListener('click', () => addDrive().focus());
$('cancel').addEventListener('click', () => end('Cancelled.'));
$('save').addEventListener('click', () => save('answer.html', 'text/html', answer));
$('json').addEventListener('click', () => save('results.json', 'application/json', json));
$('csv').addEventListener('click', () => save('runs.csv', 'text/csv', csv));
$('save-drive').addEventListener('click', () => save(EDITED, 'text/plain', field('toml').value));
$('link').addEventListener('click', () => {
  // Pages that were opened from a disk may not write to the clipboard otherwise.
  const field = Object.assign(document.createElement('textarea'), { value: location.href });
  document.body.append(field);
  field.select();
  document.execCommand('copy');
  field.remove();
  $('link').textContent = 'Copied';
});

addDrive();
answered('catalogue', ['catalogue']).then(all => {
  catalogue = all;
  const option = (value, text) => Object.assign(document.createElement('option'), { value, textContent: text });
  const own = [option('trace', 'a recording that you have made'), option('workload', 'a workload in the words of the command')];
  $('use').replaceChildren(...all.uses.map(({ name, what }) => option(name, `${name}: ${what}`)), ...own);
  $('models').replaceChildren(...all.drives.map(({ name, about }) => option(name, about)));
  $('layers').replaceChildren(...all.layers.map(name => option(name, name)));
  $('ask').disabled = false;
  $('doing').textContent = '';
  showKeys();
  // A link asks by itself, unless what it asks of is on another machine.
  if (readAddress() && source() !== 'trace') ask();
}).catch(error => fail(error.message));
addEventListener('hashchange', () => { if (readAddress() && source() !== 'trace') ask(); });
