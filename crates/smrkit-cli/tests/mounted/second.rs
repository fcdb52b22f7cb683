//! A mount that is killed a second after a command has returned: all that the command did is there.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

use super::attached::has;
use super::databases::{Database, Postgres, Sqlite, ask};
use super::durable::git;
use super::{Bench, MODELS, is_root, signal};
use crate::count::count_from;

/// Kills a program and model, unless SMRKIT_SECOND_KILLS says otherwise.
const KILLS: u64 = 2;
const SECOND: Duration = Duration::from_secs(1);

fn kills() -> u64 {
    count_from("SMRKIT_SECOND_KILLS", KILLS)
}

#[test]
fn a_commit_of_git_is_whole_a_second_later() {
    if !has("git") {
        return println!("skipped: git is missing");
    }
    for model in MODELS {
        let Some(bench) = Bench::new(model, "64MiB") else { return };
        bench.mount().done();
        fs::create_dir(bench.file("work")).unwrap();
        git(&bench, &["init", "-q"]);
        for round in 0..kills() {
            for number in 0..5 {
                fs::write(bench.file(&format!("work/{number}")), format!("{round} {number}").repeat(3000)).unwrap();
            }
            git(&bench, &["add", "."]);
            git(&bench, &["commit", "-q", "-m", "all"]);
            let head = git(&bench, &["rev-parse", "HEAD"]);
            sleep(SECOND);
            bench.kill_and_mount();
            git(&bench, &["fsck", "--full"]);
            assert_eq!(git(&bench, &["rev-parse", "HEAD"]), head, "{model}, round {round}");
            assert_eq!(git(&bench, &["status", "--porcelain"]), "", "{model}, round {round}");
        }
        bench.umount().done();
        bench.is_in_order();
    }
}

/// The database itself synchronizes nothing.
#[test]
fn a_row_of_sqlite_is_there_a_second_later() {
    if !has("sqlite3") {
        return println!("skipped: no sqlite3 here; on Debian: apt-get install sqlite3");
    }
    for model in MODELS {
        for journal in ["delete", "wal"] {
            let Some(bench) = Bench::new(model, "64MiB") else { return };
            bench.mount().done();
            let mut database = Sqlite { file: bench.file("data.db"), journal };
            database.make();
            ask(&database, "CREATE TABLE rows (number INTEGER PRIMARY KEY, filler TEXT);");
            for round in 0..kills() {
                let row = format!("INSERT INTO rows VALUES ({round}, '{}');", "filler".repeat(2000));
                ask(&database, &format!("PRAGMA synchronous=OFF; {row}"));
                sleep(SECOND);
                bench.kill_and_mount();
                database.check();
                let found = ask(&database, "SELECT count(*) FROM rows;");
                assert_eq!(found.trim(), (round + 1).to_string(), "{model}, {journal}");
            }
            bench.umount().done();
            bench.is_in_order();
        }
    }
}

#[test]
fn a_row_of_postgresql_is_there_a_second_later() {
    if !is_root() {
        return println!("skipped: PostgreSQL runs as another user, which only root can start");
    }
    if let Err(error) = smrkit_live::mount::check_system() {
        return println!("skipped: can't mount here: {error}");
    }
    for model in MODELS {
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let bench = Bench::made_in(folder, model, "256MiB");
        bench.mount().done();
        let Some(mut database) = Postgres::find(bench.folder.path(), &bench.point()) else { return };
        database.make();
        database.start();
        ask(&database, "CREATE TABLE rows (number INTEGER PRIMARY KEY);");
        for round in 0..kills() {
            ask(&database, &format!("INSERT INTO rows VALUES ({round});"));
            sleep(SECOND);
            signal(bench.process(), "KILL");
            database.stop(false);
            bench.umount().done();
            bench.mount().done();
            database.start();
            let found = ask(&database, "SELECT count(*) FROM rows;");
            assert_eq!(found.trim(), (round + 1).to_string(), "{model}");
        }
        database.stop(true);
        database.check();
        bench.umount().done();
        bench.is_in_order();
    }
}
