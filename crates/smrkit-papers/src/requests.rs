//! Requests in memory: taken from a source, and folded into a span.

use smrkit::error::Error;
use smrkit::request::{Request, Source};
use smrkit::units::Lba;

/// All that a source gives.
pub fn taken(source: &mut dyn Source) -> Result<Vec<Request>, Error> {
    let (mut requests, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.fill(&mut batch)?;
        if batch.is_empty() {
            return Ok(requests);
        }
        requests.extend_from_slice(&batch);
    }
}

/// The request with its address modulo `span` sectors, cut to them where it is longer.
pub fn folded(request: &Request, span: u64) -> Request {
    let sectors = request.sectors.min(u32::try_from(span).unwrap_or(u32::MAX));
    Request { lba: Lba((request.lba.0 % span).min(span - u64::from(sectors))), sectors, ..*request }
}
