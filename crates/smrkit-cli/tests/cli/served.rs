//! Served drives by the command: images, captive commands, a server that is killed, faults.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};

use super::{Scratch, command, finish, root, smrkit};

/// An image of a small drive.
fn image(scratch: &Scratch, layer: &str) -> String {
    let image = scratch.path("disk.img");
    smrkit(&format!("create {image} --drive st5000as0011 --layer {layer} --capacity 1GB")).done();
    image
}

/// A server in the background, once it listens; its address.
fn serve(image: &str, socket: &str) -> (Child, String) {
    serve_with(image, socket, &[])
}

fn serve_with(image: &str, socket: &str, more: &[&str]) -> (Child, String) {
    let mut command = command();
    command.args(["serve", image, "--pace", "none", "--listen", &format!("unix:{socket}")]).args(more);
    let mut child = command.spawn().expect("smrkit starts");
    let mut uri = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut uri).unwrap();
    (child, uri.trim().to_string())
}

/// Kills a server; what it had told.
fn killed(mut server: Child) -> String {
    server.kill().unwrap();
    let told = server.wait_with_output().unwrap();
    String::from_utf8(told.stderr).unwrap()
}

#[test]
fn the_status_of_a_captive_command_is_the_servers() {
    let scratch = Scratch::new();
    let image = image(&scratch, "drive-managed");
    for code in [0, 7] {
        let mut command = command();
        command.args(["serve", &image, "--pace", "none", "--", &format!("test -n \"$uri\" && exit {code}")]);
        assert_eq!(finish(command).code, code);
    }
    smrkit(&format!("create {image}")).says(3, &["--force"]);
    let mut absent = command();
    absent.args(["serve", &image, "--pace", "none", "--", "no-such-program", "$uri"]);
    finish(absent).says(1, &["no-such-program"]);
}

#[test]
fn a_server_that_a_network_reaches_says_that_anybody_may_write() {
    let scratch = Scratch::new();
    let mut command = command();
    command.args(["serve", &image(&scratch, "log"), "--pace", "none", "--listen", "tcp:127.0.0.1:0", "--", "true"]);
    let served = finish(command);
    assert!(served.code == 0 && served.err.contains("no password and no TLS"), "{}", served.err);
}

/// Programs that others wrote, over TCP. A client's directory has an authority, and may have a certificate of the client's own.
#[test]
fn clients_with_certificates_find_the_drive_under_tls_and_others_do_not() {
    let scratch = Scratch::new();
    let (image, tls) = (image(&scratch, "log"), root().join("testdata/tls"));
    let sample = scratch.file("sample", vec![7; 3 << 20]);
    let [bare, open] = ["bare", "open"].map(|name| scratch.path(name));
    for (folder, files) in [(&bare, &["ca-cert.pem"][..]), (&open, &["server-cert.pem", "server-key.pem"])] {
        std::fs::create_dir(folder).unwrap();
        for file in files {
            std::fs::copy(tls.join(file), format!("{folder}/{file}")).unwrap();
        }
    }
    let run = |certificates: &str, client: &str| {
        let client = client.replace("TLS", tls.to_str().unwrap()).replace("BARE", &bare).replace("SAMPLE", &sample);
        let mut command = command();
        command.args([
            "serve",
            &image,
            "--pace",
            "none",
            "--listen",
            "tcp:127.0.0.1:0",
            "--tls-certificates",
            certificates,
        ]);
        finish({
            command.args(["--", &client]);
            command
        })
    };
    let checking = tls.to_str().unwrap();
    let served = run(checking, "command -v nbdinfo nbdcopy qemu-img");
    assert!(!served.err.contains("can read and write"), "{}", served.err);
    if served.code != 0 {
        return println!("skipped: no clients of NBD here; on Debian: apt-get install libnbd-bin qemu-utils");
    }
    let info = run(checking, "nbdinfo --json \"$uri/?tls-certificates=TLS\"").done();
    assert!(info.contains("\"TLS\": true"), "{info}");
    let copied = "nbdcopy SAMPLE \"$uri/?tls-certificates=TLS\" && nbdcopy \"$uri/?tls-certificates=TLS\" - | cmp -n 3145728 SAMPLE -";
    run(checking, copied).done();
    let qemu = "qemu-img info --object tls-creds-x509,id=t,endpoint=client,dir=TLS \
                --image-opts driver=nbd,host=127.0.0.1,port=${uri##*:},tls-creds=t";
    run(checking, qemu).done();
    for (certificates, client, code) in [
        (checking, "nbdinfo --size \"nbd${uri#nbds}\"", 1),
        (checking, "nbdinfo --list \"nbd${uri#nbds}\"", 1),
        (checking, "nbdinfo --size \"$uri/?tls-certificates=BARE\"", 1),
        (&open, "nbdinfo --size \"$uri/?tls-certificates=BARE\"", 0),
    ] {
        let served = run(certificates, client);
        assert_eq!(served.code, code, "{client}: {}{}", served.out, served.err);
        assert_eq!(served.err.contains("no certificate is asked for"), code == 0, "{}", served.err);
    }
    let missing = run(&bare, "true").failed(3);
    assert!(missing.contains("server-cert.pem"), "{missing}");
}

#[test]
fn a_limit_of_file_sizes_is_an_error_and_ends_no_server() {
    let scratch = Scratch::new();
    let image = image(&scratch, "log");
    let limited = |arguments: &[&str]| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -f 64; exec \"$@\"", "sh"]).arg(command().get_program()).args(arguments);
        finish(shell)
    };
    limited(&["create", &scratch.path("other.img"), "--capacity", "1GB"]).says(3, &["other.img"]);
    // Its reads make more lines of events than the state file may have.
    let client = "command -v qemu-io || exit 9; qemu-img bench -c 4000 -d 1 -s 512 -f raw \"$uri\" &&
                  qemu-io -f raw -c 'write 0 512' -c 'write 1M 512' -c 'read 1M 512' \"$uri\"";
    let served = limited(&["serve", &image, "--pace", "none", "--", client]);
    if served.code == 9 {
        return println!("skipped: no qemu-io here; on Debian: apt-get install qemu-utils");
    }
    assert!(served.err.contains("state is not kept until there is room"), "{}", served.err);
    for said in ["wrote 512/512 bytes at offset 0", "No space left on device", "read 512/512 bytes"] {
        assert!(format!("{}{}", served.out, served.err).contains(said), "{said}: {}{}", served.out, served.err);
    }
}

/// A server in the drive's own time takes real-time priority where it may. A program at that priority would starve others.
#[test]
fn a_captive_command_has_the_priority_of_its_user() {
    let scratch = Scratch::new();
    let image = image(&scratch, "drive-managed");
    let mut command = command();
    // Its policy, by its number: 0 is the ordinary one.
    command.args(["serve", &image, "--pace", "real", "--", "exit $(cut -d' ' -f41 /proc/self/stat)"]);
    assert_eq!(finish(command).code, 0);
}

/// libnbd starts a server as systemd does: with a socket that listens already.
#[test]
fn a_server_takes_the_socket_that_it_is_started_with() {
    let scratch = Scratch::new();
    let image = image(&scratch, "log");
    let server = [command().get_program().to_str().unwrap(), "serve", &image, "--pace", "none"].map(String::from);
    let mut ask = std::process::Command::new("nbdinfo");
    ask.args(["--size", "--", "["]).args(server).arg("]");
    match ask.output() {
        Err(_) => println!("skipped: no nbdinfo here; on Debian: apt-get install libnbd-bin"),
        Ok(output) => {
            let bytes: u64 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or_default();
            assert_eq!(bytes, std::fs::metadata(&image).unwrap().len(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    assert!(!std::path::Path::new(&format!("{image}.sock")).exists());
}

#[test]
fn what_cannot_be_served_is_refused_with_a_remedy() {
    let scratch = Scratch::new();
    let foreign = scratch.file("foreign", vec![7; 4000]);
    smrkit(&format!("serve {foreign}")).says(3, &["multiple of 512"]);
    let missing = scratch.path("missing");
    for command in ["serve MISSING", "inject MISSING timeout", "attach MISSING"] {
        smrkit(&command.replace("MISSING", &missing)).says(3, &["there is no such image", "smrkit create"]);
    }
    smrkit(&format!("detach {missing}")).says(3, &["not attached"]);
    let image = scratch.path("i");
    smrkit(&format!("create {image} --layer nonsense")).says(2, &["nonsense"]);
    smrkit(&format!("create {image} --layer log --set log.spare_percent=5,9")).says(2, &["one value"]);
    smrkit(&format!("create {image} --layer rmw --capacity 1kB")).failed(4);
    smrkit(&format!("create {image} --array raid5:disks=2")).says(4, &["raise disks to 3"]);
    smrkit(&format!("create {image} --array raid0:disks=2,member=(raid1:disks=2)"))
        .says(2, &["members of an array are drives"]);
    smrkit(&format!("create {image} --array dedicated:disks=2")).says(4, &["span"]);
    assert!(!std::path::Path::new(&image).exists());
    smrkit(&format!("inject {foreign} power-cut")).says(3, &["smrkit serve"]);
    smrkit(&format!("inject {foreign} earthquake")).says(2, &["power-cut"]);
    smrkit(&format!("replay {foreign}")).says(3, &["serve --log"]);
    smrkit(&format!("create {image} --layer log")).done();
    let state = std::fs::read(format!("{image}.smr")).unwrap();
    std::fs::write(format!("{image}.smr"), &state[..state.len() / 2]).unwrap();
    smrkit(&format!("fsck {image}")).says(3, &["no state of a drive", "smrkit create"]);
    smrkit(&format!("serve {foreign} --pace 0")).says(2, &["real"]);
}

#[test]
fn a_server_listens_in_the_place_of_no_file() {
    let scratch = Scratch::new();
    let image = image(&scratch, "log");
    let thesis = scratch.file("thesis.txt", "a year's work");
    for path in [&thesis, &image] {
        smrkit(&format!("serve {image} --pace none --listen unix:{path} -- true")).says(1, &["no socket is there"]);
    }
    let default = scratch.file("disk.img.sock", "notes");
    smrkit(&format!("serve {image} --pace none")).says(1, &["disk.img.sock", "no socket is there"]);
    assert_eq!(std::fs::read(thesis).unwrap(), b"a year's work");
    assert_eq!(std::fs::read(default).unwrap(), b"notes");
    smrkit(&format!("fsck {image}")).done();
}

/// Any raw file: its bytes are the drive's, and with its state beside it the drive goes on.
#[test]
fn a_raw_file_is_served_as_it_is() {
    let scratch = Scratch::new();
    let data: Vec<u8> = (0..2_097_152u32).map(|i| (i / 4096) as u8).collect();
    let image = scratch.file("disk.raw", &data);
    let serve = |options: &str| {
        let mut command = command();
        command.args(["serve", &image, "--pace", "none"]).args(options.split_whitespace());
        let log = format!("{image}.log");
        command.args(["--log", &log, "--", "true"]);
        finish(command)
    };
    let first = serve("--layer s-block --capacity 8GB");
    assert!(first.err.contains("there is no") && first.err.contains("fresh state"), "{}", first.err);
    assert_eq!((serve("").err.as_str(), std::fs::read(&image).unwrap() == data), ("", true));
    serve("--layer log").says(2, &["disk.raw.smr says which drive it is"]);
    let about = smrkit(&format!("df {image}")).done();
    assert!(about.contains("2 MiB of st8000dm004") && about.contains("under s-block"), "{about}");
    assert!(smrkit(&format!("fsck -n {image}")).done().contains("maps make sense"));
    assert!(smrkit(&format!("replay {image}.log")).done().starts_with("2 requests took"));
    // What is there is not the drive's: it is left alone, and the data is served all the same.
    std::fs::write(format!("{image}.smr"), "notes").unwrap();
    let foreign = serve("--layer s-block --capacity 16GB");
    assert!(foreign.code == 3 && foreign.err.contains("another drive"), "{}", foreign.err);
    std::fs::remove_file(format!("{image}.log")).unwrap();
    let foreign = serve("--layer s-block --capacity 16GB");
    assert!(foreign.code == 0 && foreign.err.contains("will not be kept"), "{}", foreign.err);
    assert_eq!(std::fs::read(format!("{image}.smr")).unwrap(), b"notes");
    smrkit(&format!("create {image} --force --capacity 8GB")).says(3, &["disk.raw.smr"]);
    assert!(std::fs::read(&image).unwrap() == data);
    let zoned = scratch.path("z");
    smrkit(&format!("create {zoned} --array raid1:disks=2 --drive hc620")).says(4, &["shows its host no zones"]);
    let made = smrkit(&format!("create {zoned} --drive hc620"));
    assert_eq!(made.code, 0, "{}", made.err);
    smrkit(&format!("serve {zoned} -- true")).says(4, &["sees no zones", "--ublk"]);
    smrkit(&format!("attach {zoned}")).says(4, &["sees no zones", "--ublk"]);
    // Where there is one, the tests in a guest have it.
    if !std::path::Path::new("/dev/ublk-control").exists() {
        smrkit(&format!("serve {zoned} --ublk")).says(3, &["/dev/ublk-control", "modprobe ublk_drv"]);
        assert!(
            made.err.contains("only smrkit serve --ublk") && made.err.contains("modprobe ublk_drv"),
            "{}",
            made.err
        );
    }
}

#[test]
fn an_array_is_made_and_told_of_as_one_device() {
    let scratch = Scratch::new();
    let image = scratch.path("raid.img");
    let made = smrkit(&format!("create {image} --array raid5:disks=3,layer=log --capacity 1GB")).done();
    assert!(made.contains("of raid5 of 3 drives, st8000dm004 under log"), "{made}");
    smrkit(&format!("serve {image} --pace none --queue sptf -- true")).done();
    let about: serde_json::Value = serde_json::from_str(&smrkit(&format!("df {image} --json")).done()).unwrap();
    assert_eq!(about["array"], "raid5 of 3 drives");
    let [export, raw] = ["export_bytes", "raw_bytes"].map(|key| about[key].as_u64().unwrap());
    assert!(
        (raw / 3..raw * 2 / 3).contains(&export),
        "two of three drives hold data, less what the layer keeps: {export}"
    );
    assert!(smrkit(&format!("fsck {image}")).done().contains("closed cleanly: the layer's maps make sense"));
}

#[test]
fn flushed_data_survive_a_server_that_is_killed() {
    let scratch = Scratch::new();
    let (image, socket) = (image(&scratch, "s-block"), scratch.path("s"));
    let data: Vec<u8> = (0..3_072_000u32).map(|i| (i / 5000) as u8).collect();
    let sample = scratch.file("sample", &data);
    let copy = |arguments: &[&str]| Command::new("nbdcopy").args(arguments).status();
    for round in 0..3 {
        let (mut server, uri) = serve(&image, &socket);
        if copy(&["--flush", &sample, &uri]).is_err() {
            println!("skipped: no nbdcopy here; on Debian: apt-get install libnbd-bin");
            let _ = server.kill();
            return;
        }
        let told = killed(server);
        assert_eq!(told.is_empty(), round == 0, "{told}");
        let (server, uri) = serve(&image, &socket);
        let back = scratch.path("back");
        assert!(copy(&[&uri, &back]).unwrap().success());
        assert!(std::fs::read(&back).unwrap()[..data.len()] == data);
        let told = killed(server);
        assert!(told.contains("not closed cleanly: the drive goes on"), "{told}");
    }
}

#[test]
fn an_injected_fault_reaches_the_drive_and_its_report() {
    let scratch = Scratch::new();
    let (image, socket) = (image(&scratch, "log"), scratch.path("s"));
    let (mut server, _) = serve(&image, &socket);
    smrkit(&format!("inject {image} bad-sector 8")).done();
    smrkit(&format!("inject {image} bad-sector 99999999999")).says(1, &["past the drive's end"]);
    assert!(smrkit(&format!("top --once {image}")).done().contains("under log"));
    let served = smrkit(&format!("df {image}")).done();
    assert!(served.contains("raw") && served.ends_with(&format!("; process {} serves it\n", server.id())), "{served}");
    let keys = || {
        let about: serde_json::Value = serde_json::from_str(&smrkit(&format!("df {image} --json")).done()).unwrap();
        let mut keys: Vec<String> = about.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    let sizes = ["cache_bytes", "drive", "export_bytes", "image", "image_bytes", "layer"];
    assert_eq!(keys(), [&sizes[..], &["process", "raw_bytes"]].concat());
    smrkit(&format!("detach {image}")).done();
    assert!(server.wait().unwrap().success());
    assert!(smrkit(&format!("fsck {image}")).done().contains("make sense"));
    let (closed, _) = served.split_once("; process").unwrap();
    assert_eq!(smrkit(&format!("df {image}")).done(), format!("{closed}\n"));
    assert_eq!(keys(), [&sizes[..], &["raw_bytes", "was_clean"]].concat());
}

/// Samples of a text for Prometheus, which must keep the rules of its format.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut kinds, mut helped) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, help] => assert!(helped.insert(name) && help.ends_with('.'), "{line}"),
            ["#", "TYPE", name, kind] => {
                assert!(helped.contains(name) && kinds.insert(name, kind).is_none(), "{line}");
                assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
                assert!(!name.contains("_ns") && !name.contains("_ms"), "{line}");
            }
            _ => {
                let (sample, value) = line.rsplit_once(' ').unwrap();
                let (name, labels) = sample.split_once('{').unwrap();
                let family =
                    ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
                let kind = if kinds.contains_key(name) { kinds[name] } else { kinds[family] };
                assert_eq!(kind == "histogram", family != name && !kinds.contains_key(name), "{line}");
                assert!(name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'), "{line}");
                assert!(labels.starts_with("image=\"") && labels.ends_with("\"}"), "{line}");
                assert!(samples.insert(sample.to_string(), value.parse().unwrap()).is_none(), "{line}");
            }
        }
    }
    for (sample, count) in samples.iter().filter(|(sample, _)| sample.contains("_count{")) {
        let buckets = sample.replace("_count{", "_bucket{").replace('}', ",le=");
        // In the order of the text: the map has another.
        let of_it = text.lines().filter(|line| line.starts_with(&buckets)).map(|line| line.rsplit_once(' ').unwrap().1);
        let counts: Vec<f64> = of_it.map(|count| count.parse().unwrap()).collect();
        assert!(counts.is_sorted() && counts.last() == Some(count), "{buckets}: {counts:?}");
    }
    samples
}

#[test]
fn metrics_are_what_prometheus_reads_in_a_file_and_at_a_socket() {
    let scratch = Scratch::new();
    let (image, socket) = (image(&scratch, "drive-managed"), scratch.path("s"));
    let [file, scraped] = ["metrics.prom", "metrics"].map(|name| scratch.path(name));
    let sample = scratch.file("sample", vec![7; 1 << 20]);
    let mut written = command();
    written.args(["serve", &image, "--pace", "none", "--metrics", &file, "--", "nbdcopy", "--flush", &sample, "$uri"]);
    finish(written).done();
    let text = std::fs::read_to_string(&file).unwrap();
    let found = samples(&text);
    let of = |name: &str| found[&format!("smrkit_drive_{name}")];
    let whose = format!("{{image=\"{image}\"");
    assert_eq!(of(&format!("written_bytes_total{whose}}}")), f64::from(1 << 20));
    let writes = of(&format!("request_duration_seconds_count{whose},op=\"write\"}}"));
    let took = of(&format!("request_duration_seconds_sum{whose},op=\"write\"}}"));
    assert!(writes > 0.0 && (1e-5..10.0).contains(&(took / writes)), "{took} s for {writes} writes");
    assert_eq!(of(&format!("stalls_total{whose},over=\"30s\"}}")), 0.0);
    for op in ["read", "flush", "discard"] {
        assert!(
            found.contains_key(&format!("smrkit_drive_request_duration_seconds_count{whose},op=\"{op}\"}}")),
            "{op}"
        );
    }
    // Over HTTP, and by the command.
    let (mut server, _) = serve_with(&image, &socket, &["--metrics", &format!("unix:{scraped}")]);
    // Whoever comes first and stays mute keeps nobody waiting.
    let mut first = UnixStream::connect(&scraped).unwrap();
    let mut reply = String::new();
    for client in [&mut UnixStream::connect(&scraped).unwrap(), &mut first] {
        reply.clear();
        client.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        client.read_to_string(&mut reply).unwrap();
    }
    let (head, text) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(samples(text).keys().eq(found.keys()), "{text}");
    assert!(samples(&smrkit(&format!("top --prometheus {image}")).done()).keys().eq(found.keys()));
    let mut other = UnixStream::connect(&scraped).unwrap();
    other.write_all(b"PUT / HTTP/1.1\r\n\r\n").unwrap();
    let mut refused = String::new();
    other.read_to_string(&mut refused).unwrap();
    assert!(refused.starts_with("HTTP/1.1 405"), "{refused}");
    // One that stays mute is not waited for.
    let mute = UnixStream::connect(&scraped).unwrap();
    smrkit(&format!("detach {image}")).done();
    assert!(server.wait().unwrap().success());
    drop(mute);
    assert!(!std::path::Path::new(&scraped).exists());
    let thesis = scratch.file("thesis.txt", "a year's work");
    for target in [thesis.clone(), format!("unix:{thesis}")] {
        smrkit(&format!("serve {image} --metrics {target} -- true")).says(1, &["thesis.txt", "give another path"]);
    }
    assert_eq!(std::fs::read(thesis).unwrap(), b"a year's work");
    smrkit(&format!("fsck -n {image}")).done();
}

#[test]
fn a_snapshot_begins_where_its_drive_was() {
    let scratch = Scratch::new();
    let [image, copy, socket] = ["disk.img", "copy.img", "s"].map(|name| scratch.path(name));
    smrkit(&format!("create {image} --drive st5000as0011 --layer drive-managed --capacity 4GB --state nearly-full"))
        .done();
    smrkit(&format!("snapshot {image} {copy}")).done();
    smrkit(&format!("snapshot {image} {copy}")).says(3, &["copy.img", "another name"]);
    smrkit(&format!("top {image}")).says(3, &["not being served"]);
    let (mut server, _) = serve(&copy, &socket);
    let gauges = smrkit(&format!("top --prometheus {copy}")).done();
    let fill = gauges.lines().find_map(|line| line.strip_prefix("smrkit_drive_cache_fill_ratio{image=")).unwrap();
    assert!(fill.rsplit(' ').next().unwrap().parse::<f64>().unwrap() > 0.94, "{fill}");
    let told = smrkit(&format!("detach {copy}")).done();
    assert!(told.contains("0 requests completed") && told.contains("under drive-managed, cache 9"), "{told}");
    server.wait().unwrap();
}

#[test]
fn a_log_runs_the_drive_that_was_served_and_others() {
    let scratch = Scratch::new();
    let (image, log) = (image(&scratch, "log"), scratch.path("drive.log"));
    // Twice, so that the drive is not new when its last log begins.
    for log in [scratch.path("first.log"), log.clone()] {
        let mut command = command();
        command.args(["serve", &image, "--pace", "none", "--log", &log, "--json", "--", "true"]);
        assert!(finish(command).done().contains("\"latency_ns\""));
    }
    // As if the flush at the end had been a client's: otherwise there is no request.
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("\nclosing\nflush "), "{text}");
    std::fs::write(&log, text.replace("\nclosing\n", "\n")).unwrap();
    let runs = |options: &str| -> serde_json::Value {
        serde_json::from_str(&smrkit(&format!("run --like {log} {options} --json -")).done()).unwrap()
    };
    let own = runs("");
    assert_eq!((own["runs"].as_array().unwrap().len(), &own["runs"][0]["layer"]), (1, &"log".into()));
    let engine = &own["runs"][0]["engine"];
    assert_eq!([&engine["arrival"], &engine["queue"], &engine["prefill"]], ["closed", "fcfs", "saved"]);
    assert_eq!(own["runs"][0]["trace_format"], "smrkit-log");
    assert_eq!(runs("--layer drive-managed")["runs"][0]["layer"], "drive-managed");
    let head = smrkit(&format!("trace head {log}")).done();
    assert!(head.contains("flush"), "{head}");
}

/// A shingled layer offers less than the conventional disk that was recorded, and a drive of another size has another cache.
#[test]
fn a_recording_runs_on_a_drive_that_is_hardly_larger_than_its_own() {
    let scratch = Scratch::new();
    let (image, log) = (image(&scratch, "in-place"), scratch.path("drive.log"));
    let mut recorded = command();
    recorded.args(["serve", &image, "--pace", "none", "--log", &log, "--", "true"]);
    finish(recorded).done();
    let last = std::fs::metadata(&image).unwrap().len() / 512 - 8;
    let text = std::fs::read_to_string(&log).unwrap();
    let events = text.strip_suffix("closed\n").unwrap();
    std::fs::write(&log, format!("{events}write {last} 8 10 20 30\nclosed\n")).unwrap();
    let bytes = |options: &str| {
        let ran = smrkit(&format!("run --like {log} --layer drive-managed {options} --json -")).done();
        serde_json::from_str::<serde_json::Value>(&ran).unwrap()["runs"][0]["capacity"]["raw_sectors"].as_u64().unwrap()
            * 512
    };
    let size = bytes("--capacity auto");
    assert!((1_000_000_000..1_500_000_000).contains(&size), "{size}");
    assert_eq!(bytes(""), size);
    smrkit(&format!("run --like {log} --layer drive-managed --capacity 1GB")).says(3, &["--capacity auto"]);
}

/// Whoever wrote a log may name any file in it.
#[test]
fn a_log_opens_no_file_that_it_names() {
    let scratch = Scratch::new();
    let (image, log) = (image(&scratch, "log"), scratch.path("drive.log"));
    let mut recorded = command();
    recorded.args(["serve", &image, "--pace", "none", "--log", &log, "--", "true"]);
    finish(recorded).done();
    let text = std::fs::read_to_string(&log).unwrap();
    let named = scratch.file("drive.toml", "no drive");
    std::fs::write(&log, text.replacen("drive=st5000as0011", &format!("drive={named}"), 1)).unwrap();
    smrkit(&format!("run --like {log}")).says(2, &["drive.toml` does not come with smrkit"]);
}

#[test]
fn a_drive_that_loses_flushed_data_is_made_with_a_word_of_it() {
    let scratch = Scratch::new();
    let image = scratch.path("disk.img");
    let region = "--set set-assoc.region_sectors=4096";
    let made = smrkit(&format!("create {image} --drive st5000as0011 --layer set-assoc {region} --capacity 1GB"));
    assert!(made.code == 0 && made.err.contains("a power cut takes what is there, flushed or not"), "{}", made.err);
}

#[test]
fn a_drive_that_cannot_be_prepared_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let image = scratch.path("disk.img");
    let asked = format!(
        "create {image} --drive st5000as0011 --layer rmw --set rmw.region_sectors=4096 --capacity 1GB --state full"
    );
    smrkit(&asked).says(4, &["layer rmw", "make the drive without a state"]);
    assert!(!std::path::Path::new(&image).exists() && !std::path::Path::new(&format!("{image}.smr")).exists());
}
