//! A course on a simulated file system, or on a mounted one, as a job of the pool.

use anyhow::ensure;
use smrfs::age::course::{Course, CourseOptions};
use smrfs::age::world::World;
use smrkit::error::Error;
use smrkit::quantity::Bytes;
use smrkit_live::mount::{Hosted, check_system};
use smrkit_live::volume::Layout;
use smrkit_live::workplace::Workplace;

use crate::pool::Watch;

/// A course to be run.
#[derive(Clone, Debug)]
pub struct CoursePlan {
    /// The disk and its file system.
    pub world: World,
    /// What is done on it.
    pub course: CourseOptions,
}

impl CoursePlan {
    /// Runs it.
    pub fn execute(&self, watch: &mut Watch) -> Result<Course, Error> {
        let mut target = self.world.mount()?;
        Course::run(&self.course, &mut target, &mut |share| watch.is_at(share)).map_err(Error::from)
    }
}

/// A course to be run on an image in a temporary directory, mounted as in `world`.
#[derive(Clone, Debug)]
pub struct MountPlan {
    /// The image.
    pub layout: Layout,
    /// The allocator and its file system; its disk has the shape of `layout`.
    pub world: World,
    /// What is done on it.
    pub course: CourseOptions,
}

impl MountPlan {
    /// Runs it, and leaves nothing behind. Errors: this system can't mount, or a directory there can't hold an SMRfs.
    pub fn execute(&self, watch: &mut Watch) -> anyhow::Result<Course> {
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
        let mut place = Workplace::new(mount.point(), self.course.ager.seed)?;
        let course = Course::run(&self.course, &mut place, &mut |share| watch.is_at(share))?;
        drop(place);
        mount.end()?;
        Ok(course)
    }
}
