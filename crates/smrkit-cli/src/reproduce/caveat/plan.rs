//! A course on a simulated file system, as a job of the pool.

use smrfs::age::course::{Course, CourseOptions};
use smrfs::age::world::World;
use smrkit::error::Error;

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
