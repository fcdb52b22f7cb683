//! The buffer, the bus and the overheads of DiskSim's specs.

use super::files::Toml;
use super::params::{Block, Fields, SourcedNumber};
use crate::error::Error;
use crate::units::SECTOR_BYTES;

/// The longest time that a bus or the drive itself takes for a sector of a read or a write, if any.
fn bus_time(key: &str, specs: &Fields, blocks: &[Block]) -> Result<Option<SourcedNumber>, Error> {
    let buses = blocks.iter().filter(|block| block.of == "disksim_bus");
    let mut times = buses.map(|block| block.fields().optional(key)).collect::<Result<Vec<_>, _>>()?;
    times.push(specs.optional("Bulk sector transfer time")?);
    let longest = times.into_iter().flatten().max_by(|a, b| a.value.total_cmp(&b.value));
    Ok(longest.filter(|time| time.value > 0.0))
}

/// Buffer, bus and overheads.
pub(super) fn electronics(out: &mut Toml, specs: &Fields, blocks: &[Block]) -> Result<(), Error> {
    let read = bus_time("Read block transfer time", specs, blocks)?;
    let write = bus_time("Write block transfer time", specs, blocks)?;
    let differs = write.as_ref().map(|time| time.value) != read.as_ref().map(|time| time.value);
    for (key, time) in [("bus_bytes_per_s", read), ("write_bus_bytes_per_s", write.filter(|_| differs))] {
        if let Some(time) = time {
            let source = format!("{}: {} ms a sector", time.source, time.value);
            out.value(key, SECTOR_BYTES as f64 / time.value * 1000.0, &source);
        }
    }
    overheads(out, specs)?;
    let (segment, segment_at) = specs.count("Segment size (in blks)", 1 << 32)?;
    let (level, level_at) = specs.count("Fast write level", 2)?;
    if level > 0 {
        let (segments, at) = specs.count("Maximum number of write segments", 1 << 16)?;
        let source = format!("{} times {}; {}", at.source, segment_at.source, level_at.source);
        out.value("write_cache_bytes", segments * segment * SECTOR_BYTES, &source);
    }
    watermark(out, specs)?;
    read_ahead(out, specs, segment, &segment_at)
}

fn watermark(out: &mut Toml, specs: &Fields) -> Result<(), Error> {
    let Some(high) = specs.optional("High (read) water mark")?.filter(|high| high.value > 0.0) else { return Ok(()) };
    match specs.optional("Set watermark by reqsize")? {
        // A share of a segment is more than most requests ask for.
        Some(of_request) if of_request.value == 0.0 => {
            out.value("watermark", 1, &format!("{}; {}: assumption", high.source, of_request.source));
        }
        _ => out.value("watermark", high.value.min(1.0), &high.source),
    }
    Ok(())
}

fn read_ahead(out: &mut Toml, specs: &Fields, segment: u64, segment_at: &SourcedNumber) -> Result<(), Error> {
    let (to, to_at) = specs.count("Buffer continuous read", 4)?;
    let caches = specs.optional("Enable caching in buffer")?.is_none_or(|found| found.value > 0.0);
    match to {
        _ if !caches => {}
        0 => {}
        1 => out.value("read_ahead_to", "\"track\"", &to_at.source),
        4 => out.value("read_ahead_to", "\"next-track\"", &to_at.source),
        // To the end of the cylinder is taken for the end of the segment, which is nearer.
        _ => {
            let most = specs.optional("Maximum read-ahead (blks)")?;
            let sectors = most.as_ref().map_or(segment, |most| (most.value.max(0.0) as u64).min(segment));
            let source = most.map_or(segment_at.source.clone(), |most| most.source);
            out.value("read_ahead_bytes", sectors * SECTOR_BYTES, &format!("{source}; {}", to_at.source));
        }
    }
    out.value("segment_bytes", segment * SECTOR_BYTES, &segment_at.source);
    if let Some(count) = specs.optional("Number of buffer segments")?.filter(|count| count.value > 1.0) {
        out.value("segments", count.value.min(4096.0) as u32, &count.source);
    }
    if let Some(passing) = specs.optional("Read any free blocks")?.filter(|found| found.value > 0.0) {
        out.value("reads_passing", true, &passing.source);
    }
    if let Some(immediate) = specs.optional("Immediate buffer read")?.filter(|found| found.value > 0.0) {
        out.line(&format!("# left out: sectors read as they pass, any_order ({})", immediate.source));
    }
    if let Some(over) = specs.optional("Read-ahead over requested")? {
        out.value("keeps_requested", over.value == 0.0, &over.source);
    }
    Ok(())
}

/// Overheads by kind and by the kind of the request before, and those at the end of a request.
fn overheads(out: &mut Toml, specs: &Fields) -> Result<(), Error> {
    let scale = specs.optional("Time scale for overheads")?.map_or(1.0, |found| found.value);
    let each = specs.optional("Per-request overhead time")?.map_or(0.0, |found| found.value);
    let ms = |found: &SourcedNumber| found.value * scale + each;
    let is_set = |key: &str| Ok::<bool, Error>(specs.optional(key)?.is_some_and(|found| found.value > 0.0));
    let first_disconnect = match is_set("Extra write disconnect")? {
        true => Some(specs.number("Extradisc command overhead")?),
        false => None,
    };
    for (kind, key) in [
        ("Read miss", "read_miss_ms"),
        ("Read hit", "read_hit_ms"),
        ("Write hit", "write_ms"),
        ("Write miss", "media_write_ms"),
    ] {
        let (read, write) =
            (specs.number(&format!("{kind} over. after read"))?, specs.number(&format!("{kind} over. after write"))?);
        match first_disconnect.as_ref().filter(|_| kind.starts_with("Write")) {
            Some(instead) => out.value(key, ms(instead), &instead.source),
            None => {
                let source = format!("{} and line {}", read.source, write.line);
                out.value(key, format!("[{}, {}]", ms(&read), ms(&write)), &source);
            }
        }
    }
    let reselects = !is_set("Never disconnect")?;
    let waits_for_media = specs.count("Fast write level", 2)?.0 == 0;
    // Who waits for the media gives the bus free meanwhile, and takes it again.
    let again = if first_disconnect.is_some() { "Other reselect overhead" } else { "First reselect overhead" };
    let sums: [(&str, &[&str]); 3] = [
        ("read_reselect_ms", if reselects { &["First reselect overhead"] } else { &[] }),
        ("read_completion_ms", &["Read completion overhead", "Data preparation overhead"]),
        (
            "write_completion_ms",
            if reselects && waits_for_media {
                &["Write completion overhead", again]
            } else {
                &["Write completion overhead"]
            },
        ),
    ];
    for (key, parts) in sums {
        let found = parts.iter().filter_map(|part| specs.optional(part).transpose()).collect::<Result<Vec<_>, _>>()?;
        let found: Vec<SourcedNumber> = found.into_iter().filter(|found| found.value != 0.0).collect();
        let sum: f64 = found.iter().map(|found| found.value * scale).sum();
        if sum != 0.0 {
            let sources: Vec<String> = found.into_iter().map(|found| found.source).collect();
            out.value(key, sum, &sources.join("; "));
        }
    }
    Ok(())
}
