//! Layers written in Python: on the simulator's own disk, checked and charged like every other, on the thread that called.
//!
//! A disk or buffer is lent to its Python object for one call and taken back; an object that is kept refuses afterwards. What
//! Python raises is set aside, and raised again where the run was asked for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyIndexError, PyNotImplementedError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use smrkit::disk::Disk;
use smrkit::drive::Drive;
use smrkit::error::{DiskResult, Error, Fault};
use smrkit::layer::{self, Capacity, Layer, LayerSpec, LayerStats, Need, Scalar};
use smrkit::medium::{Ascending, Buf, Medium, Placement};
use smrkit::tally::Cause;
use smrkit::units::{Lba, Nanos, Pba, Track};

use crate::error::{Raised, exception};

thread_local! {
    /// Exception that Python raised in a layer, until the run ends.
    static SET_ASIDE: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Names of layers written in Python.
static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Sets an exception aside; the first one counts.
pub fn set_aside(raised: PyErr) {
    SET_ASIDE.with_borrow_mut(|aside| {
        aside.get_or_insert(raised);
    });
}

/// Exception that was set aside on this thread.
pub fn take_aside() -> Option<PyErr> {
    SET_ASIDE.take()
}

/// Names of layers written in Python.
pub fn names() -> Vec<String> {
    lock(&NAMES).clone()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn raised(error: PyErr) -> Box<Fault> {
    let told = Box::new(Fault::Inconsistent(error.to_string()));
    set_aside(error);
    told
}

/// A drive as layers see it: its sectors and tracks.
#[pyclass(frozen)]
pub struct Geometry(smrkit::geometry::Geometry);

#[pymethods]
impl Geometry {
    #[getter]
    fn sectors(&self) -> u64 {
        self.0.sectors
    }

    #[getter]
    fn tracks(&self) -> u64 {
        self.0.tracks
    }

    fn track_start(&self, track: u64) -> PyResult<u64> {
        self.checked(track).map(|track| self.0.track_start(track).0)
    }

    fn track_sectors(&self, track: u64) -> PyResult<u64> {
        self.checked(track).map(|track| self.0.track_sectors(track))
    }

    fn track_of(&self, pba: u64) -> PyResult<u64> {
        match pba < self.0.sectors {
            true => Ok(self.0.track_of(Pba(pba)).0),
            false => Err(PyValueError::new_err(format!("PBA {pba} is past the disk of {} sectors", self.0.sectors))),
        }
    }
}

impl Geometry {
    fn checked(&self, track: u64) -> PyResult<Track> {
        match track < self.0.tracks {
            true => Ok(Track(track)),
            false => Err(PyValueError::new_err(format!("track {track} is past the disk of {} tracks", self.0.tracks))),
        }
    }
}

/// Sectors on their way.
#[pyclass(frozen)]
pub struct Buffer(Mutex<Sectors>);

/// Data of `sectors` sectors, whether or not the medium holds any.
struct Sectors {
    data: Buf,
    count: u64,
}

impl Buffer {
    fn new(data: Buf, count: u64) -> Buffer {
        Buffer(Mutex::new(Sectors { data, count }))
    }
}

impl Sectors {
    fn check_range(&self, at: u64, count: u64) -> PyResult<()> {
        match at.checked_add(count) {
            Some(end) if end <= self.count => Ok(()),
            _ => Err(PyIndexError::new_err(format!(
                "{count} sectors from {at} on lie outside a buffer of {}: name sectors within it",
                self.count
            ))),
        }
    }
}

#[pymethods]
impl Buffer {
    /// Puts `count` sectors of another, from `first` on, at `at`.
    fn put(&self, at: u64, source: &Bound<Buffer>, first: u64, count: u64) -> PyResult<()> {
        let from = {
            let source = lock(&source.get().0);
            source.check_range(first, count)?;
            source.data.clone()
        };
        let mut to = lock(&self.0);
        to.check_range(at, count)?;
        to.data.put(at, &from, first, count);
        Ok(())
    }
}

/// The disk, while it is lent.
#[pyclass(frozen)]
pub struct LentDisk(Mutex<Lent>);

struct Lent {
    /// Stand-in for the disk while there is none.
    disk: Disk,
    is_here: bool,
    fault: Option<Box<Fault>>,
}

#[pymethods]
impl LentDisk {
    /// Reads sectors into a buffer.
    fn read(&self, py: Python, pba: u64, sectors: u64, out: &Bound<Buffer>, at: u64, cause: &str) -> PyResult<()> {
        let cause = named(cause)?;
        let mut out = lock(&out.get().0);
        out.check_range(at, sectors)?;
        self.access(py, |disk| disk.read(Pba(pba), sectors, cause, &mut out.data, at))
    }

    /// Writes sectors from a buffer.
    fn write(&self, py: Python, pba: u64, sectors: u64, data: &Bound<Buffer>, at: u64, cause: &str) -> PyResult<()> {
        let cause = named(cause)?;
        let data = lock(&data.get().0);
        data.check_range(at, sectors)?;
        self.access(py, |disk| disk.write(Pba(pba), sectors, cause, &data.data, at))
    }

    /// A buffer with room for sectors.
    fn buffer(&self, py: Python, sectors: u64) -> PyResult<Buffer> {
        self.access(py, |disk| Ok(Buffer::new(disk.buf(sectors), sectors)))
    }

    /// The time in nanoseconds.
    #[getter]
    fn now_ns(&self, py: Python) -> PyResult<u64> {
        self.access(py, |disk| Ok(disk.now().0))
    }
}

fn named(cause: &str) -> PyResult<Cause> {
    let found = Cause::ALL.into_iter().find(|known| known.name() == cause);
    found.ok_or_else(|| PyValueError::new_err(format!("cause '{cause}': expected host, destage, clean or map")))
}

impl LentDisk {
    fn access<T>(&self, py: Python, access: impl FnOnce(&mut Disk) -> DiskResult<T>) -> PyResult<T> {
        let mut lent = lock(&self.0);
        if !lent.is_here {
            return Err(PyRuntimeError::new_err("a disk is lent for one call of a layer's method: do not keep it"));
        }
        access(&mut lent.disk).map_err(|fault| {
            let told = exception(py, &Error::Usage(fault.to_string()));
            lent.fault = Some(fault);
            told
        })
    }

    fn swap(&self, disk: &mut Disk) {
        let mut lent = lock(&self.0);
        std::mem::swap(&mut lent.disk, disk);
        lent.is_here = !lent.is_here;
    }
}

/// A layer whose methods are Python's.
struct PythonLayer {
    object: Py<PyAny>,
    disk: Py<LentDisk>,
    buffer: Py<Buffer>,
    capacity: Capacity,
    idle_delay: Option<Nanos>,
    /// Its optional methods.
    steps: bool,
    discards: bool,
    checks: bool,
}

impl PythonLayer {
    fn new(class: &Py<PyAny>, drive: &Drive) -> Result<PythonLayer, Error> {
        Python::attach(|py| {
            let object = make(py, class, drive)?;
            let capacity = capacity(&object, drive)?;
            let has = |name| object.hasattr(name).unwrap_or(false);
            let delay = object.getattr_opt("idle_delay_ns").map_err(refused)?;
            let delay = delay.map_or(Ok(None), |delay| delay.extract::<Option<u64>>().map_err(refused))?;
            let disk = Disk::new(drive, Medium::NoData);
            let lent = Lent { disk, is_here: false, fault: None };
            let made =
                || PyResult::Ok((Py::new(py, LentDisk(Mutex::new(lent)))?, Py::new(py, Buffer::new(Buf::NoData, 0))?));
            let (disk, buffer) = made().map_err(refused)?;
            let (steps, discards, checks) = (has("step"), has("discard"), has("check"));
            Ok(PythonLayer {
                object: object.unbind(),
                disk,
                buffer,
                capacity,
                idle_delay: delay.map(Nanos),
                steps,
                discards,
                checks,
            })
        })
    }

    /// Calls a method while the disk is lent.
    fn call<T>(
        &self,
        disk: &mut Disk,
        call: impl FnOnce(&Bound<PyAny>, &Bound<LentDisk>) -> PyResult<T>,
    ) -> DiskResult<T> {
        Python::attach(|py| {
            let lent = self.disk.bind(py);
            lent.get().swap(disk);
            let result = call(self.object.bind(py), lent);
            lent.get().swap(disk);
            let fault = lock(&lent.get().0).fault.take();
            match (result, fault) {
                // A fault counts even where the layer caught it: the disk does not forget.
                (_, Some(fault)) => Err(fault),
                (Ok(value), None) => Ok(value),
                (Err(error), None) => Err(raised(error)),
            }
        })
    }
}

/// The error of a Python layer that could not be built; the exception is kept, to be raised again with its traceback.
fn refused(error: PyErr) -> Error {
    let told = Error::Usage(error.to_string());
    set_aside(error);
    told
}

fn make<'py>(py: Python<'py>, class: &Py<PyAny>, drive: &Drive) -> Result<Bound<'py, PyAny>, Error> {
    class.bind(py).call1((Geometry(drive.geometry.clone()),)).map_err(refused)
}

fn capacity(object: &Bound<PyAny>, drive: &Drive) -> Result<Capacity, Error> {
    let of = |name: &str| object.getattr(name).and_then(|value| value.extract::<u64>());
    let (raw_sectors, host_sectors) = (drive.geometry.sectors, of("host_sectors").map_err(refused)?);
    let cache_sectors = of("cache_sectors").unwrap_or(0);
    let Some(guard_sectors) = raw_sectors.checked_sub(host_sectors).and_then(|rest| rest.checked_sub(cache_sectors))
    else {
        let message = format!("host_sectors and cache_sectors exceed the drive's {raw_sectors} sectors: offer fewer");
        return Err(Error::Impossible(message));
    };
    Ok(Capacity { raw_sectors, host_sectors, cache_sectors, guard_sectors, ..Capacity::default() })
}

/// A method that saves or restores a layer's state, which a layer need not have.
fn offered_state<'py>(object: &Bound<'py, PyAny>, method: &str) -> PyResult<Bound<'py, PyAny>> {
    let found = object.getattr_opt(method)?;
    found.ok_or_else(|| {
        let name = object.get_type().name().map_or_else(|_| "it".into(), |name| name.to_string());
        let message = format!(
            "the state of the layer can't be saved: give {name} methods state(), which returns bytes, and restore(state)"
        );
        PyNotImplementedError::new_err(message)
    })
}

impl PythonLayer {
    /// Raises where `home` does not ascend: contents are found by bisection, and would later be missed at a place that is right.
    /// At most this many LBAs are asked for, since each is a call into Python.
    fn check_homes(&self) {
        const ASKED: usize = 10_000;
        let sectors = self.capacity.host_sectors;
        let lbas = (0..sectors).step_by((sectors as usize).div_ceil(ASKED).max(1));
        let homes = lbas.map(|lba| (lba, place(&self.object, "home", Lba(lba)).0));
        homes.reduce(|(before, low), (lba, home)| {
            if home <= low {
                set_aside(PyValueError::new_err(format!(
                    "home({lba}) is {home}, and home({before}) {low}: home has to ascend, as it tells where a disk that was \
                     written in order has each LBA; a layer that moves data tells its places by locate"
                )));
            }
            (lba, home)
        });
    }
}

/// Place of an LBA by a layer of Python.
fn place(object: &Py<PyAny>, method: &str, lba: Lba) -> Pba {
    Python::attach(|py| match object.call_method1(py, method, (lba.0,)).and_then(|pba| pba.extract(py)) {
        Ok(pba) => Pba(pba),
        Err(error) => {
            set_aside(error);
            Pba(lba.0)
        }
    })
}

impl Layer for PythonLayer {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        let swap = |out: &mut Buf, count| {
            let mut lent = lock(&self.buffer.get().0);
            lent.count = count;
            std::mem::swap(&mut lent.data, out);
        };
        swap(out, n);
        let done = self.call(disk, |object, disk| {
            object.call_method1(pyo3::intern!(object.py(), "read"), (disk, lba.0, n, &self.buffer)).map(drop)
        });
        // Who keeps the buffer finds nothing in it.
        swap(out, 0);
        done
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        {
            let mut lent = lock(&self.buffer.get().0);
            lent.count = n;
            lent.data.clone_from(data);
        }
        let done = self.call(disk, |object, disk| {
            object.call_method1(pyo3::intern!(object.py(), "write"), (disk, lba.0, n, &self.buffer)).map(drop)
        });
        lock(&self.buffer.get().0).count = 0;
        done
    }

    fn discard(&mut self, disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        match self.discards {
            true => self.call(disk, |object, disk| object.call_method1("discard", (disk, lba.0, n)).map(drop)),
            false => Ok(()),
        }
    }

    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        match self.steps {
            true => self.call(disk, |object, disk| object.call_method1("step", (disk, need == Need::Must))?.extract()),
            false => Ok(false),
        }
    }

    fn idle_delay(&self) -> Option<Nanos> {
        self.idle_delay
    }

    fn fill(&mut self) -> Arc<dyn Placement> {
        self.check_homes();
        let object = Python::attach(|py| self.object.clone_ref(py));
        Arc::new(Ascending::new(self.capacity.host_sectors, move |lba| place(&object, "home", lba)))
    }

    /// A layer that says nothing promises nothing.
    fn keeps_acknowledged(&self) -> bool {
        let says = |py: Python| match self.object.bind(py).getattr_opt("keeps_acknowledged")? {
            Some(value) => value.is_truthy(),
            None => Ok(false),
        };
        Python::attach(says).unwrap_or_else(|error| {
            set_aside(error);
            false
        })
    }

    fn power_cut(&mut self) {
        let cut = |py: Python| match self.object.bind(py).getattr_opt("power_cut")? {
            Some(method) => method.call0().map(drop),
            None => Ok(()),
        };
        Python::attach(cut).unwrap_or_else(set_aside);
    }

    /// What fails here is raised where the run was asked for.
    fn state(&self) -> Vec<u8> {
        let saved = |py: Python| offered_state(self.object.bind(py), "state")?.call0()?.extract();
        Python::attach(saved).unwrap_or_else(|error| {
            set_aside(error);
            Vec::new()
        })
    }

    fn restore(&mut self, saved: &[u8]) -> DiskResult {
        let restore =
            |py: Python| offered_state(self.object.bind(py), "restore")?.call1((PyBytes::new(py, saved),)).map(drop);
        Python::attach(restore).map_err(raised)
    }

    fn locate(&self, lba: Lba) -> Pba {
        place(&self.object, "locate", lba)
    }

    fn check(&self) -> DiskResult {
        let check = |py: Python| self.object.call_method0(py, "check").map(drop).map_err(raised);
        if self.checks { Python::attach(check) } else { Ok(()) }
    }

    fn stats(&self) -> LayerStats {
        let counted = |py: Python| self.object.call_method0(py, "stats")?.extract::<BTreeMap<String, u64>>(py);
        let stats = Python::attach(counted).unwrap_or_else(|error| {
            set_aside(error);
            BTreeMap::new()
        });
        let all = LayerStats::default();
        stats.into_iter().fold(all, |all, (name, count)| all.with(&name, Scalar::Int(count)))
    }
}

/// Makes a layer written in Python known by its name; `code` tells it from other versions of it.
#[pyfunction]
pub fn register(py: Python, name: String, summary: &str, class_: Py<PyAny>, code: Option<&str>) -> PyResult<()> {
    // A name is a word of the command line.
    if name.is_empty() || name.contains([',', '.', ' ', ':', '=']) {
        return Err(exception(py, &Error::Usage(format!("'{name}' is no name of a layer: use letters and dashes"))));
    }
    let own = class_.clone_ref(py);
    let offered = move |drive: &Drive| Python::attach(|py| capacity(&make(py, &own, drive)?, drive));
    let build = move |drive: &Drive| Ok(Box::new(PythonLayer::new(&class_, drive)?) as Box<dyn Layer>);
    let spec = LayerSpec::from_closures(&name, summary, offered, build);
    layer::register(code.map_or(LayerSpec { ..spec }, |code| spec.with_code(code))).raised(py)?;
    let mut names = lock(&NAMES);
    if !names.contains(&name) {
        names.push(name);
    }
    Ok(())
}
