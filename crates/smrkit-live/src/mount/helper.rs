//! Arguments of `mount.fuse.smrfs` and `umount.fuse.smrfs`, as mount(8) and umount(8) call them for the type `fuse.smrfs`: by
//! hand, for fstab, or for a remount.
//!
//! `mount.fuse.smrfs SOURCE TARGET [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`. An option that is not understood is
//! refused, unless `-s` asks to be lenient. `umount.fuse.smrfs TARGET [-flnrv] [-N NAMESPACE] [-t TYPE]`.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use smrkit::message::worded;

use super::commit_interval;

/// A program of mount(8) and umount(8), which this one is if it is called by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helper {
    /// Mounts and remounts.
    Mount,
    /// Unmounts.
    Umount,
}

impl Helper {
    /// The program's name.
    pub fn name(self) -> &'static str {
        match self {
            Helper::Mount => "mount.fuse.smrfs",
            Helper::Umount => "umount.fuse.smrfs",
        }
    }

    /// The helper of mount(8) that was called as `program`; `None` for any other program.
    pub fn called(program: &OsStr) -> Option<Helper> {
        let name = Path::new(program).file_name()?;
        [Helper::Mount, Helper::Umount].into_iter().find(|helper| name == helper.name())
    }
}

/// Options that are ignored: they are always in force here, SMRfs has no choice in them, or they are not for the file system.
const WITHOUT_EFFECT: &str = "defaults auto noauto nofail _netdev user nouser users nousers owner group suid nosuid dev nodev exec \
    async atime noatime diratime nodiratime relatime norelatime strictatime nostrictatime lazytime nolazytime \
    default_permissions silent loud";
const WITHOUT_EFFECT_BEGIN: &str = "x- X- comment= uhelper= user_id= group_id= blksize= max_read= rootmode= user=";

/// Request of mount(8).
pub enum HelperRequest {
    /// Mount an image, with these arguments of `smrkit mount`.
    Mount(Vec<OsString>),
    /// Make a mount read-only, or writable again.
    Remount {
        /// The mount point.
        point: PathBuf,
        /// True if nothing may be changed from now on.
        read_only: bool,
    },
    /// Nothing, because of the option `-f` (fake).
    Nothing,
}

/// Request of umount(8).
#[derive(Debug, PartialEq, Eq)]
pub struct HelperUmount {
    /// The mount point.
    pub point: PathBuf,
    /// True to unmount even if some data can't be saved (`-f`).
    pub give_up: bool,
    /// True to detach it at once, and end it when it is no longer used (`-l`).
    pub lazy: bool,
}

impl HelperUmount {
    /// Reads the arguments behind the program's name.
    pub fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<HelperUmount, String> {
        let (mut point, mut give_up, mut lazy) = (None, false, false);
        while let Some(argument) = arguments.next() {
            let text = argument.to_str().unwrap_or_default();
            match text.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                None if point.is_none() => point = Some(PathBuf::from(argument)),
                Some("t" | "N") => drop(arguments.next().ok_or(format!("{text} wants a value"))?),
                Some(letters) if letters.chars().all(|letter| "flnrv".contains(letter)) => {
                    give_up |= letters.contains('f');
                    lazy |= letters.contains('l');
                }
                _ => return Err(format!("{} is not understood: call it by umount", argument.display())),
            }
        }
        let point = point.ok_or("call it with a mount point, as umount does")?;
        Ok(HelperUmount { point, give_up, lazy })
    }
}

/// Option of mount(8) that sets a field.
pub fn option(field: &str) -> Cow<'static, str> {
    match field {
        "meta" => "-o meta=DIR".into(),
        other => format!("-o {other}").into(),
    }
}

impl HelperRequest {
    /// Reads the arguments behind the program's name.
    pub fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<HelperRequest, String> {
        // Letters of mount(8): s ignores unknown options, f is fake, r is read-only; n (no mtab), v (verbose) and w change nothing here.
        let (mut places, mut options, mut lenient, mut fake) = (Vec::new(), Vec::new(), false, false);
        while let Some(argument) = arguments.next() {
            let text = argument.to_str().unwrap_or_default();
            match text.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                None => places.push(PathBuf::from(argument)),
                Some(letter @ ("o" | "t" | "N")) => {
                    let value = arguments.next().ok_or(format!("-{letter} wants a value"))?;
                    if letter == "o" {
                        let value = value.into_string().map_err(|_| "options must be text".to_string())?;
                        options.extend(value.split(',').filter(|option| !option.is_empty()).map(String::from));
                    }
                }
                Some(letters) if letters.chars().all(|letter| "sfnvrw".contains(letter)) => {
                    lenient |= letters.contains('s');
                    fake |= letters.contains('f');
                    options.extend(letters.contains('r').then(|| "ro".to_string()));
                }
                Some(_) => return Err(format!("{text} is not understood: call it by mount -t fuse.smrfs")),
            }
        }
        let [image, point] = <[PathBuf; 2]>::try_from(places)
            .map_err(|_| "call it with an image and a mount point, as mount -t fuse.smrfs IMAGE MOUNTPOINT does")?;
        let mut asked = AskedMount::default();
        for option in &options {
            asked.add_option(option, lenient)?;
        }
        Ok(match asked.remount {
            _ if fake => HelperRequest::Nothing,
            true => HelperRequest::Remount { point, read_only: asked.read_only },
            false => {
                if asked.read_only {
                    asked.set("read_only", None);
                }
                asked.arguments.extend(["--".into(), image.into(), point.into()]);
                HelperRequest::Mount(asked.arguments)
            }
        })
    }
}

/// The mount that options ask for.
#[derive(Default)]
struct AskedMount {
    arguments: Vec<OsString>,
    read_only: bool,
    /// True to change an existing mount.
    remount: bool,
}

impl AskedMount {
    fn add_option(&mut self, option: &str, lenient: bool) -> Result<(), String> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match (name, value) {
            ("ro", "") => self.read_only = true,
            // The last option counts: mount(8) puts the options of a remount after those of the mount.
            ("rw", "") => self.read_only = false,
            ("remount", "") => self.remount = true,
            ("allow_other" | "trust_open_metadata", "") => self.set(name, None),
            ("meta" | "log", value) if !value.is_empty() => self.set(name, Some(value)),
            ("commit_interval", value) if !value.is_empty() => {
                commit_interval(Some(value)).map_err(|error| worded(&error.message(), &self::option))?;
                self.set(name, Some(value));
            }
            _ if WITHOUT_EFFECT.split_whitespace().any(|name| option == name) => {}
            _ if WITHOUT_EFFECT_BEGIN.split_whitespace().any(|begin| option.starts_with(begin)) => {}
            _ if lenient => {}
            _ => return Err(format!("the option {option} is not supported: leave it away")),
        }
        Ok(())
    }

    /// Adds an argument, in place of one of that name.
    fn set(&mut self, name: &str, value: Option<&str>) {
        let argument = format!("--{}", name.replace('_', "-"));
        self.arguments.retain(|known| !known.to_string_lossy().starts_with(&argument));
        self.arguments.push(value.map_or(argument.clone(), |value| format!("{argument}={value}")).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<HelperRequest, String> {
        HelperRequest::parse(line.split_whitespace().map(OsString::from))
    }

    /// The arguments of the mount that a line asks for.
    fn arguments(line: &str) -> String {
        match parsed(line) {
            Ok(HelperRequest::Mount(arguments)) => arguments.join(OsStr::new(" ")).into_string().unwrap(),
            _ => panic!("no mount: {line}"),
        }
    }

    #[test]
    fn a_line_of_fstab_becomes_a_mount() {
        let line =
            "/d.img /mnt -o rw,nosuid,nodev,noauto,x-systemd.automount,meta=/m,commit_interval=1s,ro -n -t fuse.smrfs";
        assert_eq!(arguments(line), "--meta=/m --commit-interval=1s --read-only -- /d.img /mnt");
    }

    #[test]
    fn the_last_of_ro_and_rw_counts_in_a_remount() {
        let read_only = |line| match parsed(line) {
            Ok(HelperRequest::Remount { read_only, .. }) => read_only,
            _ => panic!("no remount"),
        };
        assert!(read_only("/d.img /mnt -o rw,user_id=0,group_id=0,allow_other,remount,ro"));
        assert!(!read_only("/d.img /mnt -o ro,remount,rw"));
    }

    #[test]
    fn options_that_would_be_broken_silently_are_refused() {
        for line in ["/d /m -o noexec", "/d /m -o sync", "/d /m -o meta=", "/d", "/d /m /n", "/d /m -o", "/d /m -x"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        let refusal = parsed("/d /m -o commit_interval=0").err().unwrap();
        assert_eq!(refusal, "a -o commit_interval of 0 would never rest: 10ms is short enough");
        assert!(matches!(parsed("/d /m -s -o noexec"), Ok(HelperRequest::Mount(_))));
        assert!(matches!(parsed("/d /m -f"), Ok(HelperRequest::Nothing)));
    }

    #[test]
    fn the_name_of_the_program_decides() {
        let called = |path| Helper::called(OsStr::new(path));
        let paths = ["/sbin/mount.fuse.smrfs", "umount.fuse.smrfs", "/usr/bin/smrkit"];
        assert_eq!(paths.map(called), [Some(Helper::Mount), Some(Helper::Umount), None]);
    }

    #[test]
    fn umount_names_a_mount_point_and_how_it_is_to_end() {
        let parsed = |line: &str| HelperUmount::parse(line.split_whitespace().map(OsString::from));
        let umount = |give_up, lazy| Ok(HelperUmount { point: "/mnt".into(), give_up, lazy });
        assert_eq!(parsed("/mnt -n -t fuse.smrfs"), umount(false, false));
        assert_eq!(parsed("-fv /mnt -N /proc/1/ns"), umount(true, false));
        assert_eq!(parsed("/mnt -lr"), umount(false, true));
        for line in ["", "/mnt /other", "/mnt -x", "/mnt -t"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn every_option_is_one_of_smrkit_mount() {
        let line = "/d /m -o meta=/x,log=/l,commit_interval=2s,allow_other,trust_open_metadata -rw";
        let all = "--meta=/x --log=/l --commit-interval=2s --allow-other --trust-open-metadata --read-only";
        assert_eq!(arguments(line), format!("{all} -- /d /m"));
        assert_eq!(arguments("/d /m -o meta=/x,allow_other,meta=/y"), "--allow-other --meta=/y -- /d /m");
        for options in ["", "-o defaults,,x-a,comment=b -v", "-w -N /proc/1/ns", "-o ro,rw", "-s -o log=,meta=,ro=1"] {
            assert_eq!(arguments(&format!("/d /m {options}")), "-- /d /m", "{options}");
        }
        for line in ["/d /m -N", "/d /m -t", "/d /m -o log=", "/d /m -o ro=1", "/d /m -o commit_interval=", "/d /m -sx"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert_eq!(arguments("- /m"), "-- - /m");
        assert!(matches!(parsed("/d /m -f -o remount"), Ok(HelperRequest::Nothing)));
    }
}
