//! Drives and arrays that are to be run, and how they are built.

use crate::device::address::ArrayLayout;
use crate::device::level::{CHUNK_SECTORS, Level};
use crate::device::spec::{ArraySpec, DriveSpec, SystemSpec};
use crate::device::{Array, Device, LayeredDisk, MemberDrive, Queueing};
use crate::disk::Disk;
use crate::drive::Drive;
use crate::error::Error;
use crate::layer::{LayerSpec, Parameters};
use crate::medium::{Medium, Stamp, Stamps};
use crate::settings::{Queue, Settings};

/// A drive under a layer.
#[derive(Clone)]
pub struct DriveRun {
    /// The drive.
    pub drive: Drive,
    /// Its layer.
    pub layer: &'static LayerSpec,
    /// The layer's parameters.
    pub parameters: Parameters,
}

/// A drive or an array that is to be run.
#[derive(Clone)]
pub enum SystemRun {
    /// A drive.
    Drive(Box<DriveRun>),
    /// An array.
    Array(ArrayRun),
}

/// An array that is to be run.
#[derive(Clone)]
pub struct ArrayRun {
    /// Its kind.
    pub level: Level,
    /// Sectors of a chunk.
    pub chunk_sectors: u64,
    /// Its members, in order.
    pub members: Vec<DriveRun>,
    /// How many sectors of each member are used at most, from its first on. `None`: all.
    pub used_sectors: Option<Vec<u64>>,
}

impl From<DriveRun> for SystemRun {
    fn from(run: DriveRun) -> SystemRun {
        SystemRun::Drive(Box::new(run))
    }
}

impl From<ArrayRun> for SystemRun {
    fn from(run: ArrayRun) -> SystemRun {
        SystemRun::Array(run)
    }
}

impl DriveRun {
    /// Its description, nothing left out.
    pub fn spec(&self) -> DriveSpec {
        let drive = self.drive.file().map_or(self.drive.name.clone(), |path| path.display().to_string());
        DriveSpec {
            layer: Some(self.layer.name.into()),
            drive: Some(drive),
            capacity_sectors: Some(self.drive.geometry.sectors),
            set: self.parameters.scalars().into_iter().map(|(key, value)| (key, value.to_string())).collect(),
        }
    }

    /// The path and the text of its drive file, where it has one.
    pub(super) fn file(&self) -> Option<(String, String)> {
        let (path, text) = self.drive.file().zip(self.drive.text())?;
        Some((path.display().to_string(), text.to_string()))
    }

    /// The same run on a similar drive. Parameters that had the values of the old drive's file take those of the new one's.
    pub fn with_drive(&self, drive: Drive) -> Result<DriveRun, Error> {
        let old = self.layer.resolve_on(&self.drive, &[])?.scalars();
        let mut parameters = self.parameters.clone();
        // The keys that the file of the new drive sets. All others keep their values.
        for (key, text) in self.layer.resolve_on(&drive, &[])?.given() {
            if self.parameters.scalars().get(key) == old.get(key) {
                parameters = self.layer.with(&parameters, key, text)?;
            }
        }
        Ok(DriveRun { drive, layer: self.layer, parameters })
    }

    /// Sectors that the layer offers on this drive.
    pub fn host_sectors(&self) -> Result<u64, Error> {
        Ok((self.layer.capacity)(&self.drive, &self.parameters)?.host_sectors)
    }

    /// The drive, empty, under its layer.
    pub fn device(&self, medium: Medium) -> Result<LayeredDisk, Error> {
        let layer = (self.layer.build)(&self.drive, &self.parameters)?;
        Ok(LayeredDisk::new(Disk::new(&self.drive, medium), layer))
    }

    /// The drive with its queue, empty. The movements of an array's drives are always counted.
    pub fn build(&self, settings: &Settings, in_array: bool) -> Result<MemberDrive, Error> {
        if settings.check && self.drive.geometry.sectors > Stamp::LBA_MAX {
            return Err(Error::Impossible(format!(
                "{{check}} holds stamps of up to {} sectors, and the drive has {}: give a smaller {{capacity}}",
                Stamp::LBA_MAX,
                self.drive.geometry.sectors
            )));
        }
        let medium = if settings.check { Medium::Stamps(Stamps::new()) } else { Medium::NoData };
        let mut device = self.device(medium)?;
        if settings.movement || in_array {
            device.disk.count_movement();
        }
        let queueing = Queueing::new(settings.queue, settings.depth, self.drive.command_order);
        let new = if in_array { MemberDrive::in_array } else { MemberDrive::new };
        Ok(new(device, queueing))
    }
}

impl SystemRun {
    /// The drive or the array, empty.
    pub fn build(&self, settings: &Settings) -> Result<Device, Error> {
        match self {
            SystemRun::Drive(drive) => Ok(Device::Drive(Box::new(drive.build(settings, false)?))),
            SystemRun::Array(array) => Ok(Device::Array(Box::new(array.build(settings)?))),
        }
    }

    /// Sectors that it offers.
    pub fn host_sectors(&self) -> Result<u64, Error> {
        match self {
            SystemRun::Drive(run) => run.host_sectors(),
            SystemRun::Array(array) => array.host_sectors(),
        }
    }

    /// Sectors that every source can address: those of the smallest member if each source has its own, else all.
    pub fn sectors_for_all(&self) -> Result<u64, Error> {
        match self {
            SystemRun::Drive(run) => run.host_sectors(),
            SystemRun::Array(array) => Ok(array.layout()?.sectors_for_all()),
        }
    }

    /// Its full description, except for how much of each member is used.
    pub fn spec(&self) -> SystemSpec {
        match self {
            SystemRun::Drive(run) => SystemSpec::Drive(run.spec()),
            SystemRun::Array(array) => SystemSpec::Array(ArraySpec {
                level: array.level,
                name: array.level.name(),
                chunk_sectors: array.chunk_sectors,
                members: array.members.iter().map(DriveRun::spec).collect(),
            }),
        }
    }

    /// The drives, in order.
    pub fn drives(&self) -> &[DriveRun] {
        match self {
            SystemRun::Drive(drive) => std::slice::from_ref(drive),
            SystemRun::Array(array) => &array.members,
        }
    }

    /// The settings as they take effect: drives that order no commands, or get one at a time, serve them in the order of arrival.
    pub fn effective(&self, settings: Settings) -> Settings {
        let orders = settings.depth > 1 && self.drives().iter().any(|run| run.drive.command_order.is_some());
        match settings.queue {
            Queue::Drive if !orders => Settings { queue: Queue::Fcfs, ..settings },
            _ => settings,
        }
    }

    /// The system with each of its drives changed. Errors: those of `change`.
    pub fn with_drives<E>(&self, change: &impl Fn(&DriveRun) -> Result<DriveRun, E>) -> Result<SystemRun, E> {
        match self {
            SystemRun::Drive(run) => change(run).map(SystemRun::from),
            SystemRun::Array(array) => {
                let members = array.members.iter().map(change).collect::<Result<_, E>>()?;
                Ok(ArrayRun { members, ..array.clone() }.into())
            }
        }
    }

    /// The array, if it is one.
    pub fn array(&self) -> Option<&ArrayRun> {
        match self {
            SystemRun::Drive(_) => None,
            SystemRun::Array(array) => Some(array),
        }
    }
}

impl ArrayRun {
    /// An array that uses all of its members, with chunks of the usual size.
    pub fn new(level: Level, members: Vec<DriveRun>) -> ArrayRun {
        ArrayRun { level, chunk_sectors: CHUNK_SECTORS, members, used_sectors: None }
    }

    /// Layout of its sectors.
    pub fn layout(&self) -> Result<ArrayLayout, Error> {
        let mut sizes = self.members.iter().map(DriveRun::host_sectors).collect::<Result<Vec<_>, _>>()?;
        if let Some(used) = &self.used_sectors {
            if used.len() != sizes.len() {
                let (given, disks) = (used.len(), sizes.len());
                return Err(Error::Usage(format!("{given} sizes for {disks} members: give one for each")));
            }
            sizes.iter_mut().zip(used).for_each(|(size, most)| *size = (*size).min(*most));
        }
        ArrayLayout::new(self.level, self.chunk_sectors, &sizes)
    }

    /// Sectors that it offers.
    pub fn host_sectors(&self) -> Result<u64, Error> {
        Ok(self.layout()?.host_sectors)
    }

    /// The array, empty.
    pub fn build(&self, settings: &Settings) -> Result<Array, Error> {
        self.build_of(settings.check, |drive| drive.build(settings, true))
    }

    /// The array of members that `build` makes, in order; see [`Array::new`].
    pub fn build_of(
        &self,
        checks: bool,
        build: impl FnMut(&DriveRun) -> Result<MemberDrive, Error>,
    ) -> Result<Array, Error> {
        let members = self.members.iter().map(build).collect::<Result<Vec<_>, _>>()?;
        Ok(Array::new(self.layout()?, members, checks))
    }
}
