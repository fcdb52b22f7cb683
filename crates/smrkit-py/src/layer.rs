//! Layers written in Python. They use the simulator's own disk, are checked and charged like all others, and run on the calling thread.
//!
//! A disk or buffer is lent to a Python object for one call; an object that is kept longer refuses to work. Exceptions of the layer are set
//! aside, and raised again by the call that asked for the run.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyIndexError, PyNotImplementedError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat};
use smrkit::disk::Disk;
use smrkit::drive::Drive;
use smrkit::error::{DiskResult, Error, Fault};
use smrkit::geometry::{Edge, Guard, RecordingZone};
use smrkit::layer::{self, Capacity, Gauge, Gauges, Layer, LayerSpec, LayerStats, Need, Parameters, Scalar};
use smrkit::medium::interference::Interference;
use smrkit::medium::{Ascending, Buf, Medium, Placement};
use smrkit::schema::{AnyKind, Count, Key, Switch, Word, number};
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

/// A drive as layers see it: its sectors, tracks and recording zones, and what a write destroys.
#[pyclass(frozen)]
pub struct Geometry {
    of: smrkit::geometry::Geometry,
    law: Interference,
}

#[pymethods]
impl Geometry {
    #[getter]
    fn sectors(&self) -> u64 {
        self.of.sectors
    }

    #[getter]
    fn tracks(&self) -> u64 {
        self.of.tracks
    }

    fn track_start(&self, track: u64) -> PyResult<u64> {
        self.checked(track).map(|track| self.of.track_start(track).0)
    }

    fn track_sectors(&self, track: u64) -> PyResult<u64> {
        self.checked(track).map(|track| self.of.track_sectors(track))
    }

    fn track_of(&self, pba: u64) -> PyResult<u64> {
        match pba < self.of.sectors {
            true => Ok(self.of.track_of(Pba(pba)).0),
            false => Err(PyValueError::new_err(format!("PBA {pba} is past the disk of {} sectors", self.of.sectors))),
        }
    }

    /// Where each track begins, and the end of the last: `array.array("Q")`, which numpy takes without a copy.
    fn track_starts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let starts = (0..self.of.tracks).map(|track| self.of.track_start(Track(track)).0);
        let bytes: Vec<u8> = starts.chain([self.of.sectors]).flat_map(u64::to_ne_bytes).collect();
        let array = py.import("array")?.call_method1("array", ("Q",))?;
        array.call_method1("frombytes", (PyBytes::new(py, &bytes),))?;
        Ok(array)
    }

    /// The recording zones in the order of PBAs.
    #[getter]
    fn zones<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let zone = |zone: &RecordingZone| {
            let told = PyDict::new(py);
            told.set_item("first_pba", zone.first_pba.0)?;
            told.set_item("first_track", zone.first_track.0)?;
            told.set_item("tracks", zone.tracks)?;
            told.set_item("track_sectors", zone.track_sectors)?;
            told.set_item("toward", if zone.toward == Edge::Inner { "inner" } else { "outer" })?;
            Ok(told)
        };
        self.of.zones.iter().map(zone).collect()
    }

    /// The law of shingling, with its values in tracks or sectors.
    #[getter]
    fn interference<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let told = PyDict::new(py);
        told.set_item("form", self.law.form().map_or("none", |form| form.name()))?;
        match self.law {
            Interference::None | Interference::Interlaced => {}
            Interference::Blocks { reach } => told.set_item("reach", reach)?,
            Interference::Tracks { width, band } => {
                told.set_item("width", width)?;
                told.set_item("band", band)?;
            }
            Interference::Distances { did, dpid, writes } => {
                told.set_item("did", did)?;
                told.set_item("dpid", dpid)?;
                told.set_item("writes", writes)?;
            }
            Interference::Physical(profile) => {
                told.set_item("inner_tracks", profile.inner_tracks)?;
                told.set_item("outer_tracks", profile.outer_tracks)?;
            }
        }
        Ok(told)
    }

    /// Tracks to leave unwritten between two regions so that neither endangers the other; 0 if the law counts sectors.
    #[getter]
    fn guard_tracks(&self) -> u64 {
        match self.law.guard(&self.of) {
            Guard::Tracks(tracks) => tracks,
            Guard::Sectors(_) => 0,
        }
    }

    /// The same in sectors; 0 if the law counts tracks.
    #[getter]
    fn guard_sectors(&self) -> u64 {
        match self.law.guard(&self.of) {
            Guard::Sectors(sectors) => sectors,
            Guard::Tracks(_) => 0,
        }
    }

    /// The extents that a write of sectors destroys, as pairs of PBA and sectors.
    fn destroyed(&self, pba: u64, sectors: u64) -> PyResult<Vec<(u64, u64)>> {
        if pba.checked_add(sectors).is_none_or(|end| end > self.of.sectors) {
            let message = format!("{sectors} sectors from {pba} on are past the disk of {} sectors", self.of.sectors);
            return Err(PyValueError::new_err(message));
        }
        let mut runs = Vec::new();
        self.law.destroyed(&self.of, Pba(pba), sectors, |pba, sectors| runs.push((pba.0, sectors)));
        Ok(runs)
    }
}

impl Geometry {
    fn checked(&self, track: u64) -> PyResult<Track> {
        match track < self.of.tracks {
            true => Ok(Track(track)),
            false => Err(PyValueError::new_err(format!("track {track} is past the disk of {} tracks", self.of.tracks))),
        }
    }
}

/// Sectors being read or written.
#[pyclass(frozen)]
pub struct Buffer(Mutex<Sectors>);

/// Data of `sectors` sectors, also if the medium stores none.
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
    /// Copies `count` sectors of another buffer, from `first` on, to `at`.
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
    /// An empty disk that stands in while none is lent.
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

    /// Makes all writes durable, by emptying the drive's write cache to the platters.
    fn flush(&self, py: Python) -> PyResult<()> {
        self.access(py, Disk::flush)
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
    flushes: bool,
    gauges: bool,
    checks: bool,
}

impl PythonLayer {
    fn new(made: Made, drive: &Drive) -> Result<PythonLayer, Error> {
        Python::attach(|py| {
            let (object, capacity) = (made.object.into_bound(py), made.capacity);
            let has = |name| object.hasattr(name).unwrap_or(false);
            let delay = object.getattr_opt("idle_delay_ns").map_err(refused)?;
            let delay = delay.map_or(Ok(None), |delay| delay.extract::<Option<u64>>().map_err(refused))?;
            let disk = Disk::new(drive, Medium::NoData);
            let lent = Lent { disk, is_here: false, fault: None };
            let made =
                || PyResult::Ok((Py::new(py, LentDisk(Mutex::new(lent)))?, Py::new(py, Buffer::new(Buf::NoData, 0))?));
            let (disk, buffer) = made().map_err(refused)?;
            Ok(PythonLayer {
                disk,
                buffer,
                capacity,
                idle_delay: delay.map(Nanos),
                steps: has("step"),
                discards: has("discard"),
                flushes: has("flush"),
                gauges: has("gauges"),
                checks: has("check"),
                object: object.unbind(),
            })
        })
    }

    /// Calls a method of the Python layer, and lends `disk` for the call.
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
                // The disk's fault counts even if the layer caught the exception.
                (_, Some(fault)) => Err(fault),
                (Ok(value), None) => Ok(value),
                (Err(error), None) => Err(raised(error)),
            }
        })
    }
}

/// The error of a Python layer that could not be built. The exception is set aside, to be raised again with its traceback.
fn refused(error: PyErr) -> Error {
    let told = Error::Usage(error.to_string());
    set_aside(error);
    told
}

/// A layer's object and what it offers, on a drive with parameters.
struct Made {
    drive: String,
    /// Copies of a drive share its zones.
    zones: Arc<[RecordingZone]>,
    law: Interference,
    parameters: Parameters,
    capacity: Capacity,
    object: Py<PyAny>,
}

/// Objects that were made to learn their capacity, kept for the run: making one may take long on a large drive. A comparison asks for all
/// capacities before its first run.
#[derive(Default)]
struct Spares(Mutex<Vec<Made>>);

/// The most objects kept: if only capacities are asked for, none is ever taken out.
const SPARES_MAX: usize = 64;

impl Made {
    fn new(class: &Py<PyAny>, drive: &Drive, parameters: &Parameters) -> Result<Made, Error> {
        Python::attach(|py| {
            let geometry = Geometry { of: drive.geometry.clone(), law: drive.interference };
            let arguments = keywords(py, parameters).map_err(refused)?;
            let object = class.bind(py).call((geometry,), Some(&arguments)).map_err(refused)?;
            Ok(Made {
                drive: drive.name.clone(),
                zones: drive.geometry.zones.clone(),
                law: drive.interference,
                parameters: parameters.clone(),
                capacity: capacity(&object, drive)?,
                object: object.unbind(),
            })
        })
    }

    fn is_for(&self, drive: &Drive, parameters: &Parameters) -> bool {
        Arc::ptr_eq(&self.zones, &drive.geometry.zones)
            && self.law == drive.interference
            && self.drive == drive.name
            && self.parameters == *parameters
    }
}

// The lock is never held while Python runs: a thread that waits for it may hold the interpreter's.
impl Spares {
    fn capacity(&self, class: &Py<PyAny>, drive: &Drive, parameters: &Parameters) -> Result<Capacity, Error> {
        if let Some(known) = lock(&self.0).iter().find(|made| made.is_for(drive, parameters)) {
            return Ok(known.capacity);
        }
        let made = Made::new(class, drive, parameters)?;
        let capacity = made.capacity;
        let mut spares = lock(&self.0);
        spares.push(made);
        let oldest = (spares.len() > SPARES_MAX).then(|| spares.remove(0));
        drop(spares);
        drop(oldest);
        Ok(capacity)
    }

    fn take(&self, class: &Py<PyAny>, drive: &Drive, parameters: &Parameters) -> Result<Made, Error> {
        let mut spares = lock(&self.0);
        let at = spares.iter().position(|made| made.is_for(drive, parameters));
        let spare = at.map(|at| spares.swap_remove(at));
        drop(spares);
        spare.map_or_else(|| Made::new(class, drive, parameters), Ok)
    }
}

/// Parameters as arguments of a layer's class.
fn keywords<'py>(py: Python<'py>, parameters: &Parameters) -> PyResult<Bound<'py, PyDict>> {
    let arguments = PyDict::new(py);
    for (name, value) in parameters.scalars() {
        match value {
            Scalar::Bool(value) => arguments.set_item(name, value)?,
            Scalar::Int(value) => arguments.set_item(name, value)?,
            Scalar::Float(value) => arguments.set_item(name, value)?,
            other => arguments.set_item(name, other.to_string())?,
        }
    }
    Ok(arguments)
}

fn capacity(object: &Bound<PyAny>, drive: &Drive) -> Result<Capacity, Error> {
    let of = |name: &str| object.getattr(name).and_then(|value| value.extract::<u64>()).map_err(refused);
    let raw_sectors = drive.geometry.sectors;
    let (host_sectors, cache_sectors, spare_sectors) =
        (of("host_sectors")?, of("cache_sectors")?, of("spare_sectors")?);
    let guard_sectors =
        [host_sectors, cache_sectors, spare_sectors].iter().try_fold(raw_sectors, |rest, part| rest.checked_sub(*part));
    let Some(guard_sectors) = guard_sectors else {
        let message = format!(
            "host_sectors, cache_sectors and spare_sectors exceed the drive's {raw_sectors} sectors: offer fewer"
        );
        return Err(Error::Impossible(message));
    };
    Ok(Capacity { raw_sectors, host_sectors, cache_sectors, guard_sectors, spare_sectors })
}

/// An optional method that saves or restores a layer's state.
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
    /// Raises if `home` does not ascend: contents are found by bisection, which would miss data at its right place. Only some LBAs are
    /// checked, because each is a call into Python.
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

/// The PBA of an LBA by a Python layer's `method`.
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
        // Takes the data back: a layer that keeps the buffer finds it empty.
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

    fn flush(&mut self, disk: &mut Disk) -> DiskResult {
        match self.flushes {
            true => self.call(disk, |object, disk| object.call_method1("flush", (disk,)).map(drop)),
            false => disk.flush(),
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

    /// `false` unless the layer says otherwise.
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

    /// An exception here is set aside, as this method has no error.
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

    fn map_bytes(&self) -> u64 {
        let told = |py: Python| self.object.bind(py).getattr("map_bytes")?.extract();
        Python::attach(told).unwrap_or_else(|error| {
            set_aside(error);
            0
        })
    }

    fn gauges(&self) -> Gauges {
        if !self.gauges {
            return Gauges::default();
        }
        Python::attach(|py| self.object.bind(py).call_method0("gauges").and_then(|told| gauges(&told))).unwrap_or_else(
            |error| {
                set_aside(error);
                Gauges::default()
            },
        )
    }

    fn reset_stats(&mut self) {
        let reset = |py: Python| match self.object.bind(py).getattr_opt("reset_stats")? {
            Some(method) => method.call0().map(drop),
            None => Ok(()),
        };
        Python::attach(reset).unwrap_or_else(set_aside);
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

/// Reads gauges from a dict: `cache_fill`, and others by their names. Floats are shares, integers are counts, or bytes if the name says so.
fn gauges(told: &Bound<PyAny>) -> PyResult<Gauges> {
    /// Names of gauges last as long as the process; a layer has few.
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut gauges = Gauges::default();
    for (name, value) in told.extract::<BTreeMap<String, Bound<PyAny>>>()? {
        let number: f64 = value.extract()?;
        if name == "cache_fill" {
            gauges.cache_fill = Some(number);
            continue;
        }
        let mut names = lock(&NAMES);
        let known = names.get(name.as_str()).copied().unwrap_or_else(|| String::from(name.as_str()).leak());
        names.insert(known);
        gauges.others.push(match () {
            () if name.ends_with("_bytes") => Gauge::bytes(known, number as u64),
            () if value.is_instance_of::<PyFloat>() => Gauge::share(known, number),
            () => Gauge::count(known, number),
        });
    }
    Ok(gauges)
}

/// A parameter: its name, its default, and its possible words if it is a choice.
type Told<'py> = (String, Bound<'py, PyAny>, Vec<String>);

/// The key of a parameter. Like the layer's name, it lives as long as the process.
fn key((name, default, words): Told) -> PyResult<Key> {
    let text = default.str()?.to_string();
    let (kind, text): (&'static dyn AnyKind, String) = if let Ok(on) = default.extract::<bool>() {
        (&Switch, if on { "on" } else { "off" }.into())
    } else if default.is_instance_of::<PyFloat>() {
        (const { &number(0.0, f64::INFINITY) }, text)
    } else if default.extract::<u64>().is_ok() {
        (const { &Count(0, u64::MAX) }, text)
    } else if words.contains(&text) {
        let words = words.into_iter().enumerate().map(|(at, word)| (&*word.leak(), at)).collect::<Vec<_>>();
        (Box::leak(Box::new(Word(words.leak()))), text)
    } else {
        return Err(PyTypeError::new_err(format!(
            "the argument {name} of the layer is a parameter, and {} is no default for one: give it a bool, a number from 0 on, or a \
             word and the annotation Literal[…] with all words",
            default.repr()?
        )));
    };
    Ok(Key::new(name.leak(), text.leak(), "An argument of the layer's class.", kind))
}

/// Registers a layer written in Python under its name; `code` distinguishes its versions.
#[pyfunction]
pub fn register(
    py: Python,
    name: String,
    summary: &str,
    class_: Py<PyAny>,
    code: Option<&str>,
    parameters: Vec<Told>,
) -> PyResult<()> {
    // The name must be usable as a word of the command line.
    if name.is_empty() || name.contains([',', '.', ' ', ':', '=']) {
        return Err(exception(py, &Error::Usage(format!("'{name}' is no name of a layer: use letters and dashes"))));
    }
    let keys = parameters.into_iter().map(key).collect::<PyResult<Vec<Key>>>()?;
    // The layer is known until the process ends.
    let (class, spares): (&'static Py<PyAny>, &'static Spares) =
        (Box::leak(Box::new(class_)), Box::leak(Box::default()));
    let spec = LayerSpec {
        name: name.clone().leak(),
        summary: String::from(summary).leak(),
        paper: "none",
        keys: Box::leak(Box::new(move || keys.clone())),
        copes_with: &[],
        puts_rewriting_off: false,
        capacity: Box::leak(Box::new(move |drive: &Drive, set: &Parameters| spares.capacity(class, drive, set))),
        settled: &|_, set| Ok(set.clone()),
        build: Box::leak(Box::new(move |drive: &Drive, set: &Parameters| {
            let layer = PythonLayer::new(spares.take(class, drive, set)?, drive)?;
            Ok(Box::new(layer) as Box<dyn Layer>)
        })),
        code: code.map(|code| &*String::from(code).leak()),
    };
    layer::register(spec).raised(py)?;
    let mut names = lock(&NAMES);
    if !names.contains(&name) {
        names.push(name);
    }
    Ok(())
}
