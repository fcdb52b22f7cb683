//! A course on a simulated file system, or on a mounted one, as a job of the pool.

use anyhow::ensure;
use smrfs::age::course::{AgeingResult, CourseOptions};
use smrfs::age::world::World;
use smrkit::error::Error;
use smrkit::experiment::pool::RunWatch;
use smrkit::quantity::Bytes;
use smrkit_live::mount::{Hosted, check_system};
use smrkit_live::volume::Layout;
use smrkit_live::workplace::Workplace;

use crate::{JobResult, Work};

/// A course to be run.
#[derive(Clone, Debug)]
pub struct CoursePlan {
    /// The disk and its file system.
    pub world: World,
    /// The course that is run on it.
    pub course: CourseOptions,
}

impl Work for CoursePlan {
    fn make(&self, watch: &mut RunWatch) -> Result<JobResult, Error> {
        let mut target = self.world.mount()?;
        let course = AgeingResult::run(&self.course, &mut target, &mut |share| watch.is_at(share))?;
        Ok(JobResult::FileSystem(Box::new(course)))
    }

    #[cfg(test)]
    fn described(&self) -> String {
        described(&self.world, &self.course)
    }
}

/// A course to be run on an image in a temporary directory, mounted as in `world`.
#[derive(Clone, Debug)]
pub struct MountPlan {
    /// The image.
    pub layout: Layout,
    /// The allocator and its file system; its disk has the shape of `layout`.
    pub world: World,
    /// The course that is run on it.
    pub course: CourseOptions,
}

impl Work for MountPlan {
    fn make(&self, watch: &mut RunWatch) -> Result<JobResult, Error> {
        Ok(JobResult::Mount(Box::new(self.execute(watch).map_err(|error| format!("{error:#}")))))
    }

    #[cfg(test)]
    fn described(&self) -> String {
        format!("{:?}\n{}", self.layout, described(&self.world, &self.course))
    }
}

#[cfg(test)]
fn described(world: &World, course: &CourseOptions) -> String {
    let World { model, drive, disk_bytes, granule_bytes, did_bytes, dpid_bytes, band_bytes, .. } = world;
    let sizes = [disk_bytes, granule_bytes, did_bytes, dpid_bytes, band_bytes];
    let rest = (&world.caveat, &world.bands, world.commit_every);
    format!("{model:?} {} {sizes:?}\n{rest:?}\n{course:?}", drive.name)
}

impl MountPlan {
    /// Runs it, and leaves nothing behind. Errors: this system can't mount, or a directory there can't hold an SMRfs.
    fn execute(&self, watch: &mut RunWatch) -> anyhow::Result<AgeingResult> {
        check_system()?;
        let folder = tempfile::tempdir()?;
        let (_, free_bytes) = Workplace::room_of(folder.path())?;
        let least = 2 * self.layout.size_bytes;
        ensure!(
            free_bytes >= least,
            "{} are free in {}, and it takes {}: let TMPDIR name a directory with more",
            Bytes(free_bytes),
            folder.path().display(),
            Bytes(least)
        );
        let shape = self.layout.data_shape()?;
        let mount = Hosted::start(folder.path(), self.layout, self.world.space(&shape)?, self.world.options())?;
        let mut place = Workplace::new(mount.point(), None, self.course.ager.seed)?;
        let course = AgeingResult::run(&self.course, &mut place, &mut |share| watch.is_at(share))?;
        drop(place);
        mount.end()?;
        Ok(course)
    }
}
