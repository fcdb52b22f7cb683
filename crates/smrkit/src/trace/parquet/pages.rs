//! Reads the pages of one column chunk with every size checked first, so that a damaged or hostile file can neither
//! exhaust memory nor trip the decoders. The Parquet crate decodes the values.
//!
//! Formula and field numbers: the Parquet format, `parquet.thrift`; required (not nullable) columns only.

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use zstd::bulk::Decompressor;

use super::thrift::{PageHeader, PageKind, varint};

/// The longest page header; ours are under 100 bytes, statistics included.
const HEADER_BYTES: usize = 64 << 10;

/// The pages of one column chunk.
pub(super) struct Pages {
    chunk: Bytes,
    decompressor: Option<Decompressor<'static>>,
    value_bytes: usize,
    rows_left: usize,
    group_rows: usize,
    dictionary_seen: bool,
}

impl Pages {
    /// The pages of `chunk`: `rows` values of `value_bytes` each, compressed with zstd or not at all.
    pub(super) fn new(chunk: Bytes, rows: usize, value_bytes: usize, zstd: bool) -> Result<Pages> {
        let decompressor = if zstd { Some(Decompressor::new()?) } else { None };
        Ok(Pages { chunk, decompressor, value_bytes, rows_left: rows, group_rows: rows, dictionary_seen: false })
    }

    fn next_page(&mut self) -> Result<Option<Page>> {
        if self.rows_left == 0 {
            return Ok(None);
        }
        let room = self.chunk.len().min(HEADER_BYTES);
        let (header, length) = PageHeader::parse(&self.chunk[..room]).ok_or_else(|| bad("a page header is damaged"))?;
        let body = self.chunk.slice(length..);
        let compressed = header.compressed_bytes;
        if compressed > body.len() {
            return Err(bad("a page is longer than its column"));
        }
        self.chunk = body.slice(compressed..);
        let data = self.unpack(body.slice(..compressed), &header)?;
        match header.kind {
            PageKind::Dictionary => self.dictionary(data, &header).map(Some),
            PageKind::Data => self.data(data, &header).map(Some),
        }
    }

    /// The page's bytes, decompressed into exactly the room that its header asks for, if that is plausible.
    fn unpack(&mut self, body: Bytes, header: &PageHeader) -> Result<Bytes> {
        // Every encoding in use stays far under twice the plain size; 4 KiB for its fixed parts.
        if header.plain_bytes > self.group_rows * self.value_bytes * 2 + 4096 {
            return Err(bad("a page claims more bytes than its rows can take"));
        }
        let data = match &mut self.decompressor {
            Some(decompressor) if header.is_compressed => {
                Bytes::from(decompressor.decompress(&body, header.plain_bytes)?)
            }
            _ => body,
        };
        if data.len() != header.plain_bytes {
            return Err(bad("a page is not as long as its header says"));
        }
        Ok(data)
    }

    fn dictionary(&mut self, buf: Bytes, header: &PageHeader) -> Result<Page> {
        let fits = header.values.checked_mul(self.value_bytes).is_some_and(|bytes| bytes <= buf.len());
        if self.dictionary_seen || !fits || !matches!(header.encoding, 0 | 2) {
            return Err(bad("a dictionary is damaged"));
        }
        self.dictionary_seen = true;
        let num_values = header.values as u32;
        Ok(Page::DictionaryPage { buf, num_values, encoding: Encoding::PLAIN, is_sorted: false })
    }

    fn data(&mut self, buf: Bytes, header: &PageHeader) -> Result<Page> {
        if header.values == 0 || header.values > self.rows_left || header.has_levels {
            return Err(bad("a page has more rows than its row group, or nulls"));
        }
        let encoding = match header.encoding {
            0 if header.values * self.value_bytes <= buf.len() => Encoding::PLAIN,
            2 | 8 if self.dictionary_seen => Encoding::RLE_DICTIONARY,
            5 if delta_is_plausible(&buf, header.values) => Encoding::DELTA_BINARY_PACKED,
            _ => return Err(bad("a page is damaged, or its encoding is not one that smrkit writes")),
        };
        self.rows_left -= header.values;
        Ok(Page::DataPageV2 {
            buf,
            num_values: header.values as u32,
            encoding,
            num_nulls: 0,
            num_rows: header.values as u32,
            def_levels_byte_len: 0,
            rep_levels_byte_len: 0,
            is_compressed: false,
            statistics: None,
        })
    }
}

/// Whether a page of DELTA_BINARY_PACKED opens with a block size, a count of miniblocks and a count of values that the
/// decoder can take.
fn delta_is_plausible(page: &[u8], values: usize) -> bool {
    let mut rest = page;
    let mut next = || varint(&mut rest);
    match (next(), next(), next()) {
        (Some(block), Some(miniblocks), Some(count)) => {
            (128..=65_536).contains(&block) && (1..=block / 32).contains(&miniblocks) && count == values as u64
        }
        _ => false,
    }
}

fn bad(what: &str) -> ParquetError {
    ParquetError::General(what.to_string())
}

impl Iterator for Pages {
    type Item = Result<Page>;
    fn next(&mut self) -> Option<Result<Page>> {
        self.next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.next_page()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Ok(None)
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.next_page().map(|_| ())
    }
}
