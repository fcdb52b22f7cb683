//! Databases on an attached drive whose server is killed while they commit: no transaction that a client was told of is lost.
//!
//! The drive has a volatile write cache, which a kill empties, so that what a database did not flush is gone. The clients'
//! ledger of what they were told is kept in this process.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tempfile::TempDir;

use super::attached::{Attached, EXT4};
use super::{Ran, signal};
use crate::count::count_from;

/// Kills a database, unless SMRKIT_DATABASE_KILLS says otherwise.
const KILLS: u64 = 3;
/// Commits before a kill, at least.
const SOME: u64 = 3;
/// Clients that write at a time, where the database serves several.
const CLIENTS: u64 = 4;
/// The user that PostgreSQL runs as, which refuses root (Debian's nobody and nogroup).
const NOBODY: u32 = 65534;
const DRIVE: [&str; 2] = ["--layer", "drive-managed"];
const ATTACHED: [&str; 2] = ["--pace", "50"];
const ACCOUNTS: u64 = 5000;

/// A database on the mounted drive, and how it is spoken to.
pub(super) trait Database {
    /// Makes it, with the tables that `TABLES` says.
    fn make(&mut self);
    /// Starts it; it recovers.
    fn start(&mut self);
    /// Ends it after its drive has gone, or in good order.
    fn stop(&mut self, in_order: bool);
    /// A client that takes statements and ends with the first that fails.
    fn client(&self) -> Command;
    /// Asserts that its files make sense, as far as it can tell.
    fn check(&self);
    /// The statements that pay one account and enter `number` into the ledger, as one transaction.
    fn commit(&self, number: u64) -> String;
}

const TABLES: &str = "CREATE TABLE accounts (id INTEGER PRIMARY KEY, paid INTEGER, filler TEXT);
    CREATE TABLE ledger (number INTEGER PRIMARY KEY, account INTEGER);
    WITH RECURSIVE ids (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM ids WHERE id < 4999)
        INSERT INTO accounts SELECT id, 0, 'an account that takes up room ' || id FROM ids;";

fn account(number: u64) -> u64 {
    number * 7919 % ACCOUNTS
}

/// Numbers that clients have sent, and those that were acknowledged.
#[derive(Default)]
struct Ledger {
    sent: u64,
    acknowledged: BTreeSet<u64>,
}

/// Output of a client that is given `script`.
pub(super) fn ask(database: &dyn Database, script: &str) -> String {
    let mut client = database.client().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    client.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    Ran(client.wait_with_output().unwrap()).done()
}

impl Ledger {
    /// Lets clients commit until `end`, which makes them fail, returns and they have ended. It begins after some commits, or a minute.
    fn write(&mut self, database: &(dyn Database + Sync), clients: u64, end: impl FnOnce()) {
        let (from, answered) = (self.sent, AtomicU64::new(0));
        let client = |first: u64| {
            let mut command = database.client();
            let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut process = command.spawn().unwrap();
            let (mut to, answers) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
            let writer = move || {
                let mut number = first;
                // A client that has ended takes no more.
                while to.write_all(format!("{} SELECT {number};\n", database.commit(number)).as_bytes()).is_ok() {
                    number += clients;
                }
                number
            };
            thread::scope(|scope| {
                let writer = scope.spawn(writer);
                let told = answers.lines().filter_map(|line| line.ok()?.parse().ok());
                let told: Vec<u64> = told
                    .inspect(|_| {
                        answered.fetch_add(1, Relaxed);
                    })
                    .collect();
                assert!(!process.wait().unwrap().success(), "a client ends with an error");
                (writer.join().unwrap(), told)
            })
        };
        let ended: Vec<(u64, Vec<u64>)> = thread::scope(|scope| {
            let client = &client;
            let clients: Vec<_> = (from..from + clients).map(|first| scope.spawn(move || client(first))).collect();
            // One that fails at once is told by the count of all in the end.
            (0..600).take_while(|_| answered.load(Relaxed) < SOME).for_each(|_| sleep(Duration::from_millis(100)));
            end();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        for (sent, told) in ended {
            self.sent = self.sent.max(sent + clients);
            self.acknowledged.extend(told);
        }
    }

    /// Asserts that all acknowledged transactions are there, and each of those that are there as a whole.
    fn compare(&self, database: &dyn Database, round: u64) {
        let said = ask(database, "SELECT number FROM ledger;");
        let found: BTreeSet<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
        let lost = self.acknowledged.difference(&found).count();
        assert_eq!(lost, 0, "round {round}: lost of {} commits", self.acknowledged.len());
        assert!(found.iter().all(|&number| number < self.sent), "round {round}");
        let half = "SELECT count(*) FROM accounts WHERE paid != (SELECT count(*) FROM ledger WHERE account = id);";
        assert_eq!(ask(database, half).trim(), "0", "round {round}: transactions are there in part");
    }
}

/// Kills the server of the drive under a load of commits, time and again.
fn keeps_its_commits(mut drive: Attached, mut database: impl Database + Sync, clients: u64) {
    let kills = count_from("SMRKIT_DATABASE_KILLS", KILLS);
    let (mut ledger, mut random) = (Ledger::default(), Pcg64Mcg::seed_from_u64(11));
    database.make();
    database.start();
    ask(&database, &format!("{TABLES} CREATE INDEX by_account ON ledger (account);"));
    for round in 0..kills {
        ledger.write(&database, clients, || {
            sleep(Duration::from_millis(random.random_range(300..1200)));
            drive.kill_server();
        });
        database.stop(false);
        drive.umount();
        drive.attach();
        drive.check(&EXT4);
        drive.mount(EXT4.name);
        database.start();
        ledger.compare(&database, round);
    }
    database.stop(true);
    database.check();
    println!("{} commits were acknowledged over {kills} kills, and none lost", ledger.acknowledged.len());
    assert!(ledger.acknowledged.len() as u64 > kills, "too few to lose any");
    drive.umount();
    drive.detach().done();
}

/// An attached drive with ext4, mounted where everybody may go; none, with a word for the skip list, where that can't be.
fn drive() -> Option<Attached> {
    if !EXT4.is_here() {
        return None;
    }
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let drive = Attached::made_in(folder, &DRIVE, &ATTACHED)?;
    drive.make(&EXT4);
    drive.mount(EXT4.name);
    Some(drive)
}

pub(super) struct Postgres {
    /// Programs of PostgreSQL.
    programs: PathBuf,
    data: PathBuf,
    /// Folder of its socket.
    socket: PathBuf,
    server: Option<Child>,
}

impl Postgres {
    /// None, with a word for the skip list, where it is not installed.
    pub(super) fn find(folder: &Path, point: &Path) -> Option<Postgres> {
        let Some(programs) = Postgres::programs() else {
            println!("skipped: no PostgreSQL here; on Debian: apt-get install postgresql");
            return None;
        };
        let (data, socket) = (point.join("data"), folder.join("socket"));
        Some(Postgres { programs, data, socket, server: None })
    }

    /// Debian keeps them out of the path.
    fn programs() -> Option<PathBuf> {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
        versions.map(|version| version.unwrap().path().join("bin")).find(|bin| bin.join("initdb").exists())
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.uid(NOBODY).gid(NOBODY).current_dir("/").env("LC_ALL", "C");
        command
    }
}

impl Database for Postgres {
    fn make(&mut self) {
        for folder in [&self.data, &self.socket] {
            fs::create_dir(folder).unwrap();
            chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let words = ["--no-instructions", "--data-checksums", "--auth=trust", "--wal-segsize=1", "--pgdata"];
        Ran(self.program("initdb").args(words).arg(&self.data).output().unwrap()).done();
    }

    fn start(&mut self) {
        let mut command = self.program("postgres");
        command.arg("-D").arg(&self.data).arg("-k").arg(&self.socket).args(["-h", ""]);
        // Checkpoints follow each other, and pages are written soon.
        for setting in ["shared_buffers=1MB", "min_wal_size=2MB", "max_wal_size=4MB", "restart_after_crash=off"] {
            command.args(["-c", setting]);
        }
        let log = fs::File::create(self.socket.join("log")).unwrap();
        self.server = Some(command.stderr(log).spawn().unwrap());
        for _ in 0..600 {
            let ready = self.client().args(["-c", "SELECT 1"]).output().unwrap();
            if ready.status.success() {
                return;
            }
            sleep(Duration::from_millis(100));
        }
        panic!("PostgreSQL does not start: {}", fs::read_to_string(self.socket.join("log")).unwrap());
    }

    fn stop(&mut self, in_order: bool) {
        let Some(mut server) = self.server.take() else { return };
        if server.try_wait().unwrap().is_none() {
            signal(server.id(), if in_order { "INT" } else { "QUIT" });
        }
        let status = server.wait().unwrap();
        assert!(!in_order || status.success(), "{status}");
    }

    fn client(&self) -> Command {
        let mut command = self.program("psql");
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-h"]).arg(&self.socket);
        command
    }

    fn check(&self) {
        Ran(self.program("pg_checksums").arg("--check").arg("-D").arg(&self.data).output().unwrap()).done();
    }

    fn commit(&self, number: u64) -> String {
        let account = account(number);
        format!(
            "WITH paid AS (UPDATE accounts SET paid = paid + 1 WHERE id = {account} RETURNING id) \
             INSERT INTO ledger SELECT {number}, id FROM paid;"
        )
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            signal(server.id(), "QUIT");
            let _ = server.wait();
        }
    }
}

pub(super) struct Sqlite {
    pub(super) file: PathBuf,
    pub(super) journal: &'static str,
}

impl Database for Sqlite {
    fn make(&mut self) {
        ask(self, &format!("PRAGMA journal_mode={};", self.journal));
    }

    fn start(&mut self) {}

    fn stop(&mut self, _in_order: bool) {}

    fn client(&self) -> Command {
        let mut command = Command::new("sqlite3");
        // FULL, its default, does not make the end of a rollback journal durable, which is the commit (sqlite.org/pragma.html): some
        // were lost here. A write-ahead log has no such end.
        let synchronous = if self.journal == "wal" { "FULL" } else { "EXTRA" };
        command.args(["-batch", "-bail", "-cmd", &format!("PRAGMA synchronous={synchronous}")]).arg(&self.file);
        command
    }

    fn check(&self) {
        assert_eq!(ask(self, "PRAGMA integrity_check;").trim(), "ok");
    }

    fn commit(&self, number: u64) -> String {
        let account = account(number);
        format!(
            "BEGIN; UPDATE accounts SET paid = paid + 1 WHERE id = {account}; \
             INSERT INTO ledger VALUES ({number}, {account}); COMMIT;"
        )
    }
}

#[test]
fn postgresql_keeps_its_commits_over_kills_of_the_server() {
    let Some(drive) = drive() else { return };
    let Some(postgres) = Postgres::find(drive.bench.folder.path(), &drive.bench.point()) else { return };
    keeps_its_commits(drive, postgres, CLIENTS);
}

#[test]
fn sqlite_keeps_its_commits_over_kills_of_the_server() {
    if !super::attached::has("sqlite3") {
        return println!("skipped: no sqlite3 here; on Debian: apt-get install sqlite3");
    }
    for journal in ["delete", "wal"] {
        let Some(drive) = drive() else { return };
        let file = drive.bench.file("data.db");
        keeps_its_commits(drive, Sqlite { file, journal }, 1);
    }
}
