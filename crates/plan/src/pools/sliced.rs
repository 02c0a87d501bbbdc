use super::{CardFull, Grain, Headroom};

/// `SlicedPool` without a cap: pages of one size, cut into slices.
#[derive(Debug)]
pub(super) struct SlicedPool {
    pages: Vec<Page>,
    page_bytes: u64,
    /// The largest slice that the pool accepts, but for those that nearly fill a page.
    most_bytes: u64,
    next_id: u64,
    grain: Grain,
}

/// The slices of a page from its start on. They cover it.
#[derive(Debug)]
struct Page(Vec<Slice>);

#[derive(Clone, Copy, Debug)]
struct Slice {
    /// Its size with padding.
    bytes: u64,
    /// Its allocation; `None` if it is unused.
    id: Option<u64>,
}

impl SlicedPool {
    pub(super) fn new(page_bytes: u64, most_bytes: u64, grain: Grain) -> Self {
        Self { pages: Vec::new(), page_bytes, most_bytes, next_id: 0, grain }
    }

    /// Whether slices of this size are the pool's, or leave less than a fifth of a page unused.
    pub(super) fn accepts(&self, bytes: u64) -> bool {
        let rest = self.page_bytes.checked_sub(bytes);
        self.most_bytes >= bytes || rest.is_some_and(|rest| rest * 5 < self.page_bytes)
    }

    /// The first slice of the first page that has room, else the start of a new page.
    pub(super) fn reserve(&mut self, bytes: u64, headroom: Headroom) -> Result<u64, CardFull> {
        let (bytes, id) = (self.grain.padded(bytes), self.next_id);
        let is_found = self.pages.iter_mut().any(|page| {
            page.merge();
            page.take(bytes, id)
        });
        if !is_found {
            headroom.check(self.page_bytes)?;
            let mut page = Page(vec![Slice { bytes: self.page_bytes, id: None }]);
            page.take(bytes, id);
            self.pages.push(page);
        }
        self.next_id += 1;
        Ok(id)
    }

    pub(super) fn free(&mut self, id: u64) {
        let slices = self.pages.iter_mut().flat_map(|page| &mut page.0);
        for slice in slices.filter(|slice| slice.id == Some(id)) {
            slice.id = None;
        }
    }

    /// Gives back the unused pages.
    pub(super) fn clean_up(&mut self) {
        self.pages.retain(|page| page.0.iter().any(|slice| slice.id.is_some()));
    }

    pub(super) fn reserved(&self) -> u64 {
        self.pages.len() as u64 * self.page_bytes
    }

    /// The bytes of the card for it.
    pub(super) fn charged(&self) -> u64 {
        self.pages.len() as u64 * self.grain.charged(self.page_bytes)
    }
}

impl Page {
    /// Merges unused neighbours.
    fn merge(&mut self) {
        self.0.dedup_by(|next, slice| {
            let is_merged = next.id.is_none() && slice.id.is_none();
            if is_merged {
                slice.bytes += next.bytes;
            }
            is_merged
        });
    }

    /// Takes the start of the first unused slice that is large enough.
    fn take(&mut self, bytes: u64, id: u64) -> bool {
        let is_enough = |slice: &Slice| slice.id.is_none() && slice.bytes >= bytes;
        let Some(index) = self.0.iter().position(is_enough) else { return false };
        let rest = self.0[index].bytes - bytes;
        self.0[index] = Slice { bytes, id: Some(id) };
        if rest > 0 {
            self.0.insert(index + 1, Slice { bytes: rest, id: None });
        }
        true
    }
}
