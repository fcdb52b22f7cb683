//! Layers written in Python. They use the simulator's own disk, are checked and charged like all others, and run on the calling thread.
//!
//! A disk or buffer is lent to the Python layer for one call. If the layer keeps it longer, using it raises an exception. Exceptions of the
//! layer are set aside, because the simulator's methods can't return them, and raised by the call that asked for the run.

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

/// Sets an exception aside, unless there is one already.
pub fn set_aside(raised: PyErr) {
    SET_ASIDE.with_borrow_mut(|aside| {
        aside.get_or_insert(raised);
    });
}

/// Takes the exception that was set aside on this thread.
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

/// The result of Python code that is called where an exception can't be returned: it is set aside, and the default is returned.
fn or_set_aside<T: Default>(code: impl FnOnce(Python) -> PyResult<T>) -> T {
    Python::attach(code).unwrap_or_else(|exception| {
        set_aside(exception);
        T::default()
    })
}

/// A fault that stands for an exception, which is set aside.
fn as_fault(exception: PyErr) -> Box<Fault> {
    let fault = Box::new(Fault::Inconsistent(exception.to_string()));
    set_aside(exception);
    fault
}

/// A drive for layers: its sectors, tracks and recording zones, and what a write destroys.
#[pyclass(frozen)]
pub struct Geometry {
    geometry: smrkit::geometry::Geometry,
    law: Interference,
}

#[pymethods]
impl Geometry {
    #[getter]
    fn sectors(&self) -> u64 {
        self.geometry.sectors
    }

    #[getter]
    fn tracks(&self) -> u64 {
        self.geometry.tracks
    }

    fn track_start(&self, track: u64) -> PyResult<u64> {
        self.track(track).map(|track| self.geometry.track_start(track).0)
    }

    fn track_sectors(&self, track: u64) -> PyResult<u64> {
        self.track(track).map(|track| self.geometry.track_sectors(track))
    }

    fn track_of(&self, pba: u64) -> PyResult<u64> {
        match pba < self.geometry.sectors {
            true => Ok(self.geometry.track_of(Pba(pba)).0),
            false => {
                Err(PyValueError::new_err(format!("PBA {pba} is past the disk of {} sectors", self.geometry.sectors)))
            }
        }
    }

    /// The first sector of each track, and the end of the last, as an `array.array("Q")`, which numpy takes without a copy.
    fn track_starts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let starts = (0..self.geometry.tracks).map(|track| self.geometry.track_start(Track(track)).0);
        let bytes: Vec<u8> = starts.chain([self.geometry.sectors]).flat_map(u64::to_ne_bytes).collect();
        let array = py.import("array")?.call_method1("array", ("Q",))?;
        array.call_method1("frombytes", (PyBytes::new(py, &bytes),))?;
        Ok(array)
    }

    /// The recording zones in the order of PBAs.
    #[getter]
    fn zones<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let zone = |zone: &RecordingZone| {
            let dict = PyDict::new(py);
            dict.set_item("first_pba", zone.first_pba.0)?;
            dict.set_item("first_track", zone.first_track.0)?;
            dict.set_item("tracks", zone.tracks)?;
            dict.set_item("track_sectors", zone.track_sectors)?;
            dict.set_item("toward", if zone.toward == Edge::Inner { "inner" } else { "outer" })?;
            Ok(dict)
        };
        self.geometry.zones.iter().map(zone).collect()
    }

    /// The shingling law: its form, and its values in tracks or sectors.
    #[getter]
    fn interference<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("form", self.law.form().map_or("none", |form| form.name()))?;
        match self.law {
            Interference::None | Interference::Interlaced => {}
            Interference::Blocks { reach } => dict.set_item("reach", reach)?,
            Interference::Tracks { width, band } => {
                dict.set_item("width", width)?;
                dict.set_item("band", band)?;
            }
            Interference::Distances { did, dpid, writes } => {
                dict.set_item("did", did)?;
                dict.set_item("dpid", dpid)?;
                dict.set_item("writes", writes)?;
            }
            Interference::Physical(profile) => {
                dict.set_item("inner_tracks", profile.inner_tracks)?;
                dict.set_item("outer_tracks", profile.outer_tracks)?;
            }
        }
        Ok(dict)
    }

    /// Tracks to leave unwritten between two regions, so that no write to one damages the other; 0 if the law counts sectors.
    #[getter]
    fn guard_tracks(&self) -> u64 {
        match self.law.guard(&self.geometry) {
            Guard::Tracks(tracks) => tracks,
            Guard::Sectors(_) => 0,
        }
    }

    /// Like `guard_tracks`, in sectors; 0 if the law counts tracks.
    #[getter]
    fn guard_sectors(&self) -> u64 {
        match self.law.guard(&self.geometry) {
            Guard::Sectors(sectors) => sectors,
            Guard::Tracks(_) => 0,
        }
    }

    /// The extents that a write of sectors destroys, as pairs of PBA and sectors.
    fn destroyed(&self, pba: u64, sectors: u64) -> PyResult<Vec<(u64, u64)>> {
        if pba.checked_add(sectors).is_none_or(|end| end > self.geometry.sectors) {
            let message =
                format!("{sectors} sectors from {pba} on are past the disk of {} sectors", self.geometry.sectors);
            return Err(PyValueError::new_err(message));
        }
        let mut extents = Vec::new();
        self.law.destroyed(&self.geometry, Pba(pba), sectors, |pba, sectors| extents.push((pba.0, sectors)));
        Ok(extents)
    }
}

impl Geometry {
    fn track(&self, track: u64) -> PyResult<Track> {
        match track < self.geometry.tracks {
            true => Ok(Track(track)),
            false => {
                Err(PyValueError::new_err(format!("track {track} is past the disk of {} tracks", self.geometry.tracks)))
            }
        }
    }
}

/// The data of sectors that are read or written.
#[pyclass(frozen)]
pub struct Buffer(Mutex<Sectors>);

struct Sectors {
    data: Buf,
    /// The number of sectors, which `data` does not know if the medium stores no data.
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
        // Copied first, because the source may be this buffer, whose lock must not be taken twice.
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

/// The disk that a layer may use during a call.
#[pyclass(frozen)]
pub struct LentDisk(Mutex<Lent>);

struct Lent {
    /// The run's disk while it is lent, else an empty disk in its place.
    disk: Disk,
    is_lent: bool,
    /// The last fault of an access during the call.
    fault: Option<Box<Fault>>,
}

#[pymethods]
impl LentDisk {
    /// Reads sectors into a buffer.
    fn read(&self, py: Python, pba: u64, sectors: u64, out: &Bound<Buffer>, at: u64, cause: &str) -> PyResult<()> {
        let cause = parse_cause(cause)?;
        let mut out = lock(&out.get().0);
        out.check_range(at, sectors)?;
        self.access(py, |disk| disk.read(Pba(pba), sectors, cause, &mut out.data, at))
    }

    /// Writes sectors from a buffer.
    fn write(&self, py: Python, pba: u64, sectors: u64, data: &Bound<Buffer>, at: u64, cause: &str) -> PyResult<()> {
        let cause = parse_cause(cause)?;
        let data = lock(&data.get().0);
        data.check_range(at, sectors)?;
        self.access(py, |disk| disk.write(Pba(pba), sectors, cause, &data.data, at))
    }

    /// A buffer with room for sectors.
    fn buffer(&self, py: Python, sectors: u64) -> PyResult<Buffer> {
        self.access(py, |disk| Ok(Buffer::new(disk.buf(sectors), sectors)))
    }

    /// Makes all writes durable: writes the drive's write cache to the platters.
    fn flush(&self, py: Python) -> PyResult<()> {
        self.access(py, Disk::flush)
    }

    /// The time in nanoseconds.
    #[getter]
    fn now_ns(&self, py: Python) -> PyResult<u64> {
        self.access(py, |disk| Ok(disk.now().0))
    }
}

fn parse_cause(name: &str) -> PyResult<Cause> {
    let cause = Cause::ALL.into_iter().find(|cause| cause.name() == name);
    cause.ok_or_else(|| PyValueError::new_err(format!("cause '{name}': expected host, destage, clean or map")))
}

impl LentDisk {
    fn access<T>(&self, py: Python, access: impl FnOnce(&mut Disk) -> DiskResult<T>) -> PyResult<T> {
        let mut lent = lock(&self.0);
        if !lent.is_lent {
            return Err(PyRuntimeError::new_err("a disk is lent for one call of a layer's method: do not keep it"));
        }
        access(&mut lent.disk).map_err(|fault| {
            let exception = exception(py, &Error::Usage(fault.to_string()));
            lent.fault = Some(fault);
            exception
        })
    }

    /// Lends `disk`, or gives it back.
    fn swap(&self, disk: &mut Disk) {
        let mut lent = lock(&self.0);
        std::mem::swap(&mut lent.disk, disk);
        lent.is_lent = !lent.is_lent;
    }
}

/// A layer whose methods are Python's.
struct PythonLayer {
    object: Py<PyAny>,
    disk: Py<LentDisk>,
    buffer: Py<Buffer>,
    capacity: Capacity,
    idle_delay: Option<Nanos>,
}

impl PythonLayer {
    fn new(built: Built, drive: &Drive) -> Result<PythonLayer, Error> {
        Python::attach(|py| {
            let (object, capacity) = (built.object.into_bound(py), built.capacity);
            let delay = object.getattr_opt("idle_delay_ns").map_err(as_error)?;
            let delay = delay.map_or(Ok(None), |delay| delay.extract::<Option<u64>>().map_err(as_error))?;
            let lent = Lent { disk: Disk::new(drive, Medium::NoData), is_lent: false, fault: None };
            let disk = Py::new(py, LentDisk(Mutex::new(lent))).map_err(as_error)?;
            let buffer = Py::new(py, Buffer::new(Buf::NoData, 0)).map_err(as_error)?;
            Ok(PythonLayer { object: object.unbind(), disk, buffer, capacity, idle_delay: delay.map(Nanos) })
        })
    }

    /// Calls a method without arguments; `None` if the layer does not have it.
    fn call_optional<'py>(&self, py: Python<'py>, method: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.object.bind(py).getattr_opt(method)?.map(|method| method.call0()).transpose()
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
                // A fault of the disk ends the run even if the layer caught the exception.
                (_, Some(fault)) => Err(fault),
                (Ok(value), None) => Ok(value),
                (Err(exception), None) => Err(as_fault(exception)),
            }
        })
    }
}

/// An error that stands for an exception, which is set aside so that it is raised with its traceback.
fn as_error(exception: PyErr) -> Error {
    let error = Error::Usage(exception.to_string());
    set_aside(exception);
    error
}

/// A layer's object for a drive and parameters, and its capacity.
struct Built {
    drive: String,
    /// Identify the drive, because copies of a drive share them.
    zones: Arc<[RecordingZone]>,
    law: Interference,
    parameters: Parameters,
    capacity: Capacity,
    object: Py<PyAny>,
}

/// Objects that were built to learn their capacity, kept for the run, because building one may take long on a large drive. A comparison asks
/// for all capacities before its first run.
#[derive(Default)]
struct Unused(Mutex<Vec<Built>>);

/// The most unused objects that are kept. If only capacities are asked for, none is ever used.
const UNUSED_MAX: usize = 64;

impl Built {
    fn new(class: &Py<PyAny>, drive: &Drive, parameters: &Parameters) -> Result<Built, Error> {
        Python::attach(|py| {
            let geometry = Geometry { geometry: drive.geometry.clone(), law: drive.interference };
            let arguments = keywords(py, parameters).map_err(as_error)?;
            let object = class.bind(py).call((geometry,), Some(&arguments)).map_err(as_error)?;
            Ok(Built {
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

// The lock is never held while Python runs, because a thread that waits for it may hold the interpreter's lock.
impl Unused {
    fn capacity(&self, class: &Py<PyAny>, drive: &Drive, parameters: &Parameters) -> Result<Capacity, Error> {
        if let Some(known) = lock(&self.0).iter().find(|built| built.is_for(drive, parameters)) {
            return Ok(known.capacity);
        }
        let built = Built::new(class, drive, parameters)?;
        let capacity = built.capacity;
        let mut unused = lock(&self.0);
        unused.push(built);
        let oldest = (unused.len() > UNUSED_MAX).then(|| unused.remove(0));
        // Dropping the object may run Python, so the lock is released first.
        drop(unused);
        drop(oldest);
        Ok(capacity)
    }

    fn take_or_build(&self, class: &Py<PyAny>, drive: &Drive, parameters: &Parameters) -> Result<Built, Error> {
        let mut unused = lock(&self.0);
        let at = unused.iter().position(|built| built.is_for(drive, parameters));
        let found = at.map(|at| unused.swap_remove(at));
        drop(unused);
        found.map_or_else(|| Built::new(class, drive, parameters), Ok)
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
    let attribute = |name: &str| object.getattr(name).and_then(|value| value.extract::<u64>()).map_err(as_error);
    let raw_sectors = drive.geometry.sectors;
    let (host_sectors, cache_sectors, spare_sectors) =
        (attribute("host_sectors")?, attribute("cache_sectors")?, attribute("spare_sectors")?);
    // Whatever is left of the drive counts as guards.
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

/// Looks up a method that saves or restores a layer's state. A layer without it raises an exception that says what to add.
fn state_method<'py>(object: &Bound<'py, PyAny>, method: &str) -> PyResult<Bound<'py, PyAny>> {
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
    /// Sets an exception aside if `home` does not ascend. Data is found by bisection, which would miss data at its right place. Only some
    /// LBAs are checked, because each takes a call of Python.
    fn check_homes(&self) {
        const CHECKED: usize = 10_000;
        let sectors = self.capacity.host_sectors;
        let lbas = (0..sectors).step_by((sectors as usize).div_ceil(CHECKED).max(1));
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

/// The PBA of an LBA by a Python layer's `home` or `locate`. An exception is set aside, and the LBA is returned, which ascends as a home must.
fn place(object: &Py<PyAny>, method: &str, lba: Lba) -> Pba {
    let pba = or_set_aside(|py| object.call_method1(py, method, (lba.0,))?.extract(py).map(Some));
    Pba(pba.unwrap_or(lba.0))
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
        // The data is taken back, so that a layer that kept the buffer finds it empty.
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
        self.call(disk, |object, disk| match object.getattr_opt("discard")? {
            Some(discard) => discard.call1((disk, lba.0, n)).map(drop),
            None => Ok(()),
        })
    }

    fn flush(&mut self, disk: &mut Disk) -> DiskResult {
        self.call(disk, |object, disk| match object.getattr_opt("flush")? {
            Some(flush) => flush.call1((disk,)).map(drop),
            None => disk.get().flush(object.py()),
        })
    }

    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        self.call(disk, |object, disk| match object.getattr_opt(pyo3::intern!(object.py(), "step"))? {
            Some(step) => step.call1((disk, need == Need::Must))?.extract(),
            None => Ok(false),
        })
    }

    fn idle_delay(&self) -> Option<Nanos> {
        self.idle_delay
    }

    fn fill(&mut self) -> Arc<dyn Placement> {
        self.check_homes();
        let object = Python::attach(|py| self.object.clone_ref(py));
        Arc::new(Ascending::new(self.capacity.host_sectors, move |lba| place(&object, "home", lba)))
    }

    /// `false` by default.
    fn keeps_acknowledged(&self) -> bool {
        or_set_aside(|py| match self.object.bind(py).getattr_opt("keeps_acknowledged")? {
            Some(value) => value.is_truthy(),
            None => Ok(false),
        })
    }

    fn power_cut(&mut self) {
        or_set_aside(|py| self.call_optional(py, "power_cut").map(drop));
    }

    fn state(&self) -> Vec<u8> {
        or_set_aside(|py| state_method(self.object.bind(py), "state")?.call0()?.extract())
    }

    fn restore(&mut self, saved: &[u8]) -> DiskResult {
        let restore =
            |py: Python| state_method(self.object.bind(py), "restore")?.call1((PyBytes::new(py, saved),)).map(drop);
        Python::attach(restore).map_err(as_fault)
    }

    fn locate(&self, lba: Lba) -> Pba {
        place(&self.object, "locate", lba)
    }

    fn check(&self) -> DiskResult {
        Python::attach(|py| self.call_optional(py, "check").map(drop)).map_err(as_fault)
    }

    fn map_bytes(&self) -> u64 {
        or_set_aside(|py| self.object.bind(py).getattr("map_bytes")?.extract())
    }

    fn gauges(&self) -> Gauges {
        or_set_aside(|py| match self.call_optional(py, "gauges")? {
            Some(gauges) => read_gauges(&gauges),
            None => Ok(Gauges::default()),
        })
    }

    fn reset_stats(&mut self) {
        or_set_aside(|py| self.call_optional(py, "reset_stats").map(drop));
    }

    fn stats(&self) -> LayerStats {
        let counters: BTreeMap<String, u64> = or_set_aside(|py| self.object.call_method0(py, "stats")?.extract(py));
        counters.into_iter().fold(LayerStats::default(), |all, (name, count)| all.with(&name, Scalar::Int(count)))
    }
}

/// Reads gauges from a dict: `cache_fill`, and others by name. A float is a share, an integer a count, or bytes if the name ends in `_bytes`.
fn read_gauges(dict: &Bound<PyAny>) -> PyResult<Gauges> {
    /// Names live as long as the process. Each is leaked only once.
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut gauges = Gauges::default();
    for (name, value) in dict.extract::<BTreeMap<String, Bound<PyAny>>>()? {
        let number: f64 = value.extract()?;
        if name == "cache_fill" {
            gauges.cache_fill = Some(number);
            continue;
        }
        let mut names = lock(&NAMES);
        let name = names.get(name.as_str()).copied().unwrap_or_else(|| name.leak());
        names.insert(name);
        gauges.others.push(match () {
            () if name.ends_with("_bytes") => Gauge::bytes(name, number as u64),
            () if value.is_instance_of::<PyFloat>() => Gauge::share(name, number),
            () => Gauge::count(name, number),
        });
    }
    Ok(gauges)
}

/// An argument of a layer's class: its name, its default, and the words that it takes.
type Argument<'py> = (String, Bound<'py, PyAny>, Vec<String>);

/// The key of a parameter. Like the layer's name, it lives as long as the process.
fn key((name, default, words): Argument) -> PyResult<Key> {
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

/// Registers a layer written in Python. `code` identifies the version of its code.
#[pyfunction]
pub fn register(
    py: Python,
    name: String,
    summary: &str,
    class_: Py<PyAny>,
    code: Option<&str>,
    parameters: Vec<Argument>,
) -> PyResult<()> {
    // The name must be usable as a word of the command line.
    if name.is_empty() || name.contains([',', '.', ' ', ':', '=']) {
        return Err(exception(py, &Error::Usage(format!("'{name}' is no name of a layer: use letters and dashes"))));
    }
    let keys = parameters.into_iter().map(key).collect::<PyResult<Vec<Key>>>()?;
    // A registered layer lives until the process ends.
    let (class, unused): (&'static Py<PyAny>, &'static Unused) =
        (Box::leak(Box::new(class_)), Box::leak(Box::default()));
    let spec = LayerSpec {
        name: name.clone().leak(),
        summary: String::from(summary).leak(),
        paper: "none",
        keys: Box::leak(Box::new(move || keys.clone())),
        copes_with: &[],
        puts_rewriting_off: false,
        capacity: Box::leak(Box::new(move |drive: &Drive, set: &Parameters| unused.capacity(class, drive, set))),
        settled: &|_, set| Ok(set.clone()),
        build: Box::leak(Box::new(move |drive: &Drive, set: &Parameters| {
            let layer = PythonLayer::new(unused.take_or_build(class, drive, set)?, drive)?;
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
