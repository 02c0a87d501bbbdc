//! Pages, checked before the decoder allocates what they announce.

use parquet::{
    basic::Encoding,
    column::page::{Page, PageMetadata, PageReader},
    errors::{ParquetError, Result},
};

use crate::{compact::Compact, visit::is_of_texts};

/// A page of more rows is refused: of empty texts a few bytes could announce a billion.
const MOST_ROWS: u64 = 1 << 24;

/// The pages of a column of texts.
pub(crate) struct CheckedPages {
    pub(crate) pages: Box<dyn PageReader>,
    /// Whether rows may be null, so that levels precede the values of a page.
    pub(crate) has_levels: bool,
}

impl CheckedPages {
    fn check(&self, page: &Page) -> Result<()> {
        match page {
            // A text has a length of 4 bytes.
            Page::DictionaryPage { buf, num_values, .. } if *num_values as usize > buf.len() / 4 => {
                Err(damaged("a dictionary has fewer texts than it announces"))
            }
            Page::DictionaryPage { .. } => Ok(()),
            Page::DataPage { buf, num_values, encoding, .. } => {
                let levels = if self.has_levels { levels_of_first_version(buf) } else { Some(0) };
                check_values(*encoding, levels.and_then(|levels| buf.get(levels..)), *num_values)
            }
            Page::DataPageV2 {
                buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, ..
            } => {
                let levels = def_levels_byte_len.checked_add(*rep_levels_byte_len);
                check_values(*encoding, levels.and_then(|levels| buf.get(levels as usize..)), *num_values)
            }
        }
    }
}

fn damaged(reason: &str) -> ParquetError {
    ParquetError::General(reason.to_owned())
}

/// The bytes of the levels before the values, with those of their own length.
fn levels_of_first_version(page: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(*page.first_chunk()?);
    usize::try_from(length).ok()?.checked_add(4)
}

/// Checks the values of a page; `None` where they lie beyond its end.
fn check_values(encoding: Encoding, values: Option<&[u8]>, count: u32) -> Result<()> {
    let values = values.ok_or_else(|| damaged("a page is shorter than its levels"))?;
    if !is_of_texts(encoding) {
        return Err(damaged(&format!("a page has the encoding {encoding}")));
    }
    // The decoder makes a list of all lengths. The numbers before are sizes of blocks.
    if encoding == Encoding::DELTA_LENGTH_BYTE_ARRAY {
        let mut head = Compact(values);
        let announced = head.unsigned().and(head.unsigned()).and(head.unsigned());
        if announced.is_none_or(|announced| announced > u64::from(count).min(MOST_ROWS)) {
            return Err(damaged("a page has fewer texts than it announces"));
        }
    }
    Ok(())
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        page.as_ref().map_or(Ok(()), |page| self.check(page))?;
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
