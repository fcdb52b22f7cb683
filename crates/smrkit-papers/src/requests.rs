//! Requests in memory, folded into a span.

use smrkit::request::Request;
use smrkit::units::Lba;

/// The request with its address modulo `span` sectors, cut to them where it is longer.
pub fn folded(request: &Request, span: u64) -> Request {
    let sectors = request.sectors.min(u32::try_from(span).unwrap_or(u32::MAX));
    Request { lba: Lba((request.lba.0 % span).min(span - u64::from(sectors))), sectors, ..*request }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smrkit::request::Op;

    #[test]
    fn a_folded_request_lies_within_the_span() {
        let folded = |lba, sectors| {
            let Request { lba, sectors, op, .. } = folded(&Request::new(Op::Write, Lba(lba), sectors), 100);
            assert_eq!(op, Op::Write);
            (lba.0, sectors)
        };
        assert_eq!(folded(30, 8), (30, 8));
        assert_eq!(folded(1230, 8), (30, 8));
        // It would reach over the end, or is longer than all of it.
        assert_eq!(folded(95, 8), (92, 8));
        assert_eq!(folded(130, 250), (0, 100));
        // It ends where the span does, or begins just behind it.
        assert_eq!(folded(92, 8), (92, 8));
        assert_eq!(folded(100, 8), (0, 8));
        assert_eq!(folded(199, 1), (99, 1));
    }
}
