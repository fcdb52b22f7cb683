// Runs the program once: a question's words are its arguments, the files of the page its folder, and the lines that it prints are
// messages to the page. The system interface is WASI preview 1, as far as the program uses it.
const [OK, BAD_DESCRIPTOR, INVALID, NO_ENTRY, UNKNOWN] = [0, 8, 28, 44, 52];
const [DEVICE, FOLDER, FILE] = [2, 3, 4];
const BLOCK = 4 << 20;

class Ended extends Error {}

class OpenFile {
  constructor(file) {
    Object.assign(this, { file, at: 0, block: new Uint8Array(0), first: 0 });
  }

  // Reads as much as is wanted, and less only at the end of the file.
  read(into) {
    let done = 0;
    while (done < into.length && this.at < this.file.size) {
      if (this.at < this.first || this.at >= this.first + this.block.length) {
        this.first = this.at;
        this.block = new Uint8Array(new FileReaderSync().readAsArrayBuffer(this.file.slice(this.at, this.at + BLOCK)));
      }
      const part = this.block.subarray(this.at - this.first, this.at - this.first + into.length - done);
      into.set(part, done);
      done += part.length;
      this.at += part.length;
    }
    return done;
  }
}

function system(words, files, say) {
  // Standard input, output and error, and the folder that relative paths begin in.
  const open = [DEVICE, DEVICE, DEVICE, FOLDER];
  const [encoder, errors] = [new TextEncoder(), []];
  const texts = [null, new TextDecoder(), new TextDecoder()];
  let [memory, line] = [null, ''];
  // The memory may have grown, which takes away its former buffer.
  const view = () => new DataView(memory.buffer);
  const bytes = (at, length) => new Uint8Array(memory.buffer, at, length);
  const pathAt = (at, length) => new TextDecoder().decode(bytes(at, length)).replace(/^\.?\//, '');
  const parts = (at, count) => Array.from({ length: count }, (_, nth) => {
    const place = at + 8 * nth;
    return bytes(view().getUint32(place, true), view().getUint32(place + 4, true));
  });
  const strings = all => ({
    sizes(count, size) {
      view().setUint32(count, all.length, true);
      view().setUint32(size, all.reduce((sum, text) => sum + text.length, 0), true);
      return OK;
    },
    get(pointers, at) {
      all.forEach((text, nth) => {
        view().setUint32(pointers + 4 * nth, at, true);
        bytes(at, text.length).set(text);
        at += text.length;
      });
      return OK;
    },
  });
  const args = strings(['smrkit', ...words].map(word => encoder.encode(word + '\0')));
  const environment = strings([]);
  function fileStat(at, kind, size) {
    bytes(at, 64).fill(0);
    view().setUint8(at + 16, kind);
    view().setBigUint64(at + 32, BigInt(size), true);
    return OK;
  }
  function print(descriptor, text) {
    if (descriptor === 2) return errors.push(text);
    const lines = (line + text).split('\n');
    line = lines.pop();
    lines.forEach(say);
  }
  const calls = {
    args_sizes_get: args.sizes,
    args_get: args.get,
    environ_sizes_get: environment.sizes,
    environ_get: environment.get,
    clock_time_get(clock, _precision, at) {
      const milliseconds = clock === 0 ? Date.now() : performance.now();
      view().setBigUint64(at, BigInt(Math.round(milliseconds * 1e6)), true);
      return OK;
    },
    random_get(at, length) {
      crypto.getRandomValues(bytes(at, length));
      return OK;
    },
    proc_exit(code) {
      throw new Ended(String(code));
    },
    sched_yield: () => OK,
    fd_prestat_get(descriptor, at) {
      if (descriptor !== 3) return BAD_DESCRIPTOR;
      view().setUint32(at, 0, true);
      view().setUint32(at + 4, 1, true);
      return OK;
    },
    fd_prestat_dir_name(_descriptor, at) {
      bytes(at, 1).set(encoder.encode('/'));
      return OK;
    },
    fd_fdstat_get(descriptor, at) {
      const own = open[descriptor];
      if (own === undefined) return BAD_DESCRIPTOR;
      bytes(at, 24).fill(0);
      view().setUint8(at, own instanceof OpenFile ? FILE : own);
      view().setBigUint64(at + 8, ~0n, true);
      view().setBigUint64(at + 16, ~0n, true);
      return OK;
    },
    fd_filestat_get(descriptor, at) {
      const own = open[descriptor];
      if (own === undefined) return BAD_DESCRIPTOR;
      return own instanceof OpenFile ? fileStat(at, FILE, own.file.size) : fileStat(at, own, 0);
    },
    path_filestat_get(_folder, _flags, path, length, at) {
      const name = pathAt(path, length);
      if (name === '' || name === '.') return fileStat(at, FOLDER, 0);
      const file = files.find(file => file.name === name);
      return file ? fileStat(at, FILE, file.size) : NO_ENTRY;
    },
    path_open(_folder, _flags, path, length, _create, _rights, _inherited, _how, at) {
      const name = pathAt(path, length);
      const file = files.find(file => file.name === name);
      if (!file && name !== '' && name !== '.') return NO_ENTRY;
      view().setUint32(at, open.push(file ? new OpenFile(file) : FOLDER) - 1, true);
      return OK;
    },
    fd_readdir(_descriptor, at, length, cookie, used) {
      const list = files.slice(Number(cookie)).map((file, nth) => {
        const name = encoder.encode(file.name);
        const entry = new Uint8Array(24 + name.length);
        const fields = new DataView(entry.buffer);
        fields.setBigUint64(0, cookie + BigInt(nth + 1), true);
        fields.setUint32(16, name.length, true);
        fields.setUint8(20, FILE);
        entry.set(name, 24);
        return entry;
      });
      let done = 0;
      // An entry that does not fit is cut short, which tells the program to ask again.
      for (const entry of list) {
        const part = entry.subarray(0, length - done);
        bytes(at + done, part.length).set(part);
        done += part.length;
      }
      view().setUint32(used, done, true);
      return OK;
    },
    fd_read(descriptor, at, count, read) {
      const own = open[descriptor];
      if (own === undefined || own === FOLDER) return BAD_DESCRIPTOR;
      const done = own instanceof OpenFile ? parts(at, count).reduce((sum, part) => sum + own.read(part), 0) : 0;
      view().setUint32(read, done, true);
      return OK;
    },
    fd_write(descriptor, at, count, written) {
      if (descriptor !== 1 && descriptor !== 2) return BAD_DESCRIPTOR;
      const all = parts(at, count);
      all.forEach(part => print(descriptor, texts[descriptor].decode(part, { stream: true })));
      view().setUint32(written, all.reduce((sum, part) => sum + part.length, 0), true);
      return OK;
    },
    fd_seek(descriptor, offset, whence, at) {
      const own = open[descriptor];
      if (!(own instanceof OpenFile)) return BAD_DESCRIPTOR;
      const place = [0, own.at, own.file.size][whence] + Number(offset);
      if (place < 0) return INVALID;
      own.at = place;
      view().setBigUint64(at, BigInt(place), true);
      return OK;
    },
    fd_close(descriptor) {
      if (open[descriptor] === undefined) return BAD_DESCRIPTOR;
      delete open[descriptor];
      return OK;
    },
  };
  return { calls, errors, use: own => { memory = own; } };
}

onmessage = async ({ data: { module, words, files } }) => {
  const { calls, errors, use } = system(words, files, text => postMessage(text));
  const imports = { wasi_snapshot_preview1: {} };
  WebAssembly.Module.imports(module).forEach(({ name }) => {
    imports.wasi_snapshot_preview1[name] = calls[name] ?? (() => UNKNOWN);
  });
  try {
    const instance = await WebAssembly.instantiate(module, imports);
    use(instance.exports.memory);
    instance.exports._start();
  } catch (error) {
    if (!(error instanceof Ended)) {
      const said = errors.join('').trim();
      postMessage(JSON.stringify({ error: `The simulator stopped: ${said || error.message}` }));
    }
  }
  postMessage('"ended"');
};
